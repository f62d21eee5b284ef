//! How many copies a chunk needs.

use core::time::Duration;

use super::{Chance, Failure};

/// The most copies of a message that is one chunk: with them, a fifth of independent losses leaves less than one message in a thousand.
const MOST_COPIES: u8 = 4;
/// The most copies of each chunk of a larger message. More would take the rate from the messages that follow.
const MOST_OF_FRAGMENT: u8 = 1;

/// The share of messages that may be late.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MayBeLate(f64);

impl MayBeLate {
    pub(crate) fn of_million(messages: u32) -> Self {
        Self(f64::from(messages) / 1e6)
    }

    /// As a probability.
    pub(crate) fn of_message(self) -> f64 {
        self.0
    }

    /// The probability with which a chunk may fail, of a message with so many fragments, all of which are needed.
    fn of_chunk(self, fragments: u32) -> f64 {
        1.0 - (1.0 - self.0).powf(1.0 / f64::from(fragments.max(1)))
    }
}

/// The number of copies that a chunk needs of a message with so many `fragments`, if it was sent on the path `here`, is useful for a time
/// `left`, and may be copied on the paths `elsewhere` too.
pub(crate) fn needed_copies(
    here: &Chance,
    elsewhere: &[Chance],
    left: Duration,
    fragments: u32,
    may_be_late: MayBeLate,
) -> u8 {
    let most = if fragments > 1 {
        MOST_OF_FRAGMENT
    } else {
        MOST_COPIES
    };
    let mut here = here.of_first(left, fragments);
    let mut others: Vec<Option<Failure>> = vec![None; elsewhere.len()];
    let acceptable = may_be_late.of_chunk(fragments);
    for copies in 0..=most {
        let of_others = others.iter().flatten().map(|failure| failure.probability());
        let failure = here.probability() * of_others.product::<f64>();
        if copies == most || failure <= acceptable {
            return copies;
        }
        // The copy takes the path on which it is of most use.
        let gain = |before: Option<Failure>, after: Failure| {
            after.probability() / before.map_or(1.0, Failure::probability)
        };
        let mut best = (gain(Some(here), here.and_copy()), None);
        for (place, chance) in elsewhere.iter().enumerate() {
            let after = others[place].map_or_else(|| chance.of_copy(left), Failure::and_copy);
            let gain = gain(others[place], after);
            if gain < best.0 {
                best = (gain, Some((place, after)));
            }
        }
        // A copy costs as many bytes as the chunk. It is of use if it saves more than may be late: most copies in a burst of losses, or on a late
        // path, do not.
        if failure * (1.0 - best.0) < acceptable {
            return copies;
        }
        match best.1 {
            Some((place, after)) => others[place] = Some(after),
            None => here = here.and_copy(),
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::super::Loss;
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A path with a round-trip time of 80 ms.
    fn path(any: f64, next: f64) -> Chance {
        Chance {
            loss: Loss { any, next },
            arrives: 40 * MS,
            varies: Duration::ZERO,
            round_trip: 80 * MS,
        }
    }

    fn copies(here: &Chance, elsewhere: &[Chance], left: Duration, fragments: u32) -> u8 {
        needed_copies(here, elsewhere, left, fragments, MayBeLate::of_million(1_000))
    }

    fn random(share: f64) -> Chance {
        path(share, share)
    }

    #[test]
    fn as_few_copies_as_the_loss_needs() {
        let short = |share| copies(&random(share), &[], 100 * MS, 1);
        assert_eq!([0.0, 0.0009, 0.01, 0.05, 0.2].map(short), [0, 0, 1, 2, 4]);
        assert_eq!(short(0.9), MOST_COPIES);
    }

    #[test]
    fn a_retransmission_in_time_replaces_a_copy() {
        let of = |left| copies(&random(0.01), &[], left, 1);
        assert_eq!([of(199 * MS), of(200 * MS)], [1, 0]);
        let at_once = Chance {
            arrives: Duration::ZERO,
            round_trip: Duration::ZERO,
            ..random(0.5)
        };
        assert_eq!(copies(&at_once, &[], Duration::MAX, 1), MOST_COPIES);
    }

    #[test]
    fn each_fragment_of_a_message_must_arrive() {
        let of = |fragments| copies(&random(0.01), &[], 170 * MS, fragments);
        assert_eq!([of(1), of(10), of(11), of(1000)], [1, 0, 1, MOST_OF_FRAGMENT]);
    }

    #[test]
    fn losses_in_bursts_need_more_copies_on_one_path() {
        let bursts = path(0.01, 0.5);
        assert_eq!(copies(&bursts, &[], 100 * MS, 1), 3);
        assert_eq!(copies(&bursts, &[bursts], 100 * MS, 1), 1, "on the other path");
    }

    #[test]
    fn a_copy_that_saves_less_than_may_be_late_is_not_sent() {
        let bursts = path(0.05, 0.75);
        // 0.25 % fail with one copy elsewhere, and 0.19 % with another one on either path.
        assert_eq!(copies(&bursts, &[bursts], 100 * MS, 1), 1);
        let more = path(0.08, 0.75);
        assert_eq!(copies(&more, &[more], 100 * MS, 1), 3);
    }

    #[test]
    fn a_path_that_is_late_is_of_no_use() {
        let late = Chance {
            arrives: 101 * MS,
            ..random(0.0)
        };
        assert_eq!(copies(&random(0.05), &[late], 100 * MS, 1), 2);
        assert_eq!(copies(&random(0.05), &[random(0.0)], 100 * MS, 1), 1);
        let mostly_late = Chance {
            varies: 30 * MS,
            ..random(0.0)
        };
        assert!((mostly_late.late(100 * MS) - 0.5 * (-2.0_f64).exp()).abs() < 1e-9);
        assert_eq!(copies(&mostly_late, &[random(0.0)], 100 * MS, 1), 1);
        assert_eq!(copies(&mostly_late, &[], 100 * MS, 1), 0, "it would be as late");
    }
    #[test]
    fn the_share_that_may_be_late_decides() {
        let of = |messages, fragments| {
            let may_be_late = MayBeLate::of_million(messages);
            needed_copies(&random(0.2), &[], 100 * MS, fragments, may_be_late)
        };
        let shares = [0, 1_000, 10_000, 250_000, 1_000_000];
        assert_eq!(shares.map(|share| of(share, 1)), [4, 4, 2, 0, 0]);
        assert_eq!(shares.map(|share| of(share, 5)), [1, 1, 1, 1, 0]);
    }
}
