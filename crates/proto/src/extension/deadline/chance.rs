//! How probable it is that a message is in time on a path.

use core::time::Duration;

/// The most retransmissions in time that count: their losses are as likely as that of the chunk, and each needs one to be noticed.
const MOST_REPAIRS: u32 = 4;
/// The least variation of the one-way delay.
const LEAST_VARIATION: Duration = Duration::from_millis(1);

/// How probable it is that a transmission is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Loss {
    /// Of any transmission.
    pub(crate) any: f64,
    /// Of one that follows a lost one.
    pub(crate) next: f64,
}

/// The state of a path, as far as it decides whether a transmission now is in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Chance {
    pub(crate) loss: Loss,
    /// How long a transmission takes that leaves now, the queue included.
    pub(crate) arrives: Duration,
    /// The variation of that time.
    pub(crate) varies: Duration,
    /// The round-trip time.
    pub(crate) round_trip: Duration,
}

/// The probability that the transmissions of a chunk on one path fail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Failure {
    /// They are late, all of them.
    late: f64,
    /// They are lost, all of them.
    lost: f64,
    /// The loss of the next copy, if the others are lost.
    next: f64,
}

impl Chance {
    /// The probability that a transmission which leaves now and is not lost arrives later than in the time `left`.
    pub(crate) fn late(&self, left: Duration) -> f64 {
        let Some(slack) = left.checked_sub(self.arrives) else {
            return 1.0;
        };
        // The tail of a Laplace distribution, whose mean deviation is the measured one.
        0.5 * (-slack.as_secs_f64() / self.varies.max(LEAST_VARIATION).as_secs_f64()).exp()
    }

    /// The failure of the first transmission of a chunk, whose message has so many fragments, and of the retransmissions that are in time.
    pub(crate) fn of_first(&self, left: Duration, fragments: u32) -> Failure {
        Failure {
            late: self.late(left),
            lost: self.lost_for_good(left, fragments).any,
            next: self.loss.next.max(self.loss.any),
        }
    }

    /// The loss of a chunk and of its retransmissions that are in time, and the same of a chunk that follows a lost one.
    pub(crate) fn lost_for_good(&self, left: Duration, fragments: u32) -> Loss {
        // A loss is noticed after two round trips by a tail loss probe, or sooner by the acknowledgement of other fragments.
        let noticed = if fragments > 1 {
            self.round_trip * 3 / 2
        } else {
            self.round_trip * 2
        };
        let most = u128::from(MOST_REPAIRS);
        let later = left.saturating_sub(self.arrives).as_nanos();
        let repairs = later.checked_div(noticed.as_nanos()).unwrap_or(most).min(most) as i32;
        let again = self.loss.any.powi(repairs);
        Loss {
            any: self.loss.any * again,
            next: self.loss.next.max(self.loss.any) * again,
        }
    }

    /// The failure of a copy that leaves now, on a path on which no transmission of the chunk left lately.
    pub(crate) fn of_copy(&self, left: Duration) -> Failure {
        Failure {
            late: self.late(left),
            lost: self.loss.any,
            next: self.loss.next.max(self.loss.any),
        }
    }
}

impl Failure {
    /// With one more copy on the same path.
    #[must_use]
    pub(crate) fn and_copy(self) -> Self {
        Self {
            lost: self.lost * self.next,
            ..self
        }
    }

    /// The probability that another copy fails on this path, if those before are lost.
    pub(crate) fn of_another(self) -> f64 {
        self.late + (1.0 - self.late) * self.next
    }

    /// The probability that no transmission is in time.
    pub(crate) fn probability(self) -> f64 {
        self.late + (1.0 - self.late) * self.lost
    }
}
