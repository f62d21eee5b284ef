//! Output of an association: the packets and events that the driver takes out of it.

use super::addresses::awaits_address;
use super::protection::end_if_exhausted;
use super::{Association, tracing};
use crate::event::{EndpointEvent, Event};
use crate::time::Timestamp;
use crate::transmit::Transmit;

/// The length of one burst to hand to the network: see [`Association::burst_limit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstLimit {
    /// Full datagrams, at least 1.
    pub datagrams: usize,
    /// The same length in bytes.
    pub bytes: usize,
}

impl Association {
    /// Appends up to `max_datagrams` datagrams of equal size (the last may be shorter) for one destination to `buffer`. Returns `None` if
    /// there is nothing to send now. [`Association::burst_limit`] says how many to ask for.
    pub fn poll_transmit(
        &mut self,
        now: Timestamp,
        buffer: &mut Vec<u8>,
        max_datagrams: usize,
    ) -> Option<Transmit> {
        if self.exhausted == Some(now) {
            return None;
        }
        if self.trace.is_on() {
            tracing::poll_transmit(self, now, buffer, max_datagrams)
        } else {
            self.next_batch(now, buffer, max_datagrams)
        }
    }

    #[inline(always)]
    pub(super) fn next_batch(
        &mut self,
        now: Timestamp,
        buffer: &mut Vec<u8>,
        max_datagrams: usize,
    ) -> Option<Transmit> {
        loop {
            let mut again = false;
            let transmit = self.step(now, |it| {
                if !it.control.has_replies() {
                    it.send_due_probes(now);
                }
                if it.protection.is_on() {
                    end_if_exhausted(it);
                }
                let only_replies = awaits_address(it);
                let (mut assembler, mut cx) = it.parts(now);
                let transmit = match assembler.take_reply(&mut cx, buffer) {
                    Some(reply) => Some(reply),
                    None if only_replies => {
                        assembler.sender.pause(now);
                        None
                    }
                    None => assembler.build_batch(&mut cx, buffer, max_datagrams),
                };
                again = transmit.is_none() && it.sender.has_news();
                transmit
            });
            // Messages were abandoned: a SHUTDOWN or a request may have waited for them, and leaves at once.
            if !again {
                return transmit;
            }
        }
    }

    /// Whether [`Association::poll_transmit`] found nothing to send, and nothing but the time has changed since.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.exhausted.is_some()
    }

    /// How much to hand to the network in one burst, on the path that data takes now ([`crate::Config::burst_time`]). If the driver then
    /// lets the application send, an urgent message does not wait behind a longer burst.
    #[must_use]
    pub fn burst_limit(&self) -> BurstLimit {
        let path = self.paths.path(self.paths.data_path());
        let packet = path.pmtu.max_packet();
        let bytes = path.sent_within(self.config.burst_time).max(packet);
        BurstLimit {
            datagrams: bytes / packet,
            bytes,
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.notices.poll_event()
    }

    /// The next event for the endpoint.
    pub fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        self.notices.poll_endpoint_event()
    }
}
