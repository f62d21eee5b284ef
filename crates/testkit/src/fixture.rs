//! The fixture of the tests of the extensions: an endpoint, a peer whose packets the test writes, and packets shown as short
//! text.

use core::time::Duration;

use anabranch_proto::{Config, Event, MessageId, PathStats, Reliability, SendOptions, StreamId};
use anabranch_wire::chunk::{
    Chunk, ForwardTsn, GapAckBlock, GapAckBlocks, MessageNumber, NrSack, Sack, SkippedStream, TsnList,
    experimental_kind, kind,
};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use anabranch_wire::{Ssn, Tsn};
use bytes::Bytes;

use crate::script::Script;

/// User data that fills a packet of the default PMTU.
pub const FULL: usize = 1224;
/// A millisecond.
pub const MS: Duration = Duration::from_millis(1);
/// Reliability of a message that is sent once and never retransmitted.
pub const NEVER_AGAIN: Reliability = Reliability::Retransmissions(0);

/// An endpoint and its hand-made peer.
pub struct Fixture {
    /// The packets between the two.
    pub script: Script,
    a_rwnd: u32,
}

/// Settings without heartbeats and path MTU probes, with all extensions offered, and with an initial window of forty packets.
pub fn config() -> Config {
    let mut config = crate::quiet();
    config.partial_reliability.offer = true;
    config.nr_sack.offer = true;
    config.initial_window = Some(40);
    config.max_burst = 100;
    config
}

/// The chunk types that a peer with all extensions lists.
pub const ALL: [u8; 3] = [
    kind::FORWARD_TSN,
    kind::NR_SACK,
    experimental_kind::SELECTIVE_FORWARD_TSN,
];

/// The parameter that lists these chunk types; `None` for an empty list.
#[must_use]
pub fn lists(kinds: &[u8]) -> Parameters {
    let mut parameters = ParametersBuilder::new();
    if !kinds.is_empty() {
        parameters = parameters.push(&Parameter::SupportedExtensions(Bytes::copy_from_slice(kinds)));
    }
    parameters.finish()
}

impl Fixture {
    /// Sets up an association with a peer that lists these chunk types.
    pub fn new(config: Config, kinds: &[u8]) -> Self {
        Self::with_parameters(config, lists(kinds))
    }

    /// Sets up an association with a peer whose INIT has these parameters.
    pub fn with_parameters(config: Config, parameters: Parameters) -> Self {
        let mut script = Script::new(config, 1);
        script.a_rwnd = 1_000_000;
        script.set_up_with(parameters);
        script.events();
        Self {
            script,
            a_rwnd: 1_000_000,
        }
    }

    /// Like [`Fixture::new`], with a peer that supports all extensions and accepts this many streams.
    pub fn with_streams(config: Config, streams: u16) -> Self {
        Self::with_streams_of(config, streams, &ALL)
    }

    /// Sets up an association with a peer that accepts this many streams and lists these chunk types.
    pub fn with_streams_of(config: Config, streams: u16, kinds: &[u8]) -> Self {
        let mut script = Script::new(config, 1);
        script.a_rwnd = 1_000_000;
        script.streams = streams;
        script.set_up_with(lists(kinds));
        script.events();
        Self {
            script,
            a_rwnd: 1_000_000,
        }
    }

    /// Like [`Fixture::new`], with default settings and a peer that supports all extensions.
    pub fn usual() -> Self {
        Self::new(config(), &ALL)
    }

    /// Sends messages of `len` bytes on stream 0.
    pub fn send(&mut self, reliability: &[Reliability], len: usize) {
        for reliability in reliability {
            self.send_on(0, len, *reliability, false);
        }
    }

    /// Sends a message on a stream.
    ///
    /// # Panics
    /// If the association refuses the message.
    pub fn send_on(
        &mut self,
        stream: u16,
        len: usize,
        reliability: Reliability,
        unordered: bool,
    ) -> MessageId {
        self.script.act(|association, now| {
            let options = SendOptions::default()
                .reliability(reliability)
                .unordered(unordered);
            association
                .send(now, StreamId(stream), vec![7; len].into(), options)
                .expect("send")
        })
    }

    /// The packets sent since the last call, one string per packet: "DATA 3"; "FORWARD-TSN 4 (0:2)" with streams and SSNs;
    /// "I-DATA 3 (0:u2.0b)" with stream, MID (`u`: of an unordered message), FSN and the B and E flags.
    pub fn sent(&mut self) -> Vec<String> {
        let first = self.script.endpoint_tsn;
        let mut packets = Vec::new();
        while let Some(answer) = self.script.next_answer() {
            let chunks = answer.chunks.iter().map(|chunk| name(chunk, first));
            packets.push(chunks.collect::<Vec<_>>().join(", "));
        }
        packets
    }

    fn cumulative(&self, count: u32) -> Tsn {
        self.script.endpoint_tsn.plus(count).minus(1)
    }

    /// The peer's SACK of the first `count` TSNs, with gap ack blocks given by their first and last TSN.
    pub fn sack(&mut self, count: u32, blocks: &[(u32, u32)]) {
        let sack = Chunk::Sack(Sack {
            cumulative_tsn_ack: self.cumulative(count),
            a_rwnd: self.a_rwnd,
            gap_ack_blocks: offsets(count, blocks),
            duplicate_tsns: TsnList::default(),
        });
        self.script.send(&[sack]);
    }

    /// A SACK of everything up to `count`, with these duplicate TSNs.
    pub fn sack_with_duplicates(&mut self, count: u32, duplicates: &[u32]) {
        let first = self.script.endpoint_tsn;
        let sack = Chunk::Sack(Sack {
            cumulative_tsn_ack: self.cumulative(count),
            a_rwnd: self.a_rwnd,
            gap_ack_blocks: GapAckBlocks::default(),
            duplicate_tsns: TsnList::from_tsns(duplicates.iter().map(|tsn| first.plus(*tsn))),
        });
        self.script.send(&[sack]);
    }

    /// The peer's NR-SACK, with renegable and non-renegable gap ack blocks.
    pub fn nr_sack(&mut self, count: u32, renegable: &[(u32, u32)], nonrenegable: &[(u32, u32)]) {
        let sack = Chunk::NrSack(NrSack {
            cumulative_tsn_ack: self.cumulative(count),
            a_rwnd: self.a_rwnd,
            renegable: offsets(count, renegable),
            nonrenegable: offsets(count, nonrenegable),
            duplicate_tsns: TsnList::default(),
        });
        self.script.send(&[sack]);
    }

    /// The peer acknowledges the first `count` TSNs, and reports `from` to `last` behind the gap as non-renegable: one NR-SACK for
    /// each packet, as a receiver sends them.
    pub fn report_one_by_one(&mut self, count: u32, from: u32, last: u32) {
        for highest in from..=last {
            self.nr_sack(count, &[], &[(from, highest)]);
        }
    }

    /// The peer's FORWARD-TSN to the TSN before `count`, counted from the peer's first TSN.
    pub fn forward(&mut self, first: Tsn, count: u32, skipped: &[(u16, u16)]) {
        let skipped = skipped.iter().map(|&(stream, ssn)| SkippedStream {
            stream: StreamId(stream),
            ssn: Ssn(ssn),
        });
        let chunk = Chunk::ForwardTsn(ForwardTsn::new(first.plus(count).minus(1), skipped));
        self.script.send(&[chunk]);
    }

    /// The messages that the endpoint reported as abandoned: their numbers, and whether any part of each was sent.
    pub fn abandoned(&mut self) -> Vec<(u64, bool)> {
        let events = self.script.events();
        let abandoned = events.into_iter().filter_map(|event| match event {
            Event::Abandoned(undelivered) => Some((undelivered.message.0, undelivered.sent)),
            _ => None,
        });
        abandoned.collect()
    }

    /// The association's counters.
    #[must_use]
    pub fn counters(&self) -> anabranch_proto::Counters {
        *self.script.association().counters()
    }

    /// The statistics of the association's path.
    #[must_use]
    pub fn path(&self) -> PathStats {
        self.script.association().stats().paths.swap_remove(0)
    }

    /// The congestion window of the association's path, in bytes.
    #[must_use]
    pub fn cwnd(&self) -> usize {
        self.script.association().stats().paths[0].cwnd
    }
}

fn offsets(count: u32, blocks: &[(u32, u32)]) -> GapAckBlocks {
    let offset = |number: u32| (number + 1 - count) as u16;
    GapAckBlocks::from_blocks(blocks.iter().map(|&(start, end)| GapAckBlock {
        start: offset(start),
        end: offset(end),
    }))
}

fn name(chunk: &Chunk, first: Tsn) -> String {
    match chunk {
        Chunk::Data(data) => format!("DATA {}", data.tsn.distance_from(first)),
        Chunk::IData(data) => {
            let unordered = if data.unordered { "u" } else { "" };
            let ends = [(data.beginning, "b"), (data.ending, "e")];
            let ends: String = ends.iter().filter(|(set, _)| *set).map(|(_, end)| *end).collect();
            format!(
                "I-DATA {} ({}:{unordered}{}.{}{ends})",
                data.tsn.distance_from(first),
                data.stream.0,
                data.mid.0,
                data.fsn.0
            )
        }
        Chunk::IForwardTsn(forward) => {
            let skipped = forward.skipped().map(|one| {
                let unordered = if one.unordered { "u" } else { "" };
                format!("{}:{unordered}{}", one.stream.0, one.mid.0)
            });
            let tsn = forward.new_cumulative_tsn.distance_from(first);
            format!("I-FORWARD-TSN {tsn} ({})", skipped.collect::<Vec<_>>().join(" "))
        }
        Chunk::ForwardTsn(forward) => {
            let skipped = forward.skipped();
            let skipped = skipped.map(|one| format!("{}:{}", one.stream.0, one.ssn.0));
            let tsn = forward.new_cumulative_tsn.distance_from(first);
            format!("FORWARD-TSN {tsn} ({})", skipped.collect::<Vec<_>>().join(" "))
        }
        Chunk::SelectiveForwardTsn(notice) => {
            let number = match notice.number {
                MessageNumber::Ssn(ssn) => ssn.0.into(),
                MessageNumber::Mid(mid) => mid.0,
            };
            let tsn = notice.tsn.distance_from(first);
            format!("NOTICE {tsn} ({}:{number})", notice.stream.0)
        }
        Chunk::ExtendedForwardTsn(forward) => {
            let base = forward.cumulative_tsn.distance_from(first);
            let blocks = forward.blocks().map(|block| {
                let [start, end] =
                    [block.start, block.end].map(|offset| base.wrapping_add(u32::from(offset)));
                format!("{start}-{end}")
            });
            format!("EXTENDED {}", blocks.collect::<Vec<_>>().join(" "))
        }
        other => crate::arrows::describe_chunk(other),
    }
}
