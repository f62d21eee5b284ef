//! When a message is given up: the seam. The base protocol gives up none; what may be given up, and how that is told to the
//! peer, is partial reliability's (`extension/partial_reliability`).

use crate::config::PartialReliabilityConfig;
use crate::message::Reliability;
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
            Reliability::Lifetime(lifetime) => Self::Until(now + lifetime),
            Reliability::Retransmissions(count) => Self::Retransmissions(count),
            Reliability::Priority(priority) => Self::Priority(priority),
        }
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

/// When a chunk that was sent is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// It was reported missing, not often enough yet to be lost.
    FirstReports,
    /// It was declared lost, or waits to be repeated.
    Lost,
}

/// Whether chunks that were sent are given up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum AbandonPolicy {
    /// The peer could not be told.
    #[default]
    Never,
    /// As their message's persistence says.
    Partial {
        /// At the first missing report, not the last.
        early_discard: bool,
    },
}

impl AbandonPolicy {
    pub(crate) fn partial(config: &PartialReliabilityConfig) -> Self {
        Self::Partial {
            early_discard: config.early_discard,
        }
    }

    /// Whether anything is judged at the first missing reports.
    pub(crate) fn judges_early(self) -> bool {
        matches!(self, Self::Partial { early_discard: true })
    }

    /// Whether a chunk sent `transmissions` times is given up now.
    pub(crate) fn gives_up(
        self,
        now: Timestamp,
        persistence: Persistence,
        transmissions: u32,
        moment: Moment,
    ) -> bool {
        match self {
            Self::Never => false,
            Self::Partial { early_discard } => {
                (early_discard || moment == Moment::Lost) && persistence.is_spent(now, transmissions)
            }
        }
    }
}
