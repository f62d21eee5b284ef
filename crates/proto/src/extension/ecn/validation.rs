//! Tests whether a path carries ECN-capable packets, similar to RFC 9000 §13.4.2 and appendix A.4. A path that drops them must not stop the
//! association. Retransmissions are not ECN-capable, so the data arrives in any case.

use crate::ecn::EcnState;
use crate::path::{Flight, SendNo, Sending};

/// The most ECN-capable packets sent before one of them is acknowledged (RFC 9000 appendix A.4: ten).
const MOST_TESTED: usize = 10;

/// The most T3-rtx expiries before an ECN-capable packet is acknowledged (RFC 9000 appendix A.4: three PTOs).
const MOST_TIMEOUTS: u8 = 3;

/// The state of one path.
#[derive(Debug, Default)]
pub(super) struct Validation {
    verdict: Option<bool>,
    /// For each tested packet that may be in flight: its first and last sending.
    tested: Vec<(SendNo, SendNo)>,
    /// Tested packets that were lost while no tested packet was acknowledged.
    lost: usize,
    timeouts: u8,
}

impl Validation {
    pub(super) fn state(&self) -> EcnState {
        match self.verdict {
            None => EcnState::Testing,
            Some(true) => EcnState::Capable,
            Some(false) => EcnState::Failed,
        }
    }

    /// Whether another packet may be ECN-capable.
    pub(super) fn allows(&self) -> bool {
        self.verdict
            .unwrap_or(self.tested.len() + self.lost < MOST_TESTED)
    }

    /// An ECN-capable packet was sent.
    pub(super) fn on_sent(&mut self, sendings: (SendNo, SendNo)) {
        if self.verdict.is_none() {
            self.tested.push(sendings);
        }
    }

    /// An acknowledgement was handled. A tested packet that has left the flight counts as arrived, unless it was found lost.
    pub(super) fn on_acknowledged(&mut self, flight: &Flight, is_lost: impl Fn(SendNo) -> bool) {
        let left = self.take_left(flight);
        let lost = left
            .iter()
            .filter(|(first, last)| (*first..=*last).any(&is_lost))
            .count();
        if lost < left.len() {
            self.verdict = Some(true);
            self.tested.clear();
        } else {
            self.on_lost(lost);
        }
    }

    /// Tested packets left the flight without an acknowledgement.
    pub(super) fn on_withdrawn(&mut self, flight: &Flight) {
        let lost = self.take_left(flight).len();
        self.on_lost(lost);
    }

    /// T3-rtx expired. If the path was capable, the test begins again, because the route may have changed to one that drops ECN-capable
    /// packets.
    pub(super) fn on_timeout(&mut self, flight: &Flight) {
        match self.verdict {
            Some(false) => return,
            Some(true) => *self = Self::default(),
            None => self.on_withdrawn(flight),
        }
        self.timeouts += 1;
        if self.timeouts >= MOST_TIMEOUTS && self.lost > 0 {
            self.fail();
        }
    }

    /// From now on no packet of the path is ECN-capable.
    pub(super) fn fail(&mut self) {
        self.verdict = Some(false);
        self.tested.clear();
    }

    fn on_lost(&mut self, lost: usize) {
        self.lost += lost;
        if self.lost >= MOST_TESTED {
            self.fail();
        }
    }

    /// Removes and returns the tested packets that are no longer in flight.
    fn take_left(&mut self, flight: &Flight) -> Vec<(SendNo, SendNo)> {
        let open = |no| flight.get(no).is_some_and(Sending::is_open);
        let has_left = |(first, last): &mut (SendNo, SendNo)| !(*first..=*last).any(open);
        self.tested.extract_if(.., has_left).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Fate;
    use crate::time::Timestamp;

    fn send(validation: &mut Validation, flight: &mut Flight, count: u64) {
        for _ in 0..count {
            let no = flight.push(flight.next(), false, Timestamp::ZERO, 100, 80);
            validation.on_sent((no, no));
        }
    }

    fn close(flight: &mut Flight, no: SendNo) {
        flight.close(no, Fate::Closed, 100, 80);
        flight.settle();
    }

    #[test]
    fn one_that_arrives_is_enough() {
        let (mut validation, mut flight) = (Validation::default(), Flight::default());
        send(&mut validation, &mut flight, 10);
        assert!(!validation.allows(), "ten without an answer");
        validation.on_acknowledged(&flight, |_| false);
        assert_eq!(validation.state(), EcnState::Testing, "nothing was acknowledged");
        close(&mut flight, 0);
        close(&mut flight, 1);
        validation.on_acknowledged(&flight, |no| no == 0);
        assert_eq!(validation.state(), EcnState::Capable);
        assert!(validation.allows());
    }

    #[test]
    fn ten_that_are_lost_are_enough() {
        let (mut validation, mut flight) = (Validation::default(), Flight::default());
        send(&mut validation, &mut flight, 10);
        for no in 0..9 {
            close(&mut flight, no);
            validation.on_acknowledged(&flight, |lost| lost == no);
            assert!(!validation.allows(), "no further ones");
        }
        assert_eq!(validation.state(), EcnState::Testing);
        // A probe removes the last one from the flight.
        close(&mut flight, 9);
        validation.on_withdrawn(&flight);
        assert_eq!(validation.state(), EcnState::Failed);
        validation.on_timeout(&flight);
        assert_eq!(validation.state(), EcnState::Failed, "permanently");
    }

    #[test]
    fn three_timeouts_are_enough() {
        let (mut validation, mut flight) = (Validation::default(), Flight::default());
        for timeouts in 1..=3 {
            assert!(validation.allows());
            send(&mut validation, &mut flight, 1);
            flight.clear();
            validation.on_timeout(&flight);
            assert_eq!(validation.state() == EcnState::Failed, timeouts == 3);
        }
    }

    #[test]
    fn timeouts_without_a_tested_packet_tell_nothing() {
        let mut validation = Validation::default();
        for _ in 0..5 {
            validation.on_timeout(&Flight::default());
        }
        assert_eq!(validation.state(), EcnState::Testing);
    }

    #[test]
    fn a_timeout_begins_the_test_again() {
        let (mut validation, mut flight) = (Validation::default(), Flight::default());
        send(&mut validation, &mut flight, 1);
        close(&mut flight, 0);
        validation.on_acknowledged(&flight, |_| false);
        validation.on_timeout(&flight);
        assert_eq!(validation.state(), EcnState::Testing);
        send(&mut validation, &mut flight, 10);
        assert!(!validation.allows());
    }
}
