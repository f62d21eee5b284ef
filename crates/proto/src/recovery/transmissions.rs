//! The transmissions of each path that its acknowledgements may name: those above the receiver's CumPSN.
//!
//! What was taken for lost stays, because it may be late and not lost; FORWARD-PSN tells the receiver not to wait for it. The
//! receiver's CumPSN then runs over it: that acknowledges nothing.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use anabranch_wire::Psn;
use anabranch_wire::chunk::{CoopSack, GapAckBlock, PathSequence};

use crate::path::PathId;
use crate::recovery::{InvalidAck, normalise};
use crate::seq::{Run, Runs, extend_psn};
use crate::time::Timestamp;

/// How far transmissions may be ahead of the receiver's CumPSN: gap blocks tell of no more.
const MAX_AHEAD: u64 = 65_535;

/// What an acknowledgement says of one path: numbers that do not wrap.
#[derive(Clone, Debug)]
pub(crate) struct NamedPath {
    path: PathId,
    /// Everything below has arrived, or was said not to be worth waiting for.
    below: u64,
    /// What arrived above.
    runs: Vec<Run>,
}

/// What an acknowledgement says, once it is known to make sense.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedAck {
    pub(crate) paths: Vec<NamedPath>,
    /// Chunks that a duplicate transmission carried.
    pub(crate) duplicates: Vec<u64>,
}

/// All paths.
#[derive(Debug, Default)]
pub(crate) struct Transmissions {
    paths: Vec<SentOnPath>,
    /// Chunks that this acknowledgement says arrived by an earlier transmission than their last, and by which path.
    late: BTreeMap<u64, PathId>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    /// The chunk.
    index: u64,
    arrived: bool,
}

#[derive(Debug, Default)]
struct SentOnPath {
    sent: VecDeque<Sent>,
    /// The number of the first: one above the receiver's CumPSN.
    base: u64,
    /// Those that arrived above it, as far as gap blocks told.
    arrived: Runs,
    /// The receiver's CumPSN is known to be up to here, exclusive, once the acknowledgement at hand is handled.
    reached: u64,
    /// Nothing in flight is below.
    settled: u64,
    /// The first number behind the last one that is not worth waiting for.
    forward: u64,
    /// That of which the receiver was told, and when.
    told: u64,
    told_at: Timestamp,
}

impl SentOnPath {
    fn next(&self) -> u64 {
        self.base + self.sent.len() as u64
    }

    /// A number on the wire, without wrapping: near the receiver's CumPSN. `None` of one before the first.
    fn unwrap(&self, number: Psn) -> Option<u64> {
        extend_psn(number, self.base)
    }

    fn get(&self, number: u64) -> Option<Sent> {
        let at = number.checked_sub(self.base)?;
        self.sent.get(at as usize).copied()
    }

    /// Notes what arrived; hands over each transmission that newly did.
    fn note(&mut self, ack: &NamedPath, mut newly: impl FnMut(u64, u64)) {
        let (base, sent) = (self.base, &mut self.sent);
        // What is below was looked at when the receiver's CumPSN came there.
        for number in self.reached.max(base)..ack.below {
            let one = &mut sent[(number - base) as usize];
            // What the receiver was told not to wait for may be passed without having arrived.
            let passed = number < self.told;
            if !one.arrived && !passed {
                one.arrived = true;
                newly(number, one.index);
            }
        }
        self.reached = self.reached.max(ack.below);
        for run in ack.runs.iter().filter(|run| run.last >= base) {
            let block = Run {
                first: run.first.max(base),
                last: run.last,
            };
            let mut any = false;
            for run in self.arrived.missing(block) {
                any = true;
                for number in run.first..=run.last {
                    let one = &mut sent[(number - base) as usize];
                    if !core::mem::replace(&mut one.arrived, true) {
                        newly(number, one.index);
                    }
                }
            }
            if any {
                self.arrived.insert(block);
            }
        }
    }

    /// Drops what the receiver's CumPSN has passed, and finds what it is not to wait for.
    fn settle(&mut self, settled: u64) {
        for number in self.settled..settled {
            if self.get(number).is_some_and(|one| !one.arrived) {
                self.forward = number + 1;
            }
        }
        self.settled = self.settled.max(settled);
        // What is in flight is kept, whatever the receiver passed.
        let end = self.reached.min(self.settled).max(self.base);
        self.sent.drain(..(end - self.base) as usize);
        self.base = end;
        self.arrived.remove_below(end);
    }
}

impl Transmissions {
    fn path_mut(&mut self, path: PathId) -> &mut SentOnPath {
        if self.paths.len() <= path.index() {
            self.paths.resize_with(path.index() + 1, SentOnPath::default);
        }
        &mut self.paths[path.index()]
    }

    /// A transmission of chunk `index` leaves.
    pub(crate) fn on_sent(&mut self, path: PathId, index: u64) {
        let sent = Sent {
            index,
            arrived: false,
        };
        self.path_mut(path).sent.push_back(sent);
    }

    /// Whether the next transmission could still be named.
    pub(crate) fn has_room(&self, path: PathId) -> bool {
        let path = self.paths.get(path.index());
        path.is_none_or(|path| (path.sent.len() as u64) < MAX_AHEAD)
    }

    /// Reads what an acknowledgement names. Paths that there are not are passed over: they may have been.
    ///
    /// # Errors
    /// It names what was never sent.
    pub(crate) fn read(&self, sack: &CoopSack) -> Result<NamedAck, InvalidAck> {
        let mut ack = NamedAck::default();
        let mut blocks: Vec<GapAckBlock> = Vec::new();
        for report in sack.paths.iter() {
            let Some(sent) = self.paths.get(usize::from(report.cumulative.path)) else {
                continue;
            };
            normalise(&report.gap_ack_blocks, &mut blocks);
            // One before the first: nothing has arrived in order.
            let below = sent.unwrap(report.cumulative.number).map_or(0, |last| last + 1);
            let end = below + blocks.last().map_or(0, |block| u64::from(block.end));
            if below > sent.next() || end > sent.next() {
                return Err(InvalidAck::NeverSent);
            }
            let run = |block: &GapAckBlock| Run {
                first: below + u64::from(block.start) - 1,
                last: below + u64::from(block.end) - 1,
            };
            ack.paths.push(NamedPath {
                path: PathId(report.cumulative.path),
                below,
                runs: blocks.iter().map(run).collect(),
            });
        }
        let carried = |one: PathSequence| {
            let sent = self.paths.get(usize::from(one.path))?;
            sent.get(sent.unwrap(one.number)?).map(|sent| sent.index)
        };
        ack.duplicates.extend(sack.duplicates.iter().filter_map(carried));
        Ok(ack)
    }

    /// Notes what an acknowledgement names; hands over each transmission that newly arrived: its path, number and chunk.
    pub(crate) fn note(&mut self, ack: &NamedAck, mut newly: impl FnMut(PathId, u64, u64)) {
        self.late.clear();
        for named in &ack.paths {
            let path = named.path;
            self.path_mut(path)
                .note(named, |number, index| newly(path, number, index));
        }
    }

    /// Chunk `index` arrived by an earlier transmission than its last, on `path`.
    pub(crate) fn note_late(&mut self, index: u64, path: PathId) {
        self.late.insert(index, path);
    }

    /// The path of such a transmission.
    pub(crate) fn late_by(&self, index: u64) -> Option<PathId> {
        self.late.get(&index).copied()
    }

    /// Whether a transmission that the receiver's CumPSN has not passed arrived.
    pub(crate) fn has_arrived(&self, path: PathId, number: u64) -> bool {
        let sent = self.paths.get(path.index()).and_then(|sent| sent.get(number));
        sent.is_some_and(|sent| sent.arrived)
    }

    /// Nothing of `path` that is in flight is below `settled`.
    pub(crate) fn settle(&mut self, path: PathId, settled: u64) {
        self.path_mut(path).settle(settled);
    }

    /// What the receiver of `path` should be told not to wait for: it was not told so far, or `wait` has passed since and
    /// it is not known to have heard.
    pub(crate) fn forward_due(&self, path: PathId, now: Timestamp, wait: Duration) -> Option<Psn> {
        let sent = self.paths.get(path.index())?;
        let again = now.saturating_duration_since(sent.told_at) >= wait;
        let due = sent.forward > sent.base && (sent.forward > sent.told || again);
        due.then(|| Psn::new((sent.forward - 1) as u32))
    }

    /// It was told.
    pub(crate) fn on_forward_told(&mut self, path: PathId, now: Timestamp) {
        let sent = self.path_mut(path);
        sent.told = sent.told.max(sent.forward);
        sent.told_at = now;
    }
}
