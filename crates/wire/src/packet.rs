//! Packets: the common header and the chunks after it (RFC 9260 §3, §3.1, §6.8, §6.10).
//!
//! ```text
//! |     Source Port Number        |   Destination Port Number     |
//! |                      Verification Tag                         |
//! |                           Checksum                            |
//! |                           Chunk #1 ...                        |
//! ```

use alloc::vec::Vec;

use bytes::Bytes;

use crate::checksum::crc32c;
use crate::chunk::{CHUNK_HEADER_LEN, EncodeChunk, RawChunk, padded};
use crate::types::VerificationTag;

/// Bytes of the common header.
pub const COMMON_HEADER_LEN: usize = 12;

/// Ports and verification tag of a packet (§3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonHeader {
    /// The sender's SCTP port.
    pub source_port: u16,
    /// The receiver's SCTP port.
    pub destination_port: u16,
    /// Proves that the packet belongs to an association.
    pub verification_tag: VerificationTag,
}

/// A received packet. Its header has been decoded; its chunks are decoded one by one, in [`Packet::chunks`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Ports and verification tag.
    pub header: CommonHeader,
    datagram: Bytes,
}

/// Why bytes are not a packet, or why the next bytes in a packet are not a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Fewer bytes than the 12 of the common header; their number.
    #[error("{0} bytes are fewer than the 12 of a common header")]
    Truncated(usize),
    /// The checksum does not match the bytes (§6.8).
    #[error("the checksum is {found:#010x} and should be {computed:#010x}")]
    Checksum {
        /// The checksum in the packet.
        found: u32,
        /// The checksum computed from its bytes.
        computed: u32,
    },
    /// The length field is smaller than the chunk's header or larger than the rest of the packet.
    #[error("a chunk claims {claimed} bytes where {left} are left")]
    ChunkLength {
        /// Length in bytes that the length field states.
        claimed: usize,
        /// Bytes left in the packet.
        left: usize,
    },
}

impl Packet {
    /// Decodes the header of a packet and verifies the checksum.
    ///
    /// # Errors
    /// The packet is too short, or its checksum is wrong.
    pub fn parse(datagram: Bytes) -> Result<Self, PacketError> {
        if datagram.len() >= COMMON_HEADER_LEN {
            let found = u32::from_le_bytes([datagram[8], datagram[9], datagram[10], datagram[11]]);
            let computed = crc32c(&datagram);
            if found != computed {
                return Err(PacketError::Checksum { found, computed });
            }
        }
        Self::parse_unchecked(datagram)
    }

    /// Decodes the header of a packet without verifying the checksum (RFC 9653, tests).
    ///
    /// # Errors
    /// The packet is too short.
    pub fn parse_unchecked(datagram: Bytes) -> Result<Self, PacketError> {
        if datagram.len() < COMMON_HEADER_LEN {
            return Err(PacketError::Truncated(datagram.len()));
        }
        let header = CommonHeader {
            source_port: u16::from_be_bytes([datagram[0], datagram[1]]),
            destination_port: u16::from_be_bytes([datagram[2], datagram[3]]),
            verification_tag: VerificationTag(u32::from_be_bytes([
                datagram[4],
                datagram[5],
                datagram[6],
                datagram[7],
            ])),
        };
        Ok(Self { header, datagram })
    }

    /// The chunks, in order.
    #[must_use]
    pub fn chunks(&self) -> Chunks<'_> {
        Chunks {
            packet: &self.datagram,
            at: COMMON_HEADER_LEN,
        }
    }

    /// Length of the whole packet in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.datagram.len()
    }

    /// Whether the packet has no bytes after the common header.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.datagram.len() == COMMON_HEADER_LEN
    }
}

/// The chunks of a packet; ends after the first error.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    packet: &'a Bytes,
    at: usize,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<RawChunk<'a>, PacketError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.packet.get(self.at..)?;
        let left = rest.len();
        if left == 0 {
            return None;
        }
        let claimed = match rest {
            [_, _, high, low, ..] => usize::from(u16::from_be_bytes([*high, *low])),
            _ => left,
        };
        if claimed < CHUNK_HEADER_LEN || claimed > left {
            self.at = self.packet.len();
            return Some(Err(PacketError::ChunkLength { claimed, left }));
        }
        let start = self.at;
        // The padding of the last chunk may be missing (§3.2).
        self.at = start + padded(claimed);
        Some(Ok(RawChunk::new(self.packet, start, start + claimed)))
    }
}

/// Appends one packet to a buffer.
#[derive(Debug)]
pub struct PacketWriter<'a> {
    buffer: &'a mut Vec<u8>,
    start: usize,
    max_len: usize,
}

impl<'a> PacketWriter<'a> {
    /// Begins a packet of at most `max_len` bytes after the bytes that the buffer already holds.
    pub fn new(buffer: &'a mut Vec<u8>, header: CommonHeader, max_len: usize) -> Self {
        let start = buffer.len();
        buffer.reserve(max_len);
        let mut fields = [0; COMMON_HEADER_LEN];
        fields[..2].copy_from_slice(&header.source_port.to_be_bytes());
        fields[2..4].copy_from_slice(&header.destination_port.to_be_bytes());
        fields[4..8].copy_from_slice(&header.verification_tag.0.to_be_bytes());
        buffer.extend_from_slice(&fields);
        Self {
            buffer,
            start,
            max_len,
        }
    }

    /// Length of the packet so far, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Whether the packet has no chunk yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == COMMON_HEADER_LEN
    }

    /// Bytes left in the packet for chunks and their padding.
    #[must_use]
    pub fn room(&self) -> usize {
        self.max_len.saturating_sub(self.len())
    }

    /// Appends a chunk and its padding.
    pub fn push(&mut self, chunk: &impl EncodeChunk) {
        let before = self.buffer.len();
        chunk.encode(self.buffer);
        let written = self.buffer.len() - before;
        debug_assert_eq!(written, chunk.encoded_len(), "a chunk is as long as it says");
        self.buffer.resize(before + padded(written), 0);
    }

    /// Appends a chunk with another type number.
    pub fn push_as(&mut self, kind: u8, chunk: &impl EncodeChunk) {
        let at = self.buffer.len();
        self.push(chunk);
        self.buffer[at] = kind;
    }

    /// Fills in the checksum and returns the packet's length in bytes.
    #[must_use]
    pub fn finish(self) -> usize {
        let checksum = crc32c(&self.buffer[self.start..]);
        self.buffer[self.start + 8..self.start + 12].copy_from_slice(&checksum.to_le_bytes());
        self.len()
    }

    /// Leaves the checksum zero, for a peer that accepts this (RFC 9653), and returns the packet's length in bytes.
    #[must_use]
    pub fn finish_with_zero_checksum(self) -> usize {
        self.len()
    }

    /// Removes the packet from the buffer.
    pub fn discard(self) {
        self.buffer.truncate(self.start);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::chunk::{Chunk, CookieEcho, Shutdown};
    use crate::types::Tsn;

    const HEADER: CommonHeader = CommonHeader {
        source_port: 7,
        destination_port: 40_000,
        verification_tag: VerificationTag(0xDEAD_BEEF),
    };

    fn two_chunks() -> Vec<u8> {
        let mut buffer = vec![0xFF; 3];
        let mut packet = PacketWriter::new(&mut buffer, HEADER, 100);
        assert!(packet.is_empty());
        packet.push(&CookieEcho {
            cookie: Bytes::from_static(b"abcde"),
        });
        packet.push(&Shutdown {
            cumulative_tsn_ack: Tsn(9),
        });
        assert_eq!(packet.room(), 100 - 12 - 12 - 8);
        assert_eq!(packet.finish(), 32);
        buffer.split_off(3)
    }

    #[test]
    fn what_is_written_is_read() {
        let packet = Packet::parse(two_chunks().into()).unwrap();
        assert_eq!(packet.header, HEADER);
        let chunks: Vec<_> = packet
            .chunks()
            .map(|raw| Chunk::decode(raw.unwrap()).unwrap())
            .collect();
        assert_eq!(
            chunks,
            [
                Chunk::CookieEcho(CookieEcho {
                    cookie: Bytes::from_static(b"abcde")
                }),
                Chunk::Shutdown(Shutdown {
                    cumulative_tsn_ack: Tsn(9)
                })
            ]
        );
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_is_noticed() {
        let bytes = two_chunks();
        for len in 0..bytes.len() {
            assert!(
                Packet::parse(Bytes::copy_from_slice(&bytes[..len])).is_err(),
                "{len} bytes"
            );
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(
                matches!(Packet::parse(damaged.into()), Err(PacketError::Checksum { .. })),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_bad_length_ends_the_packet() {
        for claimed in [0_u16, 3, 17, 0xFFFF] {
            let mut bytes = two_chunks();
            bytes[26..28].copy_from_slice(&claimed.to_be_bytes());
            let packet = Packet::parse_unchecked(bytes.into()).unwrap();
            let mut chunks = packet.chunks();
            assert!(chunks.next().unwrap().is_ok());
            assert!(matches!(
                chunks.next(),
                Some(Err(PacketError::ChunkLength { left: 8, .. }))
            ));
            assert!(chunks.next().is_none());
        }
    }
}
