//! How lost chunks were repaired, measured from the packets at both hosts in the same way for every kind of acknowledgement.

use std::time::Duration;

use anabranch_proto::Timestamp;

use crate::stage::{Seen, What};

/// The repairs in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Repairs {
    /// The chunks that fast retransmission repaired, in the order of their arrival.
    pub(super) fast: Vec<Repair>,
    /// Chunks with at least one retransmission after a timeout.
    pub(super) by_timeout: usize,
    /// Retransmissions of chunks.
    pub(super) retransmissions: usize,
    /// Duplicate chunks received.
    pub(super) spurious: usize,
}

/// A chunk that fast retransmission repaired.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Repair {
    /// The arrival of the retransmission.
    pub(super) at: Timestamp,
    /// The seconds from the first transmission to this arrival.
    pub(super) took: f64,
    /// The path of the first transmission.
    pub(super) path: usize,
}

/// A chunk's transmissions, and whether it has arrived.
#[derive(Clone, Debug, Default)]
struct Journey {
    sent: Vec<Transmission>,
    has_arrived: bool,
    /// T3-rtx expired for the last transmission, and the chunk was not retransmitted since.
    timed_out: bool,
}

#[derive(Clone, Copy, Debug)]
struct Transmission {
    at: Timestamp,
    path: usize,
    /// The transmission followed an expiration of T3-rtx.
    timed_out: bool,
}

impl Repairs {
    /// The repairs of chunks whose first transmission left from `begin` on. Both logs begin with the first packet of the association.
    /// `delay` is the shortest time that a packet takes on a path.
    pub(super) fn between(
        sender: &[Seen],
        receiver: &[Seen],
        begin: Timestamp,
        delay: impl Fn(usize) -> Duration,
    ) -> Self {
        let mut repairs = Self::default();
        let mut journeys: Vec<Journey> = Vec::new();
        let mut arrivals = receiver.iter().peekable();
        for seen in sender {
            while let Some(arrival) = arrivals.next_if(|arrival| arrival.at < seen.at) {
                repairs.arrive(&mut journeys, *arrival, begin, &delay);
            }
            match seen.what {
                What::Message { number, path } => {
                    let journey = journey_of(&mut journeys, number);
                    repairs.retransmissions += usize::from(!journey.sent.is_empty() && seen.at >= begin);
                    let timed_out = std::mem::take(&mut journey.timed_out);
                    journey.sent.push(Transmission {
                        at: seen.at,
                        path,
                        timed_out,
                    });
                }
                What::TimedOut { path } => {
                    for journey in journeys.iter_mut().filter(|journey| !journey.has_arrived) {
                        let last = journey.sent.last();
                        journey.timed_out |= last.is_some_and(|last| last.path == path);
                    }
                }
                What::Acknowledged { .. } => {}
            }
        }
        for arrival in arrivals {
            repairs.arrive(&mut journeys, *arrival, begin, &delay);
        }
        repairs
    }

    fn arrive(
        &mut self,
        journeys: &mut Vec<Journey>,
        arrival: Seen,
        begin: Timestamp,
        delay: impl Fn(usize) -> Duration,
    ) {
        let What::Message { number, path } = arrival.what else {
            return;
        };
        let journey = journey_of(journeys, number);
        // On real packets the capture at the sender may be late, so that the chunk arrives before its transmission is logged.
        let counts = journey.sent.first().is_some_and(|first| first.at >= begin);
        if std::mem::replace(&mut journey.has_arrived, true) {
            self.spurious += usize::from(counts);
            return;
        }
        // Fast retransmission needs reports of later packets of the path. At that time the path no longer holds an earlier transmission,
        // unless the transmission is late. The arrival must therefore belong to the last transmission on this path that can have arrived.
        let can_be_here = |sent: &Transmission| sent.path == path && sent.at + delay(path) <= arrival.at;
        let came = journey.sent.iter().rposition(can_be_here);
        // If the capture at the sender was late, no transmission can have arrived, and the chunk is not counted.
        let Some(came) = came.filter(|came| counts && *came > 0) else {
            return;
        };
        let transmissions = &journey.sent[..=came];
        if transmissions.iter().any(|sent| sent.timed_out) {
            self.by_timeout += 1;
        } else {
            let first = journey.sent[0];
            let took = arrival.at.saturating_duration_since(first.at);
            self.fast.push(Repair {
                at: arrival.at,
                took: took.as_secs_f64(),
                path: first.path,
            });
        }
    }
}

fn journey_of(journeys: &mut Vec<Journey>, number: u32) -> &mut Journey {
    let number = number as usize;
    if journeys.len() <= number {
        journeys.resize_with(number + 1, Journey::default);
    }
    &mut journeys[number]
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Timestamp = Timestamp::from_millis(1000);

    fn repairs(sender: &[Seen], receiver: &[Seen]) -> Repairs {
        Repairs::between(sender, receiver, BEGIN, |_| Duration::from_millis(20))
    }

    fn seen(millis: u64, what: What) -> Seen {
        Seen {
            at: Timestamp::from_millis(millis),
            what,
        }
    }

    fn repair(millis: u64, took: f64, path: usize) -> Repair {
        Repair {
            at: Timestamp::from_millis(millis),
            took,
            path,
        }
    }

    /// A message seen at either host.
    fn passed(millis: u64, number: u32, path: usize) -> Seen {
        seen(millis, What::Message { number, path })
    }

    #[test]
    fn a_repair_takes_from_the_first_transmission_to_the_arrival_of_the_retransmission() {
        let sender = [
            passed(1000, 0, 3),
            passed(1001, 1, 3),
            passed(1400, 0, 1),
            passed(1500, 0, 2),
        ];
        let receiver = [passed(1161, 1, 3), passed(1580, 0, 2)];
        let repairs = repairs(&sender, &receiver);
        assert_eq!(
            repairs.fast,
            [repair(1580, 0.58, 3)],
            "the first retransmission was lost as well"
        );
        assert_eq!(
            (repairs.by_timeout, repairs.retransmissions, repairs.spurious),
            (0, 2, 0)
        );
    }

    #[test]
    fn repairs_by_timeout_are_counted_separately() {
        let sender = [
            passed(1000, 0, 3),
            passed(1001, 1, 2),
            seen(2000, What::TimedOut { path: 3 }),
            passed(2000, 0, 1),
            // Retransmitted after missing reports: the chunk was on another path.
            passed(2001, 1, 1),
            passed(2100, 0, 1),
        ];
        let receiver = [passed(2060, 1, 1), passed(2200, 0, 1)];
        let repairs = repairs(&sender, &receiver);
        assert_eq!(repairs.by_timeout, 1, "although a later retransmission arrived");
        assert_eq!(repairs.fast, [repair(2060, 1.059, 2)]);
    }

    #[test]
    fn a_spurious_retransmission_repairs_nothing() {
        let sender = [passed(1000, 0, 3), passed(1200, 0, 1), passed(1201, 1, 3)];
        let receiver = [passed(1210, 0, 3), passed(1260, 0, 1), passed(1361, 1, 3)];
        let repairs = repairs(&sender, &receiver);
        assert_eq!(
            (repairs.fast.len(), repairs.by_timeout, repairs.spurious),
            (0, 0, 1)
        );
    }

    #[test]
    fn a_late_chunk_is_not_its_retransmission() {
        let sender = [passed(1000, 0, 3), passed(1200, 0, 3), passed(1201, 1, 3)];
        let receiver = [passed(1210, 0, 3), passed(1221, 1, 3)];
        let repairs = repairs(&sender, &receiver);
        assert_eq!((repairs.fast.len(), repairs.retransmissions), (0, 1));
    }

    #[test]
    fn a_chunk_that_arrives_before_its_transmission_is_logged_is_not_counted() {
        let sender = [passed(1300, 0, 3), passed(1500, 0, 1)];
        let receiver = [passed(1200, 0, 3), passed(1560, 0, 1)];
        let repairs = repairs(&sender, &receiver);
        assert_eq!((repairs.fast.len(), repairs.by_timeout), (0, 0));
    }

    #[test]
    fn a_retransmission_that_cannot_have_arrived_yet_is_no_repair() {
        let sender = [passed(1300, 0, 3)];
        let receiver = [passed(1310, 0, 3)];
        let repairs = repairs(&sender, &receiver);
        assert_eq!((repairs.fast.len(), repairs.by_timeout), (0, 0));
    }

    #[test]
    fn a_chunk_sent_before_the_measured_time_is_not_counted() {
        let sender = [passed(900, 0, 3), passed(1400, 0, 1), passed(1400, 1, 1)];
        let receiver = [passed(1450, 0, 1), passed(1451, 1, 1)];
        let repairs = repairs(&sender, &receiver);
        assert_eq!((repairs.fast.len(), repairs.spurious), (0, 0));
    }
}
