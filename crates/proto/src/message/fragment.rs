//! What leaves the send queue: a fragment for a packet, or a message that was dropped unsent.

use anabranch_wire::{Ppid, StreamId};
use bytes::Bytes;

use super::MessageId;
use super::{Haste, Persistence};
use crate::event::Undelivered;

/// A piece of a message that fits a packet.
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) payload: Bytes,
    pub(crate) message: MessageId,
    pub(crate) context: u64,
    pub(crate) stream: StreamId,
    /// SSN of an ordered message, 0 of an unordered one; with I-DATA the MID of either.
    pub(crate) sequence: u32,
    /// Its place in the message.
    pub(crate) fsn: u32,
    pub(crate) ppid: Ppid,
    pub(crate) unordered: bool,
    pub(crate) beginning: bool,
    pub(crate) ending: bool,
    pub(crate) immediate: bool,
    /// When it is given up.
    pub(crate) persistence: Persistence,
    pub(crate) haste: Haste,
    /// Bytes in a packet, with chunk header and padding.
    pub(crate) wire_len: u32,
}

impl Fragment {
    /// Bytes in a packet, with chunk header and padding: what windows of congestion control count (§1.6).
    pub(crate) fn wire_len(&self) -> usize {
        self.wire_len as usize
    }

    /// What its application is told if its message is never acknowledged.
    pub(crate) fn undelivered(&self) -> Undelivered {
        Undelivered {
            message: self.message,
            stream: self.stream,
            context: self.context,
            sent: true,
        }
    }
}

/// A message that never left whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnsentMessage {
    pub(crate) message: MessageId,
    pub(crate) stream: StreamId,
    pub(crate) context: u64,
    /// Whether a part of it was sent.
    pub(crate) begun: bool,
    /// If so, as [`Fragment`] has them.
    pub(crate) unordered: bool,
    pub(crate) sequence: u32,
}

impl UnsentMessage {
    /// What its application is told.
    pub(crate) fn undelivered(&self) -> Undelivered {
        Undelivered {
            message: self.message,
            stream: self.stream,
            context: self.context,
            sent: self.begun,
        }
    }
}
