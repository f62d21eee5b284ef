//! How many copies a chunk needs.

use core::time::Duration;

/// The share of the messages that should arrive in time, if the path delivers at all.
const TARGET: f64 = 0.999;
/// The most copies of a message that is one chunk: with them, a fifth of independent losses leaves less than one message in a thousand.
const MOST_COPIES: u8 = 4;
/// The most copies of each chunk of a larger message. More would take the rate from the messages that follow.
const MOST_OF_FRAGMENT: u8 = 1;
/// The most retransmissions in time that count: their losses are as likely as that of the chunk, and each needs one to be noticed.
const MOST_REPAIRS: u32 = 4;

/// How probable it is that a transmission is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Loss {
    /// Of any transmission.
    pub(crate) any: f64,
    /// Of one that follows a lost one.
    pub(crate) next: f64,
}

/// The number of copies that a chunk needs of a message with so many `fragments`, if it is useful for a time `left` and the path has this
/// round-trip time.
pub(crate) fn needed_copies(loss: Loss, left: Duration, round_trip: Duration, fragments: u32) -> u8 {
    let most = u128::from(MOST_REPAIRS);
    // A loss is noticed after two round trips by a tail loss probe, or sooner by the acknowledgement of other fragments.
    let noticed = if fragments > 1 {
        round_trip * 3 / 2
    } else {
        round_trip * 2
    };
    let repairs = left.as_nanos().checked_div(noticed.as_nanos());
    let repairs = repairs.unwrap_or(most).min(most) as i32;
    let acceptable = (1.0 - TARGET) / f64::from(fragments.max(1));
    let mut failure = loss.any.powi(1 + repairs);
    let most = if fragments > 1 {
        MOST_OF_FRAGMENT
    } else {
        MOST_COPIES
    };
    let mut copies = 0;
    while failure > acceptable && copies < most {
        failure *= loss.next.max(loss.any);
        copies += 1;
    }
    copies
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn random(share: f64) -> Loss {
        Loss {
            any: share,
            next: share,
        }
    }

    #[test]
    fn as_few_copies_as_the_loss_needs() {
        let short = |share| needed_copies(random(share), 60 * MS, 80 * MS, 1);
        assert_eq!([0.0, 0.0009, 0.01, 0.05, 0.2].map(short), [0, 0, 1, 2, 4]);
        assert_eq!(short(0.9), MOST_COPIES);
    }

    #[test]
    fn a_retransmission_in_time_replaces_a_copy() {
        let of = |left| needed_copies(random(0.01), left, 80 * MS, 1);
        assert_eq!([of(159 * MS), of(160 * MS)], [1, 0]);
        assert_eq!(
            needed_copies(random(0.5), Duration::MAX, Duration::ZERO, 1),
            MOST_COPIES
        );
    }

    #[test]
    fn each_fragment_of_a_message_must_arrive() {
        let of = |fragments| needed_copies(random(0.01), 130 * MS, 80 * MS, fragments);
        assert_eq!([of(1), of(10), of(11), of(1000)], [1, 0, 1, MOST_OF_FRAGMENT]);
    }

    #[test]
    fn losses_in_bursts_need_more_copies() {
        let loss = Loss { any: 0.01, next: 0.5 };
        assert_eq!(needed_copies(loss, 60 * MS, 80 * MS, 1), 4);
    }
}
