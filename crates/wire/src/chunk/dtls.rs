//! DTLS (draft-ietf-tsvwg-sctp-dtls-chunk §4.2): one DTLS 1.3 record that holds the encrypted chunks of a packet.
//!
//! ```text
//! | Type = 0x41   | reserved    |R|         Chunk Length          |
//! | Pre-Padding   |0 0 1 0 1 0 E E|      Sequence Number          |
//! |                     Encrypted Record ...                      |
//! ```
//!
//! The record header has the one form that the draft permits: no connection ID, a sequence number of 16 bits, no length. The pre-padding
//! puts the encrypted chunks at a multiple of 4 bytes, so that they can be encrypted where they are.

use alloc::vec::Vec;

use bytes::Bytes;

use super::{CHUNK_HEADER_LEN, ChunkError, EncodeChunk, RawChunk, kind, put_header};

/// The fixed bits of the record header, without the two bits of the epoch.
const RECORD_FORM: u8 = 0b0010_1000;

/// The two lowest bits: those of the epoch.
const EPOCH_BITS: u8 = 0b11;

/// The R bit of the chunk flags.
const RESTART: u8 = 1;

/// A DTLS chunk without its encrypted record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DtlsHeader {
    /// R bit: the record is protected with keys for a restart.
    pub restart: bool,
    /// The two lowest bits of the epoch.
    pub epoch: u8,
    /// The sequence number, encrypted (RFC 9147 §4.2.3).
    pub sequence: [u8; 2],
    /// Bytes of the encrypted record; at least [`Dtls::LEAST_ENCRYPTED`].
    pub len: usize,
}

impl DtlsHeader {
    /// Decodes the beginning of a chunk with a record. Only the draft's form of the record header is valid.
    ///
    /// # Errors
    /// The chunk is too short, or the record header has another form.
    pub fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        let [_, _, _, _, _, form, high, low, encrypted @ ..] = raw.as_slice() else {
            return Err(ChunkError::Length { kind: kind::DTLS });
        };
        if encrypted.len() < Dtls::LEAST_ENCRYPTED {
            return Err(ChunkError::Length { kind: kind::DTLS });
        }
        if form & !EPOCH_BITS != RECORD_FORM {
            return Err(ChunkError::RecordHeader);
        }
        Ok(Self {
            restart: Dtls::is_restart(raw),
            epoch: form & EPOCH_BITS,
            sequence: [*high, *low],
            len: encrypted.len(),
        })
    }
}

/// The encrypted chunks of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dtls {
    /// R bit: the record is protected with keys for a restart.
    pub restart: bool,
    /// The two lowest bits of the epoch.
    pub epoch: u8,
    /// The sequence number, encrypted (RFC 9147 §4.2.3).
    pub sequence: [u8; 2],
    /// The encrypted chunks, their content type and the tag of the AEAD.
    pub encrypted: Bytes,
}

impl Dtls {
    /// Bytes before the encrypted record: the chunk header, the pre-padding and the record header.
    pub const HEADER_LEN: usize = CHUNK_HEADER_LEN + 1 + Self::RECORD_HEADER_LEN;

    /// Bytes of the record header.
    pub const RECORD_HEADER_LEN: usize = 3;

    /// The fewest bytes of an encrypted record, from which the mask of the sequence number is made (RFC 9147 §4.2.3).
    pub const LEAST_ENCRYPTED: usize = 16;

    /// The record header with this epoch and sequence number.
    #[must_use]
    pub const fn record_header(epoch: u8, sequence: [u8; 2]) -> [u8; Self::RECORD_HEADER_LEN] {
        [RECORD_FORM | (epoch & EPOCH_BITS), sequence[0], sequence[1]]
    }

    /// The bytes before an encrypted record of `len` bytes.
    #[must_use]
    pub const fn header(
        restart: bool,
        record: [u8; Self::RECORD_HEADER_LEN],
        len: usize,
    ) -> [u8; Self::HEADER_LEN] {
        let [high, low] = ((Self::HEADER_LEN + len) as u16).to_be_bytes();
        [
            kind::DTLS,
            restart as u8,
            high,
            low,
            0,
            record[0],
            record[1],
            record[2],
        ]
    }

    /// Whether the chunk, which is a DTLS chunk, has the R bit: its record is protected with keys for a restart.
    #[must_use]
    pub const fn is_restart(raw: &RawChunk<'_>) -> bool {
        raw.flags & RESTART != 0
    }

    /// Decodes the chunk. Only the draft's form of the record header is valid.
    ///
    /// # Errors
    /// The chunk is too short, or the record header has another form.
    pub fn decode(raw: &RawChunk<'_>) -> Result<Self, ChunkError> {
        let DtlsHeader {
            restart,
            epoch,
            sequence,
            len: _,
        } = DtlsHeader::decode(raw)?;
        Ok(Self {
            restart,
            epoch,
            sequence,
            encrypted: raw.after(Self::HEADER_LEN),
        })
    }
}

impl EncodeChunk for Dtls {
    fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + self.encrypted.len()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        put_header(out, kind::DTLS, self.restart.into(), self.encoded_len());
        out.push(0);
        out.extend_from_slice(&Self::record_header(self.epoch, self.sequence));
        out.extend_from_slice(&self.encrypted);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Chunk;
    use super::super::tests::{check, check_refused};
    use super::*;

    const BYTES: [u8; 25] = [
        0x41, 1, 0, 25, 0, 0x2B, 0xAB, 0xCD, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
    ];

    #[test]
    fn round_trip() {
        let chunk = Dtls {
            restart: true,
            epoch: 3,
            sequence: [0xAB, 0xCD],
            encrypted: Bytes::copy_from_slice(&BYTES[8..]),
        };
        let record = Dtls::record_header(7, chunk.sequence);
        assert_eq!(Dtls::header(true, record, chunk.encrypted.len()), BYTES[..8]);
        check(&BYTES, &Chunk::Dtls(chunk));
    }

    #[test]
    fn reserved_bits_and_padding_are_ignored() {
        let mut bytes = BYTES;
        (bytes[1], bytes[4]) = (0xFF, 0xFF);
        let packet = Bytes::copy_from_slice(&bytes);
        let read = Dtls::decode(&RawChunk::new(&packet, 0, packet.len()));
        assert!(read.is_ok_and(|chunk| chunk.restart && chunk.encrypted.len() == 17));
    }

    #[test]
    fn other_records_are_refused() {
        check_refused(&BYTES[..23], ChunkError::Length { kind: 0x41 });
        for form in [0x0B, 0x3B, 0x23, 0x2F, 0x6B, 0xAB, 0x17] {
            let mut bytes = BYTES;
            bytes[5] = form;
            check_refused(&bytes, ChunkError::RecordHeader);
        }
    }
}
