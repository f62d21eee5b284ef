//! Owns what a scheduler learns about a fragment that was sent.

use crate::message::MessageId;

/// A fragment that was sent.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Accepted {
    pub(in super::super) message: MessageId,
    /// Bytes of user data.
    pub(in super::super) bytes: usize,
    /// Whether it was the last fragment of its message.
    pub(in super::super) ended: bool,
    /// Whether a fragment of another message may follow in any case.
    pub(in super::super) interleaves: bool,
    /// Whether the stream has more to send.
    pub(in super::super) more: bool,
}
