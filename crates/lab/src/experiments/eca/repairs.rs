//! How lost chunks were repaired, from what was seen at both ends: the same for every kind of acknowledgement.

use std::time::Duration;

use anabranch_proto::Timestamp;

use crate::stage::{Seen, What};

/// What became of the chunks of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Repairs {
    /// Of the chunks that fast retransmission repaired: seconds from the first transmission to the arrival of the repeat, and the
    /// path of the first transmission.
    pub(super) fast: Vec<(f64, usize)>,
    /// Chunks that took a timeout, if only among others.
    pub(super) by_timeout: usize,
    /// Transmissions but the first of each chunk.
    pub(super) repeats: usize,
    /// Chunks that arrived again.
    pub(super) spurious: usize,
}

/// A chunk on its way.
#[derive(Clone, Debug, Default)]
struct Journey {
    sent: Vec<Transmission>,
    has_come: bool,
    /// A timeout gave it up, and it was not sent again yet.
    timed_out: bool,
}

#[derive(Clone, Copy, Debug)]
struct Transmission {
    at: Timestamp,
    path: usize,
    /// A timeout was the reason for it.
    timed_out: bool,
}

impl Repairs {
    /// Of the chunks whose first transmission left from `begin` on. Both logs begin with the first of all packets; `delay` says
    /// how long a packet takes on a path at least.
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
                    repairs.repeats += usize::from(!journey.sent.is_empty() && seen.at >= begin);
                    let timed_out = std::mem::take(&mut journey.timed_out);
                    journey.sent.push(Transmission {
                        at: seen.at,
                        path,
                        timed_out,
                    });
                }
                What::TimedOut { path } => {
                    for journey in journeys.iter_mut().filter(|journey| !journey.has_come) {
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
        // On real packets who watches the sender may have had no turn before it came.
        let counts = journey.sent.first().is_some_and(|first| first.at >= begin);
        if std::mem::replace(&mut journey.has_come, true) {
            self.spurious += usize::from(counts);
            return;
        }
        // A repeat leaves once later packets of the path were reported, and by then the path has nothing of the chunk any more. If
        // it has, because the chunk is late, the repeat cannot be here yet.
        let can_be_here = |sent: &Transmission| sent.path == path && sent.at + delay(path) <= arrival.at;
        let came = journey.sent.iter().rposition(can_be_here);
        // None can be here where who watches the sender had no turn in time: then nobody knows.
        let Some(came) = came.filter(|came| counts && *came > 0) else {
            return;
        };
        let repeats = &journey.sent[..=came];
        if repeats.iter().any(|sent| sent.timed_out) {
            self.by_timeout += 1;
        } else {
            let first = journey.sent[0];
            let took = arrival.at.saturating_duration_since(first.at);
            self.fast.push((took.as_secs_f64(), first.path));
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

    /// At either host.
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
        assert_eq!(repairs.fast, [(0.58, 3)], "the first repeat was lost as well");
        assert_eq!((repairs.by_timeout, repairs.repeats, repairs.spurious), (0, 2, 0));
    }

    #[test]
    fn what_a_timeout_repaired_is_counted_apart() {
        let sender = [
            passed(1000, 0, 3),
            passed(1001, 1, 2),
            seen(2000, What::TimedOut { path: 3 }),
            passed(2000, 0, 1),
            // By reports: it was on another path.
            passed(2001, 1, 1),
            passed(2100, 0, 1),
        ];
        let receiver = [passed(2060, 1, 1), passed(2200, 0, 1)];
        let repairs = repairs(&sender, &receiver);
        assert_eq!(repairs.by_timeout, 1, "though a later repeat came");
        assert_eq!(repairs.fast, [(1.059, 2)]);
    }

    #[test]
    fn a_retransmission_for_nothing_repairs_nothing() {
        let sender = [passed(1000, 0, 3), passed(1200, 0, 1), passed(1201, 1, 3)];
        let receiver = [passed(1210, 0, 3), passed(1260, 0, 1), passed(1361, 1, 3)];
        let repairs = repairs(&sender, &receiver);
        assert_eq!(
            (repairs.fast.len(), repairs.by_timeout, repairs.spurious),
            (0, 0, 1)
        );
    }

    #[test]
    fn what_comes_late_is_not_its_retransmission() {
        let sender = [passed(1000, 0, 3), passed(1200, 0, 3), passed(1201, 1, 3)];
        let receiver = [passed(1210, 0, 3), passed(1221, 1, 3)];
        let repairs = repairs(&sender, &receiver);
        assert_eq!((repairs.fast.len(), repairs.repeats), (0, 1));
    }

    #[test]
    fn what_was_not_seen_to_leave_before_it_came_is_not_counted() {
        let sender = [passed(1300, 0, 3), passed(1500, 0, 1)];
        let receiver = [passed(1200, 0, 3), passed(1560, 0, 1)];
        let repairs = repairs(&sender, &receiver);
        assert_eq!((repairs.fast.len(), repairs.by_timeout), (0, 0));
    }

    #[test]
    fn what_was_seen_to_leave_too_late_to_be_here_is_no_repair() {
        let sender = [passed(1300, 0, 3)];
        let receiver = [passed(1310, 0, 3)];
        let repairs = repairs(&sender, &receiver);
        assert_eq!((repairs.fast.len(), repairs.by_timeout), (0, 0));
    }

    #[test]
    fn what_left_before_is_not_counted() {
        let sender = [passed(900, 0, 3), passed(1400, 0, 1), passed(1400, 1, 1)];
        let receiver = [passed(1450, 0, 1), passed(1451, 1, 1)];
        let repairs = repairs(&sender, &receiver);
        assert_eq!((repairs.fast.len(), repairs.spurious), (0, 0));
    }
}
