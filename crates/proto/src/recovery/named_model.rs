//! Property test of [`Outstanding`] with ECA-SCTP: against a model that lists all transmissions, with a receiver that reports correctly but
//! sometimes late.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use anabranch_wire::chunk::{
    CoopSack, GapAckBlock, GapAckBlocks, PathReport, PathReports, PathSequence, PathSequences,
};
use anabranch_wire::{Psn, StreamId, Tsn};
use bytes::Bytes;

use super::outstanding::{AckOutcome, ChunkState, InvalidAck, Outstanding, PathOutcome};
use super::{Answer, Judge, Phase};
use crate::config::{MultipathConfig, MultipathMode, RecoveryRules, SchedulerKind};
use crate::fuzzing::Commands;
use crate::message::AbandonPolicy;
use crate::message::SendOptions;
use crate::path::{PathId, Paths};
use crate::send::SendQueue;
use crate::time::Timestamp;
use crate::trace_event::LossRule;

const PATHS: usize = 3;
/// The most chunks: the model searches all of them.
const MOST: usize = 200;
const NEEDED: usize = RecoveryRules::RFC9260.missing_reports as usize;

#[derive(Clone, Debug)]
struct Entry {
    state: ChunkState,
    /// The path of its last transmission, and the number there.
    path: usize,
    number: usize,
    sent_at: Timestamp,
    transmissions: u32,
    one_path: bool,
    payload: usize,
    wire: usize,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    chunk: usize,
    /// The number of the first transmission of its packet.
    packet: usize,
    /// Whether the receiver got it, and whether the sender knows.
    got: bool,
    known: bool,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    sent: Vec<Sent>,
    /// State of the sender: the receiver's CumPSN; the first transmission in flight; the first transmission kept.
    reached: usize,
    settled: usize,
    base: usize,
    /// FORWARD-PSN: up to where it is due, up to where it was sent, and up to where the receiver heard it.
    forward: usize,
    told: usize,
    heard: usize,
    /// Packets that arrived while in flight.
    reports: BTreeSet<usize>,
    recovery_exit: Option<usize>,
}

/// An acknowledgement as the receiver wrote it.
#[derive(Clone, Debug)]
struct Snapshot {
    /// Number of chunks that arrived in order.
    cumulative: usize,
    lanes: [(usize, BTreeSet<usize>); PATHS],
}

struct Model {
    ring: Outstanding,
    links: Paths,
    queue: SendQueue,
    /// All chunks; those below `base` are cumulatively acknowledged.
    entries: Vec<Entry>,
    base: usize,
    first_tsn: Tsn,
    lanes: [Lane; PATHS],
    /// Chunks that the receiver has.
    has: BTreeSet<usize>,
    in_transit: Vec<Snapshot>,
    now: Timestamp,
}

impl Model {
    fn index(&self, chunk: usize) -> u64 {
        self.ring.next_index() - (self.entries.len() - chunk) as u64
    }

    fn transmit(&mut self, chunk: usize, path: usize, packet: usize) -> usize {
        let lane = &mut self.lanes[path];
        lane.sent.push(Sent {
            chunk,
            packet,
            got: false,
            known: false,
        });
        lane.sent.len() - 1
    }

    /// A packet of `count` chunks of `len` bytes is sent.
    fn push(&mut self, path: usize, count: usize, len: usize) {
        let id = PathId(path as u8);
        self.links.path_mut(id).flight.begin_packet();
        let packet = self.lanes[path].sent.len();
        for _ in 0..count {
            if self.entries.len() - self.base >= MOST {
                return;
            }
            let (message, options) = (Bytes::from(vec![1; len]), SendOptions::default());
            let pushed = self
                .queue
                .push(self.now, StreamId(0), message, &options, false, true);
            pushed.expect("it is taken");
            let fragment = self.queue.take(self.now, len).expect("it waits");
            let wire = fragment.wire_len();
            self.ring.push(fragment, self.links.path_mut(id), self.now);
            let number = self.transmit(self.entries.len(), path, packet);
            self.entries.push(Entry {
                state: ChunkState::InFlight,
                path,
                number,
                sent_at: self.now,
                transmissions: 1,
                one_path: true,
                payload: len,
                wire,
            });
        }
    }

    fn retransmit(&mut self, path: usize) {
        let is_lost = |chunk: &usize| matches!(self.entries[*chunk].state, ChunkState::Lost { .. });
        let first = (self.base..self.entries.len()).find(is_lost);
        assert_eq!(self.ring.first_lost(), first.map(|chunk| self.index(chunk)));
        let Some(chunk) = first else { return };
        let index = self.index(chunk);
        let link = self.links.path_mut(PathId(path as u8));
        link.flight.begin_packet();
        self.ring.on_retransmit(index, link, self.now);
        let number = self.transmit(chunk, path, self.lanes[path].sent.len());
        let entry = &mut self.entries[chunk];
        entry.state = ChunkState::InFlight;
        entry.one_path &= entry.path == path;
        (entry.path, entry.number) = (path, number);
        entry.sent_at = self.now;
        entry.transmissions += 1;
    }

    fn time_out(&mut self, path: usize) {
        for entry in &mut self.entries[self.base..] {
            if entry.path == path && entry.state == ChunkState::InFlight {
                entry.state = ChunkState::Lost { timed_out: true };
            }
        }
        self.ring
            .on_timeout(PathId(path as u8), LossRule::T3Rtx, &mut self.links);
        self.lanes[path].recovery_exit = None;
        self.settle();
    }

    /// The network: the last transmissions of a path whose bits are set arrive.
    fn deliver(&mut self, path: usize, bits: u16) {
        for (ahead, sent) in self.lanes[path].sent.iter_mut().rev().take(16).enumerate() {
            // The transmission that reneging puts back into the flight was never sent.
            if bits >> ahead & 1 == 1 && sent.packet != usize::MAX {
                sent.got = true;
                self.has.insert(sent.chunk);
            }
        }
    }

    /// The first chunk that the receiver does not have.
    fn missing(&self) -> usize {
        (0..).find(|chunk| !self.has.contains(chunk)).unwrap_or(0)
    }

    /// The receiver reneges on the chunks above a gap.
    fn renege(&mut self, chunk: usize) {
        if chunk > self.missing() {
            self.has.remove(&chunk);
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            cumulative: self.missing(),
            lanes: self.lanes.each_ref().map(|lane| {
                let arrived = |number: &usize| lane.sent[*number].got || *number < lane.heard;
                let below = (0..lane.sent.len()).find(|number| !arrived(number));
                let below = below.unwrap_or(lane.sent.len());
                (below, (below..lane.sent.len()).filter(arrived).collect())
            }),
        }
    }

    fn chunk_of(&self, snapshot: &Snapshot) -> CoopSack {
        let reports = snapshot
            .lanes
            .iter()
            .enumerate()
            .map(|(path, (below, above))| PathReport {
                cumulative: PathSequence {
                    path: path as u8,
                    number: Psn::new((*below as u32).wrapping_sub(1)),
                },
                rwnd: 0,
                gap_ack_blocks: GapAckBlocks::from_blocks(above.iter().map(|number| {
                    let offset = (number + 1 - below) as u16;
                    GapAckBlock {
                        start: offset,
                        end: offset,
                    }
                })),
            });
        CoopSack {
            timestamp_ms: 0,
            cumulative_tsn_ack: self.first_tsn.plus(snapshot.cumulative as u32).minus(1),
            a_rwnd: 0,
            paths: PathReports::from_reports(reports),
            duplicates: PathSequences::default(),
            renegable: None,
        }
    }

    fn judge(&self) -> Judge {
        Judge {
            policy: AbandonPolicy::Never,
            now: self.now,
        }
    }

    fn acknowledge(&mut self, snapshot: &Snapshot, overtaken: bool) {
        let sack = self.chunk_of(snapshot);
        let mut outcome = AckOutcome::default();
        outcome.begin(PATHS);
        let judge = self.judge();
        let result = self
            .ring
            .on_coop_ack(&sack, overtaken, &mut self.links, &judge, &mut outcome);
        assert_eq!(result, Ok(()));
        let expected = self.expect(snapshot, overtaken);
        self.compare(&outcome.paths, &expected);
    }

    fn compare(&self, paths: &[PathOutcome], expected: &[PathOutcome]) {
        let of = |path: &PathOutcome| {
            let reduced = path.phase == Phase::Reduced;
            let bytes = (path.newly_acked, path.reneged);
            (bytes, path.lost, reduced, path.answer, path.sample)
        };
        assert!(
            paths.iter().map(of).eq(expected.iter().map(of)),
            "{paths:?} {expected:?}"
        );
    }

    /// The expected effects of an acknowledgement.
    fn expect(&mut self, snapshot: &Snapshot, overtaken: bool) -> Vec<PathOutcome> {
        let mut outcome = vec![PathOutcome::default(); PATHS];
        let overtaken = overtaken || snapshot.cumulative < self.base;
        let cumulative = if overtaken { self.base } else { snapshot.cumulative };
        let (named, late) = self.expect_named(snapshot);
        let mut acked: BTreeSet<usize> = (self.base..self.entries.len())
            .filter(|chunk| self.entries[*chunk].state == ChunkState::Acked || named.contains(chunk))
            .collect();
        if !overtaken {
            acked.remove(&cumulative);
        }
        let mut newly = [false; PATHS];
        for chunk in self.base..self.entries.len() {
            let before = self.entries[chunk].state;
            let now = chunk < cumulative || acked.contains(&chunk);
            if now && before != ChunkState::Acked {
                self.expect_acked(chunk, &late, &mut newly, &mut outcome);
                self.entries[chunk].state = ChunkState::Acked;
            }
        }
        for chunk in cumulative..self.entries.len() {
            if self.entries[chunk].state == ChunkState::Acked && !acked.contains(&chunk) {
                let path = self.entries[chunk].path;
                let number = self.transmit(chunk, path, usize::MAX);
                let entry = &mut self.entries[chunk];
                entry.state = ChunkState::InFlight;
                entry.number = number;
                outcome[path].reneged += entry.wire;
            }
        }
        self.base = cumulative;
        for path in (0..PATHS).filter(|path| newly[*path]) {
            self.end_recovery(path);
        }
        if newly.contains(&true) && !overtaken {
            for path in 0..PATHS {
                let lost =
                    |lane: &Lane, entry: &Entry| lane.reports.range(entry.number + 1..).count() >= NEEDED;
                self.expect_lost(path, lost, &mut outcome);
            }
        }
        self.expect_reductions(&mut outcome);
        outcome
    }

    /// The chunks that are named for the first time, and the path if their last transmission did not bring them.
    fn expect_named(&mut self, snapshot: &Snapshot) -> (BTreeSet<usize>, BTreeMap<usize, usize>) {
        let (mut named, mut late) = (BTreeSet::new(), BTreeMap::new());
        for (path, (below, above)) in snapshot.lanes.iter().enumerate() {
            let lane = &mut self.lanes[path];
            for number in lane.base..lane.sent.len() {
                let says = (number < *below && number >= lane.told) || above.contains(&number);
                let sent = &mut lane.sent[number];
                if !says || core::mem::replace(&mut sent.known, true) || sent.chunk < self.base {
                    continue;
                }
                let entry = &self.entries[sent.chunk];
                if entry.state == ChunkState::Acked {
                    continue;
                }
                if (entry.path, entry.number) != (path, number) {
                    late.insert(sent.chunk, path);
                }
                named.insert(sent.chunk);
            }
            lane.reached = lane.reached.max(*below);
        }
        (named, late)
    }

    fn expect_acked(
        &mut self,
        chunk: usize,
        late: &BTreeMap<usize, usize>,
        newly: &mut [bool; PATHS],
        outcome: &mut [PathOutcome],
    ) {
        let entry = &self.entries[chunk];
        let lane = &mut self.lanes[entry.path];
        let sent = lane.sent[entry.number];
        let is_named = sent.known && entry.number >= lane.base;
        if entry.state == ChunkState::InFlight && is_named {
            lane.reports.insert(sent.packet);
            newly[entry.path] = true;
        }
        let (by, is_last) = match late.get(&chunk) {
            _ if is_named => (entry.path, true),
            Some(path) => (*path, false),
            None => (entry.path, entry.transmissions == 1),
        };
        let path = &mut outcome[by];
        path.newly_acked += entry.wire;
        path.answer = path.answer.max(if entry.one_path || is_last {
            Answer::OfThisPath
        } else {
            Answer::Data
        });
        if is_last {
            path.sample = path.sample.max(Some(entry.sent_at));
        }
    }

    fn in_flight(&self, path: usize) -> impl Iterator<Item = &Entry> {
        let entries = self.entries[self.base..].iter();
        entries.filter(move |entry| entry.path == path && entry.state == ChunkState::InFlight)
    }

    fn end_recovery(&mut self, path: usize) {
        let exit = self.lanes[path].recovery_exit;
        let over = exit.is_some_and(|exit| self.in_flight(path).all(|entry| entry.number > exit));
        self.lanes[path].recovery_exit = exit.filter(|_| !over);
    }

    fn expect_lost(
        &mut self,
        path: usize,
        lost: impl Fn(&Lane, &Entry) -> bool,
        outcome: &mut [PathOutcome],
    ) {
        for entry in &mut self.entries[self.base..] {
            let open = entry.path == path && entry.state == ChunkState::InFlight;
            if open && lost(&self.lanes[path], entry) {
                entry.state = ChunkState::Lost { timed_out: false };
                outcome[path].lost += 1;
            }
        }
    }

    fn expect_reductions(&mut self, outcome: &mut [PathOutcome]) {
        for (lane, path) in self.lanes.iter_mut().zip(outcome) {
            if path.lost > 0 && lane.recovery_exit.is_none() {
                path.phase = Phase::Reduced;
                lane.recovery_exit = Some(lane.sent.len() - 1);
            }
        }
        self.settle();
    }

    fn settle(&mut self) {
        for path in 0..PATHS {
            let first = self.in_flight(path).map(|entry| entry.number).min();
            let lane = &mut self.lanes[path];
            let settled = first.unwrap_or(lane.sent.len());
            for number in lane.settled..settled {
                if number >= lane.base && !lane.sent[number].known {
                    lane.forward = number + 1;
                }
            }
            lane.settled = settled;
            lane.base = lane.base.max(lane.reached.min(settled));
        }
    }

    /// The time rule: declares transmissions lost that left up to `until` and were overtaken, in the order of sending.
    fn overtaken(&mut self, path: usize, until: Timestamp) {
        let mut outcome = AckOutcome::default();
        outcome.begin(PATHS);
        let judge = self.judge();
        let mut open: Vec<(usize, Timestamp)> = self
            .in_flight(path)
            .map(|entry| (entry.number, entry.sent_at))
            .collect();
        open.sort_unstable();
        let highest = self.lanes[path].reports.last().copied().unwrap_or(0);
        let overtaken: Vec<_> = open.iter().take_while(|(number, _)| *number < highest).collect();
        let is_due = self.ring.overtaken(PathId(path as u8), &self.links);
        assert_eq!(
            is_due.map(|(left, _)| left),
            overtaken.first().map(|(_, left)| *left)
        );
        let lost: BTreeSet<usize> = overtaken
            .iter()
            .take_while(|(_, left)| *left <= until)
            .map(|(number, _)| *number)
            .collect();
        self.ring
            .on_overtaken(PathId(path as u8), until, &judge, &mut self.links, &mut outcome);
        let mut expected = vec![PathOutcome::default(); PATHS];
        self.end_recovery(path);
        self.expect_lost(path, |_, entry| lost.contains(&entry.number), &mut expected);
        self.expect_reductions(&mut expected);
        self.compare(&outcome.paths, &expected);
    }

    /// Sends FORWARD-PSN, which `arrives` or not.
    fn forward(&mut self, path: usize, arrives: bool) {
        let lane = &mut self.lanes[path];
        let id = PathId(path as u8);
        let named = self.ring.identity_mut().expect("they are named");
        let flight = &self.links.path(id).flight;
        let due = named.forward_due(id, flight, self.now, Duration::ZERO);
        let expected = (lane.forward > lane.base).then(|| Psn::new(lane.forward as u32 - 1));
        assert_eq!(due, expected);
        if due.is_some() {
            named.on_forward_told(id, self.now);
            lane.told = lane.told.max(lane.forward);
            if arrives {
                lane.heard = lane.heard.max(lane.forward);
            }
        }
    }

    /// The peer names transmissions that were never sent.
    fn lie(&mut self, path: usize, ahead: usize) {
        let mut snapshot = self.snapshot();
        let end = self.lanes[path].sent.len();
        if ahead == 0 {
            snapshot.cumulative = self.entries.len() + 1;
        } else {
            snapshot.lanes[path].1.insert(end + ahead - 1);
        }
        let sack = self.chunk_of(&snapshot);
        let mut outcome = AckOutcome::default();
        outcome.begin(PATHS);
        let judge = self.judge();
        let result = self
            .ring
            .on_coop_ack(&sack, false, &mut self.links, &judge, &mut outcome);
        assert_eq!(result, Err(InvalidAck::NeverSent));
    }

    fn check(&self) {
        let entries = &self.entries[self.base..];
        assert_eq!(self.ring.is_empty(), entries.is_empty());
        let sum = |wanted: &dyn Fn(&&Entry) -> bool, size: fn(&Entry) -> usize| {
            entries.iter().filter(wanted).map(size).sum::<usize>()
        };
        assert_eq!(self.ring.bytes(), sum(&|_| true, |entry| entry.payload));
        let acked = |entry: &&Entry| entry.state == ChunkState::Acked;
        assert_eq!(self.ring.held(), sum(&acked, |entry| entry.wire));
        for chunk in self.base..self.entries.len() {
            let (entry, real) = (&self.entries[chunk], self.ring.chunk(self.index(chunk)));
            // The model does not tell `Kept` from `Acked`.
            let kept = real.state == ChunkState::Kept;
            let state = if kept { ChunkState::Acked } else { real.state };
            assert_eq!(
                (state, real.path.index(), real.sequence, real.transmissions),
                (entry.state, entry.path, entry.number as u64, entry.transmissions)
            );
        }
        for (path, lane) in self.lanes.iter().enumerate() {
            let recovers = self.ring.is_recovering(PathId(path as u8));
            assert_eq!(recovers, lane.recovery_exit.is_some());
            self.check_flight(path);
        }
    }
}

impl Model {
    /// Bytes in flight and the order of sending.
    fn check_flight(&self, path: usize) {
        let flight = &self.links.path(PathId(path as u8)).flight;
        assert_eq!(
            flight.bytes(),
            self.in_flight(path).map(|entry| entry.wire).sum::<usize>()
        );
        assert_eq!(
            flight.payload(),
            self.in_flight(path).map(|entry| entry.payload).sum::<usize>()
        );
        let mut open: Vec<_> = self.in_flight(path).map(|entry| entry.number as u64).collect();
        open.sort_unstable();
        let sendings = flight.range(0).filter(|(_, sending)| sending.is_open());
        assert_eq!(Vec::from_iter(sendings.map(|(no, _)| no)), open);
        let lane = &self.lanes[path];
        assert_eq!(
            (flight.base(), flight.next()),
            (lane.base as u64, lane.sent.len() as u64)
        );
        assert_eq!(flight.earliest(), lane.settled as u64);
    }
}

pub(crate) fn run(mut commands: Commands<'_>) {
    let first_tsn = Tsn(commands.u32());
    let multipath = MultipathConfig {
        mode: MultipathMode::Eca,
        backs_off: false,
        ..MultipathConfig::OFF
    };
    let mut links = Paths::for_models(PATHS as u8);
    let mut ring = Outstanding::new(first_tsn, RecoveryRules::RFC9260, multipath);
    ring.name_sendings(true, &mut links);
    let mut model = Model {
        ring,
        links,
        queue: SendQueue::new(1, SchedulerKind::FirstComeFirstServed),
        entries: Vec::new(),
        base: 0,
        first_tsn,
        lanes: Default::default(),
        has: BTreeSet::new(),
        in_transit: Vec::new(),
        now: Timestamp::ZERO,
    };
    while let Some(command) = commands.next(12) {
        model.now += Duration::from_millis(1);
        let bits = commands.u8();
        let path = usize::from(bits) % PATHS;
        match command {
            0..3 => model.push(
                path,
                1 + usize::from(bits >> 6),
                1 + usize::from(bits >> 4 & 3) * 90,
            ),
            3 => model.retransmit(path),
            4 if bits >= 192 => model.time_out(path),
            4 | 5 => model.deliver(path, commands.u16()),
            6 | 7 => {
                let snapshot = model.snapshot();
                if bits & 0x80 != 0 {
                    model.in_transit.push(snapshot);
                } else {
                    model.acknowledge(&snapshot, false);
                }
            }
            8 => {
                if !model.in_transit.is_empty() {
                    let snapshot = model
                        .in_transit
                        .swap_remove(usize::from(bits) % model.in_transit.len());
                    model.acknowledge(&snapshot, true);
                }
            }
            9 => model.overtaken(
                path,
                model.now.before(Duration::from_millis(u64::from(bits >> 3))),
            ),
            10 => model.forward(path, bits & 0x80 == 0),
            _ if bits & 0x80 == 0 => model.renege(model.base + usize::from(bits >> 2)),
            _ => model.lie(path, usize::from(bits >> 5 & 3)),
        }
        model.check();
    }
}
