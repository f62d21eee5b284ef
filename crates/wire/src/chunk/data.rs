//! DATA (RFC 9260 §3.3.1).
//!
//! ```text
//! |   Type = 0    |  Res  |I|U|B|E|            Length             |
//! |                              TSN                              |
//! |      Stream Identifier S      |   Stream Sequence Number n    |
//! |                  Payload Protocol Identifier                  |
//! |               User Data (seq n of Stream S) ...               |
//! ```

use alloc::vec::Vec;

use bytes::Bytes;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, kind};
use crate::types::{Ppid, Ssn, StreamId, Tsn};

/// A fragment of a user message, or an unfragmented message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    /// Transmission Sequence Number of the chunk.
    pub tsn: Tsn,
    /// The stream of the message.
    pub stream: StreamId,
    /// Sequence number of the message in its stream; without meaning if the message is unordered.
    pub ssn: Ssn,
    /// Payload protocol identifier, for the application.
    pub ppid: Ppid,
    /// U: unordered delivery.
    pub unordered: bool,
    /// B: the first fragment of its message.
    pub beginning: bool,
    /// E: the last fragment of its message.
    pub ending: bool,
    /// I: the receiver should acknowledge the chunk at once (RFC 7053).
    pub immediate: bool,
    /// User data, at least one byte.
    pub payload: Bytes,
}

/// Bytes from the TSN to the user data.
const FIELDS_LEN: usize = 12;

pub(super) const ENDING: u8 = 1;
pub(super) const BEGINNING: u8 = 2;
pub(super) const UNORDERED: u8 = 4;
pub(super) const IMMEDIATE: u8 = 8;
/// Experimental, of I-DATA and E-I-DATA: [`super::IData::repair`].
pub(super) const REPAIR: u8 = 16;

/// The flag bits of DATA and I-DATA.
pub(super) fn flags(immediate: bool, unordered: bool, beginning: bool, ending: bool) -> u8 {
    let bits = [
        (immediate, IMMEDIATE),
        (unordered, UNORDERED),
        (beginning, BEGINNING),
        (ending, ENDING),
    ];
    bits.into_iter()
        .fold(0, |flags, (set, bit)| if set { flags | bit } else { flags })
}

impl Data {
    /// Bytes before the user data.
    pub const HEADER_LEN: usize = CHUNK_HEADER_LEN + FIELDS_LEN;

    /// Decodes a chunk of this type.
    ///
    /// # Errors
    /// The chunk is too short or has no user data.
    pub fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        Self::decode_at(raw, CHUNK_HEADER_LEN)
    }

    /// Like [`Self::decode`], for a chunk whose TSN is `at` bytes from the chunk's beginning, followed by the other fields.
    pub(super) fn decode_at(raw: &RawChunk<'_>, at: usize) -> Result<Self, ChunkError> {
        let whole = raw.as_slice();
        let header_len = at + FIELDS_LEN;
        if whole.len() < header_len {
            return Err(ChunkError::Length { kind: raw.kind });
        }
        let fields = &whole[at..header_len];
        let u16_at = |at: usize| u16::from_be_bytes([fields[at], fields[at + 1]]);
        let u32_at =
            |at: usize| u32::from_be_bytes([fields[at], fields[at + 1], fields[at + 2], fields[at + 3]]);
        let tsn = Tsn(u32_at(0));
        if whole.len() == header_len {
            return Err(ChunkError::NoUserData { tsn });
        }
        Ok(Self {
            tsn,
            stream: StreamId(u16_at(4)),
            ssn: Ssn(u16_at(6)),
            ppid: Ppid(u32_at(8)),
            unordered: raw.flags & UNORDERED != 0,
            beginning: raw.flags & BEGINNING != 0,
            ending: raw.flags & ENDING != 0,
            immediate: raw.flags & IMMEDIATE != 0,
            payload: raw.after(header_len),
        })
    }

    pub(super) fn writer(&self) -> DataWriter<'_> {
        DataWriter {
            tsn: self.tsn,
            stream: self.stream,
            ssn: self.ssn,
            ppid: self.ppid,
            unordered: self.unordered,
            beginning: self.beginning,
            ending: self.ending,
            immediate: self.immediate,
            payload: &self.payload,
        }
    }
}

impl EncodeChunk for Data {
    fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + self.payload.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.writer().encode(out);
    }
}

/// Encodes a DATA chunk without copying the user data first. The fields are those of [`Data`].
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are those of `Data`")]
pub struct DataWriter<'a> {
    pub tsn: Tsn,
    pub stream: StreamId,
    pub ssn: Ssn,
    pub ppid: Ppid,
    pub unordered: bool,
    pub beginning: bool,
    pub ending: bool,
    pub immediate: bool,
    pub payload: &'a [u8],
}

impl DataWriter<'_> {
    pub(super) fn flags(&self) -> u8 {
        flags(self.immediate, self.unordered, self.beginning, self.ending)
    }

    /// The fields between the chunk header and the user data.
    pub(super) fn fields(&self) -> [u8; FIELDS_LEN] {
        let mut fields = [0; FIELDS_LEN];
        fields[0..4].copy_from_slice(&self.tsn.0.to_be_bytes());
        fields[4..6].copy_from_slice(&self.stream.0.to_be_bytes());
        fields[6..8].copy_from_slice(&self.ssn.0.to_be_bytes());
        fields[8..12].copy_from_slice(&self.ppid.0.to_be_bytes());
        fields
    }
}

impl EncodeChunk for DataWriter<'_> {
    fn encoded_len(&self) -> usize {
        Data::HEADER_LEN + self.payload.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut header = [0; Data::HEADER_LEN];
        header[0] = kind::DATA;
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
    fn round_trip() {
        let bytes = [
            0, 0x0B, 0, 19, 1, 2, 3, 4, 0, 5, 0, 6, 0, 0, 0, 51, b'h', b'e', b'y',
        ];
        check(
            &bytes,
            &Chunk::Data(Data {
                tsn: Tsn(0x0102_0304),
                stream: StreamId(5),
                ssn: Ssn(6),
                ppid: Ppid(51),
                unordered: false,
                beginning: true,
                ending: true,
                immediate: true,
                payload: Bytes::from_static(b"hey"),
            }),
        );
    }

    #[test]
    fn user_data_is_required() {
        let empty = [0, 3, 0, 16, 0, 0, 0, 9, 0, 5, 0, 6, 0, 0, 0, 51];
        check_refused(&empty, ChunkError::NoUserData { tsn: Tsn(9) });
        check_refused(&[0, 3, 0, 8, 0, 0, 0, 9], ChunkError::Length { kind: 0 });
    }
}
