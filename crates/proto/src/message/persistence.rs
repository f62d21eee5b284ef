//! The abandon policy: when a message is abandoned (RFC 3758, RFC 7496). Without partial reliability no message that was sent is
//! abandoned. FORWARD-TSN, which informs the peer, is in `extension/partial_reliability`.

use super::{Reliability, SendOptions};
use crate::config::DiscardNotice;
use crate::time::Timestamp;

/// The [`Reliability`] of a message, with its lifetime as a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Persistence {
    #[default]
    Reliable,
    /// Neither sent nor retransmitted after this time.
    Until(Timestamp),
    /// Each chunk is retransmitted at most this many times.
    Retransmissions(u32),
    /// Abandoned for a more important message while it is queued.
    Priority(u32),
}

impl Persistence {
    pub(crate) fn new(options: &SendOptions, now: Timestamp) -> Self {
        // A deadline beyond the last point in time never passes.
        let until = |lifetime| match now + lifetime {
            Timestamp::MAX => Self::Reliable,
            deadline => Self::Until(deadline),
        };
        if let Some(deadline) = options.deadline {
            return until(deadline);
        }
        match options.reliability {
            Reliability::Reliable => Self::Reliable,
            Reliability::Lifetime(lifetime) => until(lifetime),
            Reliability::Retransmissions(count) => Self::Retransmissions(count),
            Reliability::Priority(priority) => Self::Priority(priority),
        }
    }

    /// Whether its chunks may be abandoned after they were sent.
    pub(crate) fn is_partial(self) -> bool {
        matches!(self, Self::Until(_) | Self::Retransmissions(_))
    }

    /// Whether a chunk of the message that was sent `transmissions` times must not be retransmitted.
    fn is_spent(self, now: Timestamp, transmissions: u32) -> bool {
        match self {
            Self::Reliable | Self::Priority(_) => false,
            Self::Until(deadline) => now > deadline,
            Self::Retransmissions(count) => transmissions > count,
        }
    }
}

/// The bytes of a fragment on most paths.
const USUAL_FRAGMENT: usize = 1200;

/// How many times each chunk of a message may be sent again before its loss can be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copies {
    Fixed(u8),
    /// As many as are needed that a message of about so many fragments is in time.
    ForDeadline(u8),
}

impl Default for Copies {
    fn default() -> Self {
        Self::Fixed(0)
    }
}

/// Options that save time: early discard and notices to the receiver (Basto and Freitas), and early copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Haste {
    /// Early discard: a chunk is abandoned at its first missing report.
    pub(crate) early_discard: bool,
    pub(crate) notice: DiscardNotice,
    pub(crate) copies: Copies,
}

impl Haste {
    /// For a message of so many bytes.
    pub(crate) fn new(options: &SendOptions, bytes: usize) -> Self {
        let fragments = u8::try_from(bytes.div_ceil(USUAL_FRAGMENT)).unwrap_or(u8::MAX);
        let fixed = Copies::Fixed(options.early_copies);
        Self {
            early_discard: options.early_discard.unwrap_or_default(),
            notice: options.discard_notice.unwrap_or_default(),
            copies: options.deadline.map_or(fixed, |_| Copies::ForDeadline(fragments)),
        }
    }
}

/// Whether chunks that were sent may be abandoned.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum AbandonPolicy {
    /// No: FORWARD-TSN was not negotiated, so the peer could not be informed.
    #[default]
    Never,
    /// Yes, as the persistence of their message demands.
    Partial,
}

impl AbandonPolicy {
    /// Whether a chunk sent `transmissions` times is abandoned now.
    pub(crate) fn abandons(self, now: Timestamp, persistence: Persistence, transmissions: u32) -> bool {
        match self {
            Self::Never => false,
            Self::Partial => persistence.is_spent(now, transmissions),
        }
    }
}
