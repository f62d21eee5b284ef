//! The content of a capture: the chunks of packets over UDP and IPv4, in the order of the file.

use std::net::{Ipv4Addr, SocketAddrV4};

/// The beginning of a chunk.
#[allow(dead_code, reason = "each test program uses its part of it")]
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    /// Source address and UDP port of the packet.
    pub(crate) source: SocketAddrV4,
    /// Destination address of the packet.
    #[allow(dead_code, reason = "not every test that shares this asks for it")]
    pub(crate) destination: Ipv4Addr,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    /// The value; of DATA and I-DATA at most 64 bytes.
    pub(crate) value: Vec<u8>,
}

/// The chunks of a pcapng file.
pub(crate) fn chunks(mut file: &[u8]) -> Vec<Captured> {
    const ENHANCED_PACKET: u32 = 6;
    const PACKET_AT: usize = 28;
    const UDP_AT: usize = PACKET_AT + 20;
    // UDP header, common header.
    const CHUNKS_AT: usize = UDP_AT + 8 + 12;
    let word = |at: usize, file: &[u8]| u32::from_le_bytes(file[at..at + 4].try_into().expect("4 bytes"));
    let mut found = Vec::new();
    while file.len() >= 12 {
        let (block, rest) = file.split_at(word(4, file) as usize);
        file = rest;
        if word(0, block) != ENHANCED_PACKET {
            continue;
        }
        let [address, destination] = [12, 16].map(|place| {
            let octets: [u8; 4] = block[PACKET_AT + place..][..4].try_into().expect("4 bytes");
            Ipv4Addr::from(octets)
        });
        let port = u16::from_be_bytes([block[UDP_AT], block[UDP_AT + 1]]);
        let source = SocketAddrV4::new(address, port);
        let mut chunks = &block[CHUNKS_AT..PACKET_AT + word(20, block) as usize];
        while let [kind, flags, high, low, ..] = *chunks {
            let len = usize::from(u16::from_be_bytes([high, low]));
            let most = if matches!(kind, 0 | 64) { 68 } else { len };
            let value = chunks[4..len.min(most).clamp(4, chunks.len())].to_vec();
            found.push(Captured {
                source,
                destination,
                kind,
                flags,
                value,
            });
            let len = len.next_multiple_of(4);
            chunks = &chunks[len.min(chunks.len())..];
        }
    }
    found
}
