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
use crate::chunk::{AuthPlan, CHUNK_HEADER_LEN, EncodeChunk, RawChunk, padded};
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

    /// Decodes the header of a packet, and verifies the checksum unless it is zero (RFC 9653 §5.3).
    ///
    /// # Errors
    /// The packet is too short, or its checksum is neither right nor zero.
    pub fn parse_or_zero_checksum(datagram: Bytes) -> Result<Self, PacketError> {
        if datagram.get(8..12).is_some_and(|checksum| checksum == [0; 4]) {
            Self::parse_unchecked(datagram)
        } else {
            Self::parse(datagram)
        }
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

    /// Whether the checksum is zero: then nothing may have verified the packet (RFC 9653 §5.3).
    #[must_use]
    pub fn has_zero_checksum(&self) -> bool {
        self.datagram[8..COMMON_HEADER_LEN] == [0; 4]
    }

    /// The whole packet as bytes.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.datagram
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
    authentication: Option<AuthPlan>,
    /// Where the AUTH chunk begins in the buffer, if the packet has one.
    auth_at: Option<usize>,
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
            authentication: None,
            auth_at: None,
        }
    }

    /// Adds an AUTH chunk before the first chunk that the plan names (RFC 4895 §6.2), if one follows. Its HMAC is zero until
    /// [`PacketWriter::authenticated`] fills it in.
    pub fn authenticate(&mut self, plan: AuthPlan) {
        self.authentication = Some(plan);
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

    /// Bytes that an AUTH chunk takes if a chunk of type `kind` comes next: 0 if none is needed, or if the packet has one already.
    #[must_use]
    pub fn auth_len_before(&self, kind: u8) -> usize {
        match &self.authentication {
            Some(plan) if self.auth_at.is_none() && plan.types.contains(kind) => plan.chunk_len(),
            _ => 0,
        }
    }

    /// Bytes left in the packet for a chunk of type `kind` and its padding, less the AUTH chunk that must precede it.
    #[must_use]
    pub fn room_for(&self, kind: u8) -> usize {
        self.room().saturating_sub(self.auth_len_before(kind))
    }

    /// Appends a chunk and its padding.
    pub fn push(&mut self, chunk: &impl EncodeChunk) {
        let at = self.append(chunk);
        self.put_auth_before(at);
    }

    /// Appends a chunk with another type number.
    pub fn push_as(&mut self, kind: u8, chunk: &impl EncodeChunk) {
        let at = self.append(chunk);
        self.buffer[at] = kind;
        self.put_auth_before(at);
    }

    fn append(&mut self, chunk: &impl EncodeChunk) -> usize {
        let before = self.buffer.len();
        chunk.encode(self.buffer);
        let written = self.buffer.len() - before;
        debug_assert_eq!(written, chunk.encoded_len(), "a chunk is as long as it says");
        self.buffer.resize(before + padded(written), 0);
        before
    }

    /// Moves the chunk that was just appended behind an AUTH chunk, if it is the first chunk that needs one.
    #[inline]
    fn put_auth_before(&mut self, at: usize) {
        if let Some(plan) = self.authentication {
            self.put_planned_auth_before(plan, at);
        }
    }

    fn put_planned_auth_before(&mut self, plan: AuthPlan, at: usize) {
        if self.auth_len_before(self.buffer[at]) > 0 {
            let end = self.buffer.len();
            self.append(&plan.blank());
            let auth_len = self.buffer.len() - end;
            self.buffer[at..].rotate_right(auth_len);
            self.auth_at = Some(at);
        }
    }

    /// The AUTH chunk, with an HMAC of zeros, and all chunks after it with their padding: the data of the HMAC (RFC 4895 §6.2). Its HMAC
    /// belongs at `Auth::HEADER_LEN`. `None` if no chunk of the packet has to be authenticated. Call this after the last chunk.
    pub fn authenticated(&mut self) -> Option<&mut [u8]> {
        self.auth_at.map(|at| &mut self.buffer[at..])
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
    use crate::chunk::{Auth, Chunk, ChunkTypes, CookieEcho, Shutdown, kind};
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
    fn an_auth_chunk_precedes_the_first_chunk_that_needs_one() {
        let plan = AuthPlan {
            types: ChunkTypes::from_iter([kind::SHUTDOWN, kind::SHUTDOWN_ACK]),
            shared_key_id: 5,
            hmac_id: 1,
            hmac_len: 3,
        };
        let shutdown = Shutdown {
            cumulative_tsn_ack: Tsn(9),
        };
        let mut buffer = vec![0xFF; 3];
        let mut packet = PacketWriter::new(&mut buffer, HEADER, 100);
        packet.authenticate(plan);
        packet.push(&Chunk::CookieAck);
        assert_eq!(packet.authenticated(), None);
        assert_eq!(packet.room_for(kind::COOKIE_ACK), packet.room());
        assert_eq!(packet.room_for(kind::SHUTDOWN), packet.room() - 12);
        packet.push(&shutdown);
        assert_eq!(packet.room_for(kind::SHUTDOWN), packet.room(), "it has an AUTH");
        packet.push(&Chunk::ShutdownAck);
        packet.push(&Chunk::CookieAck);
        assert_eq!(packet.room(), 100 - 12 - 4 - 12 - 8 - 4 - 4);
        let signed = packet.authenticated().unwrap();
        assert_eq!(signed[..12], [15, 0, 0, 11, 0, 5, 0, 1, 0, 0, 0, 0]);
        assert_eq!(signed.len(), 12 + 8 + 4 + 4);
        signed[Auth::HEADER_LEN..][..3].copy_from_slice(b"abc");
        let _ = packet.finish();
        let packet = Packet::parse(buffer.split_off(3).into()).unwrap();
        let chunks: Vec<_> = packet
            .chunks()
            .map(|raw| Chunk::decode(raw.unwrap()).unwrap())
            .collect();
        let auth = Auth {
            shared_key_id: 5,
            hmac_id: 1,
            hmac: Bytes::from_static(b"abc"),
        };
        assert_eq!(
            chunks,
            [
                Chunk::CookieAck,
                Chunk::Auth(auth),
                Chunk::Shutdown(shutdown),
                Chunk::ShutdownAck,
                Chunk::CookieAck
            ]
        );
        let second = packet.chunks().nth(1).unwrap().unwrap();
        assert_eq!(second.to_packet_end().len(), 12 + 8 + 4 + 4);
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
