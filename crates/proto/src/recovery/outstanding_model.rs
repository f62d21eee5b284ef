//! Property test of [`Outstanding`]: against a list of chunks, each with its own count of missing reports.

use core::time::Duration;
use std::collections::BTreeSet;

use anabranch_wire::chunk::{GapAckBlock, GapAckBlocks, Sack, TsnList};
use anabranch_wire::{StreamId, Tsn};
use bytes::Bytes;

use super::outstanding::{AckOutcome, Chunk, ChunkState, InvalidAck, Outstanding, PathOutcome};
use super::{AckReport, Answer, Judge, Listing, Phase, normalise};
use crate::config::{MultipathConfig, MultipathMode, RecoveryRules, SchedulerKind};
use crate::fuzzing::Commands;
use crate::message::AbandonPolicy;
use crate::message::SendOptions;
use crate::path::{PathId, Paths};
use crate::send::SendQueue;
use crate::time::Timestamp;
use crate::trace_event::LossRule;

const PATHS: u8 = 3;

/// The most chunks: the model searches all of them.
const MOST: usize = 300;

#[derive(Clone, Debug)]
struct Entry {
    state: ChunkState,
    path: PathId,
    sent_at: Timestamp,
    first_sent_at: Timestamp,
    arrived: bool,
    transmissions: u32,
    paths: Vec<PathId>,
    payload: usize,
    wire: usize,
    fast_retransmitted: bool,
    reports: u8,
    declared: bool,
    /// The number of its last transmission on its path, and whether that was a retransmission.
    sequence: u64,
    retransmission: bool,
}

struct Model {
    ring: Outstanding,
    paths: Paths,
    queue: SendQueue,
    entries: Vec<Entry>,
    /// The TSN of the first entry.
    base: Tsn,
    /// During fast recovery: how many entries must be acknowledged to end it.
    recovery_exit: Option<usize>,
    /// Whether losses are detected for each path by itself, and the state of each path.
    split: bool,
    lanes: [Lane; PATHS as usize],
    /// Number of packets that the next acknowledgement answers.
    packets: u8,
    /// When the receiver last reneged on more than the first chunk.
    reneged_at: Option<Timestamp>,
    now: Timestamp,
}

/// The state of one path, if losses are detected for each path by itself.
#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    /// Number of transmissions so far.
    next: u64,
    recovery_exit: Option<u64>,
}

/// The chunks in flight on a path before an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    first: Option<u64>,
    retransmission: Option<u64>,
    recovering: bool,
}

impl Model {
    /// The extended TSN of an entry.
    fn index(&self, offset: usize) -> u64 {
        self.ring.next_index() - (self.entries.len() - offset) as u64
    }

    fn push(&mut self, path: PathId, len: usize) {
        if self.entries.len() == MOST {
            return;
        }
        let message = Bytes::from(vec![1; len]);
        let options = SendOptions::default();
        self.queue
            .push(self.now, StreamId(0), message, &options, false, true)
            .expect("it is taken");
        let fragment = self.queue.take(self.now, len).expect("it waits");
        let entry = Entry {
            state: ChunkState::InFlight,
            path,
            sent_at: self.now,
            first_sent_at: self.now,
            arrived: false,
            transmissions: 1,
            paths: vec![path],
            payload: len,
            wire: fragment.wire_len(),
            fast_retransmitted: false,
            reports: 0,
            declared: false,
            sequence: self.lanes[path.index()].take(),
            retransmission: false,
        };
        let next = self.base.plus(self.entries.len() as u32);
        assert_eq!(self.ring.next_tsn(), next);
        let index = self.ring.push(fragment, self.paths.path_mut(path), self.now);
        assert_eq!(index as u32, next.0);
        self.entries.push(entry);
    }

    fn retransmit(&mut self, path: PathId) {
        let first = self
            .entries
            .iter()
            .position(|entry| matches!(entry.state, ChunkState::Lost { .. }));
        let index = first.map(|offset| self.index(offset));
        assert_eq!(self.ring.first_lost(), index);
        let (Some(index), Some(offset)) = (index, first) else {
            return;
        };
        self.ring
            .on_retransmit(index, self.paths.path_mut(path), self.now);
        let entry = &mut self.entries[offset];
        entry.state = ChunkState::InFlight;
        entry.path = path;
        entry.sent_at = self.now;
        entry.transmissions += 1;
        entry.paths.push(path);
        entry.sequence = self.lanes[path.index()].take();
        entry.retransmission = true;
        if self.split {
            entry.reports = 0;
        }
    }

    fn time_out(&mut self, path: PathId) {
        let mut count = 0;
        for entry in &mut self.entries {
            if entry.path == path && entry.state == ChunkState::InFlight {
                entry.state = ChunkState::Lost { timed_out: true };
                entry.fast_retransmitted = false;
                count += 1;
            }
            if !self.split {
                entry.reports = 0;
                entry.declared = false;
            }
        }
        self.recovery_exit = None;
        self.lanes[path.index()].recovery_exit = None;
        assert_eq!(
            self.ring.on_timeout(path, LossRule::T3Rtx, &mut self.paths),
            count
        );
    }

    fn earliest(&self, path: PathId) -> Option<usize> {
        if self.split {
            let on_path = self.in_flight_on(path.index());
            let first = on_path.min_by_key(|(_, entry)| entry.sequence);
            return first.map(|(offset, _)| offset);
        }
        let in_flight = |entry: &Entry| entry.path == path && entry.state == ChunkState::InFlight;
        self.entries.iter().position(in_flight)
    }

    fn in_flight_on(&self, path: usize) -> impl Iterator<Item = (usize, &Entry)> {
        let in_flight =
            move |entry: &Entry| entry.path.index() == path && entry.state == ChunkState::InFlight;
        self.entries
            .iter()
            .enumerate()
            .filter(move |(_, entry)| in_flight(entry))
    }

    fn before(&self, path: usize) -> Before {
        let sequence = |retransmission: bool| {
            let of_kind = self
                .in_flight_on(path)
                .filter(move |(_, entry)| entry.retransmission == retransmission);
            of_kind.map(|(_, entry)| entry.sequence).min()
        };
        Before {
            first: sequence(false),
            retransmission: sequence(true),
            recovering: self.lanes[path].recovery_exit.is_some(),
        }
    }

    /// An acknowledgement with blocks as a peer may list them: unordered, overlapping or invalid ones included.
    fn acknowledge(&mut self, cumulative: Tsn, blocks: &[GapAckBlock]) {
        let sack = Sack {
            cumulative_tsn_ack: cumulative,
            a_rwnd: 0,
            gap_ack_blocks: GapAckBlocks::from_blocks(blocks.iter().copied()),
            duplicate_tsns: TsnList::from_tsns([]),
        };
        let mut normal = Vec::new();
        normalise(&sack.gap_ack_blocks, &mut normal);
        let sound = blocks.iter().filter(|block| block.start > 0);
        let offsets: BTreeSet<u16> = sound.flat_map(|block| block.start..=block.end).collect();
        let normal_offsets: Vec<u16> = normal.iter().flat_map(|block| block.start..=block.end).collect();
        assert!(normal_offsets.iter().eq(&offsets), "{normal:?} for {offsets:?}");
        self.acknowledge_in_order(cumulative, &normal, &offsets, Listing::All);
    }

    /// The acknowledgement of a SHUTDOWN: gap-acknowledged chunks stay acknowledged, except the chunk that follows the cumulative TSN ack.
    fn shut_down(&mut self, taken: usize) {
        let acked =
            (taken + 1..self.entries.len()).filter(|&offset| self.entries[offset].state == ChunkState::Acked);
        let offsets = acked.map(|offset| (offset + 1 - taken) as u16).collect();
        self.acknowledge_in_order(
            self.base.minus(1).plus(taken as u32),
            &[],
            &offsets,
            Listing::Nothing,
        );
    }

    fn acknowledge_in_order(
        &mut self,
        cumulative: Tsn,
        blocks: &[GapAckBlock],
        offsets: &BTreeSet<u16>,
        listing: Listing,
    ) {
        let report = AckReport {
            cumulative,
            renegable: blocks,
            nonrenegable: &[],
            duplicates: 0,
            packets: self.packets,
            a_rwnd: None,
            overtaken: false,
            listing,
        };
        let mut outcome = AckOutcome::default();
        outcome.begin(PATHS.into());
        let judge = Judge {
            policy: AbandonPolicy::Never,
            now: self.now,
        };
        let known = |entry: &Entry| entry.state == ChunkState::Acked;
        let known: BTreeSet<usize> = (0..self.entries.len())
            .filter(|at| known(&self.entries[*at]))
            .collect();
        let in_flight = self
            .entries
            .iter()
            .any(|entry| entry.state == ChunkState::InFlight);
        let result = self.ring.on_ack(&report, &mut self.paths, &judge, &mut outcome);
        // Number of chunks that the cumulative TSN ack removes; a negative number means a stale acknowledgement.
        let taken = cumulative.distance_from(self.base.minus(1)) as i32;
        let overtaken = |acked: &BTreeSet<usize>| {
            let less = acked.is_subset(&known) && *acked != known;
            self.split && listing == Listing::All && taken == 0 && in_flight && less
        };
        let highest = i64::from(taken) + offsets.last().map_or(0, |offset| i64::from(*offset));
        if taken < 0 {
            assert_eq!(result, Err(InvalidAck::Stale));
        } else if highest > self.entries.len() as i64 {
            assert_eq!(result, Err(InvalidAck::NeverSent));
        } else {
            let acked: BTreeSet<usize> = offsets
                .iter()
                .map(|offset| taken as usize + usize::from(*offset) - 1)
                .collect();
            if overtaken(&acked) {
                return assert_eq!(result, Err(InvalidAck::Stale));
            }
            assert_eq!(result, Ok(()));
            let expected = self.expect_ack(taken as usize, &acked);
            check_sendings(&outcome);
            // The model does not number transmissions.
            outcome.lost.clear();
            for path in &mut outcome.paths {
                (path.newest, path.certain) = (None, None);
            }
            assert_eq!(format!("{outcome:?}"), format!("{expected:?}"));
        }
    }

    /// The expected effects of an acknowledgement that removes the first `taken` entries and gap-acknowledges exactly `acked`.
    fn expect_ack(&mut self, taken: usize, acked: &BTreeSet<usize>) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        outcome.begin(PATHS.into());
        outcome.cumulative_moved = taken > 0;
        let earliest: Vec<_> = (0..PATHS).map(|path| self.earliest(PathId(path))).collect();
        let before: Vec<_> = (0..PATHS.into()).map(|path| self.before(path)).collect();
        let mut newly: [Vec<u64>; PATHS as usize] = Default::default();
        let mut highest_new = None;
        let interval = Duration::from_millis(100);
        let may_renege = self.reneged_at.is_none_or(|at| self.now >= at + interval);
        for (offset, entry) in self.entries.iter_mut().enumerate() {
            let path = &mut outcome.paths[entry.path.index()];
            let now_acked = offset < taken || acked.contains(&offset);
            if now_acked && entry.state != ChunkState::Acked {
                if entry.state == ChunkState::InFlight {
                    newly[entry.path.index()].push(entry.sequence);
                }
                note_acked(entry, path, Some(offset) == earliest[entry.path.index()]);
                entry.state = ChunkState::Acked;
                if !core::mem::replace(&mut entry.arrived, true) {
                    outcome.arrived.push((StreamId(0), entry.first_sent_at));
                }
                highest_new = Some(offset);
            } else if !now_acked && entry.state == ChunkState::Acked && (may_renege || offset == taken) {
                if offset > taken {
                    self.reneged_at = Some(self.now);
                }
                entry.state = ChunkState::InFlight;
                path.reneged += entry.wire;
                outcome.reneged += 1;
                entry.sequence = self.lanes[entry.path.index()].take();
                entry.retransmission = true;
                if self.split {
                    entry.reports = 0;
                }
            }
        }
        if self.split {
            self.count_on_paths(&before, &newly, taken, &mut outcome);
        } else {
            self.count_together(taken, highest_new, &mut outcome);
        }
        self.entries.drain(..taken);
        self.base = self.base.plus(taken as u32);
        self.recovery_exit = self.recovery_exit.map(|exit| exit - taken);
        outcome
    }

    /// RFC 9260: missing reports in the order of TSNs, one fast recovery for all paths.
    fn count_together(&mut self, taken: usize, highest_new: Option<usize>, outcome: &mut AckOutcome) {
        let was_recovering = self.recovery_exit.is_some();
        self.recovery_exit = self.recovery_exit.filter(|exit| *exit > taken);
        let acked = |entry: &Entry| entry.state == ChunkState::Acked;
        let highest = self
            .entries
            .iter()
            .rposition(acked)
            .filter(|highest| *highest >= taken);
        if let Some(highest) = highest {
            self.count_missing(taken, highest, highest_new, outcome);
        }
        for path in &mut outcome.paths {
            path.phase = if outcome.recoveries > 0 && path.lost > 0 {
                Phase::Reduced
            } else if was_recovering && self.recovery_exit.is_some() && outcome.recoveries == 0 {
                Phase::Recovering
            } else {
                Phase::Open
            };
            path.advanced = taken > 0;
        }
    }

    /// Missing reports for each path by itself: a count for each transmission.
    fn count_on_paths(
        &mut self,
        before: &[Before],
        newly: &[Vec<u64>],
        taken: usize,
        outcome: &mut AckOutcome,
    ) {
        let answered = newly.iter().filter(|newly| !newly.is_empty()).count();
        let packets = if answered == 1 { self.packets.max(1) } else { 1 };
        for (path, newly) in newly.iter().enumerate() {
            let Before {
                first,
                retransmission,
                recovering,
            } = before[path];
            let earliest = [first, retransmission].into_iter().flatten().min();
            let result = &mut outcome.paths[path];
            result.advanced = [first, retransmission]
                .iter()
                .flatten()
                .any(|one| newly.contains(one));
            result.restarts_t3 = false;
            let Some((low, high)) = newly.iter().min().zip(newly.iter().max()) else {
                result.phase = if recovering {
                    Phase::Recovering
                } else {
                    Phase::Open
                };
                continue;
            };
            let lane = self.lanes[path];
            let mut exit = lane.recovery_exit;
            let open = |entry: &Entry| entry.path.index() == path && entry.state == ChunkState::InFlight;
            let left = &mut self.entries[taken..];
            if exit.is_some_and(|exit| !left.iter().any(|entry| open(entry) && entry.sequence <= exit)) {
                exit = None;
            }
            for entry in left.iter_mut().filter(|entry| open(entry)) {
                entry.reports += u8::from(entry.sequence < *high);
                entry.reports += (packets - 1) * u8::from(entry.sequence < *low);
                if entry.reports >= RecoveryRules::RFC9260.missing_reports {
                    entry.state = ChunkState::Lost { timed_out: false };
                    entry.fast_retransmitted = true;
                    result.lost += 1;
                    result.lost_bytes += entry.wire;
                }
            }
            let reduced = result.lost > 0 && exit.is_none();
            outcome.recoveries += u32::from(reduced);
            if reduced {
                exit = Some(lane.next - 1);
            }
            result.phase = match (reduced, recovering && exit.is_some()) {
                (true, _) => Phase::Reduced,
                (false, true) => Phase::Recovering,
                (false, false) => Phase::Open,
            };
            let after = left
                .iter()
                .filter(|entry| open(entry))
                .map(|entry| entry.sequence)
                .min();
            result.restarts_t3 = after != earliest;
            self.lanes[path].recovery_exit = exit;
        }
    }

    /// A report counts for all chunks below it, also for those that have arrived and are reneged on later.
    fn count_missing(
        &mut self,
        taken: usize,
        highest_acked: usize,
        highest_new: Option<usize>,
        outcome: &mut AckOutcome,
    ) {
        let below = match highest_new {
            _ if self.recovery_exit.is_some() && taken > 0 => highest_acked,
            Some(highest) => highest,
            None => return,
        };
        let mut any = false;
        for (offset, entry) in self.entries.iter_mut().enumerate().skip(taken) {
            if offset >= below {
                continue;
            }
            entry.reports = entry.reports.saturating_add(1);
            if entry.reports < RecoveryRules::RFC9260.missing_reports || entry.declared {
                continue;
            }
            entry.declared = true;
            if entry.state == ChunkState::InFlight && !entry.fast_retransmitted {
                entry.state = ChunkState::Lost { timed_out: false };
                entry.fast_retransmitted = true;
                let path = &mut outcome.paths[entry.path.index()];
                path.lost += 1;
                path.lost_bytes += entry.wire;
                any = true;
            }
        }
        if any && self.recovery_exit.is_none() {
            outcome.recoveries = 1;
            self.recovery_exit = Some(self.entries.len());
        }
    }

    fn drain(&mut self) {
        self.base = self.base.plus(self.entries.len() as u32);
        let drained: Vec<Chunk> = self.ring.drain(&mut self.paths).collect();
        assert_eq!(drained.len(), self.entries.len());
        for (chunk, entry) in drained.iter().zip(self.entries.drain(..)) {
            check_chunk(chunk, &entry);
        }
        self.recovery_exit = None;
        for lane in &mut self.lanes {
            lane.recovery_exit = None;
        }
    }

    fn check(&self) {
        assert_eq!(self.ring.is_empty(), self.entries.is_empty());
        assert_eq!(self.ring.next_tsn(), self.base.plus(self.entries.len() as u32));
        assert_eq!(
            self.ring.bytes(),
            self.entries.iter().map(|entry| entry.payload).sum::<usize>()
        );
        for (path, lane) in (0..PATHS).zip(self.lanes) {
            let recovers = lane.recovery_exit.is_some() || self.recovery_exit.is_some();
            assert_eq!(self.ring.is_recovering(PathId(path)), recovers);
            self.check_flight(PathId(path));
        }
        let acked = self
            .entries
            .iter()
            .filter(|entry| entry.state == ChunkState::Acked);
        assert_eq!(self.ring.held(), acked.map(|entry| entry.wire).sum::<usize>());
        assert!(self.ring.has_room());
        for (offset, entry) in self.entries.iter().enumerate() {
            check_chunk(self.ring.chunk(self.index(offset)), entry);
        }
    }

    /// Bytes in flight, the earliest outstanding chunk and the order of sending.
    fn check_flight(&self, path: PathId) {
        let flight = &self.paths.path(path).flight;
        let mut open: Vec<(u64, usize)> = self
            .in_flight_on(path.index())
            .map(|(offset, entry)| (entry.sequence, offset))
            .collect();
        open.sort_unstable();
        let sum = |size: fn(&Entry) -> usize| -> usize {
            open.iter().map(|(_, offset)| size(&self.entries[*offset])).sum()
        };
        assert_eq!(flight.bytes(), sum(|entry| entry.wire));
        assert_eq!(flight.payload(), sum(|entry| entry.payload));
        assert_eq!(flight.is_empty(), open.is_empty());
        let sendings = flight.range(flight.earliest()).filter(|(_, one)| one.is_open());
        let sendings: Vec<_> = sendings.map(|(no, one)| (no, one.tsn)).collect();
        let expected = open.iter().map(|(no, offset)| (*no, self.index(*offset)));
        assert_eq!(sendings, Vec::from_iter(expected));
        let lowest = open.iter().map(|(_, offset)| *offset).min();
        assert_eq!(flight.lowest_tsn(), lowest.map(|offset| self.index(offset)));
    }
}

impl Lane {
    /// The number of the next transmission.
    fn take(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

fn note_acked(entry: &Entry, path: &mut PathOutcome, earliest: bool) {
    path.newly_acked += entry.wire;
    let one_path = entry.paths.iter().all(|other| *other == entry.path);
    let answer = if one_path || entry.transmissions == 1 {
        Answer::OfThisPath
    } else {
        Answer::Data
    };
    path.answer = path.answer.max(answer);
    path.restarts_t3 |= entry.state == ChunkState::InFlight && earliest;
    if entry.transmissions == 1 {
        path.sample = path.sample.max(Some(entry.sent_at));
        path.largest = path.largest.max((entry.wire, entry.sent_at));
    }
}

/// Each lost chunk and each RTT sample has its transmission.
fn check_sendings(outcome: &AckOutcome) {
    for (index, path) in outcome.paths.iter().enumerate() {
        let here = outcome.lost.iter().filter(|(on, ..)| on.index() == index);
        let bytes = here.clone().map(|(.., bytes)| bytes).sum::<usize>();
        assert_eq!((here.count() as u32, bytes), (path.lost, path.lost_bytes));
        assert_eq!(path.newest.is_some(), path.sample.is_some());
        assert_eq!(path.certain.is_some(), path.sample.is_some());
        assert!(path.certain >= path.newest, "the newest chunk is certain");
    }
}

fn check_chunk(chunk: &Chunk, entry: &Entry) {
    // The model does not tell `Kept` from `Acked`.
    let kept = chunk.state == ChunkState::Kept;
    let state = if kept { ChunkState::Acked } else { chunk.state };
    assert_eq!(
        (
            state,
            chunk.path,
            chunk.sent_at,
            chunk.transmissions,
            chunk.fragment.payload.len()
        ),
        (
            entry.state,
            entry.path,
            entry.sent_at,
            entry.transmissions,
            entry.payload
        )
    );
}

pub(crate) fn run(mut commands: Commands<'_>) {
    let base = Tsn(commands.u32());
    let split = commands.u8() % 2 == 1;
    let mode = if split {
        MultipathMode::Cmt
    } else {
        MultipathMode::Off
    };
    let multipath = MultipathConfig {
        mode,
        ..MultipathConfig::OFF
    };
    let mut model = Model {
        ring: Outstanding::new(base, RecoveryRules::RFC9260, multipath),
        paths: Paths::for_models(PATHS),
        queue: SendQueue::new(1, SchedulerKind::FirstComeFirstServed),
        entries: Vec::new(),
        base,
        recovery_exit: None,
        split,
        lanes: Default::default(),
        packets: 1,
        reneged_at: None,
        now: Timestamp::ZERO,
    };
    while let Some(command) = commands.next(9) {
        model.now += Duration::from_millis(1);
        match command {
            0 => model.push(PathId(commands.u8() % PATHS), 1 + usize::from(commands.u8())),
            1 => {
                let path = PathId(commands.u8() % PATHS);
                (0..commands.u8() % 40).for_each(|_| model.push(path, 100));
            }
            2 => model.retransmit(PathId(commands.u8() % PATHS)),
            3 => model.time_out(PathId(commands.u8() % PATHS)),
            // Acknowledgements that a correct peer may send.
            4..7 => {
                let taken = commands.u8();
                model.packets = 1 + taken % 3;
                let taken = taken.saturating_sub(100) % 16;
                let mut blocks = Vec::new();
                let mut end = 0_u16;
                for _ in 0..commands.u8() % 8 {
                    let bits = commands.u8();
                    let start = end + 2 + u16::from(bits & 7);
                    end = start + u16::from(bits >> 3 & 7);
                    blocks.push(GapAckBlock { start, end });
                }
                let left = model.entries.len().saturating_sub(taken.into());
                blocks.retain(|block| usize::from(block.end) <= left || bits_of_lies(&mut commands));
                model.acknowledge(model.base.minus(1).plus(taken.into()), &blocks);
            }
            // Acknowledgements that a correct peer does not send.
            7 => {
                let cumulative = match commands.u8() {
                    0..8 => Tsn(commands.u32()),
                    near => model.base.plus(u32::from(near)).minus(64),
                };
                let count = commands.u8() % 6;
                let blocks: Vec<_> = (0..count)
                    .map(|_| GapAckBlock {
                        start: commands.u8().into(),
                        end: commands.u8().into(),
                    })
                    .collect();
                model.acknowledge(cumulative, &blocks);
            }
            _ => match commands.u8() {
                0..8 => model.drain(),
                taken => model.shut_down(usize::from(taken % 16).min(model.entries.len())),
            },
        }
        model.check();
    }
}

/// Rarely: the peer acknowledges chunks that were never sent.
fn bits_of_lies(commands: &mut Commands<'_>) -> bool {
    commands.u8() == 255
}
