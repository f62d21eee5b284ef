//! The fixture of the ECA-SCTP tests: an endpoint, and a hand-made peer with two addresses that supports ECA-SCTP.

use core::time::Duration;
use std::net::SocketAddr;

use anabranch_proto::{
    Config, Counters, CoupledControl, Event, MultipathMode, PathScheduler, PathStats, Reliability,
    RetransmissionPolicy, SendOptions, StreamId,
};
use anabranch_testkit::Script;
use anabranch_wire::chunk::{
    AckPolicy, Chunk, CoopSack, Data, EData, ForwardPsn, GapAckBlock, GapAckBlocks, HeartbeatAck, PathReport,
    PathReports, PathSequence, PathSequences, experimental_kind,
};
use anabranch_wire::parameter::{Parameter, ParametersBuilder};
use anabranch_wire::{Ppid, Psn, Ssn, StreamId as Stream};
use bytes::Bytes;

/// A millisecond.
pub(crate) const MS: Duration = Duration::from_millis(1);
/// User data that fills a packet of the default PMTU.
pub(crate) const FULL: usize = 1220;
/// The chunk types that a peer with ECA-SCTP lists.
pub(crate) const ECA: [u8; 3] = [
    experimental_kind::E_DATA,
    experimental_kind::COOP_SACK,
    experimental_kind::FORWARD_PSN,
];

/// Settings without heartbeats, with round robin over two paths and an initial window of twenty packets. Retransmissions use
/// the path with the lowest RTT.
pub(crate) fn config() -> Config {
    let mut config = anabranch_testkit::quiet();
    config.multipath.mode = MultipathMode::Eca;
    config.multipath.scheduler = PathScheduler::RoundRobin;
    config.multipath.congestion = CoupledControl::Uncoupled;
    config.multipath.retransmission = RetransmissionPolicy::SmallestRtt;
    config.initial_window = Some(20);
    config.max_burst = 100;
    config
}

pub(crate) struct Fixture {
    pub(crate) script: Script,
    pub(crate) addresses: [SocketAddr; 2],
    clock: u32,
    pub(crate) a_rwnd: u32,
}

/// The acknowledgement of one path: all transmissions below a number, and blocks above it, given by first and last number.
pub(crate) type Report<'a> = (u8, u32, &'a [(u32, u32)]);

fn at(path: u8, number: u32) -> PathSequence {
    PathSequence {
        path,
        number: Psn::new(number),
    }
}

impl Fixture {
    /// Sets up an association with a peer that lists these chunk types. Path 1 has an RTT of 20 ms until data gives another.
    pub(crate) fn new(config: Config, kinds: &[u8]) -> Self {
        let mut script = Script::new(config, 1);
        script.a_rwnd = 1_000_000;
        let second = SocketAddr::new([10, 0, 1, 2].into(), script.remote.port());
        let addresses = [script.remote, second];
        let mut parameters = ParametersBuilder::new().push(&Parameter::Ipv4([10, 0, 1, 2].into()));
        if !kinds.is_empty() {
            parameters = parameters.push(&Parameter::SupportedExtensions(Bytes::copy_from_slice(kinds)));
        }
        script.tag.0 += 1;
        let mut fixture = Self {
            script,
            addresses,
            clock: 0,
            a_rwnd: 1_000_000,
        };
        fixture.script.set_up_with(parameters.finish());
        fixture.confirm();
        fixture
    }

    /// Sets up an association with a peer that supports ECA-SCTP, and sends data with these RTTs in milliseconds, one per path.
    pub(crate) fn usual(config: Config, round_trips: [u64; 2]) -> Self {
        let mut fixture = Self::new(config, &ECA);
        fixture.send(2, FULL);
        // The round robin starts with path 1.
        assert_eq!(fixture.sent(), ["1 E-DATA 0 (1:0)", "0 E-DATA 1 (0:0)"]);
        let (short, long) = (
            round_trips[0].min(round_trips[1]),
            round_trips[0].max(round_trips[1]),
        );
        fixture.pass(short);
        let (first, last) = if short == round_trips[0] { (0, 1) } else { (1, 0) };
        fixture.ack(u32::from(first), &[(first, 1, &[])]);
        fixture.pass(long - short);
        fixture.ack(2, &[(first, 1, &[]), (last, 1, &[])]);
        assert_eq!(fixture.sent(), [""; 0]);
        fixture
    }

    /// Answers the HEARTBEAT to the second address after 20 ms.
    fn confirm(&mut self) {
        self.script.advance(20 * MS);
        while let Some(answer) = self.script.next_answer() {
            for chunk in answer.chunks {
                if let Chunk::Heartbeat(heartbeat) = chunk {
                    self.script.remote = answer.destination;
                    let info = heartbeat.info().expect("a Heartbeat Info");
                    self.script.send(&[Chunk::HeartbeatAck(HeartbeatAck::new(info))]);
                }
            }
        }
        self.script.remote = self.addresses[0];
        let stats = self.script.association().stats();
        assert_eq!(stats.paths.len(), 2);
        self.script.events();
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.clock += millis as u32;
        self.script.advance(Duration::from_millis(millis));
    }

    /// Sends messages of `len` bytes on stream 0.
    pub(crate) fn send(&mut self, count: usize, len: usize) {
        (0..count).for_each(|_| self.send_as(len, Reliability::Reliable));
    }

    pub(crate) fn send_as(&mut self, len: usize, reliability: Reliability) {
        self.script.act(|association, now| {
            let options = SendOptions::default().reliability(reliability);
            let sent = association.send(now, StreamId(0), vec![7; len].into(), options);
            sent.expect("it is taken");
        });
    }

    /// The packets sent since the last call, one string per packet: "1 E-DATA 5 (1:2)" with the path, the TSN counted from the
    /// initial TSN, and the path and number of the transmission.
    pub(crate) fn sent(&mut self) -> Vec<String> {
        let first = self.script.endpoint_tsn;
        let mut packets = Vec::new();
        while let Some(answer) = self.script.next_answer() {
            let path = u8::from(answer.destination.ip() == self.addresses[1].ip());
            let name =
                |transmission: PathSequence| format!("{}:{}", transmission.path, transmission.number.get());
            let chunks = answer.chunks.iter().map(|chunk| match chunk {
                Chunk::EData(chunk) => {
                    let tsn = chunk.data.tsn.distance_from(first);
                    format!("E-DATA {tsn} ({})", name(chunk.transmission))
                }
                Chunk::Data(data) => format!("DATA {}", data.tsn.distance_from(first)),
                Chunk::ForwardPsn(point) => format!("FORWARD-PSN {}", name(point.0)),
                Chunk::CoopSack(sack) => {
                    let mut text = format!("COOP-SACK {}", sack.cumulative_tsn_ack.0);
                    for report in sack.paths.iter() {
                        text += &format!(" {}", name(report.cumulative));
                        for block in report.gap_ack_blocks.iter() {
                            text += &format!("+{}-{}", block.start, block.end);
                        }
                    }
                    for duplicate in sack.duplicates.iter() {
                        text += &format!(" dup {}", name(duplicate));
                    }
                    text
                }
                other => anabranch_testkit::arrows::describe_chunk(other),
            });
            let chunks = chunks.collect::<Vec<_>>().join(", ");
            packets.push(format!("{path} {chunks}"));
        }
        packets
    }

    /// The peer's COOP-SACK on path 0 with the current time: the first `count` TSNs, and the transmissions received on each
    /// path.
    pub(crate) fn ack(&mut self, count: u32, reports: &[Report<'_>]) {
        let sack = self.coop_sack(count, reports);
        self.script.send(&[Chunk::CoopSack(sack)]);
    }

    pub(crate) fn coop_sack(&self, count: u32, reports: &[Report<'_>]) -> CoopSack {
        let reports = reports.iter().map(|&(path, below, runs)| PathReport {
            cumulative: at(path, below.wrapping_sub(1)),
            rwnd: 0,
            gap_ack_blocks: GapAckBlocks::from_blocks(runs.iter().map(|&(first, last)| GapAckBlock {
                start: (first + 1 - below) as u16,
                end: (last + 1 - below) as u16,
            })),
        });
        CoopSack {
            timestamp_ms: self.clock,
            cumulative_tsn_ack: self.script.endpoint_tsn.plus(count).minus(1),
            a_rwnd: self.a_rwnd,
            paths: PathReports::from_reports(reports),
            duplicates: PathSequences::default(),
            renegable: None,
        }
    }

    /// The peer's COOP-SACK after `change`.
    pub(crate) fn ack_with(
        &mut self,
        count: u32,
        reports: &[Report<'_>],
        change: impl FnOnce(&mut CoopSack),
    ) {
        let mut sack = self.coop_sack(count, reports);
        change(&mut sack);
        self.script.send(&[Chunk::CoopSack(sack)]);
    }

    /// Whole messages of the peer in one packet on path `by`: for each its TSN, counted from the peer's initial TSN, and its
    /// transmission.
    pub(crate) fn e_data(&mut self, by: usize, policy: AckPolicy, chunks: &[(u32, (u8, u32))]) {
        self.script.remote = self.addresses[by];
        let tsn = self.script.tsn;
        let chunk = |&(ahead, (path, number)): &(u32, (u8, u32))| {
            Chunk::EData(EData {
                transmission: at(path, number),
                policy,
                data: Data {
                    tsn: tsn.plus(ahead),
                    stream: Stream(0),
                    ssn: Ssn(ahead as u16),
                    ppid: Ppid(0),
                    unordered: true,
                    beginning: true,
                    ending: true,
                    immediate: false,
                    payload: Bytes::from(vec![1; 100]),
                },
            })
        };
        let chunks: Vec<_> = chunks.iter().map(chunk).collect();
        self.script.send(&chunks);
    }

    pub(crate) fn forward_psn(&mut self, path: u8, number: u32) {
        self.script
            .send(&[Chunk::ForwardPsn(ForwardPsn(at(path, number)))]);
    }

    /// The path and the acknowledgement policy of each E-DATA sent since the last call.
    pub(crate) fn policies(&mut self) -> Vec<(u8, AckPolicy)> {
        let chunks = self.e_data_sent();
        chunks
            .iter()
            .map(|chunk| (chunk.transmission.path, chunk.policy))
            .collect()
    }

    /// The E-DATA chunks sent since the last call.
    pub(crate) fn e_data_sent(&mut self) -> Vec<EData> {
        let mut sent = Vec::new();
        while let Some(answer) = self.script.next_answer() {
            sent.extend(answer.chunks.into_iter().filter_map(|chunk| match chunk {
                Chunk::EData(chunk) => Some(chunk),
                _ => None,
            }));
        }
        sent
    }

    pub(crate) fn counters(&self) -> Counters {
        *self.script.association().counters()
    }

    pub(crate) fn path(&self, index: usize) -> PathStats {
        self.script.association().stats().paths.swap_remove(index)
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        let events = self.script.events();
        events.iter().any(|event| matches!(event, Event::Closed(_)))
    }

    /// A transmission.
    pub(crate) fn at(path: u8, number: u32) -> PathSequence {
        at(path, number)
    }
}
