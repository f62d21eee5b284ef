//! E-DATA and E-I-DATA (ECA-SCTP): DATA and I-DATA with the number of the transmission before the TSN. The flags say on which path the
//! sender wants the acknowledgement.
//!
//! ```text
//! | Type = 96, 98 |  PS |R|I|U|B|E|            Length             |
//! |      PID      |                      PSN                      |
//! |        as in DATA or I-DATA, from the TSN on                  |
//! ```

use alloc::vec::Vec;

use super::super::{
    CHUNK_HEADER_LEN, ChunkError, Data, DataWriter, EncodeChunk, IData, IDataWriter, RawChunk, put_header,
};
use super::{PathSequence, kind};
use crate::reader::Reader;

/// The path on which the data sender wants the acknowledgement (PS, three bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AckPolicy {
    /// 000: on the path on which the last packet arrived. 010 and 011 have the same meaning.
    #[default]
    LastArrival,
    /// 001: a copy on every path.
    EveryPath,
    /// 100: report gaps on the path with the best rank, if possible one without gaps; this path has no rank.
    Unranked,
    /// 101, 110, 111: like 100, and this path has rank 1, 2 or 3.
    Ranked(u8),
}

const POLICY_SHIFT: u32 = 5;

impl AckPolicy {
    fn from_flags(flags: u8) -> Self {
        match flags >> POLICY_SHIFT {
            0b001 => Self::EveryPath,
            0b100 => Self::Unranked,
            ranked @ 0b101..=0b111 => Self::Ranked(ranked & 0b011),
            _ => Self::LastArrival,
        }
    }

    /// A rank above 3 is encoded as no rank, because the flags have no bits for it.
    fn to_flags(self) -> u8 {
        let bits = match self {
            Self::LastArrival => 0b000,
            Self::EveryPath => 0b001,
            Self::Ranked(rank @ 1..=3) => 0b100 | rank,
            Self::Unranked | Self::Ranked(_) => 0b100,
        };
        bits << POLICY_SHIFT
    }
}

/// Offset of the TSN in bytes.
const FIELDS_AT: usize = CHUNK_HEADER_LEN + PathSequence::LEN;

fn read_transmission(raw: &RawChunk<'_>) -> Option<PathSequence> {
    Reader::new(raw.value()).u32().map(PathSequence::from_word)
}

/// A fragment of a user message or an unfragmented message, and the number of the transmission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EData {
    /// Path and number of the transmission.
    pub transmission: PathSequence,
    /// The path on which the sender wants the acknowledgement.
    pub policy: AckPolicy,
    /// The fields of the DATA chunk.
    pub data: Data,
}

impl EData {
    /// Bytes before the user data.
    pub const HEADER_LEN: usize = Data::HEADER_LEN + PathSequence::LEN;

    /// Decodes a chunk of this type.
    ///
    /// # Errors
    /// The chunk is too short or has no user data.
    pub fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        let transmission = read_transmission(raw).ok_or(ChunkError::Length { kind: raw.kind })?;
        Ok(Self {
            transmission,
            policy: AckPolicy::from_flags(raw.flags),
            data: Data::decode_at(raw, FIELDS_AT)?,
        })
    }
}

impl EncodeChunk for EData {
    fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + self.data.payload.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let writer = EDataWriter {
            transmission: self.transmission,
            policy: self.policy,
            data: self.data.writer(),
        };
        writer.encode(out);
    }
}

/// Encodes an E-DATA chunk without copying the user data first. The fields are those of [`EData`].
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are those of `EData`")]
pub struct EDataWriter<'a> {
    pub transmission: PathSequence,
    pub policy: AckPolicy,
    pub data: DataWriter<'a>,
}

impl EncodeChunk for EDataWriter<'_> {
    fn encoded_len(&self) -> usize {
        EData::HEADER_LEN + self.data.payload.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let flags = self.data.flags() | self.policy.to_flags();
        put_header(out, kind::E_DATA, flags, self.encoded_len());
        out.extend_from_slice(&self.transmission.to_word().to_be_bytes());
        out.extend_from_slice(&self.data.fields());
        out.extend_from_slice(self.data.payload);
    }
}

/// [`EData`] with message interleaving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EIData {
    /// Path and number of the transmission.
    pub transmission: PathSequence,
    /// The path on which the sender wants the acknowledgement.
    pub policy: AckPolicy,
    /// The fields of the I-DATA chunk.
    pub data: IData,
}

impl EIData {
    /// Bytes before the user data.
    pub const HEADER_LEN: usize = IData::HEADER_LEN + PathSequence::LEN;

    /// Decodes a chunk of this type.
    ///
    /// # Errors
    /// The chunk is too short or has no user data.
    pub fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Self::read(raw).ok_or(ChunkError::Length { kind: kind::E_I_DATA })?
    }

    fn read(raw: &RawChunk<'_>) -> Option<Result<Self, ChunkError>> {
        let mut reader = Reader::new(raw.value());
        let transmission = PathSequence::from_word(reader.u32()?);
        let data = IData::read(reader, raw.flags)?;
        Some(data.map(|data| Self {
            transmission,
            policy: AckPolicy::from_flags(raw.flags),
            data,
        }))
    }
}

impl EncodeChunk for EIData {
    fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + self.data.payload.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let writer = EIDataWriter {
            transmission: self.transmission,
            policy: self.policy,
            data: self.data.writer(),
        };
        writer.encode(out);
    }
}

/// Encodes an E-I-DATA chunk without copying the user data first. The fields are those of [`EIData`].
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are those of `EIData`")]
pub struct EIDataWriter<'a> {
    pub transmission: PathSequence,
    pub policy: AckPolicy,
    pub data: IDataWriter<'a>,
}

impl EncodeChunk for EIDataWriter<'_> {
    fn encoded_len(&self) -> usize {
        EIData::HEADER_LEN + self.data.payload.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let flags = self.data.flags() | self.policy.to_flags();
        put_header(out, kind::E_I_DATA, flags, self.encoded_len());
        out.extend_from_slice(&self.transmission.to_word().to_be_bytes());
        out.extend_from_slice(&self.data.fields());
        out.extend_from_slice(self.data.payload);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::super::Chunk;
    use super::super::super::tests::{check, check_refused};
    use super::*;
    use crate::types::{Fsn, Mid, Ppid, Psn, Ssn, StreamId, Tsn};

    fn transmission() -> PathSequence {
        PathSequence {
            path: 2,
            number: Psn::new(0x0001_0203),
        }
    }

    #[test]
    fn data_with_its_transmission() {
        let bytes = [
            96,
            0b1010_1011,
            0,
            22,
            2,
            1,
            2,
            3,
            0,
            0,
            0,
            9,
            0,
            5,
            0,
            6,
            0,
            0,
            0,
            51,
            b'h',
            b'i',
        ];
        let chunk = EData {
            transmission: transmission(),
            policy: AckPolicy::Ranked(1),
            data: Data {
                tsn: Tsn(9),
                stream: StreamId(5),
                ssn: Ssn(6),
                ppid: Ppid(51),
                unordered: false,
                beginning: true,
                ending: true,
                immediate: true,
                payload: Bytes::from_static(b"hi"),
            },
        };
        check(&bytes, &Chunk::EData(chunk));
        let empty = [96, 3, 0, 20, 2, 0, 0, 1, 0, 0, 0, 9, 0, 5, 0, 6, 0, 0, 0, 51];
        check_refused(&empty, ChunkError::NoUserData { tsn: Tsn(9) });
        check_refused(&[96, 3, 0, 8, 2, 0, 0, 1], ChunkError::Length { kind: 96 });
    }

    #[test]
    fn interleaving_data_with_its_transmission() {
        let mut bytes = [
            98, 0x22, 0, 25, 2, 1, 2, 3, 0, 0, 0, 9, 0, 5, 0, 0, 0, 0, 0, 7, 0, 0, 0, 51, b'a',
        ];
        let mut chunk = EIData {
            transmission: transmission(),
            policy: AckPolicy::EveryPath,
            data: IData {
                tsn: Tsn(9),
                stream: StreamId(5),
                mid: Mid(7),
                ppid: Ppid(51),
                fsn: Fsn(0),
                unordered: false,
                beginning: true,
                ending: false,
                immediate: false,
                repair: false,
                payload: Bytes::from_static(b"a"),
            },
        };
        check(&bytes, &Chunk::EIData(chunk.clone()));
        bytes[1] = 0x80;
        chunk.policy = AckPolicy::Unranked;
        chunk.data = IData {
            beginning: false,
            ppid: Ppid(0),
            fsn: Fsn(51),
            ..chunk.data
        };
        check(&bytes, &Chunk::EIData(chunk));
    }

    #[test]
    fn policies() {
        let policies = [
            AckPolicy::LastArrival,
            AckPolicy::EveryPath,
            AckPolicy::Unranked,
            AckPolicy::Ranked(1),
            AckPolicy::Ranked(2),
            AckPolicy::Ranked(3),
        ];
        for policy in policies {
            assert_eq!(AckPolicy::from_flags(policy.to_flags()), policy);
        }
        for unassigned in [0b0100_0000, 0b0110_0000] {
            assert_eq!(AckPolicy::from_flags(unassigned), AckPolicy::LastArrival);
        }
        assert_eq!(AckPolicy::Ranked(4).to_flags(), AckPolicy::Unranked.to_flags());
    }
}
