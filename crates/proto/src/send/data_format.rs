//! How a fragment is written to the wire, and how messages are numbered: the seam, with DATA (RFC 9260 §3.3.1) and I-DATA
//! (RFC 8260 §2.1) in it.

use anabranch_wire::chunk::{Data, DataWriter, IData, IDataWriter, MessageNumber, padded};
use anabranch_wire::packet::PacketWriter;
use anabranch_wire::{Fsn, Mid, Ssn, Tsn};

use super::fragment::Fragment;

/// The chunk types that carry user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum DataFormat {
    #[default]
    Data,
    /// Every message has a number, and every fragment one within it: fragments of several messages may alternate.
    IData,
}

/// The numbers of the next messages of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MessageNumbers {
    ordered: u32,
    unordered: u32,
}

impl DataFormat {
    /// Bytes of the chunk before the user data.
    pub(crate) fn header_len(self) -> usize {
        match self {
            Self::Data => Data::HEADER_LEN,
            Self::IData => IData::HEADER_LEN,
        }
    }

    /// Bytes that `payload` bytes of user data take in a packet: with the chunk's header and padding.
    pub(crate) fn wire_len(self, payload: usize) -> usize {
        padded(self.header_len() + payload)
    }

    /// Whether fragments of other messages may come between those of one.
    pub(crate) fn interleaves(self) -> bool {
        self == Self::IData
    }

    /// The number of the next message: its SSN, 0 if it is unordered and so has none; or its MID.
    pub(super) fn number(self, next: &MessageNumbers, unordered: bool) -> u32 {
        match (self, unordered) {
            (Self::Data, true) => 0,
            (Self::IData, true) => next.unordered,
            (_, false) => next.ordered,
        }
    }

    /// A message has used its number.
    pub(super) fn count(self, next: &mut MessageNumbers, unordered: bool) {
        match (self, unordered) {
            (Self::Data, true) => {}
            (Self::Data, false) => next.ordered = u32::from((next.ordered as u16).wrapping_add(1)),
            (Self::IData, true) => next.unordered = next.unordered.wrapping_add(1),
            (Self::IData, false) => next.ordered = next.ordered.wrapping_add(1),
        }
    }

    /// A message's number as other chunks have it.
    pub(crate) fn message_number(self, number: u32) -> MessageNumber {
        match self {
            Self::Data => MessageNumber::Ssn(Ssn(number as u16)),
            Self::IData => MessageNumber::Mid(Mid(number)),
        }
    }

    /// Writes the chunk.
    pub(crate) fn write(self, fragment: &Fragment, tsn: Tsn, immediate: bool, packet: &mut PacketWriter<'_>) {
        match self {
            Self::Data => packet.push(&DataWriter {
                tsn,
                stream: fragment.stream,
                ssn: Ssn(fragment.sequence as u16),
                ppid: fragment.ppid,
                unordered: fragment.unordered,
                beginning: fragment.beginning,
                ending: fragment.ending,
                immediate: immediate || fragment.immediate,
                payload: &fragment.payload,
            }),
            Self::IData => packet.push(&IDataWriter {
                tsn,
                stream: fragment.stream,
                mid: Mid(fragment.sequence),
                ppid: fragment.ppid,
                fsn: Fsn(fragment.fsn),
                unordered: fragment.unordered,
                beginning: fragment.beginning,
                ending: fragment.ending,
                immediate: immediate || fragment.immediate,
                payload: &fragment.payload,
            }),
        }
    }
}
