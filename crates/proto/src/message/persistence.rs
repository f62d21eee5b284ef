//! When a message is given up: the seam. The base protocol gives up none; what may be given up, and how that is told to the
//! peer, is partial reliability's (`extension/partial_reliability`).

use super::{Reliability, SendOptions};
use crate::config::DiscardNotice;
use crate::time::Timestamp;

/// How long a message is worth the trouble: its [`Reliability`] with the deadline worked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Persistence {
    #[default]
    Reliable,
    /// Neither sent nor repeated after this time.
    Until(Timestamp),
    /// Repeated at most so often.
    Retransmissions(u32),
    /// Dropped for what is more important while it waits.
    Priority(u32),
}

impl Persistence {
    pub(crate) fn new(reliability: Reliability, now: Timestamp) -> Self {
        match reliability {
            Reliability::Reliable => Self::Reliable,
            // A lifetime beyond the end of time never ends.
            Reliability::Lifetime(lifetime) => match now + lifetime {
                Timestamp::MAX => Self::Reliable,
                deadline => Self::Until(deadline),
            },
            Reliability::Retransmissions(count) => Self::Retransmissions(count),
            Reliability::Priority(priority) => Self::Priority(priority),
        }
    }

    /// Whether its chunks may be abandoned after they were sent.
    pub(crate) fn is_partial(self) -> bool {
        matches!(self, Self::Until(_) | Self::Retransmissions(_))
    }

    /// Whether a chunk of it that was sent `transmissions` times must not be sent again.
    fn is_spent(self, now: Timestamp, transmissions: u32) -> bool {
        match self {
            Self::Reliable | Self::Priority(_) => false,
            Self::Until(deadline) => now > deadline,
            Self::Retransmissions(count) => transmissions > count,
        }
    }
}

/// How soon what will not be sent again is abandoned, and whether the receiver is told (Basto and Freitas).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Haste {
    /// At the first missing report, not the last.
    pub(crate) early_discard: bool,
    pub(crate) notice: DiscardNotice,
}

impl Haste {
    pub(crate) fn new(options: &SendOptions) -> Self {
        Self {
            early_discard: options.early_discard.unwrap_or_default(),
            notice: options.discard_notice.unwrap_or_default(),
        }
    }
}

/// Whether chunks that were sent are given up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum AbandonPolicy {
    /// The peer could not be told.
    #[default]
    Never,
    /// As their message's persistence says.
    Partial,
}

impl AbandonPolicy {
    /// Whether a chunk sent `transmissions` times is given up now.
    pub(crate) fn abandons(self, now: Timestamp, persistence: Persistence, transmissions: u32) -> bool {
        match self {
            Self::Never => false,
            Self::Partial => persistence.is_spent(now, transmissions),
        }
    }
}
