//! Losses at the end of a flight, which no later packet shows: tail loss probes (RFC 8985 §7), and spurious T3-rtx timeouts (F-RTO;
//! RFC 5682, and RFC 4138 for SCTP). For one path.

use super::detect::Arrival;
use crate::path::{Flight, SendNo, Sending};
use crate::seq::ExtendedTsn;

/// The evidence of this acknowledgement about the probe and the timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TailVerdict {
    /// A probe repaired the loss of this chunk (RFC 8985 §7.4), which counts as any other loss.
    pub(crate) repaired: Option<ExtendedTsn>,
    /// A probe was acknowledged that was spurious.
    pub(crate) probe_spurious: bool,
    /// The retransmission after the last T3-rtx is acknowledged, which leaves open which transmission arrived. Another packet must leave,
    /// whose acknowledgement decides (RFC 5682 §2.1, step 2b).
    pub(crate) asks: bool,
    /// The last T3-rtx was spurious: the packets in flight had only been late.
    pub(crate) timeout_spurious: bool,
}

/// The state of one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    /// The probe in flight (`TLP.end_seq`).
    probe: Option<SendNo>,
    /// The acknowledgement of that probe shows a loss for which the window was not reduced.
    shows_loss: bool,
    /// T3-rtx expired before this transmission left, which retransmitted the earliest chunk.
    timeout: Option<SendNo>,
    /// CE marks have reduced the window since the timeout. That reduction is not undone.
    marked: bool,
    /// `late`: this acknowledgement covers a transmission from before the timeout that was not retransmitted. `early`: it covers a
    /// later one, but came too soon for it.
    late: bool,
    early: bool,
    /// This acknowledgement covers the retransmission after the timeout.
    answered: bool,
    /// The next probe, or the probe in flight, follows the retransmission after a timeout (RFC 5682 §2.1, step 2b).
    asked: bool,
    /// The receiver had already received the chunk of the probe.
    duplicate: bool,
    probe_spurious: bool,
    repaired: Option<ExtendedTsn>,
}

impl Tail {
    /// The transmission `no` is a probe. `shows_loss`: it retransmits a chunk whose loss would reduce the window.
    pub(crate) fn on_probe(&mut self, no: SendNo, shows_loss: bool) {
        self.probe = Some(no);
        self.shows_loss = shows_loss;
        self.duplicate = false;
    }

    /// Whether a probe is in flight: at most one at a time.
    pub(crate) fn is_probing(&self, flight: &Flight) -> bool {
        let open = |no| flight.get(no).is_some_and(Sending::is_open);
        self.probe.is_some_and(open)
    }

    /// T3-rtx expired, and only the earliest chunk is retransmitted, as transmission `next`.
    pub(crate) fn on_timeout(&mut self, next: SendNo) {
        self.timeout = Some(next);
        self.marked = false;
        self.probe = None;
        self.asked = false;
    }

    /// The window was reduced because packets were marked.
    pub(crate) fn on_marked(&mut self) {
        self.marked = true;
    }

    /// Forgets the timeout: it will not be undone.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Called before an acknowledgement is handled.
    pub(crate) fn begin(&mut self) {
        *self = Self {
            probe: self.probe,
            shows_loss: self.shows_loss,
            timeout: self.timeout,
            marked: self.marked,
            duplicate: self.duplicate,
            asked: self.asked,
            ..Self::default()
        };
    }

    /// Whether the acknowledgement of the transmission `no` leaves open which transmission arrived. The chunk had been in flight for an
    /// RTO, and a path that became slower looks the same as a path that lost the chunk.
    pub(crate) fn is_uncertain(&self, no: SendNo) -> bool {
        self.timeout == Some(no)
    }

    /// Whether the transmission `no` is the probe that was sent because the retransmission after a timeout had shown nothing.
    pub(crate) fn is_asked(&self, no: SendNo) -> bool {
        self.asked && self.probe == Some(no)
    }

    /// The next acknowledgement lists this chunk as a duplicate.
    pub(crate) fn on_duplicate(&mut self, tsn: ExtendedTsn, flight: &Flight) {
        let of_probe = |no| flight.get(no).is_some_and(|sending| sending.tsn == tsn);
        self.duplicate |= self.probe.is_some_and(of_probe);
    }

    /// The transmission `no` is acknowledged.
    pub(crate) fn on_acknowledged(&mut self, no: SendNo, sending: &Sending, arrival: Arrival) {
        if self.probe == Some(no) {
            self.probe = None;
            self.asked = false;
            let needed = arrival == Arrival::Sending && !core::mem::take(&mut self.duplicate);
            self.repaired = (self.shows_loss && needed).then_some(sending.tsn);
            self.probe_spurious = sending.is_retransmission() && !needed;
        }
        if let Some(next) = self.timeout {
            self.late |= no < next;
            self.answered |= no == next;
            self.early |= no >= next && arrival == Arrival::Earlier;
        }
    }

    /// Called after an acknowledgement was handled.
    pub(crate) fn finish(&mut self, flight: &Flight) -> TailVerdict {
        let (mut timeout_spurious, mut asks) = (false, false);
        if let Some(next) = self.timeout {
            let all = flight.earliest() >= next;
            // If it acknowledges all at once, the retransmission may have filled the only gap (RFC 5682 §2.1, step 2a).
            timeout_spurious = self.early || (self.late && !all);
            // If a chunk that another path lost was retransmitted here since, its acknowledgement shows as much as a probe would.
            let alone = flight.next() == next + 1;
            asks = (self.answered || self.early) && !self.late && !all && alone;
            self.asked |= asks;
            if timeout_spurious || all {
                self.timeout = None;
            }
        }
        TailVerdict {
            repaired: self.repaired.take(),
            probe_spurious: self.probe_spurious,
            asks,
            timeout_spurious: timeout_spurious && !self.marked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    fn flight(count: u64) -> Flight {
        let mut flight = Flight::default();
        (0..count).for_each(|tsn| {
            flight.push(tsn, false, Timestamp::ZERO, 100, 80);
        });
        flight
    }

    fn ack(tail: &mut Tail, flight: &mut Flight, sendings: &[SendNo], arrival: Arrival) -> TailVerdict {
        tail.begin();
        flight.begin();
        for no in sendings {
            let sending = *flight.get(*no).expect("it is kept");
            tail.on_acknowledged(*no, &sending, arrival);
            flight.acknowledge(*no, 100, 80);
        }
        flight.settle();
        tail.finish(flight)
    }

    /// Three chunks in flight, and the first retransmitted after a timeout as transmission 3.
    fn timed_out() -> (Tail, Flight) {
        let (mut tail, mut flight) = (Tail::default(), flight(3));
        flight.close(0, crate::path::Fate::Closed, 100, 80);
        flight.settle();
        tail.on_timeout(flight.next());
        flight.push(0, true, Timestamp::ZERO, 100, 80);
        (tail, flight)
    }

    #[test]
    fn a_timeout_is_spurious_if_what_was_in_flight_arrives() {
        let (mut tail, mut flight) = timed_out();
        assert!(tail.is_uncertain(3) && !tail.is_uncertain(1));
        let verdict = ack(&mut tail, &mut flight, &[3], Arrival::Sending);
        assert!(verdict.asks && !verdict.timeout_spurious);
        assert!(ack(&mut tail, &mut flight, &[1], Arrival::Sending).timeout_spurious);
        assert!(
            !ack(&mut tail, &mut flight, &[2], Arrival::Sending).timeout_spurious,
            "once"
        );
    }

    #[test]
    fn a_timeout_is_spurious_once() {
        let (mut tail, mut flight) = (Tail::default(), flight(4));
        tail.on_timeout(flight.next());
        assert!(ack(&mut tail, &mut flight, &[1], Arrival::Sending).timeout_spurious);
        assert!(!ack(&mut tail, &mut flight, &[2], Arrival::Sending).timeout_spurious);
    }

    #[test]
    fn nothing_is_asked_for_if_another_packet_left_after_the_retransmission() {
        let (mut tail, mut flight) = timed_out();
        flight.push(7, true, Timestamp::ZERO, 100, 80);
        assert!(!ack(&mut tail, &mut flight, &[3], Arrival::Sending).asks);
        assert!(ack(&mut tail, &mut flight, &[1], Arrival::Sending).timeout_spurious);
    }

    #[test]
    fn a_timeout_is_final_once_marks_have_reduced_the_window() {
        let (mut tail, mut flight) = timed_out();
        tail.on_marked();
        assert!(!ack(&mut tail, &mut flight, &[3], Arrival::Earlier).timeout_spurious);
    }

    #[test]
    fn a_timeout_is_spurious_if_its_retransmission_is_acknowledged_too_early() {
        let (mut tail, mut flight) = timed_out();
        assert!(ack(&mut tail, &mut flight, &[3], Arrival::Earlier).timeout_spurious);
    }

    #[test]
    fn an_acknowledgement_of_all_tells_nothing_of_a_timeout() {
        let (mut tail, mut flight) = timed_out();
        assert!(!ack(&mut tail, &mut flight, &[3, 1, 2], Arrival::Sending).timeout_spurious);
        flight.push(3, false, Timestamp::ZERO, 100, 80);
        assert!(!ack(&mut tail, &mut flight, &[4], Arrival::Sending).timeout_spurious);
    }

    #[test]
    fn a_probe_repairs_a_loss_unless_the_original_arrived() {
        for (arrival, repaired) in [(Arrival::Sending, Some(0)), (Arrival::Earlier, None)] {
            let (mut tail, mut flight) = (Tail::default(), flight(1));
            flight.close(0, crate::path::Fate::Closed, 100, 80);
            let no = flight.push(0, true, Timestamp::ZERO, 100, 80);
            tail.on_probe(no, true);
            assert!(tail.is_probing(&flight));
            assert_eq!(ack(&mut tail, &mut flight, &[no], arrival).repaired, repaired);
            assert!(!tail.is_probing(&flight));
        }
    }

    #[test]
    fn a_probe_of_what_the_receiver_has_repairs_nothing() {
        let (mut tail, mut flight) = (Tail::default(), flight(1));
        flight.close(0, crate::path::Fate::Closed, 100, 80);
        let no = flight.push(0, true, Timestamp::ZERO, 100, 80);
        tail.on_probe(no, true);
        tail.on_duplicate(0, &flight);
        let verdict = ack(&mut tail, &mut flight, &[no], Arrival::Sending);
        assert_eq!((verdict.repaired, verdict.probe_spurious), (None, true));
    }

    #[test]
    fn a_probe_that_repairs_a_counted_loss_shows_none() {
        let (mut tail, mut flight) = (Tail::default(), flight(1));
        let no = flight.push(0, true, Timestamp::ZERO, 100, 80);
        tail.on_probe(no, false);
        let verdict = ack(&mut tail, &mut flight, &[no], Arrival::Sending);
        assert_eq!((verdict.repaired, verdict.probe_spurious), (None, false));
    }

    #[test]
    fn a_probe_with_new_data_repairs_nothing() {
        let (mut tail, mut flight) = (Tail::default(), flight(2));
        tail.on_probe(1, false);
        assert_eq!(ack(&mut tail, &mut flight, &[1], Arrival::Sending).repaired, None);
    }
}
