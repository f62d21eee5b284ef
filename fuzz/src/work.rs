//! Checks a budget of work: the work of an endpoint is limited by the bytes that the peer sends, whatever state the peer has built up
//! before.
//!
//! Work is the number of taken edges of the control flow graph, plus moves of memory; `counter/work.c` counts both. The count includes
//! every loop in the core and in the standard library's collections that are compiled into it. New code needs no counters of its own. The
//! count is the same on every machine. (The 8-bit counters that guide the fuzzer wrap. Instructions can be counted only by a simulator,
//! which is far too slow for a fuzzer: `crates/testkit/tests/work` does it for known inputs.)
//!
//! Commands are series, so that a short input builds much state: a number of chunks of one type, whose numbers advance in steps. The
//! endpoint may spend [`PER_BYTE`] for each byte that it receives and for each byte that it then sends. Unspent work is saved up to a
//! limit: one datagram may free the state of many earlier ones, but many expensive datagrams must each pay for their own work.

use core::time::Duration;
use std::collections::BTreeMap;
use std::fs::File;
use std::net::IpAddr;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use anabranch_proto::{
    Association, AssociationId, Config, EcnCodepoint, Endpoint, Handling, MultipathMode, Reliability,
    SendOptions, StreamId, Timestamp, Tsn,
};
use anabranch_wire::chunk::{
    CoopSackWriter, EncodeChunk, GapAckBlock, NrSackWriter, PathReportWriter, PathSequence, SackWriter,
    experimental_kind, kind,
};
use anabranch_wire::{Psn, packet::COMMON_HEADER_LEN};
use bytes::Bytes;

use crate::input::Input;
use crate::node::Sent;
use crate::peer::{PORT, Peer, address, chunk};

/// Edges for each byte received or sent, including IP and UDP headers: see docs/LIMITS.md.
const PER_BYTE: u64 = 150;
/// The most edges that are saved: as many as the most expensive single datagram needs to free state.
const MOST_SAVED: u64 = 3_000_000;
/// Bytes of IPv4 and UDP headers.
const HEADERS: u64 = 28;
/// The most chunks in one series.
const MOST_CHUNKS: u32 = 8160;
/// The most messages that the application may send. When the association ends, the remaining ones are freed, at about 60 edges each. This
/// counts as work for the datagram that ends it, although the application caused it and not the peer.
const MOST_MESSAGES: u32 = 30_000;
/// The most bytes that one input may send; more would take time without further effect.
const MOST_BYTES: u64 = 1 << 20;
/// The endpoint's address.
const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

/// The count of `counter/work.c`; `None` if it is not linked.
fn counted() -> Option<u64> {
    static COUNTER: OnceLock<Option<File>> = OnceLock::new();
    let file = COUNTER.get_or_init(|| {
        let mut files = std::fs::read_dir("/proc/self/fd")
            .ok()?
            .flatten()
            .map(|file| file.path());
        let is_it = |path: &std::path::PathBuf| {
            std::fs::read_link(path).is_ok_and(|name| name.to_string_lossy().contains("memfd:anabranch-work"))
        };
        File::open(files.find(is_it)?).ok()
    });
    let mut bytes = [0; 8];
    file.as_ref()?.read_exact_at(&mut bytes, 0).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

struct World {
    endpoint: Endpoint,
    associations: BTreeMap<AssociationId, Box<Association>>,
    peer: Peer,
    now: Timestamp,
    reads: bool,
    saved: u64,
    received: u64,
    /// Messages that the application has sent.
    given: u32,
    buffer: Vec<u8>,
    /// The timestamp of the peer's next COOP-SACK.
    time: u32,
}

fn config(choice: u8) -> Config {
    let mut config = Config::default();
    config.buffers.receive = if choice & 8 == 0 { 2_500_000 } else { 250_000 };
    config.buffers.send = 10_000_000;
    config.buffers.growth = 1;
    config.initial_window = Some(20_000);
    config.max_burst = 20_000;
    config.no_delay = true;
    config.streams.outbound = 4;
    config.nr_sack.offer = choice & 7 != 0;
    config.nr_sack.may_renege = matches!(choice & 7, 2 | 4);
    config.interleaving.offer = matches!(choice & 7, 3 | 4 | 7);
    config.partial_reliability.early_discard = choice & 16 != 0;
    config.partial_reliability.selective_forward_tsn = (choice & 16 != 0).then_some(1);
    // Interleaving would yield to it.
    config.partial_reliability.extended_forward_tsn = choice & 16 != 0 && !config.interleaving.offer;
    if choice & 32 != 0 {
        (config.path_mtu, config.path_mtu_limit) = (60_000, 60_000);
    }
    config.multipath.mode = match choice & 7 {
        5 => MultipathMode::Cmt,
        6 | 7 => MultipathMode::Eca,
        _ => MultipathMode::Off,
    };
    config
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let choice = input.u8();
        let config = config(choice);
        let mut peer = Peer::new(7000, Tsn(1000));
        peer.interleaves = config.interleaving.offer;
        peer.cooperates = config.multipath.mode == MultipathMode::Eca;
        let mut endpoint = Endpoint::new(config, [7; 32]).expect("the settings are in range");
        endpoint.listen(PORT).expect("not port 0");
        let mut world = Self {
            endpoint,
            associations: BTreeMap::new(),
            peer,
            now: Timestamp::from_millis(1000),
            reads: choice & 128 == 0,
            saved: MOST_SAVED,
            received: 0,
            given: 0,
            buffer: Vec::new(),
            time: 0,
        };
        world.set_up(1 + (choice >> 6 & 1));
        world
    }

    /// The peer sets up an association from its current address.
    fn set_up(&mut self, addresses: u8) {
        let init = self.peer.init(kind::INIT, addresses, 1000, 100_000_000, &[]);
        self.deliver(self.peer.packet(0, &init));
        let echo = chunk(kind::COOKIE_ECHO, 0, &self.peer.cookie);
        self.deliver(self.peer.packet(self.peer.endpoint_tag, &echo));
    }

    /// A datagram arrives, and the endpoint handles it and its consequences.
    fn deliver(&mut self, datagram: Bytes) {
        let len = datagram.len() as u64 + HEADERS;
        self.received += len;
        let before = counted();
        let mut sent = Vec::new();
        let mut id = None;
        let remote = self.peer.remote;
        match self
            .endpoint
            .handle_datagram(self.now, Some(LOCAL), remote, datagram, EcnCodepoint::NotEct)
        {
            Handling::Done => {}
            Handling::Reply(reply) => sent.push(reply.packet),
            Handling::Deliver(to, inbound) => {
                if let Some(association) = self.associations.get_mut(&to) {
                    association.handle_packet(self.now, inbound);
                }
                id = Some(to);
            }
            Handling::Accept(new, association) => {
                self.associations.insert(new, association);
                id = Some(new);
            }
        }
        if let Some(id) = id {
            self.drain(id, &mut sent);
        }
        let after = counted();
        let answered: u64 = sent.iter().map(|sent| sent.len() as u64 + HEADERS).sum();
        if let Some((before, after)) = before.zip(after) {
            let work = after - before;
            let earned = PER_BYTE * (len + answered);
            assert!(
                work <= self.saved + earned,
                "{work} edges for {len} bytes received and {answered} sent, with {} saved",
                self.saved
            );
            self.saved = (self.saved + earned - work).min(MOST_SAVED);
        }
        self.observe(sent);
    }

    /// Takes all output of an association.
    fn drain(&mut self, id: AssociationId, sent: &mut Vec<Bytes>) {
        let Some(association) = self.associations.get_mut(&id) else {
            return;
        };
        if self.reads {
            while association.recv(self.now).is_some() {}
        }
        while let Some(transmit) = association.poll_transmit(self.now, &mut self.buffer, 8) {
            let len = transmit.segment_size.unwrap_or(transmit.len);
            sent.extend(self.buffer.chunks(len).map(Bytes::copy_from_slice));
            self.buffer.clear();
        }
        while association.poll_event().is_some() {}
        while let Some(event) = association.poll_endpoint_event() {
            self.endpoint.handle_event(self.now, id, event);
        }
    }

    fn observe(&mut self, sent: Vec<Bytes>) {
        for datagram in sent {
            self.peer.observe(Sent {
                source: None,
                destination: self.peer.remote,
                datagram,
            });
        }
    }

    /// Calls `act` with the newest association, without counting work.
    fn act(&mut self, act: impl FnOnce(&mut Association, Timestamp)) {
        let Some((&id, association)) = self.associations.iter_mut().next_back() else {
            return;
        };
        act(association, self.now);
        let mut sent = Vec::new();
        self.drain(id, &mut sent);
        self.observe(sent);
    }

    /// Sends chunks: each alone, or as many in a packet as fit.
    fn send(&mut self, chunks: impl Iterator<Item = Vec<u8>>, alone: bool) {
        let mut waiting: Vec<u8> = Vec::new();
        for chunk in chunks {
            if !waiting.is_empty() && (alone || waiting.len() + chunk.len() > 1200) {
                self.send_packet(&core::mem::take(&mut waiting));
            }
            waiting.extend_from_slice(&chunk);
            if self.received > MOST_BYTES {
                return;
            }
        }
        if waiting.len() > COMMON_HEADER_LEN {
            self.send_packet(&waiting);
        }
    }

    fn send_packet(&mut self, chunks: &[u8]) {
        let tag = self.peer.endpoint_tag;
        self.deliver(self.peer.packet(tag, chunks));
    }
}

/// A number for each chunk of a series.
#[derive(Clone, Copy)]
struct Steps {
    first: u32,
    step: u32,
}

impl Steps {
    fn read(input: &mut Input<'_>) -> Self {
        let (first, step) = (u32::from(input.u16()), input.u8());
        Self {
            first,
            // The numbers may also go down.
            step: (step as i8) as u32,
        }
    }

    fn at(self, number: u32) -> u32 {
        self.first.wrapping_add(self.step.wrapping_mul(number))
    }
}

/// Gap ack blocks: their number, length and distance.
fn blocks(input: &mut Input<'_>, shift: u16) -> Vec<GapAckBlock> {
    let (start, count) = (input.u16(), input.u16() & 0x1fff);
    let (len, gap) = (input.u16(), u16::from(input.u8()));
    let mut next = start.saturating_add(shift);
    let mut blocks = Vec::new();
    for _ in 0..count {
        let end = next.saturating_add(len);
        blocks.push(GapAckBlock { start: next, end });
        match end.checked_add(2 + gap) {
            Some(start) => next = start,
            None => break,
        }
    }
    blocks
}

/// Commands.
impl World {
    fn command(&mut self, input: &mut Input<'_>) {
        let command = input.u8();
        let alone = command & 0x80 != 0;
        let count = 32 * u32::from(input.u8());
        match command & 15 {
            0..3 => self.data(input, count, alone),
            3 | 4 => self.forward(input, count, alone),
            5 | 6 => self.acknowledge(input, count, alone),
            7 => self.cooperative(input, count, alone),
            8 => self.application(input, count),
            9 => {
                let (kind, flags, len) = (input.u8(), input.u8(), input.u8());
                let chunk = chunk(kind, flags, input.take(len.into()));
                self.send((0..count).map(|_| chunk.clone()), alone);
            }
            10 => self.notices(input, count, alone),
            11 => self.inits(input, count),
            12 => {
                let ahead = input.u8().into();
                let tsn = self.peer.acked.plus(ahead).0.to_be_bytes();
                self.send((0..count).map(|_| chunk(kind::SHUTDOWN, 0, &tsn)), alone);
            }
            13 => {
                let bits = input.u8();
                self.peer.remote.set_ip(address(bits & 1));
                self.reads ^= bits & 2 != 0;
            }
            _ => self.pass_time(Duration::from_millis(10 * u64::from(count))),
        }
    }

    /// DATA or I-DATA with one byte of user data: TSNs, streams, message numbers and fragment numbers advance in steps.
    fn data(&mut self, input: &mut Input<'_>, count: u32, alone: bool) {
        let base = self.peer.tsn;
        let (tsns, streams, messages) = (Steps::read(input), Steps::read(input), Steps::read(input));
        let (flags, bits) = (input.u8(), input.u8());
        let interleaves = self.peer.interleaves;
        let chunks: Vec<_> = (0..count.min(MOST_CHUNKS))
            .map(|number| {
                let mut value = base.plus(tsns.at(number)).0.to_be_bytes().to_vec();
                value.extend_from_slice(&((streams.at(number) % 1000) as u16).to_be_bytes());
                let message = messages.at(number);
                // Messages consist of one or of two fragments.
                let flags = match bits & 3 {
                    1 => flags & !3 | 2 >> (number & 1),
                    _ => flags,
                };
                if interleaves {
                    let mid = if bits & 3 == 1 {
                        message.wrapping_sub(number.div_ceil(2))
                    } else {
                        message
                    };
                    let fsn = if flags & 2 != 0 {
                        0
                    } else {
                        u32::from(bits >> 2 & 1) * number + 1
                    };
                    value.extend_from_slice(&[0; 2]);
                    value.extend_from_slice(&mid.to_be_bytes());
                    value.extend_from_slice(&fsn.to_be_bytes());
                } else {
                    value.extend_from_slice(&(message as u16).to_be_bytes());
                    value.extend_from_slice(&[0; 4]);
                }
                value.push(b'x');
                let kind = if interleaves { kind::I_DATA } else { kind::DATA };
                self.peer.carried(kind, flags & 15, &value, 0)
            })
            .collect();
        self.send(chunks.into_iter(), alone);
    }

    /// FORWARD-TSN or I-FORWARD-TSN, with some streams.
    fn forward(&mut self, input: &mut Input<'_>, count: u32, alone: bool) {
        let base = self.peer.tsn;
        let (tsns, messages) = (Steps::read(input), Steps::read(input));
        let bits = input.u8();
        let interleaves = self.peer.interleaves;
        let chunks = (0..count).map(move |number| {
            let mut value = base.plus(tsns.at(number)).0.to_be_bytes().to_vec();
            for entry in 0..u16::from(bits & 7) {
                value.extend_from_slice(&entry.to_be_bytes());
                let message = messages.at(number);
                if interleaves {
                    value.extend_from_slice(&[0, bits >> 3 & 1]);
                    value.extend_from_slice(&message.to_be_bytes());
                } else {
                    value.extend_from_slice(&(message as u16).to_be_bytes());
                }
            }
            chunk(
                if interleaves {
                    kind::I_FORWARD_TSN
                } else {
                    kind::FORWARD_TSN
                },
                0,
                &value,
            )
        });
        self.send(chunks, alone);
    }

    /// SACKs or NR-SACKs with two alternating contents, for chunks that may have arrived.
    fn acknowledge(&mut self, input: &mut Input<'_>, count: u32, alone: bool) {
        let (bits, steps) = (input.u8(), Steps::read(input));
        let first = blocks(input, 0);
        let second = if bits & 1 == 0 {
            first.clone()
        } else if bits & 2 == 0 {
            Vec::new()
        } else {
            first
                .iter()
                .map(|block| GapAckBlock {
                    start: block.start.saturating_add(1),
                    end: block.end.saturating_add(1),
                })
                .collect()
        };
        let outstanding = self.peer.highest.distance_from(self.peer.acked);
        let duplicates = vec![self.peer.acked.plus(u32::from(bits)); usize::from(bits >> 4) * 16];
        let base = self.peer.acked;
        let chunks: Vec<_> = (0..count.clamp(1, MOST_CHUNKS))
            .map(|number| {
                let taken = steps.at(number).min(outstanding);
                let mut blocks = [&first, &second][(number & 1) as usize].clone();
                // Each acknowledges one more chunk.
                if bits & 4 != 0 {
                    let start = blocks
                        .last()
                        .map_or(2, |block| block.end)
                        .saturating_add(2 + 2 * number as u16);
                    blocks = vec![GapAckBlock { start, end: start }];
                }
                blocks.retain(|block| taken.saturating_add(block.end.into()) <= outstanding);
                let cumulative = base.plus(taken);
                let mut chunk = Vec::new();
                if bits & 8 == 0 {
                    let writer = SackWriter {
                        cumulative_tsn_ack: cumulative,
                        a_rwnd: 100_000_000,
                        gap_ack_blocks: &blocks,
                        duplicate_tsns: &duplicates,
                        packets: 0,
                    };
                    writer.encode(&mut chunk);
                } else {
                    let writer = NrSackWriter {
                        cumulative_tsn_ack: cumulative,
                        a_rwnd: 100_000_000,
                        renegable: &[],
                        nonrenegable: &blocks,
                        duplicate_tsns: &duplicates,
                        packets: 0,
                    };
                    writer.encode(&mut chunk);
                }
                chunk
            })
            .collect();
        self.peer.acked = base.plus(steps.at(count.max(1) - 1).min(outstanding));
        self.send(chunks.into_iter(), alone);
    }

    /// COOP-SACKs for transmissions on path 0.
    fn cooperative(&mut self, input: &mut Input<'_>, count: u32, alone: bool) {
        let (bits, steps) = (input.u8(), Steps::read(input));
        let blocks = blocks(input, 0);
        let outstanding = self.peer.highest.distance_from(self.peer.acked);
        let base = self.peer.acked;
        let chunks: Vec<_> = (0..count.clamp(1, MOST_CHUNKS))
            .map(|number| {
                self.time += 1;
                let below = steps.at(number).min(outstanding);
                let mut listed = if bits & 1 != 0 && number > 0 {
                    Vec::new()
                } else {
                    blocks.clone()
                };
                listed.retain(|block| below.saturating_add(block.end.into()) <= outstanding);
                let number = Psn::new(below.wrapping_sub(1));
                let renegable = [GapAckBlock { start: 1, end: 3 }];
                let mut chunk = Vec::new();
                CoopSackWriter {
                    timestamp_ms: self.time,
                    cumulative_tsn_ack: base.plus(if bits & 2 != 0 { below } else { 0 }),
                    a_rwnd: 100_000_000,
                    paths: &[PathReportWriter {
                        cumulative: PathSequence {
                            path: bits >> 4 & 1,
                            number,
                        },
                        rwnd: 0,
                        gap_ack_blocks: &listed,
                    }],
                    duplicates: &[],
                    renegable: (bits & 4 != 0).then_some(&renegable),
                }
                .encode(&mut chunk);
                chunk
            })
            .collect();
        self.send(chunks.into_iter(), alone);
    }

    /// The application sends messages.
    fn application(&mut self, input: &mut Input<'_>, count: u32) {
        let bits = input.u8();
        let message = Bytes::from(vec![1; [1, 40, 1000, 3000][usize::from(bits & 3)]]);
        let reliability = match bits >> 2 & 3 {
            0 | 1 => Reliability::Reliable,
            2 => Reliability::Retransmissions(0),
            _ => Reliability::Lifetime(Duration::from_millis(50)),
        };
        let options = SendOptions::default()
            .unordered(bits & 16 != 0)
            .reliability(reliability);
        let count = count.min(MOST_CHUNKS).min(MOST_MESSAGES - self.given);
        self.given += count;
        self.act(|association, now| {
            for number in 0..count {
                let stream = StreamId((number & u32::from(bits >> 5 & 3)) as u16);
                drop(association.send(now, stream, message.clone(), options));
            }
        });
    }

    /// Selective forward TSN chunks, for messages that will not arrive.
    fn notices(&mut self, input: &mut Input<'_>, count: u32, alone: bool) {
        let base = self.peer.tsn;
        let (tsns, messages) = (Steps::read(input), Steps::read(input));
        let stream = u16::from(input.u8());
        let interleaves = self.peer.interleaves;
        let chunks = (0..count).map(move |number| {
            let mut value = base.plus(tsns.at(number)).0.to_be_bytes().to_vec();
            value.extend_from_slice(&stream.to_be_bytes());
            let message = messages.at(number);
            if interleaves {
                value.extend_from_slice(&[0; 2]);
                value.extend_from_slice(&message.to_be_bytes());
            } else {
                value.extend_from_slice(&(message as u16).to_be_bytes());
            }
            chunk(experimental_kind::SELECTIVE_FORWARD_TSN, 0, &value)
        });
        self.send(chunks, alone);
    }

    /// Further associations from other UDP ports of the same address, or INITs with lists of addresses.
    fn inits(&mut self, input: &mut Input<'_>, count: u32) {
        let bits = input.u8();
        if bits & 1 == 0 {
            let tag = self.peer.endpoint_tag;
            let first = self.peer.remote.port();
            for number in 0..(count / 4).min(300) {
                self.peer.remote.set_port(first.wrapping_add(1 + number as u16));
                self.set_up(1);
            }
            self.peer.remote.set_port(first);
            self.peer.endpoint_tag = tag;
            return;
        }
        let mut listed = Vec::new();
        for _ in 0..u16::from(bits >> 1) {
            let IpAddr::V4(ip) = address(input.u8() & 1) else {
                continue;
            };
            listed.extend_from_slice(&[0, 5, 0, 8]);
            listed.extend_from_slice(&ip.octets());
        }
        let init = self.peer.init(kind::INIT, 0, 10, 50_000, &listed);
        let remote = self.peer.remote;
        self.peer.remote.set_ip(address(3));
        self.peer.remote.set_port(9000);
        for _ in 0..count.min(100) {
            self.deliver(self.peer.packet(0, &init));
        }
        self.peer.remote = remote;
    }

    fn pass_time(&mut self, duration: Duration) {
        let end = self.now + duration;
        // As many timers as expire in one or two seconds of silence.
        for _ in 0..50 {
            let due = self
                .associations
                .iter()
                .filter_map(|(id, one)| Some((one.poll_timeout()?, *id)));
            let Some((due, id)) = due.min().filter(|(due, _)| *due <= end) else {
                break;
            };
            self.now = self.now.max(due);
            if let Some(association) = self.associations.get_mut(&id) {
                association.handle_timeout(self.now);
            }
            let mut sent = Vec::new();
            self.drain(id, &mut sent);
            self.observe(sent);
        }
        self.now = self.now.max(end);
        self.saved = MOST_SAVED;
    }
}

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut world = World::new(&mut input);
    while !input.is_empty() && world.received <= MOST_BYTES {
        world.command(&mut input);
    }
}
