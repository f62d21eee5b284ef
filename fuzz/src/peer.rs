//! The peer of the target `association`: it has the state of a regular peer and writes the packets that the input selects.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use anabranch_testkit::state_cookie;
use anabranch_wire::chunk::{
    CHUNK_HEADER_LEN, Chunk, CoopSackWriter, EncodeChunk, GapAckBlock, NrSackWriter, PathReportWriter,
    PathSequence, SackWriter, experimental_kind, kind,
};
use anabranch_wire::packet::Packet;
use anabranch_wire::parameter::Parameters;
use anabranch_wire::{Psn, Tsn, VerificationTag, crc32c};
use bytes::Bytes;

use crate::family::{Family, parameter};
use crate::input::Input;
use crate::node::Sent;

/// The SCTP port of the endpoint.
pub(crate) const PORT: u16 = 5000;
/// The addresses of the peer: 10.0.0.2 and following.
pub(crate) const ADDRESSES: u8 = 4;

/// See the [module's documentation](self).
pub(crate) struct Peer {
    /// Source address of its packets.
    pub(crate) remote: SocketAddr,
    pub(crate) port: u16,
    pub(crate) endpoint_port: u16,
    /// The verification tag of packets to the peer.
    pub(crate) tag: u32,
    /// The verification tag of packets to the endpoint.
    pub(crate) endpoint_tag: u32,
    /// The next TSN, and the next SSN of a few streams.
    pub(crate) tsn: Tsn,
    pub(crate) ssns: [u16; 4],
    /// Whether the peer sends I-DATA, and the next FSN of the same streams.
    pub(crate) interleaves: bool,
    fsns: [u8; 4],
    /// Whether the peer uses ECA-SCTP: the next PSN on each of its paths, and the next PSNs that the endpoint will use.
    pub(crate) cooperates: bool,
    psns: [u32; ADDRESSES as usize],
    endpoint_psns: [u32; ADDRESSES as usize],
    clock: u32,
    /// The highest TSN that the endpoint has sent, and the highest one acknowledged.
    pub(crate) highest: Tsn,
    pub(crate) acked: Tsn,
    pub(crate) cookie: Bytes,
    pub(crate) family: Family,
    /// Heartbeats that the peer can answer.
    heartbeats: VecDeque<Bytes>,
    /// Types of the chunks that the endpoint has sent since the last check.
    pub(crate) seen: Vec<u8>,
}

impl Peer {
    pub(crate) fn new(port: u16, tsn: Tsn) -> Self {
        Self {
            remote: SocketAddr::new(address(0), 9899),
            port,
            endpoint_port: PORT,
            tag: 0x00c0_ffee,
            endpoint_tag: 0,
            tsn,
            interleaves: false,
            fsns: [0; 4],
            cooperates: false,
            psns: [0; ADDRESSES as usize],
            endpoint_psns: [0; ADDRESSES as usize],
            clock: 0,
            ssns: [0; 4],
            highest: Tsn(0),
            acked: Tsn(0),
            cookie: Bytes::new(),
            family: Family::new(tsn, false),
            heartbeats: VecDeque::new(),
            seen: Vec::new(),
        }
    }

    /// A packet with these chunks, padded, and this tag.
    pub(crate) fn packet(&self, tag: u32, chunks: &[u8]) -> Bytes {
        let mut packet = Vec::with_capacity(12 + chunks.len());
        packet.extend_from_slice(&self.port.to_be_bytes());
        packet.extend_from_slice(&self.endpoint_port.to_be_bytes());
        packet.extend_from_slice(&tag.to_be_bytes());
        packet.extend_from_slice(&[0; 4]);
        packet.extend_from_slice(chunks);
        let sum = crc32c(&packet);
        packet[8..12].copy_from_slice(&sum.to_le_bytes());
        packet.into()
    }

    /// Handles a packet of the endpoint.
    pub(crate) fn observe(&mut self, sent: Sent) {
        let packet = Packet::parse_unchecked(sent.datagram).expect("it was checked");
        if packet.header.destination_port != self.port {
            return;
        }
        for raw in packet.chunks().flatten() {
            self.seen.push(raw.kind);
            if let Some([next, endpoint_next]) = self.family.observe(&raw) {
                self.tsn = next;
                self.highest = endpoint_next.minus(1);
                self.acked = endpoint_next.minus(1);
            }
            match Chunk::decode(raw) {
                Ok(Chunk::Data(data)) if data.tsn.is_after(self.highest) => self.highest = data.tsn,
                Ok(Chunk::IData(data)) if data.tsn.is_after(self.highest) => self.highest = data.tsn,
                Ok(Chunk::EData(chunk)) => self.note_transmission(chunk.transmission, chunk.data.tsn),
                Ok(Chunk::EIData(chunk)) => self.note_transmission(chunk.transmission, chunk.data.tsn),
                Ok(Chunk::Heartbeat(heartbeat)) => {
                    self.heartbeats.truncate(7);
                    self.heartbeats.push_front(heartbeat.info().unwrap_or_default());
                }
                Ok(Chunk::Init(init)) => {
                    self.endpoint_port = packet.header.source_port;
                    self.meet(init.initiate_tag, init.initial_tsn, &init.parameters);
                }
                Ok(Chunk::InitAck(ack)) => {
                    self.meet(ack.initiate_tag, ack.initial_tsn, &ack.parameters);
                    self.cookie = state_cookie(&ack);
                }
                _ => {}
            }
        }
    }

    fn note_transmission(&mut self, transmission: PathSequence, tsn: Tsn) {
        if tsn.is_after(self.highest) {
            self.highest = tsn;
        }
        if let Some(next) = self.endpoint_psns.get_mut(usize::from(transmission.path)) {
            *next = (*next).max(transmission.number.get() + 1);
        }
    }

    fn meet(&mut self, tag: VerificationTag, tsn: Tsn, parameters: &Parameters) {
        self.family.meet(parameters);
        self.endpoint_tag = tag.0;
        self.highest = tsn.minus(1);
        self.acked = tsn.minus(1);
    }

    /// INIT (1) or INIT ACK (2) with a few of the peer's addresses.
    pub(crate) fn init(&self, kind: u8, addresses: u8, streams: u16, a_rwnd: u32, extra: &[u8]) -> Vec<u8> {
        let mut value = self.tag.to_be_bytes().to_vec();
        value.extend_from_slice(&a_rwnd.to_be_bytes());
        value.extend_from_slice(&streams.to_be_bytes());
        value.extend_from_slice(&streams.to_be_bytes());
        value.extend_from_slice(&self.tsn.0.to_be_bytes());
        for number in 0..addresses {
            let IpAddr::V4(ip) = address(number) else { continue };
            value.extend_from_slice(&[0, 5, 0, 8]);
            value.extend_from_slice(&ip.octets());
        }
        if kind == 2 {
            value.extend_from_slice(&[0, 7, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8]);
        }
        // The peer supports every extension.
        let mut kinds = vec![
            kind::FORWARD_TSN,
            kind::NR_SACK,
            kind::RE_CONFIG,
            experimental_kind::SELECTIVE_FORWARD_TSN,
            experimental_kind::EXTENDED_FORWARD_TSN,
            kind::I_DATA,
            kind::I_FORWARD_TSN,
            experimental_kind::E_DATA,
            experimental_kind::E_I_DATA,
            experimental_kind::COOP_SACK,
            experimental_kind::FORWARD_PSN,
        ];
        if self.family.signs {
            kinds.extend([kind::AUTH, kind::ASCONF, kind::ASCONF_ACK]);
            value.extend_from_slice(Family::parameters().as_bytes());
        }
        value.extend(parameter(0x8008, &kinds));
        value.extend(parameter(0xC000, &[]));
        // An INIT of realistic size, because its answer may not be much larger.
        if kind == 1 {
            value.extend_from_slice(&[0x80, 5, 0, 64]);
            value.resize(value.len() + 60, 0);
        }
        value.extend_from_slice(extra);
        chunk(kind, 0, &value)
    }

    /// DATA with a TSN near the next one, and an SSN near the next one of its stream.
    pub(crate) fn data(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let bits = input.u8();
        // The usual case: the next unfragmented message.
        let (tsn_ahead, stream, ssn_ahead, flags) = if bits & 0x80 == 0 {
            (0, u16::from(bits & 3), 0, 3 | bits >> 2 & 4)
        } else {
            (input.u8(), u16::from(input.u8()), input.u8(), bits)
        };
        let len = 1 + match bits >> 4 & 3 {
            0 => u16::from(input.u8() & 15),
            1 => u16::from(input.u8()),
            _ => input.u16() % 1400,
        };
        let tsn = self
            .tsn
            .plus(tsn_ahead.into())
            .minus(u32::from(tsn_ahead & 0x80 != 0) << 8);
        let next = &mut self.ssns[usize::from(stream % 4)];
        let ssn = next.wrapping_add((ssn_ahead as i8) as u16);
        let ordered_end = flags & 5 == 1;
        if tsn_ahead == 0 {
            self.tsn = self.tsn.next();
        }
        if ordered_end && ssn_ahead == 0 {
            *next = next.wrapping_add(1);
        }
        let mut value = tsn.0.to_be_bytes().to_vec();
        value.extend_from_slice(&stream.to_be_bytes());
        if !self.interleaves {
            value.extend_from_slice(&ssn.to_be_bytes());
            value.extend_from_slice(&[0; 4]);
            value.resize(value.len() + usize::from(len), bits);
            return self.carried(kind::DATA, flags & 15, &value, bits);
        }
        // The next fragment, but some fragments are out of order.
        let fsn = &mut self.fsns[usize::from(stream % 4)];
        let behind = u8::from(bits & 0x80 != 0 && ssn_ahead & 0x40 != 0);
        *fsn = if flags & 2 != 0 { 0 } else { fsn.wrapping_add(1) };
        value.extend_from_slice(&[0; 4]);
        value.extend_from_slice(&ssn.to_be_bytes());
        value.extend_from_slice(&[
            0,
            0,
            0,
            if flags & 2 != 0 {
                0
            } else {
                fsn.wrapping_add(behind)
            },
        ]);
        value.resize(value.len() + usize::from(len), bits);
        self.carried(kind::I_DATA, flags & 15, &value, bits)
    }

    /// A chunk of data, with the next transmission number if ECA-SCTP is in use; `bits` may make the number wrong.
    pub(crate) fn carried(&mut self, kind: u8, flags: u8, value: &[u8], bits: u8) -> Vec<u8> {
        if !self.cooperates {
            return chunk(kind, flags, value);
        }
        let IpAddr::V4(ip) = self.remote.ip() else {
            unreachable!("only IPv4 is used")
        };
        let path = ip.octets()[3] - 2;
        let next = &mut self.psns[usize::from(path)];
        let ahead = if bits & 0x80 == 0 {
            0
        } else {
            u32::from(bits >> 2 & 15)
        };
        let number = next.wrapping_add(ahead).wrapping_sub(u32::from(bits & 0x40) >> 5);
        *next = next.wrapping_add(ahead + 1);
        let mut all = (u32::from(path) << 24 | number & 0x00ff_ffff)
            .to_be_bytes()
            .to_vec();
        all.extend_from_slice(value);
        let kind = if kind == kind::DATA {
            experimental_kind::E_DATA
        } else {
            experimental_kind::E_I_DATA
        };
        chunk(kind, flags & 15 | bits << 5, &all)
    }

    /// The SACK as a COOP-SACK, if the endpoint uses ECA-SCTP: for each path transmissions that may have arrived, or arbitrary ones.
    pub(crate) fn cooperative(&mut self, sack: Vec<u8>, input: &mut Input<'_>) -> Vec<u8> {
        if !self.cooperates {
            return sack;
        }
        let word = |at: usize| u32::from_be_bytes([sack[at], sack[at + 1], sack[at + 2], sack[at + 3]]);
        let bits = input.u8();
        self.clock = self
            .clock
            .wrapping_add(u32::from(bits & 7))
            .wrapping_sub(u32::from(bits & 8));
        let mut reports = Vec::new();
        for path in 0..1 + (bits >> 4 & 3) {
            let bits = input.u8();
            let sent = self.endpoint_psns.get(usize::from(path)).copied().unwrap_or(0);
            // The first missing transmission on the path.
            let missing = match bits & 3 {
                0 | 1 => sent,
                2 => sent.saturating_sub(u32::from(input.u8() & 15)),
                _ => u32::from(input.u8()),
            };
            let mut blocks = Vec::new();
            let mut end = 0;
            for _ in 0..bits >> 2 & 3 {
                let bits = input.u8();
                let start = end + 2 + u16::from(bits & 7);
                end = start + u16::from(bits >> 3 & 7);
                blocks.push(GapAckBlock { start, end });
            }
            if bits & 0x80 == 0 {
                blocks.retain(|block| missing + u32::from(block.end) <= sent);
            }
            let number = Psn::new(missing.wrapping_sub(1));
            reports.push((PathSequence { path, number }, blocks));
        }
        let reports: Vec<_> = reports
            .iter()
            .map(|(cumulative, blocks)| PathReportWriter {
                cumulative: *cumulative,
                rwnd: 0,
                gap_ack_blocks: blocks,
            })
            .collect();
        let duplicates: Vec<_> = reports.iter().map(|report| report.cumulative).collect();
        let renegable = [GapAckBlock { start: 1, end: 3 }];
        let mut chunk = Vec::new();
        CoopSackWriter {
            timestamp_ms: self.clock,
            cumulative_tsn_ack: Tsn(word(CHUNK_HEADER_LEN)),
            a_rwnd: word(CHUNK_HEADER_LEN + 4),
            paths: &reports,
            duplicates: &duplicates[..usize::from(bits >> 6 & 1)],
            renegable: (bits & 0x80 != 0).then_some(&renegable[..usize::from(bits & 1)]),
        }
        .encode(&mut chunk);
        chunk
    }

    /// FORWARD-PSN: near the next PSN on a path, or arbitrary.
    fn forward_psn(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let bits = input.u8();
        let path = bits & 3;
        let number = match bits >> 6 {
            3 => input.u32(),
            _ => self.psns[usize::from(path)].wrapping_add(u32::from(bits >> 2 & 15)),
        };
        let word = u32::from(path) << 24 | number & 0x00ff_ffff;
        chunk(experimental_kind::FORWARD_PSN, 0, &word.to_be_bytes())
    }

    /// SACK: of all TSNs or of nearly all, with gap ack blocks.
    pub(crate) fn sack(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let bits = input.u8();
        let outstanding = self.highest.distance_from(self.acked);
        let cumulative = match bits & 3 {
            0 => self.highest,
            1 => self.acked,
            2 => self
                .acked
                .plus(u32::from(input.u8()) % outstanding.wrapping_add(1).max(1)),
            _ => self.acked.plus(input.u8().into()).minus(64),
        };
        if cumulative.is_after(self.acked) && !cumulative.is_after(self.highest) {
            self.acked = cumulative;
        }
        let a_rwnd = [100_000, 0, 2000, u32::MAX][usize::from(bits >> 2 & 3)];
        let mut end = 0_u16;
        let mut blocks = Vec::new();
        for _ in 0..bits >> 4 & 7 {
            let bits = input.u8();
            let start = end.wrapping_add(2 + u16::from(bits & 7));
            end = start.wrapping_add(u16::from(bits >> 3 & 7));
            blocks.push(GapAckBlock { start, end });
        }
        if bits & 0x80 != 0 {
            blocks.push(GapAckBlock {
                start: input.u16(),
                end: input.u16(),
            });
        } else {
            // The TSNs that may have arrived.
            let left = self.highest.distance_from(cumulative);
            blocks.retain(|block| u32::from(block.end) <= left);
        }
        let mut chunk = Vec::new();
        SackWriter {
            cumulative_tsn_ack: cumulative,
            a_rwnd,
            gap_ack_blocks: &blocks,
            duplicate_tsns: &[cumulative][..usize::from(bits >> 6 & 1)],
            packets: 0,
        }
        .encode(&mut chunk);
        chunk
    }

    /// SACK with one block that may have arrived. Three such SACKs, each with a longer block, show a loss.
    pub(crate) fn gap_sack(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let bits = input.u8();
        let start = 2 + u16::from(bits & 3);
        let left = self.highest.distance_from(self.acked).min(100) as u16;
        let end = left.min(start + u16::from(bits >> 2 & 31));
        let block = GapAckBlock { start, end };
        let mut chunk = Vec::new();
        SackWriter {
            cumulative_tsn_ack: self.acked,
            a_rwnd: 100_000,
            gap_ack_blocks: &[block][..usize::from(start <= end)],
            duplicate_tsns: &[],
            packets: 0,
        }
        .encode(&mut chunk);
        chunk
    }

    /// FORWARD-TSN or selective forward TSN: slightly ahead of the next TSN, or arbitrary.
    pub(crate) fn forward(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let bits = input.u8();
        if self.cooperates && bits & 0x18 == 0x18 {
            return self.forward_psn(input);
        }
        let ahead = u32::from(if bits & 0x40 == 0 { bits & 7 } else { input.u8() });
        let tsn = self.tsn.plus(ahead).minus(u32::from(bits & 0x10));
        let mut value = tsn.0.to_be_bytes().to_vec();
        let entries = if bits & 0x80 == 0 {
            1
        } else {
            usize::from(bits >> 3 & 3)
        };
        for _ in 0..entries {
            let bits = input.u8();
            let stream = usize::from(bits & 3);
            let ssn = self.ssns[stream].wrapping_add(u16::from(bits >> 2 & 31));
            value.extend_from_slice(&(stream as u16).to_be_bytes());
            if self.interleaves {
                value.extend_from_slice(&[0, bits >> 6 & 1, 0, 0]);
            }
            value.extend_from_slice(&ssn.to_be_bytes());
            if bits & 0x80 == 0 {
                self.ssns[stream] = ssn.wrapping_add(1);
            }
        }
        if bits & 0xA0 == 0xA0 {
            return chunk(experimental_kind::EXTENDED_FORWARD_TSN, 0, &value);
        }
        if bits & 0x80 == 0 && bits & 0x20 != 0 {
            return chunk(experimental_kind::SELECTIVE_FORWARD_TSN, 0, &value);
        }
        if !tsn.is_before(self.tsn) {
            self.tsn = tsn.next();
        }
        let kind = if self.interleaves {
            kind::I_FORWARD_TSN
        } else {
            kind::FORWARD_TSN
        };
        chunk(kind, 0, &value)
    }

    /// HEARTBEAT ACK for one of the last heartbeats, unchanged or damaged.
    pub(crate) fn heartbeat_ack(&self, input: &mut Input<'_>) -> Vec<u8> {
        let bits = input.u8();
        let heartbeat = self
            .heartbeats
            .get(usize::from(bits & 7))
            .or(self.heartbeats.front());
        let mut info = heartbeat.map_or(Vec::new(), |info| info.to_vec());
        if bits & 0x80 != 0 && !info.is_empty() {
            let at = usize::from(input.u8()) % info.len();
            info[at] ^= 1 << (bits >> 4 & 7);
        }
        let mut value = vec![0, 1];
        value.extend_from_slice(&(info.len() as u16 + 4).to_be_bytes());
        value.extend_from_slice(&info);
        chunk(5, 0, &value)
    }
}

/// One of the peer's addresses.
pub(crate) fn address(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, 2 + number % ADDRESSES])
}

/// A chunk with its header and padding.
pub(crate) fn chunk(kind: u8, flags: u8, value: &[u8]) -> Vec<u8> {
    let mut chunk = vec![kind, flags];
    chunk.extend_from_slice(&(value.len() as u16 + 4).to_be_bytes());
    chunk.extend_from_slice(value);
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    chunk
}

/// The SACK as an NR-SACK, if `choice` selects this. Each of its blocks is renegable or non-renegable.
pub(crate) fn as_nr_sack(sack: Vec<u8>, choice: u8) -> Vec<u8> {
    if choice & 0x88 != 0x80 {
        return sack;
    }
    let word = |at: usize| u32::from_be_bytes([sack[at], sack[at + 1], sack[at + 2], sack[at + 3]]);
    let count = (word(CHUNK_HEADER_LEN + 8) >> 16) as usize;
    let blocks: Vec<_> = (0..count)
        .map(|number| word(CHUNK_HEADER_LEN + 12 + 4 * number))
        .map(|block| GapAckBlock {
            start: (block >> 16) as u16,
            end: block as u16,
        })
        .collect();
    let (renegable, nonrenegable) = blocks.split_at(count.min(usize::from(choice & 3)));
    let mut chunk = Vec::new();
    NrSackWriter {
        cumulative_tsn_ack: Tsn(word(CHUNK_HEADER_LEN)),
        a_rwnd: word(CHUNK_HEADER_LEN + 4),
        renegable,
        nonrenegable,
        duplicate_tsns: &[],
        packets: 0,
    }
    .encode(&mut chunk);
    chunk
}
