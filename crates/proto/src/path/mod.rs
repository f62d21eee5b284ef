//! The paths of an association, and what belongs to each: RTO, T3-rtx, congestion window, error counter, PMTU,
//! heartbeat (RFC 9260 §6.3, §6.4, §7, §8).

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod controller_model;
mod delivery;
mod failure;
mod flight;
mod heartbeat;
mod local_address;
mod multipath;
mod pmtu;
mod probe;
mod rate;
mod rtt;
mod selection;

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

pub(crate) use flight::{Fate, Flight, FlightProgress, SendNo, Sending};
pub(crate) use heartbeat::{Heartbeat, HeartbeatAnswer, HeartbeatInfo};
pub(crate) use local_address::set_up_address;
pub(crate) use multipath::{Choice, Offer};
pub(crate) use pmtu::Pmtu;
pub(crate) use rtt::Rtt;
pub(crate) use selection::{Candidate, Paths};

use crate::config::Config;
use crate::congestion::{AnyController, Member, ProportionalRateReduction, RecoveryAck};
use crate::controller::{Controller, LostPacket, RateSample, Reduction, Report, SentPacket};
use crate::extension::stream_priority::DelayBound;
use crate::message::Persistence;
use crate::pacing::{Burst, Pacer};
pub(crate) use crate::path_id::{PathId, PathState};
use crate::stats::{EcnPathStats, PathStats};
use crate::time::Timestamp;
use delivery::Delivery;
use rate::RateSampler;

/// One path.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: PathId,
    /// The local address packets leave from; `None` leaves it to routing, before the peer knows any.
    pub(crate) local: Option<IpAddr>,
    /// The remote address and its encapsulation port, which may change (RFC 6951 §5.4).
    pub(crate) remote: SocketAddr,
    ports: Ports,
    pub(crate) state: PathState,
    pub(crate) rtt: Rtt,
    pub(crate) control: AnyController,
    /// What may be in flight for less urgent data to leave, if that is bounded.
    pub(crate) delay_bound: Option<DelayBound>,
    pub(crate) pmtu: Pmtu,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) flight: Flight,
    /// Errors in a row (§8.2).
    pub(crate) error_count: u32,
    /// When T3-rtx expires, while it runs (§6.3.2).
    pub(crate) t3: Option<Timestamp>,
    /// After T3-rtx: one packet in flight until something is acknowledged (§7.2.1).
    pub(crate) single_packet: bool,
    /// The next packet with data leaves whatever the congestion window, as a tail loss probe (RFC 8985 §7.3).
    pub(crate) probe_now: bool,
    /// The probe timeout expired since data was last acknowledged: the next one to expire is T3-rtx.
    probed: bool,
    /// When data left last, or T3-rtx expired.
    probe_from: Timestamp,
    /// When data was newly acknowledged last.
    answered_at: Timestamp,
    /// The peer seems to delay the acknowledgement of a lone packet, though the packet has the I bit.
    acks_late: bool,
    /// The last packet with data left with nothing else in flight.
    lone: bool,
    /// The next packet of repeats leaves whatever the congestion window: what fast retransmit (§7.2.4 step 3) and T3-rtx
    /// (§6.3.3 E3) grant.
    pub(crate) retransmit_now: bool,
    pub(crate) burst: Burst,
    pub(crate) pacer: Pacer,
    /// Delivery rates, if the controller wants them.
    pub(crate) rate: Option<RateSampler>,
    /// While losses are repaired, if the rules have it: what may leave.
    pub(crate) recovery: Option<ProportionalRateReduction>,
    /// When DATA last left, and whether the idle decay of §7.2.1 has begun since.
    pub(crate) idle: Idle,
    /// Times that T3-rtx expired since data was last acknowledged here: unlike errors, no heartbeat ends their row.
    pub(crate) silent_timeouts: u32,
    pub(crate) timeouts: u64,
    pub(crate) fast_recoveries: u64,
    pub(crate) data_bytes_sent: u64,
    pub(crate) delivery: Delivery,
    /// When DATA last came by this path, where that is looked at.
    pub(crate) data_arrived: Option<Timestamp>,
}

/// Encapsulation ports of a peer's address. A packet that somebody else sends again from another port moves the one in use
/// (RFC 6951 §5.4), and where both sides are misled so, nothing would arrive any more that moves it back.
#[derive(Clone, Copy, Debug)]
struct Ports {
    /// Where a packet came from last.
    arrived: u16,
    /// Where the last one came from that answered this side.
    answered: u16,
}

/// The longest time for which a receiver may delay an acknowledgement (RFC 9260 §6.2 allows 500 ms; it and its implementations
/// use 200 ms).
const MOST_ACK_DELAY: Duration = Duration::from_millis(200);

/// The shortest probe timeout: below it the peer's own timers would decide.
const LEAST_PROBE_TIMEOUT: Duration = Duration::from_millis(5);

/// Since when a path has carried no DATA (§7.2.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idle {
    since: Timestamp,
    decayed: bool,
}

impl Path {
    /// `seed` is for the path's controller ([`crate::controller::NewPath::seed`]).
    pub(crate) fn new(
        id: PathId,
        local: Option<IpAddr>,
        remote: SocketAddr,
        config: &Config,
        now: Timestamp,
        seed: u64,
    ) -> Self {
        let pmtu = Pmtu::new(config, remote.is_ipv6());
        let control = AnyController::new(config, pmtu.max_data(), remote.is_ipv6(), seed);
        let samples = control.wants_rate_samples();
        Self {
            id,
            local,
            remote,
            ports: Ports {
                arrived: remote.port(),
                answered: remote.port(),
            },
            state: PathState::Unconfirmed,
            rtt: Rtt::new(&config.rto),
            control,
            pacer: Pacer::default(),
            rate: samples.then(RateSampler::default),
            recovery: None,
            delay_bound: config
                .low_priority_delay
                .map(|target| DelayBound::new(target, now)),
            pmtu,
            heartbeat: Heartbeat::default(),
            flight: Flight::default(),
            error_count: 0,
            t3: None,
            single_packet: false,
            probe_now: false,
            probed: false,
            probe_from: now,
            answered_at: now,
            acks_late: false,
            lone: false,
            retransmit_now: false,
            burst: Burst::default(),
            idle: Idle {
                since: now,
                decayed: false,
            },
            silent_timeouts: 0,
            timeouts: 0,
            fast_recoveries: 0,
            data_bytes_sent: 0,
            delivery: Delivery::default(),
            data_arrived: None,
        }
    }

    /// A packet with the right tag came from this port: answers go there (RFC 6951 §5.4).
    pub(crate) fn on_arrival(&mut self, udp_port: u16) {
        self.ports.arrived = udp_port;
        self.remote.set_port(udp_port);
    }

    /// The last packet that came by this path answered something.
    pub(crate) fn on_answer(&mut self) {
        self.ports.answered = self.ports.arrived;
    }

    /// Nothing was answered: the port that answered last and the one that was heard last are tried in turn.
    pub(crate) fn try_other_port(&mut self) {
        let Ports { arrived, answered } = self.ports;
        let arrived_failed = self.remote.port() == arrived;
        self.remote
            .set_port(if arrived_failed { answered } else { arrived });
    }

    /// Whether the congestion window lets another packet with DATA out (§6.1 B).
    #[inline(always)]
    pub(crate) fn has_cwnd_room(&self) -> bool {
        let waits = self.single_packet && !self.flight.is_empty();
        let room = self.flight.bytes() < self.window() && !waits;
        (room || self.probe_now) && self.flight.has_numbers()
    }

    /// Bytes that may be in flight: the congestion window, or what recovery makes of it.
    #[inline(always)]
    fn window(&self) -> usize {
        match &self.recovery {
            None => self.control.window(),
            // With nothing in flight, a packet leaves whatever the window is.
            Some(recovery) => recovery.window().max(1),
        }
    }

    /// When the pacer lets the next packet out, if not now. A probe and the first retransmission of an episode are not paced.
    #[inline(always)]
    pub(crate) fn paced_until(&self, now: Timestamp) -> Option<Timestamp> {
        if self.control.may_pace() {
            self.pacer_waits_until(now)
        } else {
            None
        }
    }

    fn pacer_waits_until(&self, now: Timestamp) -> Option<Timestamp> {
        let at_once = self.probe_now || self.retransmit_now;
        let pace = self.control.pace().filter(|_| !at_once)?;
        self.pacer.waits_until(now, &pace)
    }

    /// When the acknowledgement of what is in flight is overdue (RFC 8985 §7.2): two RTTs after the last of it left, and one after the
    /// last acknowledgement, which RFC 8985 waits for two RTTs after; `None` before an RTT was measured. T3-rtx comes first if it is to
    /// expire sooner.
    pub(crate) fn probe_timeout(&self) -> Option<Timestamp> {
        let smoothed = self.rtt.smoothed()?;
        let mut wait = (smoothed * 2).max(LEAST_PROBE_TIMEOUT);
        if self.flight.bytes() <= self.pmtu.max_data() {
            wait += self.ack_delay();
        }
        let due = (self.probe_from + wait).max(self.answered_at + smoothed);
        (!self.probed && self.t3.is_some_and(|t3| due < t3)).then_some(due)
    }

    /// How long the peer may hold back the acknowledgement of a packet, as far as is known.
    fn ack_delay(&self) -> Duration {
        if self.acks_late {
            MOST_ACK_DELAY
        } else {
            Duration::ZERO
        }
    }

    /// A probe left. T3-rtx runs on, as it does when other data leaves (RFC 9260 §6.3.2 R1), but lets the probe be acknowledged first.
    /// RFC 8985 §7.3 starts it anew, which would leave a dead path later than without probes.
    pub(crate) fn wait_for_probe(&mut self, now: Timestamp) {
        let answered = now + self.rtt.unbounded_rto() + self.ack_delay();
        self.t3 = self.t3.map(|t3| t3.max(answered));
    }

    /// The probe timeout expired.
    pub(crate) fn on_probe_timeout(&mut self) {
        self.probed = true;
    }

    /// T3-rtx expired, and data stays in flight: the timers begin anew.
    pub(crate) fn restart_timers(&mut self, now: Timestamp) {
        self.probe_from = now;
        self.probed = false;
        self.start_t3(now);
    }

    /// Data was newly acknowledged; `probe_spurious` if a probe was not needed.
    pub(crate) fn on_progress(&mut self, now: Timestamp, probe_spurious: bool) {
        let took = now.saturating_duration_since(self.probe_from);
        let soon = self.rtt.smoothed().is_some_and(|rtt| took < rtt * 2);
        if self.lone && !self.probed && soon {
            // The acknowledgement that seemed to be delayed was lost.
            self.acks_late = false;
        }
        self.answered_at = now;
        self.probe_now = false;
        self.probed = false;
        self.acks_late |= probe_spurious;
    }

    /// The last window reduction proved spurious.
    pub(crate) fn on_spurious_reduction(&mut self, now: Timestamp) {
        self.single_packet = false;
        self.recovery = None;
        self.control.on_spurious(now);
    }

    /// Whether the peer is asked to acknowledge a chunk at once (RFC 7053 §5.1), because no second packet leaves before. If
    /// its message may be abandoned meanwhile, a delayed acknowledgement would not tell whether the chunk arrived or was
    /// skipped, and the window would stay at one packet.
    pub(crate) fn needs_ack_at_once(&self, persistence: Persistence) -> bool {
        let one_packet = || self.control.window() <= self.pmtu.max_data();
        self.single_packet || (persistence.is_partial() && one_packet())
    }

    /// Whether a packet of repeats may leave.
    pub(crate) fn may_retransmit(&self) -> bool {
        (self.retransmit_now && self.flight.has_numbers()) || self.has_cwnd_room()
    }

    /// Whether data of a class behind the most urgent may leave, as far as its delay is bounded.
    pub(crate) fn has_room_for_less_urgent(&mut self, now: Timestamp) -> bool {
        let flight = self.flight.bytes();
        self.delay_bound
            .as_mut()
            .is_none_or(|bound| bound.allows(now, flight))
    }

    /// Whether the burst of this moment lets another packet with new DATA out (§6.1 D).
    #[inline(always)]
    pub(crate) fn has_burst_room(&mut self, now: Timestamp, max_burst: u32) -> bool {
        let most = max_burst as usize * self.pmtu.max_data();
        self.burst.has_room(now, most) || self.control.pace().is_some()
    }

    /// Bytes that the congestion window lets out in this time; no limit before the round-trip time is known.
    pub(crate) fn sent_within(&self, time: Duration) -> usize {
        let Some(round_trip) = self.rtt.smoothed() else {
            return usize::MAX;
        };
        let bytes = (self.control.window() as u128).saturating_mul(time.as_nanos());
        bytes
            .checked_div(round_trip.as_nanos())
            .map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    /// A SACK acknowledged `bytes`: that much may leave beside `Max.Burst` packets, so that one SACK for many
    /// packets does not stall the flow.
    pub(crate) fn open_burst(&mut self, now: Timestamp, bytes: usize, max_burst: u32) {
        let most = max_burst as usize * self.pmtu.max_data();
        self.burst.on_acknowledged(now, bytes, most);
    }

    /// A DATA chunk of `size` bytes, `payload` of them user data, left on this path.
    pub(crate) fn on_data_sent(&mut self, now: Timestamp, size: usize, payload: usize) {
        self.delivery.on_sent();
        self.burst.on_sent(size);
        self.idle = Idle {
            since: now,
            decayed: false,
        };
        self.data_bytes_sent += payload as u64;
        self.probe_from = now;
        if self.t3.is_none() {
            self.start_t3(now);
        }
    }

    /// Packets were found lost, of which these sendings with so many bytes were still in flight: tells the controller of each packet.
    pub(crate) fn on_sendings_lost(
        &mut self,
        now: Timestamp,
        sendings: impl Iterator<Item = (SendNo, usize)>,
    ) {
        let Some(rate) = &mut self.rate else { return };
        let mut packet: Option<LostPacket> = None;
        for (no, bytes) in sendings {
            let Some(lost) = rate.on_lost(now, no, bytes) else {
                continue;
            };
            match &mut packet {
                // Chunks of one packet left with the same bytes in flight.
                Some(packet) if packet.flight_when_sent == lost.flight_when_sent => {
                    packet.bytes += lost.bytes;
                    packet.lost_since = lost.lost_since;
                }
                _ => {
                    if let Some(packet) = packet.replace(lost) {
                        self.control.on_lost(&packet);
                    }
                }
            }
        }
        if let Some(packet) = packet {
            self.control.on_lost(&packet);
        }
    }

    /// An acknowledgement of `acked` bytes that arrived for sure with the sending `newest` as the latest: the delivery rate.
    pub(crate) fn sample_rate(
        &mut self,
        now: Timestamp,
        acked: usize,
        newest: Option<SendNo>,
    ) -> Option<RateSample> {
        let rate = self.rate.as_mut()?;
        let sample = rate.on_acknowledged(now, acked, newest, self.rtt.min());
        rate.forget_before(self.flight.earliest());
        sample
    }

    /// The controller has judged a report: recovery begins, goes on or ends, where the rules spread reductions.
    pub(crate) fn follow_recovery(&mut self, report: &Report) {
        if report.reduction == Some(Reduction::Loss) && self.control.uses_proportional_rate_reduction() {
            self.recovery = Some(ProportionalRateReduction::new(report.prior_flight));
        } else if !report.recovering {
            self.recovery = None;
        }
        if let Some(recovery) = &mut self.recovery {
            recovery.on_acknowledged(&RecoveryAck {
                delivered: report.acked,
                flight: self.flight.bytes(),
                target: self.control.window(),
                safe: report.advanced && report.lost == 0,
                max_data: self.pmtu.max_data(),
            });
        }
    }

    /// A packet of `bytes` leaves: for the pacer and for delivery rates.
    fn note_packet(&mut self, now: Timestamp, bytes: usize) {
        if let Some(pace) = self.control.pace() {
            self.pacer.on_sent(now, bytes, &pace);
        }
        if let Some(rate) = &mut self.rate {
            rate.on_sent(now, self.flight.packet(), bytes, self.flight.bytes());
        }
    }

    /// No data waits for this path.
    #[inline]
    pub(crate) fn on_application_limited(&mut self) {
        if let Some(rate) = &mut self.rate
            && self.flight.bytes() < self.control.window()
        {
            rate.on_application_limited(self.flight.bytes());
        }
    }

    /// The packet that was being filled leaves; `starved` if no data had waited before.
    pub(crate) fn on_packet_sent(&mut self, now: Timestamp, starved: bool) {
        let bytes = self.flight.bytes_of_packet();
        if bytes > 0 {
            self.lone = self.flight.bytes() == bytes;
            if self.control.may_pace() {
                self.note_packet(now, bytes);
            }
            if let Some(recovery) = &mut self.recovery {
                recovery.on_sent(bytes);
            }
            let sent = SentPacket {
                now,
                bytes,
                flight: self.flight.bytes(),
                application_limited: starved,
            };
            self.control.on_sent(&sent);
        }
    }

    pub(crate) fn start_t3(&mut self, now: Timestamp) {
        self.t3 = Some(now + self.rtt.rto());
    }

    /// §7.2.1: lets the window shrink for each RTO that passed without data; called before data is sent again.
    pub(crate) fn decay_when_idle(&mut self, now: Timestamp) {
        if !self.flight.is_empty() {
            return;
        }
        let rto = self.rtt.rto();
        // Each step halves the window: after 64 nothing is left to halve, however long the pause was.
        for _ in 0..64 {
            if now.saturating_duration_since(self.idle.since) < rto {
                return;
            }
            self.control.on_idle(now, !self.idle.decayed);
            self.idle = Idle {
                since: self.idle.since + rto,
                decayed: true,
            };
        }
        self.idle.since = now;
    }

    /// The slow start threshold; without one, slow start would go on for ever.
    pub(crate) fn ssthresh(&self) -> usize {
        self.control.metrics().ssthresh.unwrap_or(usize::MAX)
    }

    /// This path as the others of its association see it.
    pub(crate) fn member(&self) -> Member {
        Member {
            cwnd: self.control.window(),
            ssthresh: self.ssthresh(),
            round_trip: self.rtt.smoothed_or_rto(),
        }
    }

    pub(crate) fn stats(&self, primary: PathId, ecn: EcnPathStats) -> PathStats {
        let (data_chunks_sent, chunks_retransmitted, chunks_lost) = self.delivery.chunks();
        let control = self.control.metrics();
        PathStats {
            id: self.id,
            local: self.local,
            remote: self.remote,
            state: self.state,
            primary: self.id == primary,
            srtt: self.rtt.smoothed(),
            rttvar: self.rtt.rttvar(),
            rto: self.rtt.rto(),
            cwnd: control.cwnd,
            pacing_rate: self.control.pace().map(|pace| pace.rate as u64),
            ssthresh: self.ssthresh(),
            flight_size: self.flight.bytes(),
            partial_bytes_acked: control.partial_bytes_acked.unwrap_or(0),
            pmtu: self.pmtu.current(),
            error_count: self.error_count,
            timeouts: self.timeouts,
            fast_recoveries: self.fast_recoveries,
            data_bytes_sent: self.data_bytes_sent,
            data_chunks_sent,
            chunks_retransmitted,
            chunks_lost,
            ecn,
        }
    }
}
