//! User messages: options (SEND, RFC 9260 §11.1.5), reliability (RFC 3758, RFC 7496), fragments and delivery in parts (RFC 9260 §6.9).

mod fragment;
mod persistence;

use core::time::Duration;

use anabranch_wire::{Ppid, StreamId};
use bytes::{Bytes, BytesMut};

pub(crate) use crate::config::DiscardNotice;
use crate::config::PartialReliabilityConfig;
use crate::path_id::PathId;
use crate::setters::setters;
use crate::time::Timestamp;
pub(crate) use fragment::{Fragment, PPID_LEN, UnsentMessage};
pub(crate) use persistence::{AbandonPolicy, Copies, Haste, Persistence};

/// The identifier of a message given to `send`, within its association; counts from 0 in the order of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

/// The reliability of a message (RFC 3758 §4, RFC 7496 §3): whether and when it may be abandoned. After a part of a message was sent, it
/// is abandoned only if the peer supports FORWARD-TSN (RFC 3758); before, it is abandoned whatever the peer supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reliability {
    /// Fully reliable: retransmitted until it is acknowledged or the association ends. The default.
    #[default]
    Reliable,
    /// Timed reliability (RFC 3758 §4.1): when this time has passed since `send`, the message is neither sent for the first time nor
    /// retransmitted. A chunk in flight at that time is abandoned only if it is lost.
    Lifetime(Duration),
    /// Limited retransmissions (RFC 7496 §3.1): each chunk is retransmitted at most this many times; 0 sends every chunk once.
    Retransmissions(u32),
    /// Priority (RFC 7496 §3.2), a number of which 0 is the most important. If the send buffer is full, such a message is abandoned, before
    /// any of it was sent, for a message with a lower number or with another reliability. With the scheduler
    /// [`Priority`](crate::SchedulerKind::Priority) the priority classes of the streams count first: messages of the least urgent class are
    /// abandoned before others, and never for a message of a less urgent class.
    Priority(u32),
}

/// What [`crate::Stream::recv`] returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamItem {
    /// A message, or a part of one.
    Part(MessagePart),
    /// The peer reset the stream (RFC 6525) or restarted: all earlier messages were returned before.
    Reset,
}

/// What [`crate::Stream::peek`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextItem {
    /// A message, or its last part, with this payload protocol identifier.
    Message(Ppid),
    /// A part of a message whose rest is not here yet.
    Part,
    /// [`StreamItem::Reset`].
    Reset,
}

/// The options of a message (SEND, RFC 9260 §11.1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SendOptions {
    /// Payload protocol identifier: delivered to the peer's application unchanged. Default 0.
    pub ppid: Ppid,
    /// Unordered delivery (RFC 9260 §6.6): as soon as the message is complete, regardless of earlier messages of its stream. Default false.
    pub unordered: bool,
    /// Asks the peer to acknowledge at once (the I bit, RFC 7053). Default false.
    pub immediate: bool,
    /// Any number of the application, which is returned if the message is not acknowledged ([`crate::Undelivered::context`]).
    pub context: u64,
    /// Whether [`crate::Event::Acknowledged`] reports that the peer has the message. Default false.
    pub confirm: bool,
    /// How long after `send` the message is of use to the peer's application. A message with a deadline is worthless afterwards: it is neither
    /// sent nor retransmitted then, and the association sends as many copies of it as are needed that 99.9 % arrive in time, judging by
    /// the losses of its path in the last seconds: none on a path without losses, and none where a retransmission is in time. Replaces
    /// [`reliability`](field@SendOptions::reliability) and [`early_copies`](field@SendOptions::early_copies), with the same needs. Of streams
    /// of equal priority, the one whose first message has the earliest deadline sends first ([`crate::SchedulerKind::Priority`]). The peer is
    /// asked for acknowledgements at once (the I bit, RFC 7053). `None`, the default: the message is never worthless.
    pub deadline: Option<Duration>,
    /// Whether and when the message may be abandoned. Default [`Reliability::Reliable`].
    pub reliability: Reliability,
    /// Whether a chunk of it that must not be retransmitted is abandoned at its first missing report (*early discard*).
    /// `None`, the default: as [`PartialReliabilityConfig::early_discard`](crate::PartialReliabilityConfig::early_discard).
    pub early_discard: Option<bool>,
    /// Whether the receiver is notified of chunks of the message that will not be retransmitted. `None`, the default: as
    /// [`PartialReliabilityConfig::discard_notice`](crate::PartialReliabilityConfig::discard_notice).
    pub discard_notice: Option<DiscardNotice>,
    /// How many times each chunk of the message is sent again, a third of a round-trip time apart, while it is not acknowledged: for short
    /// messages that are useful for less than two round-trip times, so that a retransmission would come too late. Copies count in the congestion
    /// window, and they hide no loss from it. More than three are rarely sent, because the acknowledgement arrives before. Needs
    /// [`LossDetection::Rack`](crate::LossDetection::Rack). Default 0.
    pub early_copies: u8,
    /// The path on which the message is sent for the first time (the destination transport address of SEND, RFC 9260 §11.1.5;
    /// `SCTP_ADDR_OVER`, RFC 6458 §5.3.2), also if several paths are used at once. While the path is not active, and for retransmissions, the
    /// association chooses the path. The message waits for the congestion window of its path, and so do the messages after it in the order
    /// of the scheduler. With [`LossDetection::MissingReports`](crate::LossDetection::MissingReports) and one path at a time, differing
    /// RTTs of the paths cause spurious retransmissions. `None`, the default: the association chooses.
    pub path: Option<PathId>,
}

setters!(SendOptions {
    ppid: impl Into<Ppid>,
    unordered: bool,
    immediate: bool,
    context: u64,
    confirm: bool,
    reliability: Reliability,
    early_discard: impl Into<Option<bool>>,
    discard_notice: impl Into<Option<DiscardNotice>>,
    early_copies: u8,
    path: impl Into<Option<PathId>>,
});

impl SendOptions {
    /// Sets [`SendOptions::deadline`](field@SendOptions::deadline), and unordered delivery, so that no message waits for an earlier one: call
    /// [`SendOptions::unordered`] with `false` afterwards for messages that are of use in order alone.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self.unordered(true)
    }

    /// Sets [`SendOptions::reliability`](field@SendOptions::reliability) to [`Reliability::Lifetime`]: the message is abandoned when this time
    /// has passed since `send`.
    #[must_use]
    pub fn lifetime(self, lifetime: Duration) -> Self {
        self.reliability(Reliability::Lifetime(lifetime))
    }

    /// Takes the settings of the association for those left `None`.
    pub(crate) fn complete(&mut self, config: &PartialReliabilityConfig) {
        self.early_discard.get_or_insert(config.early_discard);
        self.discard_notice.get_or_insert(config.discard_notice);
    }
}

/// The payload protocol identifier of key management messages (draft-ietf-tsvwg-sctp-dtls-chunk §10.5).
pub const KEY_MANAGEMENT_PPID: Ppid = Ppid(4242);

/// The stream of key management messages.
pub(crate) const KEY_STREAM: StreamId = StreamId(0);

/// A message, or a part of a message that is delivered before it is complete (partial delivery, RFC 9260 §6.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagePart {
    /// The stream of the message.
    pub stream: StreamId,
    /// The payload protocol identifier that the sender gave.
    pub ppid: Ppid,
    /// Whether the sender asked for unordered delivery.
    pub unordered: bool,
    /// A number of the message among those received on this association: equal for all parts of a message. The parts of a message are
    /// delivered in order and without gaps.
    pub message: u64,
    /// Whether the part is the beginning of the message.
    pub beginning: bool,
    /// Whether the part is the end of the message. A whole message is both beginning and end.
    pub ending: bool,
    /// Whether the message ends here because its sender abandoned it (RFC 3758 §3.6): its rest will never arrive, and this part has no
    /// bytes. Only after earlier parts, never for a whole message.
    pub truncated: bool,
    /// When the packet arrived that completed the message; of a part before the end, the last one of its packets so far. The message may have
    /// waited for its turn since. The time is that of the driver; with the crate `anabranch`, it counts from the beginning of the endpoint.
    pub arrived_at: Timestamp,
    /// The path of that packet. If the packet came from an address that is no path: the path of the association's packet before it.
    pub path: PathId,
    /// The user data, as slices of the datagrams in which it arrived.
    pub payload: Payload,
}

/// User data in one or several slices, none of them empty.
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
    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Pieces::One(bytes) => bytes.len(),
            Pieces::Many(pieces) => pieces.iter().map(Bytes::len).sum(),
        }
    }

    /// Whether the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces().is_empty()
    }

    /// The slices, in order.
    #[must_use]
    pub fn pieces(&self) -> &[Bytes] {
        match &self.0 {
            Pieces::One(bytes) => core::slice::from_ref(bytes),
            Pieces::Many(pieces) => pieces,
        }
    }

    /// All user data in one slice; copied once if there are several.
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
