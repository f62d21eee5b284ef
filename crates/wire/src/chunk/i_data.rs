//! I-DATA (RFC 8260 §2.1): DATA with message interleaving.
//!
//! ```text
//! |   Type = 64   | Res |R|I|U|B|E|       Length = Variable       |
//! |                              TSN                              |
//! |        Stream Identifier      |           Reserved            |
//! |                      Message Identifier                       |
//! |    Payload Protocol Identifier / Fragment Sequence Number     |
//! |                       User Data ...                           |
//! ```

use alloc::vec::Vec;

use bytes::Bytes;

use super::data::{BEGINNING, ENDING, IMMEDIATE, REPAIR, UNORDERED, flags};
use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, kind};
use crate::reader::Reader;
use crate::types::{Fsn, Mid, Ppid, StreamId, Tsn};

/// Bytes from the TSN to the user data.
const FIELDS_LEN: usize = 16;

/// A fragment of a user message, or an unfragmented message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IData {
    /// Transmission Sequence Number of the chunk.
    pub tsn: Tsn,
    /// The stream of the message.
    pub stream: StreamId,
    /// Message Identifier: ordered and unordered messages of a stream are numbered separately.
    pub mid: Mid,
    /// Payload protocol identifier, for the application. Only the first fragment carries it; 0 in the others.
    pub ppid: Ppid,
    /// Fragment Sequence Number in the message; 0 for the first fragment.
    pub fsn: Fsn,
    /// U: unordered delivery.
    pub unordered: bool,
    /// B: the first fragment of its message.
    pub beginning: bool,
    /// E: the last fragment of its message.
    pub ending: bool,
    /// I: the receiver should acknowledge the chunk at once (RFC 7053).
    pub immediate: bool,
    /// R, a bit that RFC 8260 reserves, experimental: the user data repairs missing fragments of the message, and the field of the FSN says how.
    pub repair: bool,
    /// User data, at least one byte.
    pub payload: Bytes,
}

impl IData {
    /// Bytes before the user data.
    pub const HEADER_LEN: usize = CHUNK_HEADER_LEN + FIELDS_LEN;

    /// Decodes a chunk of this type.
    ///
    /// # Errors
    /// The chunk is too short or has no user data.
    #[inline]
    pub fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Self::read(Reader::new(raw.value()), raw.flags).ok_or(ChunkError::Length { kind: kind::I_DATA })?
    }

    /// Decodes the fields from the TSN on; `None` if the bytes are too few for them.
    #[inline]
    pub(super) fn read(mut reader: Reader, chunk_flags: u8) -> Option<Result<Self, ChunkError>> {
        let tsn = Tsn(reader.u32()?);
        let stream = StreamId(reader.u16()?);
        let _reserved = reader.u16()?;
        let mid = Mid(reader.u32()?);
        let shared = reader.u32()?;
        let beginning = chunk_flags & BEGINNING != 0;
        let payload = reader.rest();
        if payload.is_empty() {
            return Some(Err(ChunkError::NoUserData { tsn }));
        }
        Some(Ok(Self {
            tsn,
            stream,
            mid,
            ppid: Ppid(if beginning { shared } else { 0 }),
            fsn: Fsn(if beginning { 0 } else { shared }),
            unordered: chunk_flags & UNORDERED != 0,
            beginning,
            ending: chunk_flags & ENDING != 0,
            immediate: chunk_flags & IMMEDIATE != 0,
            repair: chunk_flags & REPAIR != 0,
            payload,
        }))
    }

    pub(super) fn writer(&self) -> IDataWriter<'_> {
        IDataWriter {
            tsn: self.tsn,
            stream: self.stream,
            mid: self.mid,
            ppid: self.ppid,
            fsn: self.fsn,
            unordered: self.unordered,
            beginning: self.beginning,
            ending: self.ending,
            immediate: self.immediate,
            repair: self.repair,
            payload: &self.payload,
        }
    }
}

impl EncodeChunk for IData {
    fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + self.payload.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.writer().encode(out);
    }
}

/// Encodes an I-DATA chunk without copying the user data first. The fields are those of [`IData`].
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are those of `IData`")]
pub struct IDataWriter<'a> {
    pub tsn: Tsn,
    pub stream: StreamId,
    pub mid: Mid,
    pub ppid: Ppid,
    pub fsn: Fsn,
    pub unordered: bool,
    pub beginning: bool,
    pub ending: bool,
    pub immediate: bool,
    pub repair: bool,
    pub payload: &'a [u8],
}

impl IDataWriter<'_> {
    #[inline]
    pub(super) fn flags(&self) -> u8 {
        let repair = if self.repair { REPAIR } else { 0 };
        repair | flags(self.immediate, self.unordered, self.beginning, self.ending)
    }

    /// The fields between the chunk header and the user data.
    #[inline]
    pub(super) fn fields(&self) -> [u8; FIELDS_LEN] {
        let mut fields = [0; FIELDS_LEN];
        fields[0..4].copy_from_slice(&self.tsn.0.to_be_bytes());
        fields[4..6].copy_from_slice(&self.stream.0.to_be_bytes());
        fields[8..12].copy_from_slice(&self.mid.0.to_be_bytes());
        let shared = if self.beginning { self.ppid.0 } else { self.fsn.0 };
        fields[12..16].copy_from_slice(&shared.to_be_bytes());
        fields
    }
}

impl EncodeChunk for IDataWriter<'_> {
    fn encoded_len(&self) -> usize {
        IData::HEADER_LEN + self.payload.len()
    }

    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        let mut header = [0; IData::HEADER_LEN];
        header[0] = kind::I_DATA;
        header[1] = self.flags();
        header[2..4].copy_from_slice(&(self.encoded_len() as u16).to_be_bytes());
        header[CHUNK_HEADER_LEN..].copy_from_slice(&self.fields());
        out.extend_from_slice(&header);
        out.extend_from_slice(self.payload);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::{check, check_refused};
    use super::*;

    #[test]
    fn the_shared_field_is_ppid_first_and_fsn_after() {
        let mut bytes = [
            64, 2, 0, 22, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 0, 0, 4, b'a', b'b',
        ];
        let mut chunk = IData {
            tsn: Tsn(1),
            stream: StreamId(2),
            mid: Mid(3),
            ppid: Ppid(4),
            fsn: Fsn(0),
            unordered: false,
            beginning: true,
            ending: false,
            immediate: false,
            repair: false,
            payload: Bytes::from_static(b"ab"),
        };
        check(&bytes, &Chunk::IData(chunk.clone()));
        bytes[1] = 1;
        chunk = IData {
            beginning: false,
            ending: true,
            ppid: Ppid(0),
            fsn: Fsn(4),
            ..chunk
        };
        check(&bytes, &Chunk::IData(chunk.clone()));
        bytes[1] = 16;
        chunk = IData {
            ending: false,
            repair: true,
            ..chunk
        };
        check(&bytes, &Chunk::IData(chunk));
    }

    #[test]
    fn user_data_is_required() {
        let empty = [64, 3, 0, 20, 0, 0, 0, 9, 0, 5, 0, 0, 0, 0, 0, 6, 0, 0, 0, 51];
        check_refused(&empty, ChunkError::NoUserData { tsn: Tsn(9) });
        check_refused(&[64, 0, 0, 6, 0, 0], ChunkError::Length { kind: 64 });
    }
}
