//! User messages on their way in and out.

mod fragment;
mod persistence;

use core::time::Duration;

use anabranch_wire::{Ppid, StreamId};
use bytes::{Bytes, BytesMut};

pub(crate) use crate::config::DiscardNotice;
use crate::config::PartialReliabilityConfig;
pub(crate) use fragment::{Fragment, UnsentMessage};
pub(crate) use persistence::{AbandonPolicy, Haste, Persistence};

/// Names a message given to `send`, within its association; counts from 0 in the order of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// How hard a message is tried to be delivered (RFC 3758 §4, RFC 7496 §3). What gives up takes effect for data that was
/// sent only where the peer speaks RFC 3758; unsent messages are dropped whatever the peer speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reliability {
    /// Until it is acknowledged or the association ends.
    #[default]
    Reliable,
    /// For this long after `send` (timed reliability, RFC 3758 §4.1): later it is neither sent for the first time nor
    /// repeated. Time in flight counts, but a chunk in flight is given up only once it is found lost.
    Lifetime(Duration),
    /// Each of its chunks is repeated at most so often (RFC 7496 §3.1); 0 sends everything once.
    Retransmissions(u32),
    /// Dropped, before anything of it was sent, when the send buffer is full and a message of a lower number, or one
    /// that is not of this kind, needs the room (RFC 7496 §3.2). 0 is the most important. With the scheduler
    /// [`Priority`](crate::SchedulerKind::Priority) the streams' classes come first: messages of the least urgent class give
    /// way before others, and never to one of a less urgent class.
    Priority(u32),
}

/// How a message is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SendOptions {
    /// Carried to the peer's application, unchanged.
    pub ppid: Ppid,
    /// Delivered as soon as it is complete, whatever came before it on its stream (RFC 9260 §6.6).
    pub unordered: bool,
    /// Asks the peer to acknowledge at once (the I bit, RFC 7053).
    pub immediate: bool,
    /// Any number of the application's own, given back when the message fails.
    pub context: u64,
    /// When to give it up.
    pub reliability: Reliability,
    /// Whether a chunk of it that must not be retransmitted is abandoned at its first missing report (*early discard*).
    /// `None`, the default: as [`PartialReliabilityConfig::early_discard`](crate::PartialReliabilityConfig::early_discard).
    pub early_discard: Option<bool>,
    /// Whether the receiver is told of chunks of it that will not be retransmitted. `None`, the default: as
    /// [`PartialReliabilityConfig::discard_notice`](crate::PartialReliabilityConfig::discard_notice).
    pub discard_notice: Option<DiscardNotice>,
}

impl SendOptions {
    /// The same, with what they leave to the association filled in.
    pub(crate) fn or_as_set(self, config: &PartialReliabilityConfig) -> Self {
        Self {
            early_discard: self.early_discard.or(Some(config.early_discard)),
            discard_notice: self.discard_notice.or(Some(config.discard_notice)),
            ..self
        }
    }
}

/// A message, or a part of one that is handed over before it is complete (partial delivery, RFC 9260 §6.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagePart {
    /// The stream it came on.
    pub stream: StreamId,
    /// As the sender gave it.
    pub ppid: Ppid,
    /// As the sender asked.
    pub unordered: bool,
    /// Names the message among those received on this association: equal for the parts of one message, which
    /// follow each other without other parts of the same message missing.
    pub message: u64,
    /// Whether it is the beginning of the message.
    pub beginning: bool,
    /// Whether it is the end of the message. Both are true for a whole one.
    pub ending: bool,
    /// Whether the message ends here because its sender gave it up: the rest never comes, and there are no bytes in this
    /// part (RFC 3758 §3.6). Only after parts that came before, never for a whole one.
    pub truncated: bool,
    /// The data, in slices of the datagrams it came in.
    pub payload: Payload,
}

/// Bytes in one or several pieces, none of them empty.
#[derive(Clone, Debug, Default)]
pub struct Payload(Pieces);

#[derive(Clone, Debug)]
enum Pieces {
    One(Bytes),
    Many(Vec<Bytes>),
}

impl Default for Pieces {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Payload {
    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Pieces::One(bytes) => bytes.len(),
            Pieces::Many(pieces) => pieces.iter().map(Bytes::len).sum(),
        }
    }

    /// Whether there are no bytes in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces().is_empty()
    }

    /// The pieces, in order.
    #[must_use]
    pub fn pieces(&self) -> &[Bytes] {
        match &self.0 {
            Pieces::One(bytes) => core::slice::from_ref(bytes),
            Pieces::Many(pieces) => pieces,
        }
    }

    /// All of it in one piece: copied once if it is in several.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self.0 {
            Pieces::One(bytes) => bytes,
            Pieces::Many(pieces) => {
                let mut joined = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
                for piece in &pieces {
                    joined.extend_from_slice(piece);
                }
                joined.freeze()
            }
        }
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self(Pieces::One(bytes))
    }
}

impl From<Vec<Bytes>> for Payload {
    fn from(pieces: Vec<Bytes>) -> Self {
        Self(Pieces::Many(pieces))
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.pieces().iter().flatten().eq(other.pieces().iter().flatten())
    }
}

impl Eq for Payload {}
