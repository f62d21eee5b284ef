//! The experimental chunk types of this project. IANA has not assigned their numbers; an endpoint sends them only to a peer that offered
//! them too.
//!
//! ```text
//! |  Type = 160   |   Flags = 0   |          Length = 12          |
//! |                              TSN                              |
//! |           Stream              |        Stream Sequence        |
//!
//! |  Type = 160   |   Flags = 0   |          Length = 16          |
//! |                              TSN                              |
//! |           Stream              |           Reserved            |
//! |                      Message Identifier                       |
//! ```
//!
//! The second form is used in associations with message interleaving (RFC 8260). It has the Message Identifier in place of the Stream
//! Sequence Number. The length tells the two forms apart.

mod coop_sack;
mod e_data;
mod extended_forward_tsn;
mod forward_psn;
mod path_sequence;

use alloc::vec::Vec;

pub use coop_sack::{CoopSack, CoopSackWriter, PathReport, PathReportWriter, PathReports};
pub use e_data::{AckPolicy, EData, EDataWriter, EIData, EIDataWriter};
pub use extended_forward_tsn::ExtendedForwardTsn;
pub use forward_psn::ForwardPsn;
pub use path_sequence::{PathSequence, PathSequences};

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, kind as standard, put_header};
use crate::reader::Reader;
use crate::types::{Mid, Ssn, StreamId, Tsn};

/// The default numbers. Their two highest bits tell a receiver that does not know the type what to do (RFC 9260 §3.2): for types that carry
/// data, it discards the rest of the packet; it skips the others.
pub mod kind {
    /// E-DATA: DATA with a path sequence number (Kim, Seo and Song, *ECA-SCTP*).
    pub const E_DATA: u8 = 96;
    /// COOP-SACK: an acknowledgement for every path (*ECA-SCTP*).
    pub const COOP_SACK: u8 = 97;
    /// E-I-DATA: I-DATA with a path sequence number (*ECA-SCTP* and RFC 8260).
    pub const E_I_DATA: u8 = 98;
    /// FORWARD-PSN: transmissions that the receiver need not wait for (*ECA-SCTP*).
    pub const FORWARD_PSN: u8 = 224;
    /// Selective forward TSN (Basto and Freitas, *SCTP extensions for time sensitive traffic*).
    pub const SELECTIVE_FORWARD_TSN: u8 = 160;
    /// Extended FORWARD-TSN: abandoned chunks above chunks that the receiver still waits for (after Rajiullah and Brunstrom).
    pub const EXTENDED_FORWARD_TSN: u8 = 161;
}

/// The numbers of the experimental chunk types on the wire; by default those of [`kind`]. Set others in a network where a number of
/// [`kind`] has another meaning. Both endpoints of an association must use the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExperimentalChunkTypes {
    /// Number of [`SelectiveForwardTsn`].
    pub selective_forward_tsn: u8,
    /// Number of [`ExtendedForwardTsn`].
    pub extended_forward_tsn: u8,
    /// Number of [`EData`].
    pub e_data: u8,
    /// Number of [`EIData`].
    pub e_i_data: u8,
    /// Number of [`CoopSack`].
    pub coop_sack: u8,
    /// Number of [`ForwardPsn`].
    pub forward_psn: u8,
}

impl Default for ExperimentalChunkTypes {
    fn default() -> Self {
        Self {
            selective_forward_tsn: kind::SELECTIVE_FORWARD_TSN,
            extended_forward_tsn: kind::EXTENDED_FORWARD_TSN,
            e_data: kind::E_DATA,
            e_i_data: kind::E_I_DATA,
            coop_sack: kind::COOP_SACK,
            forward_psn: kind::FORWARD_PSN,
        }
    }
}

impl ExperimentalChunkTypes {
    /// Numbers from 15 on that standards use, and those reserved for extending the number space. All numbers below 15 are assigned.
    const TAKEN: [u8; 13] = [
        standard::AUTH,
        standard::NR_SACK,
        63,
        standard::I_DATA,
        127,
        standard::ASCONF_ACK,
        standard::RE_CONFIG,
        standard::PAD,
        RESERVED,
        standard::FORWARD_TSN,
        standard::ASCONF,
        standard::I_FORWARD_TSN,
        u8::MAX,
    ];

    /// For each experimental chunk type: its default number and its number on the wire.
    fn pairs(self) -> [(u8, u8); 6] {
        [
            (kind::SELECTIVE_FORWARD_TSN, self.selective_forward_tsn),
            (kind::EXTENDED_FORWARD_TSN, self.extended_forward_tsn),
            (kind::E_DATA, self.e_data),
            (kind::E_I_DATA, self.e_i_data),
            (kind::COOP_SACK, self.coop_sack),
            (kind::FORWARD_PSN, self.forward_psn),
        ]
    }

    /// Whether no standard uses one of the numbers and all six differ.
    #[must_use]
    pub fn is_valid(self) -> bool {
        let pairs = self.pairs();
        let free = |number: u8| number > standard::SHUTDOWN_COMPLETE && !Self::TAKEN.contains(&number);
        let once = |number: u8| pairs.iter().filter(|(_, other)| *other == number).count() == 1;
        pairs.iter().all(|(_, number)| free(*number) && once(*number))
    }

    /// The number on the wire of the experimental chunk type whose default number is `own`.
    #[must_use]
    pub fn on_wire(self, own: u8) -> u8 {
        let pair = self.pairs().into_iter().find(|(here, _)| *here == own);
        pair.map_or(own, |(_, wire)| wire)
    }

    /// The default number of a chunk that has the number `wire` on the wire. If `wire` is the default number of a chunk type that has
    /// another number on the wire, the result is a number that no chunk type has.
    #[must_use]
    pub fn here(self, wire: u8) -> u8 {
        let pairs = self.pairs();
        if let Some((here, _)) = pairs.into_iter().find(|(_, number)| *number == wire) {
            return here;
        }
        let moved = pairs.into_iter().any(|(here, _)| here == wire);
        if moved { RESERVED } else { wire }
    }
}

/// Reserved for extending the number space (RFC 9260 §3.2): no chunk has this number.
const RESERVED: u8 = 191;

/// The number of an ordered message in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageNumber {
    /// Without message interleaving: the Stream Sequence Number.
    Ssn(Ssn),
    /// With message interleaving: the Message Identifier (RFC 8260).
    Mid(Mid),
}

/// Tells the receiver that the sender will not retransmit an ordered message: if the message has not arrived, its stream need not wait for
/// it. The chunk does not change acknowledgements: the TSN stays missing until a FORWARD-TSN or I-FORWARD-TSN passes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectiveForwardTsn {
    /// The TSN of the message's last fragment.
    pub tsn: Tsn,
    /// The message's stream.
    pub stream: StreamId,
    /// The message's number in the stream.
    pub number: MessageNumber,
}

impl MessageNumber {
    /// Length in bytes of a [`SelectiveForwardTsn`] with a number of this kind.
    #[must_use]
    pub const fn notice_len(self) -> usize {
        match self {
            Self::Ssn(_) => CHUNK_HEADER_LEN + 8,
            Self::Mid(_) => CHUNK_HEADER_LEN + 12,
        }
    }
}

impl SelectiveForwardTsn {
    pub(super) fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Self::read(raw).ok_or(ChunkError::Length { kind: raw.kind })
    }

    fn read(raw: &RawChunk<'_>) -> Option<Self> {
        let mut reader = Reader::new(raw.value());
        let (tsn, stream) = (Tsn(reader.u32()?), StreamId(reader.u16()?));
        let short = reader.u16()?;
        let number = if reader.is_empty() {
            MessageNumber::Ssn(Ssn(short))
        } else {
            MessageNumber::Mid(Mid(reader.u32()?))
        };
        reader.is_empty().then_some(Self { tsn, stream, number })
    }
}

impl EncodeChunk for SelectiveForwardTsn {
    fn encoded_len(&self) -> usize {
        self.number.notice_len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::SELECTIVE_FORWARD_TSN, 0, self.encoded_len());
        out.extend_from_slice(&self.tsn.0.to_be_bytes());
        out.extend_from_slice(&self.stream.0.to_be_bytes());
        match self.number {
            MessageNumber::Ssn(ssn) => out.extend_from_slice(&ssn.0.to_be_bytes()),
            MessageNumber::Mid(mid) => {
                out.extend_from_slice(&[0; 2]);
                out.extend_from_slice(&mid.0.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::{check, check_refused};
    use super::*;

    #[test]
    fn round_trip() {
        let mut notice = SelectiveForwardTsn {
            tsn: Tsn(9),
            stream: StreamId(3),
            number: MessageNumber::Ssn(Ssn(5)),
        };
        let bytes = [160, 0, 0, 12, 0, 0, 0, 9, 0, 3, 0, 5];
        check(&bytes, &Chunk::SelectiveForwardTsn(notice));
        notice.number = MessageNumber::Mid(Mid(0x0102_0304));
        let bytes = [160, 0, 0, 16, 0, 0, 0, 9, 0, 3, 0, 0, 1, 2, 3, 4];
        check(&bytes, &Chunk::SelectiveForwardTsn(notice));
        for length in [8, 14, 20] {
            let mut bytes = alloc::vec![0; length];
            (bytes[0], bytes[3]) = (160, length as u8);
            check_refused(&bytes, ChunkError::Length { kind: 160 });
        }
    }

    #[test]
    fn numbers_that_are_moved() {
        let moved = ExperimentalChunkTypes {
            selective_forward_tsn: 170,
            ..ExperimentalChunkTypes::default()
        };
        assert!(moved.is_valid() && ExperimentalChunkTypes::default().is_valid());
        assert_eq!(moved.on_wire(kind::SELECTIVE_FORWARD_TSN), 170);
        assert_eq!(moved.here(170), kind::SELECTIVE_FORWARD_TSN);
        // The default number no longer has a meaning; the numbers of the standards stay.
        assert_eq!(moved.here(kind::SELECTIVE_FORWARD_TSN), RESERVED);
        assert_eq!(moved.here(standard::FORWARD_TSN), standard::FORWARD_TSN);
        for taken in [standard::DATA, 127, standard::FORWARD_TSN, RESERVED, kind::E_DATA] {
            let wrong = ExperimentalChunkTypes {
                selective_forward_tsn: taken,
                ..moved
            };
            assert!(!wrong.is_valid(), "{taken}");
        }
    }
}
