//! Whether a packet may leave on a path now, and if not, why (RFC 9260 §6.1 B to D). The rules that hold for all paths alike, such as the
//! peer's window, are in `transmit/eligibility.rs`.

use super::{Path, PathState};
use crate::controller::Controller;
use crate::time::Timestamp;
use crate::trace_event::Blocked;

/// New data for which a path is to be chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// Bytes of the chunk in its packet.
    pub(crate) size: usize,
    /// Bytes of user data queued, those of this chunk included; `usize::MAX` if the amount is unknown.
    pub(crate) queued: usize,
    /// Size of the send buffer in bytes. It holds the chunks that the peer does not have, or on which it may renege.
    pub(crate) send_window: usize,
    /// Bytes that the peer's receive window covers, from the earliest chunk that the peer does not have.
    pub(crate) receive_window: usize,
    /// The most bytes that each path may have in flight, if buffers are split.
    pub(crate) share: usize,
    /// `Max.Burst`: the most packets that may leave a path at once.
    pub(crate) max_burst: u32,
    /// The paths that are of no use for this data, a bit for each number.
    pub(crate) avoid: u64,
    /// Whether the data is of a priority class behind the most urgent, whose delay in the network may be bounded.
    pub(crate) less_urgent: bool,
}

/// The data of a packet that is to leave.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Load<'a> {
    New(&'a Offer),
    /// Chunks that were declared lost.
    Retransmission,
    /// Early copies of chunks in flight.
    Copies,
}

impl Path {
    /// Whether a packet with this load may leave now: the only place that decides it for a path.
    #[inline(always)]
    pub(crate) fn admits(&mut self, now: Timestamp, load: Load<'_>) -> Result<(), Blocked> {
        match load {
            Load::New(offer) => {
                if self.flight.bytes() + offer.size > offer.share.max(offer.size) {
                    return Err(Blocked::CongestionWindow);
                }
                if !self.has_cwnd_room() {
                    return Err(Blocked::CongestionWindow);
                }
                if let Some(until) = self.paced_until(now) {
                    return Err(Blocked::Pacer(until));
                }
                if !self.has_burst_room(now, offer.max_burst) {
                    return Err(Blocked::MaxBurst);
                }
                // Last, because the bound counts how often it alone held data back.
                if offer.less_urgent && !self.has_room_for_less_urgent(now) {
                    return Err(Blocked::DelayBound);
                }
            }
            Load::Retransmission => {
                if !self.may_retransmit() {
                    return Err(Blocked::CongestionWindow);
                }
                if !self.timers.retransmit_now
                    && let Some(until) = self.paced_until(now)
                {
                    return Err(Blocked::Pacer(until));
                }
            }
            Load::Copies => {
                if self.state != PathState::Active {
                    return Err(Blocked::State);
                }
                // The probe is for data that would otherwise wait for T3-rtx.
                if self.timers.probe_now || !self.has_cwnd_room() {
                    return Err(Blocked::CongestionWindow);
                }
                // On a path that has nothing else, acknowledgements that name copies (ECA-SCTP) settle them.
                self.forget_old_copies(now);
                if self.flight.is_named() && self.copies.bytes() >= self.window() {
                    return Err(Blocked::CongestionWindow);
                }
            }
        }
        Ok(())
    }

    /// Whether the congestion window lets another packet with DATA out (§6.1 B).
    #[inline(always)]
    pub(crate) fn has_cwnd_room(&self) -> bool {
        let waits = self.timers.single_packet && !self.flight.is_empty();
        let room = self.bytes_in_network() < self.window() && !waits;
        (room || self.timers.probe_now) && self.flight.has_numbers()
    }

    /// Whether the congestion window, or an event that passes it by, lets a packet of retransmissions out.
    pub(crate) fn may_retransmit(&self) -> bool {
        (self.timers.retransmit_now && self.flight.has_numbers()) || self.has_cwnd_room()
    }

    /// Bytes in flight, with copies. Copies alone never close the window, because only later acknowledgements settle them.
    #[inline(always)]
    fn bytes_in_network(&self) -> usize {
        match self.flight.bytes() {
            0 => 0,
            bytes => bytes + self.copies.bytes(),
        }
    }

    /// The most bytes in flight: the congestion window, or during recovery the limit of proportional rate reduction.
    #[inline(always)]
    pub(crate) fn window(&self) -> usize {
        match &self.gates.recovery {
            None => self.control.window(),
            // With nothing in flight, a packet may leave whatever the window is.
            Some(recovery) => recovery.window().max(1),
        }
    }

    /// When the pacer releases the next packet, if not now. A probe is not paced.
    #[inline(always)]
    pub(super) fn paced_until(&self, now: Timestamp) -> Option<Timestamp> {
        if self.control.may_pace() {
            self.pacer_waits_until(now)
        } else {
            None
        }
    }

    fn pacer_waits_until(&self, now: Timestamp) -> Option<Timestamp> {
        if !self.gates.pacer.rests() {
            return None;
        }
        let pace = self.control.pace().filter(|_| !self.timers.probe_now)?;
        self.gates.pacer.waits_until(now, &pace)
    }

    /// Whether data of a priority class behind the most urgent may leave, if its delay is bounded.
    pub(crate) fn has_room_for_less_urgent(&mut self, now: Timestamp) -> bool {
        let flight = self.flight.bytes();
        self.gates
            .delay_bound
            .as_mut()
            .is_none_or(|bound| bound.allows(now, flight))
    }

    /// Whether `Max.Burst` allows another packet with new DATA now (§6.1 D).
    #[inline(always)]
    fn has_burst_room(&mut self, now: Timestamp, max_burst: u32) -> bool {
        let most = max_burst as usize * self.pmtu.max_data();
        self.gates.burst.has_room(now, most) || self.control.pace().is_some()
    }
}
