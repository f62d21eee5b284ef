//! Copies a capture (pcapng, draft-ietf-opsawg-pcapng) block by block, and replaces packets.

use std::io::{self, ErrorKind, Read, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// Where the packet of an Enhanced Packet Block begins.
const PACKET_AT: usize = 28;
/// The longest block: Wireshark accepts no longer ones either.
const MOST_BLOCK: u32 = 1 << 24;

/// Why a capture cannot be copied.
#[derive(Debug)]
pub(super) enum Problem {
    Read(io::Error),
    Write(io::Error),
    /// The file is of tcpdump's older form.
    Pcap,
    /// The file is something else.
    Other,
    /// A block is malformed.
    Malformed,
}

/// The byte order of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    /// The order of a section with this magic number.
    fn of(magic: [u8; 4]) -> Option<Self> {
        match magic {
            [0x4d, 0x3c, 0x2b, 0x1a] => Some(Self::Little),
            [0x1a, 0x2b, 0x3c, 0x4d] => Some(Self::Big),
            _ => None,
        }
    }

    fn read(self, block: &[u8], at: usize) -> Option<u32> {
        let bytes = *block.get(at..)?.first_chunk()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        })
    }

    fn write(self, value: usize) -> [u8; 4] {
        match self {
            Self::Little => (value as u32).to_le_bytes(),
            Self::Big => (value as u32).to_be_bytes(),
        }
    }
}

/// Copies a capture. `replace` gets the link type and the bytes of each packet, and may return other bytes. True if the capture ends within
/// a block, because its writer was killed.
pub(super) fn copy(
    mut input: impl Read,
    mut output: impl Write,
    mut replace: impl FnMut(u16, &[u8]) -> Option<Vec<u8>>,
) -> Result<bool, Problem> {
    let mut order = None;
    let mut link_types = Vec::new();
    let mut block = Vec::new();
    while next(&mut input, &mut order, &mut block)? {
        let Some(order) = order else {
            return Err(Problem::Other);
        };
        if block.is_empty() {
            output.flush().map_err(Problem::Write)?;
            return Ok(true);
        }
        match order.read(&block, 0) {
            Some(SECTION_HEADER) => link_types.clear(),
            Some(INTERFACE_DESCRIPTION) => {
                let pair = *block
                    .get(8..)
                    .and_then(|rest| rest.first_chunk())
                    .ok_or(Problem::Malformed)?;
                link_types.push(match order {
                    Order::Little => u16::from_le_bytes(pair),
                    Order::Big => u16::from_be_bytes(pair),
                });
            }
            Some(ENHANCED_PACKET) => {
                if let Some(replaced) = replaced(order, &block, &link_types, &mut replace)? {
                    block = replaced;
                }
            }
            _ => {}
        }
        output.write_all(&block).map_err(Problem::Write)?;
    }
    output.flush().map_err(Problem::Write)?;
    Ok(false)
}

/// Reads the next block; an empty one if the file ends within it. False at the end of the file.
fn next(input: &mut impl Read, order: &mut Option<Order>, block: &mut Vec<u8>) -> Result<bool, Problem> {
    block.clear();
    let mut more = |block: &mut Vec<u8>, len: usize| -> Result<bool, Problem> {
        let begin = block.len();
        block.resize(begin + len, 0);
        match input.read_exact(&mut block[begin..]) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(Problem::Read(error)),
        }
    };
    // The end of the file between two blocks is its end.
    if !more(block, 1)? {
        return if order.is_some() {
            Ok(false)
        } else {
            Err(Problem::Other)
        };
    }
    if !more(block, 11)? {
        block.clear();
        return Ok(true);
    }
    if block[..4] == SECTION_HEADER.to_be_bytes() {
        let magic = block[8..].first_chunk().copied().unwrap_or_default();
        *order = Some(Order::of(magic).ok_or(Problem::Malformed)?);
    }
    let Some(order) = *order else {
        let is_pcap = matches!(
            block[..4],
            [0xd4 | 0x4d, 0xc3 | 0x3c, 0xb2, 0xa1] | [0xa1, 0xb2, 0xc3 | 0x3c, 0xd4 | 0x4d]
        );
        return Err(if is_pcap { Problem::Pcap } else { Problem::Other });
    };
    let len = order.read(block, 4).unwrap_or(0);
    if len < 12 || !len.is_multiple_of(4) || len > MOST_BLOCK {
        return Err(Problem::Malformed);
    }
    if !more(block, len as usize - 12)? {
        block.clear();
    } else if order.read(block, len as usize - 4) != Some(len) {
        return Err(Problem::Malformed);
    }
    Ok(true)
}

/// The block with the packet that replaces its packet. Interface, time and options stay.
fn replaced(
    order: Order,
    block: &[u8],
    link_types: &[u16],
    replace: &mut impl FnMut(u16, &[u8]) -> Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>, Problem> {
    let field = |at| order.read(block, at).ok_or(Problem::Malformed);
    let (interface, captured, whole) = (field(8)? as usize, field(20)? as usize, field(24)? as usize);
    let end = block.len() - 4;
    let after = PACKET_AT + captured.next_multiple_of(4);
    let (Some(link_type), true) = (link_types.get(interface), after <= end) else {
        return Err(Problem::Malformed);
    };
    // Of a packet that was not captured as a whole, nothing can be decrypted.
    let packet = &block[PACKET_AT..PACKET_AT + captured];
    let Some(other) = (captured >= whole).then(|| replace(*link_type, packet)).flatten() else {
        return Ok(None);
    };
    let mut written = block[..20].to_vec();
    written.extend_from_slice(&order.write(other.len()));
    written.extend_from_slice(&order.write(other.len()));
    written.extend_from_slice(&other);
    written.resize(written.len().next_multiple_of(4), 0);
    written.extend_from_slice(&block[after..end]);
    let len = order.write(written.len() + 4);
    written[4..8].copy_from_slice(&len);
    written.extend_from_slice(&len);
    Ok(Some(written))
}

#[cfg(test)]
mod tests {
    use anabranch_netsim::PcapngWriter;
    use anabranch_proto::Timestamp;

    use super::*;

    fn capture(packets: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = PcapngWriter::new(&mut bytes, 7).unwrap();
        let interface = writer.add_interface("test").unwrap();
        let (from, to) = ("10.0.0.1:0".parse().unwrap(), "10.0.0.2:0".parse().unwrap());
        for packet in packets {
            writer
                .write(interface, Timestamp(5), from, to, packet, Some("comment"))
                .unwrap();
        }
        bytes
    }

    #[test]
    fn packets_are_replaced_and_all_else_stays() {
        let bytes = capture(&[b"one", b"another", b"last"]);
        let mut copied = Vec::new();
        let cut = copy(&bytes[..], &mut copied, |link_type, packet| {
            assert_eq!(link_type, 101);
            packet.ends_with(b"another").then(|| {
                // As the writer would have written this one.
                let other = capture(&[b"replaced"]);
                let begin = other.len() - 16 - 4 - 28;
                other[begin..begin + 28].to_vec()
            })
        });
        assert!(matches!(cut, Ok(false)));
        assert_eq!(copied, capture(&[b"one", b"replaced", b"last"]));
    }

    #[test]
    fn captures_that_end_early_are_copied_up_to_there() {
        let (bytes, first) = (capture(&[b"one", b"two"]), capture(&[b"one"]));
        for end in first.len() + 1..bytes.len() {
            let mut copied = Vec::new();
            let cut = copy(&bytes[..end], &mut copied, |_, _| None);
            assert!(matches!(cut, Ok(true)), "{end}");
            assert_eq!(copied, first);
        }
    }

    #[test]
    fn other_files_are_refused() {
        let result = |bytes: &[u8]| copy(bytes, io::sink(), |_, _| None);
        assert!(matches!(result(b""), Err(Problem::Other)));
        assert!(matches!(
            result(b"a text that is no capture"),
            Err(Problem::Other)
        ));
        for magic in [0xa1b2_c3d4_u32, 0xa1b2_3c4d] {
            for magic in [magic.to_le_bytes(), magic.to_be_bytes()] {
                assert!(matches!(
                    result(&[&magic[..], &[0; 20]].concat()),
                    Err(Problem::Pcap)
                ));
            }
        }
        let good = capture(&[b"one"]);
        for at in [4, 8, good.len() - 4, good.len() - 72 + 8] {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(matches!(result(&bad), Err(Problem::Malformed)), "{at}");
        }
    }

    #[test]
    fn sections_of_the_other_byte_order_are_read() {
        let block = |kind: u32, body: &[u8]| {
            let len = (body.len() as u32 + 12).to_be_bytes();
            [&kind.to_be_bytes()[..], &len, body, &len].concat()
        };
        let file = |packet: &[u8; 4]| {
            let header = [
                0x1a, 0x2b, 0x3c, 0x4d, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255,
            ];
            let mut body = [0; 20].to_vec();
            (body[15], body[19]) = (4, 4);
            body.extend_from_slice(packet);
            [
                block(SECTION_HEADER, &header),
                block(INTERFACE_DESCRIPTION, &[0, 101, 0, 0, 0, 0, 0, 0]),
                block(ENHANCED_PACKET, &body),
            ]
            .concat()
        };
        let mut copied = Vec::new();
        let cut = copy(&file(b"1234")[..], &mut copied, |link_type, packet| {
            assert_eq!((link_type, packet), (101, &b"1234"[..]));
            Some(b"5678".to_vec())
        });
        assert!(matches!(cut, Ok(false)));
        assert_eq!(copied, file(b"5678"));
    }
}
