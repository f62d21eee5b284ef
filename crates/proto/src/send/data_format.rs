//! How a fragment is written to the wire: the seam, and DATA in it (RFC 9260 §3.3.1).

use anabranch_wire::chunk::{Data, DataWriter, padded};
use anabranch_wire::packet::PacketWriter;
use anabranch_wire::{Ssn, Tsn};

use super::fragment::Fragment;

/// The chunk types that carry user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataFormat {
    Data,
}

impl DataFormat {
    /// Bytes of the chunk before the user data.
    pub(crate) fn header_len(self) -> usize {
        match self {
            Self::Data => Data::HEADER_LEN,
        }
    }

    /// Bytes that `payload` bytes of user data take in a packet: with the chunk's header and padding.
    pub(crate) fn wire_len(self, payload: usize) -> usize {
        padded(self.header_len() + payload)
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
        }
    }
}
