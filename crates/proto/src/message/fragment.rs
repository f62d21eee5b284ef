//! Fragments (RFC 9260 §6.9), which leave the send queue, and messages that are dropped unsent.

use anabranch_wire::{Ppid, StreamId};
use bytes::Bytes;

use super::MessageId;
use super::{Haste, Persistence};
use crate::event::{Acknowledged, Undelivered};

/// Bytes of a PPID. The first fragment of a large message with a deadline is so much shorter than the others, because it is repaired together with
/// the PPID (`extension/repair`).
pub(crate) const PPID_LEN: usize = 4;

/// A fragment of a message that fits a packet.
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) payload: Bytes,
    pub(crate) message: MessageId,
    pub(crate) context: u64,
    pub(crate) stream: StreamId,
    /// The SSN of an ordered message, 0 of an unordered one (RFC 9260 §6.5); with I-DATA the MID of any message (RFC 8260 §2.1).
    pub(crate) sequence: u32,
    /// The number of the fragment in its message (FSN).
    pub(crate) fsn: u32,
    pub(crate) ppid: Ppid,
    pub(crate) unordered: bool,
    pub(crate) beginning: bool,
    pub(crate) ending: bool,
    /// Whether it repairs the fragments of its message (`extension/repair`). It is not one of them, so that it begins and ends nothing on the wire,
    /// but is alone in the ring of outstanding chunks.
    pub(crate) repair: bool,
    pub(crate) immediate: bool,
    /// Whether the application learns of the acknowledgement ([`crate::SendOptions::confirm`]), and this fragment was not reported.
    pub(crate) confirm: bool,
    /// When the message is abandoned.
    pub(crate) persistence: Persistence,
    pub(crate) haste: Haste,
    /// Length in a packet in bytes, with chunk header and padding.
    pub(crate) wire_len: u32,
}

impl Fragment {
    /// A repair chunk of the message that ends with the fragment `last`. `label` takes the place of the FSN.
    pub(crate) fn repair(last: &Self, label: u32, payload: Bytes, wire_len: usize) -> Self {
        Self {
            payload,
            fsn: label,
            beginning: true,
            ending: true,
            repair: true,
            immediate: false,
            confirm: false,
            persistence: Persistence::Retransmissions(0),
            haste: Haste::default(),
            wire_len: wire_len as u32,
            ..*last
        }
    }

    /// Length in a packet in bytes, with chunk header and padding, as congestion windows count (§1.3).
    pub(crate) fn wire_len(&self) -> usize {
        self.wire_len as usize
    }

    /// The report to the application if the message is not acknowledged.
    pub(crate) fn undelivered(&self) -> Undelivered {
        Undelivered {
            message: self.message,
            stream: self.stream,
            context: self.context,
            sent: true,
        }
    }

    /// The receiver has the fragment and cannot renege on it. Returns the report of that, once, if the application wants one.
    pub(crate) fn take_confirmation(&mut self) -> Option<Acknowledged> {
        core::mem::take(&mut self.confirm).then_some(Acknowledged {
            message: self.message,
            stream: self.stream,
            context: self.context,
        })
    }
}

/// A message that was removed from the send queue before all of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnsentMessage {
    pub(crate) message: MessageId,
    pub(crate) stream: StreamId,
    pub(crate) context: u64,
    /// Bytes of user data that were not sent.
    pub(crate) size: usize,
    /// Whether a part of it was sent.
    pub(crate) begun: bool,
    /// If a part was sent: as in [`Fragment`].
    pub(crate) unordered: bool,
    pub(crate) sequence: u32,
}

impl UnsentMessage {
    /// The report to the application.
    pub(crate) fn undelivered(&self) -> Undelivered {
        Undelivered {
            message: self.message,
            stream: self.stream,
            context: self.context,
            sent: self.begun,
        }
    }
}
