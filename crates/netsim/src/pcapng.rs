//! Writes captures that Wireshark opens (pcapng, draft-ietf-opsawg-pcapng): raw IP, nanoseconds, several interfaces.
//!
//! This module does not use a crate, because it writes only four block types. The one crate for the format, `pcap-file`, has its current
//! form only as a release candidate and copies every packet into a block of its own.

use std::io::{self, Write};
use std::net::SocketAddr;

use anabranch_proto::Timestamp;

use crate::ip;
use crate::packet::Packet;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const LINKTYPE_RAW: u16 = 101;
const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_TIME_RESOLUTION: u16 = 9;

/// An interface of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceId(u32);

/// Writes a capture. It makes many small writes, so pass a buffered writer.
#[derive(Debug)]
pub struct PcapngWriter<W: Write> {
    out: W,
    /// Nanoseconds from 1970 to `Timestamp::ZERO`.
    origin: u64,
    interfaces: u32,
    /// Buffers for the block and its packet, kept to avoid allocations.
    block: Vec<u8>,
    packet: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Begins a capture. `origin` is the time of `Timestamp::ZERO` in nanoseconds since 1970; pass 0 in virtual time.
    ///
    /// # Errors
    /// An error of `out`.
    pub fn new(out: W, origin: u64) -> io::Result<Self> {
        let mut writer = Self {
            out,
            origin,
            interfaces: 0,
            block: Vec::new(),
            packet: Vec::new(),
        };
        writer.begin(SECTION_HEADER);
        writer.block.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        writer.block.extend_from_slice(&1_u16.to_le_bytes());
        writer.block.extend_from_slice(&0_u16.to_le_bytes());
        writer.block.extend_from_slice(&u64::MAX.to_le_bytes()); // The section's length is not known.
        writer.end()?;
        Ok(writer)
    }

    /// Adds an interface.
    ///
    /// # Errors
    /// An error of the output.
    pub fn add_interface(&mut self, name: &str) -> io::Result<InterfaceId> {
        self.begin(INTERFACE_DESCRIPTION);
        self.block.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        self.block.extend_from_slice(&[0; 2]);
        self.block.extend_from_slice(&0_u32.to_le_bytes()); // No snap length.
        self.option(OPTION_INTERFACE_NAME, name.as_bytes());
        self.option(OPTION_TIME_RESOLUTION, &[9]);
        self.option(OPTION_END, &[]);
        self.end()?;
        self.interfaces += 1;
        Ok(InterfaceId(self.interfaces - 1))
    }

    /// Writes the SCTP packet `payload` with generated IP headers, and with UDP headers if the ports are not 0. The ECN codepoint is
    /// Not-ECT; use [`Self::write_packet`] for another.
    ///
    /// # Errors
    /// An error of the output.
    pub fn write(
        &mut self,
        interface: InterfaceId,
        now: Timestamp,
        source: SocketAddr,
        destination: SocketAddr,
        payload: &[u8],
        comment: Option<&str>,
    ) -> io::Result<()> {
        self.write_with(interface, now, comment, |packet| {
            ip::write_packet(packet, source, destination, 0, payload);
        })
    }

    /// Writes a packet with its headers, including its ECN codepoint.
    ///
    /// # Errors
    /// An error of the output.
    pub fn write_packet(
        &mut self,
        interface: InterfaceId,
        now: Timestamp,
        packet: &Packet,
        comment: Option<&str>,
    ) -> io::Result<()> {
        self.write_with(interface, now, comment, |buffer| packet.write(buffer))
    }

    /// Writes the IP packet that the closure `write_packet` appends to its buffer.
    fn write_with(
        &mut self,
        interface: InterfaceId,
        now: Timestamp,
        comment: Option<&str>,
        write_packet: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()> {
        let mut packet = core::mem::take(&mut self.packet);
        packet.clear();
        write_packet(&mut packet);
        let time = self.origin.saturating_add(now.0);
        self.begin(ENHANCED_PACKET);
        let fields = [
            interface.0,
            (time >> 32) as u32,
            time as u32,
            packet.len() as u32,
            packet.len() as u32,
        ];
        for field in fields {
            self.block.extend_from_slice(&field.to_le_bytes());
        }
        self.block.extend_from_slice(&packet);
        self.pad();
        if let Some(comment) = comment {
            self.option(OPTION_COMMENT, comment.as_bytes());
            self.option(OPTION_END, &[]);
        }
        self.packet = packet;
        self.end()
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// An error of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.block.extend_from_slice(&kind.to_le_bytes());
        self.block.extend_from_slice(&[0; 4]); // The length, known at the end.
    }

    fn end(&mut self) -> io::Result<()> {
        let len = (self.block.len() as u32 + 4).to_le_bytes();
        self.block[4..8].copy_from_slice(&len);
        self.block.extend_from_slice(&len);
        self.out.write_all(&self.block)
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.block.extend_from_slice(&code.to_le_bytes());
        self.block.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.block.extend_from_slice(value);
        self.pad();
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Iterates over the blocks: type and body of each. Checks the lengths at both ends of a block.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, &[u8])> {
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let len = word(4) as usize;
            assert_eq!(len % 4, 0);
            assert_eq!(word(len - 4) as usize, len);
            blocks.push((word(0), &bytes[8..len - 4]));
            bytes = &bytes[len..];
        }
        blocks
    }

    #[test]
    fn a_capture_has_its_blocks() {
        let mut bytes = Vec::new();
        let mut writer = PcapngWriter::new(&mut bytes, 1_000_000_000_000_000_000).unwrap();
        writer.add_interface("a → b").unwrap();
        let second = writer.add_interface("b → a").unwrap();
        let (from, to) = ("10.0.0.1:0".parse().unwrap(), "10.0.0.2:0".parse().unwrap());
        writer
            .write(second, Timestamp(5), from, to, b"five!", Some("lost"))
            .unwrap();
        let blocks = blocks(&bytes);
        let kinds: Vec<_> = blocks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(
            kinds,
            [
                SECTION_HEADER,
                INTERFACE_DESCRIPTION,
                INTERFACE_DESCRIPTION,
                ENHANCED_PACKET
            ]
        );
        let body = blocks[3].1;
        let word = |at: usize| u64::from(u32::from_le_bytes(body[at..at + 4].try_into().unwrap()));
        assert_eq!(word(0), 1, "the interface");
        assert_eq!(word(4) << 32 | word(8), 1_000_000_000_000_000_005);
        assert_eq!((word(12), word(16)), (25, 25));
        assert_eq!(&body[40..45], b"five!");
        assert_eq!(
            &body[48..56],
            b"\x01\0\x04\0lost",
            "the comment follows the padding"
        );
    }
}
