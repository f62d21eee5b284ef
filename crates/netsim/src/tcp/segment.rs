//! A segment of TCP (RFC 9293 §3.1) with the options of RFC 7323 and RFC 2018.
//!
//! Links carry a segment's fields, not its bytes, because the cost of cross traffic determines how long experiments run. Of the data only
//! the length is stored. A capture writes the bytes, with zeros as data.

use std::net::SocketAddr;

use crate::ip;

const FLAG_SYN: u8 = 0x02;
const FLAG_PSH: u8 = 0x08;
const FLAG_ACK: u8 = 0x10;
const NO_OPERATION: u8 = 1;
const OPTION_MSS: u8 = 2;
const OPTION_WINDOW_SCALE: u8 = 3;
const OPTION_SACK_PERMITTED: u8 = 4;
const OPTION_SACK: u8 = 5;
const OPTION_TIMESTAMPS: u8 = 8;

/// A segment. Sequence numbers are not limited to 32 bits: they count from 0 (the SYN) and do not wrap. Their low 32 bits are written in
/// captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Segment {
    /// Sequence number of the first byte.
    pub sequence: u64,
    /// The next sequence number expected from the peer; `None` without the ACK flag.
    pub acknowledgement: Option<u64>,
    /// The SYN's options; `None` without the SYN flag.
    pub syn: Option<SynOptions>,
    /// Bytes of data.
    pub len: u16,
    /// Receive window of the segment's sender, in bytes.
    pub window: u32,
    /// The window scale (RFC 7323 §2), which does not apply in a SYN.
    pub window_shift: u8,
    /// TSval and TSecr in milliseconds (RFC 7323 §3).
    pub timestamps: Option<(u32, u32)>,
    /// Ranges received out of order.
    pub sack: SackBlocks,
    /// Whether the checksum is wrong.
    pub damaged: bool,
}

/// The options that only a SYN has, in addition to window scale and timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynOptions {
    /// Maximum segment size that the sender accepts, in bytes of data (RFC 9293 §3.7.1).
    pub mss: u16,
    /// Whether the peer may send SACK options (RFC 2018 §2).
    pub sack_permitted: bool,
}

/// Up to four blocks of the SACK option, as first sequence number and the one after the last (RFC 2018 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [(u64, u64); Self::MOST],
    len: u8,
}

impl SackBlocks {
    /// The most blocks that fit a header.
    pub const MOST: usize = 4;

    /// The first `most` of these blocks, but at most [`Self::MOST`].
    #[must_use]
    pub fn new(blocks: impl IntoIterator<Item = (u64, u64)>, most: usize) -> Self {
        let mut taken = Self::default();
        for block in blocks.into_iter().take(most.min(Self::MOST)) {
            taken.blocks[usize::from(taken.len)] = block;
            taken.len += 1;
        }
        taken
    }

    /// The blocks.
    #[must_use]
    pub fn as_slice(&self) -> &[(u64, u64)] {
        &self.blocks[..usize::from(self.len)]
    }
}

impl Segment {
    /// Bytes of header and data.
    #[must_use]
    pub fn wire_len(&self) -> usize {
        20 + self.options_len() + usize::from(self.len)
    }

    fn options_len(&self) -> usize {
        let syn = match self.syn {
            Some(options) => 8 + if options.sack_permitted { 4 } else { 0 },
            None => 0,
        };
        let timestamps = if self.timestamps.is_some() { 12 } else { 0 };
        let sack = match self.sack.as_slice().len() {
            0 => 0,
            blocks => 4 + 8 * blocks,
        };
        syn + timestamps + sack
    }

    /// Appends the IP packet that carries the segment.
    pub(crate) fn write_packet(
        &self,
        buffer: &mut Vec<u8>,
        source: SocketAddr,
        destination: SocketAddr,
        traffic_class: u8,
    ) {
        let len = self.wire_len();
        let addresses = (source.ip(), destination.ip());
        let pseudo_header_sum = ip::write_header(buffer, addresses, traffic_class, ip::PROTOCOL_TCP, len);
        let start = buffer.len();
        self.write_header(buffer, source.port(), destination.port());
        let checksum = ip::fold(pseudo_header_sum + ip::sum(&buffer[start..]));
        buffer[start + 16..start + 18].copy_from_slice(&checksum.to_be_bytes());
        buffer.resize(start + len, 0);
    }

    fn write_header(&self, buffer: &mut Vec<u8>, source_port: u16, destination_port: u16) {
        buffer.extend_from_slice(&source_port.to_be_bytes());
        buffer.extend_from_slice(&destination_port.to_be_bytes());
        put_u32(buffer, self.sequence as u32);
        put_u32(buffer, self.acknowledgement.unwrap_or(0) as u32);
        let mut flags = 0;
        let mut window = self.window >> self.window_shift;
        if self.syn.is_some() {
            flags |= FLAG_SYN;
            window = self.window;
        }
        if self.acknowledgement.is_some() {
            flags |= FLAG_ACK;
        }
        if self.len > 0 {
            flags |= FLAG_PSH;
        }
        let words = (20 + self.options_len()) / 4;
        buffer.extend_from_slice(&[(words as u8) << 4, flags]);
        let window = u16::try_from(window).unwrap_or(u16::MAX);
        buffer.extend_from_slice(&window.to_be_bytes());
        buffer.extend_from_slice(&[0; 4]); // The checksum, known at the end, and no urgent data.
        self.write_options(buffer);
    }

    /// Every option begins at a multiple of four bytes.
    fn write_options(&self, buffer: &mut Vec<u8>) {
        if let Some(options) = self.syn {
            buffer.extend_from_slice(&[OPTION_MSS, 4]);
            buffer.extend_from_slice(&options.mss.to_be_bytes());
            buffer.extend_from_slice(&[NO_OPERATION, OPTION_WINDOW_SCALE, 3, self.window_shift]);
            if options.sack_permitted {
                buffer.extend_from_slice(&[NO_OPERATION, NO_OPERATION, OPTION_SACK_PERMITTED, 2]);
            }
        }
        if let Some((value, echo)) = self.timestamps {
            buffer.extend_from_slice(&[NO_OPERATION, NO_OPERATION, OPTION_TIMESTAMPS, 10]);
            put_u32(buffer, value);
            put_u32(buffer, echo);
        }
        let blocks = self.sack.as_slice();
        if !blocks.is_empty() {
            let len = 2 + 8 * blocks.len() as u8;
            buffer.extend_from_slice(&[NO_OPERATION, NO_OPERATION, OPTION_SACK, len]);
            for (first, after) in blocks {
                put_u32(buffer, *first as u32);
                put_u32(buffer, *after as u32);
            }
        }
    }
}

fn put_u32(buffer: &mut Vec<u8>, value: u32) {
    buffer.extend_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(segment: Segment) -> Vec<u8> {
        let mut bytes = Vec::new();
        segment.write_packet(
            &mut bytes,
            "10.0.0.1:5001".parse().unwrap(),
            "10.0.0.2:80".parse().unwrap(),
            0,
        );
        bytes
    }

    #[test]
    fn a_segment_has_the_length_it_says_and_a_right_checksum() {
        let segment = Segment {
            sequence: (1 << 32) + 7,
            acknowledgement: Some(1),
            len: 1447,
            window: 1 << 20,
            window_shift: 5,
            timestamps: Some((3, 4)),
            sack: SackBlocks::new([(10, 20), (30, 40), (50, 60), (70, 80), (90, 99)], 3),
            ..Segment::default()
        };
        let bytes = written(segment);
        assert_eq!(segment.wire_len(), 20 + 12 + 28 + 1447);
        assert_eq!(bytes.len(), 20 + segment.wire_len());
        assert_eq!(usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), bytes.len());
        assert_eq!(bytes[9], 6);
        let pseudo = ip::sum(&bytes[12..20]) + 6 + segment.wire_len() as u64;
        assert_eq!(ip::fold(pseudo + ip::sum(&bytes[20..])), 0, "it sums to all ones");
        let header = &bytes[20..];
        assert_eq!(header[..4], [19, 137, 0, 80]);
        assert_eq!(header[4..8], [0, 0, 0, 7], "the low half of the sequence number");
        assert_eq!((header[12] >> 4) * 4, 60);
        assert_eq!(header[13], FLAG_ACK | FLAG_PSH);
        assert_eq!(u16::from_be_bytes([header[14], header[15]]), 1 << 15);
        assert_eq!(header[32..36], [1, 1, OPTION_SACK, 26]);
    }

    #[test]
    fn a_syn_says_what_the_connection_may_use() {
        let syn = Segment {
            syn: Some(SynOptions {
                mss: 1460,
                sack_permitted: true,
            }),
            window: 1 << 20,
            window_shift: 5,
            ..Segment::default()
        };
        let bytes = written(syn);
        let header = &bytes[20..];
        assert_eq!(header[13], FLAG_SYN);
        assert_eq!(header[14..16], [0xff, 0xff], "a SYN's window is not scaled");
        assert_eq!(header[20..], [2, 4, 5, 180, 1, 3, 3, 5, 1, 1, 4, 2]);
    }
}
