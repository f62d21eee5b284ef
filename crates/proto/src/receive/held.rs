//! Owns a message, or a part of one, that the application has not read yet.

use bytes::Bytes;

use super::fragment::Fragment;
use super::load::Load;
use crate::message::{KEY_MANAGEMENT_PPID, KEY_STREAM, MessagePart};
use crate::seq::ExtendedTsn;

/// A message, or a part of one, and what its chunks cost.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) part: MessagePart,
    /// Its first TSN.
    pub(super) first: ExtendedTsn,
    pub(super) chunks: u32,
    /// As in [`Load`].
    kept: u32,
}

impl Held {
    pub(super) fn new(part: MessagePart, first: ExtendedTsn, load: Load) -> Self {
        Self {
            part,
            first,
            chunks: load.chunks as u32,
            kept: load.kept as u32,
        }
    }

    /// A message that arrived in one chunk.
    #[inline]
    pub(super) fn whole(tsn: ExtendedTsn, fragment: Fragment, message: u64) -> Self {
        let load = Load::of(&fragment);
        let part = MessagePart {
            stream: fragment.stream,
            ppid: fragment.ppid,
            unordered: fragment.unordered,
            message,
            beginning: true,
            ending: true,
            truncated: false,
            arrived_at: fragment.origin.at,
            path: fragment.origin.path,
            payload: fragment.payload.into(),
        };
        Self::new(part, tsn, load)
    }

    /// Whether the message is for key management and not for the application.
    pub(super) fn is_key_management(&self) -> bool {
        self.part.stream == KEY_STREAM && self.part.ppid == KEY_MANAGEMENT_PPID
    }

    /// A later message counts the datagram of which this one may be a slice. Returns the bytes that this one no longer counts.
    #[inline]
    pub(super) fn leave_datagram(&mut self) -> usize {
        let own = self.part.payload.len() as u32;
        (core::mem::replace(&mut self.kept, own) - own) as usize
    }

    /// Copies the user data, if it may be a slice of a datagram.
    pub(super) fn copy(&mut self) {
        if let [payload] = self.part.payload.pieces() {
            self.part.payload = Bytes::copy_from_slice(payload).into();
        }
    }

    /// The cost of its chunks.
    pub(super) fn load(&self) -> Load {
        Load {
            bytes: self.part.payload.len(),
            kept: self.kept as usize,
            chunks: self.chunks as usize,
        }
    }
}
