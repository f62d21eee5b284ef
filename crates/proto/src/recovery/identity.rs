//! Which sending brought a chunk, where acknowledgements name sendings (ECA-SCTP): what the receiver's CumPSN and gap ack blocks
//! say of each path's [`Flight`].
//!
//! A sending that was taken for lost stays in the flight's order, because it may be late and not lost; FORWARD-PSN tells the
//! receiver not to wait for it. The receiver's CumPSN then runs over it: that acknowledges nothing.

use core::time::Duration;
use std::collections::BTreeMap;

use anabranch_wire::Psn;
use anabranch_wire::chunk::{CoopSack, GapAckBlock, PathSequence};

use super::{InvalidAck, normalise};
use crate::path::{Flight, PathId, Paths, SendNo};
use crate::seq::{ExtendedTsn, Run, Runs, extend_psn};
use crate::time::Timestamp;

/// What an acknowledgement says of one path: numbers that do not wrap.
#[derive(Clone, Debug)]
pub(crate) struct NamedPath {
    path: PathId,
    /// Everything below has arrived, or was said not to be worth waiting for.
    below: SendNo,
    /// What arrived above.
    runs: Vec<Run>,
}

/// What an acknowledgement says, once it is known to make sense.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedAck {
    pub(crate) paths: Vec<NamedPath>,
    /// Chunks that a duplicate sending carried.
    pub(crate) duplicates: Vec<ExtendedTsn>,
}

impl NamedAck {
    /// Reads what an acknowledgement names. Paths that there are not are passed over: they may have been.
    ///
    /// # Errors
    /// It names what was never sent.
    pub(crate) fn read(sack: &CoopSack, paths: &Paths) -> Result<Self, InvalidAck> {
        let mut ack = Self::default();
        let mut blocks: Vec<GapAckBlock> = Vec::new();
        for report in sack.paths.iter() {
            let path = PathId(report.cumulative.path);
            if !paths.contains(path) {
                continue;
            }
            let flight = &paths.path(path).flight;
            normalise(&report.gap_ack_blocks, &mut blocks);
            // One before the first: nothing has arrived in order.
            let below = unwrap(flight, report.cumulative.number).map_or(0, |last| last + 1);
            let end = below + blocks.last().map_or(0, |block| u64::from(block.end));
            if below > flight.next() || end > flight.next() {
                return Err(InvalidAck::NeverSent);
            }
            let run = |block: &GapAckBlock| Run {
                first: below + u64::from(block.start) - 1,
                last: below + u64::from(block.end) - 1,
            };
            ack.paths.push(NamedPath {
                path,
                below,
                runs: blocks.iter().map(run).collect(),
            });
        }
        let carried = |one: PathSequence| {
            let path = PathId(one.path);
            let flight = paths.contains(path).then(|| &paths.path(path).flight)?;
            flight.get(unwrap(flight, one.number)?).map(|sending| sending.tsn)
        };
        ack.duplicates.extend(sack.duplicates.iter().filter_map(carried));
        Ok(ack)
    }
}

/// A PSN on the wire, without wrapping: near the receiver's CumPSN. `None` of one before the first.
fn unwrap(flight: &Flight, psn: Psn) -> Option<SendNo> {
    extend_psn(psn, flight.base())
}

/// What the receiver of each path is known to have, and was told not to wait for.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    paths: Vec<Receiver>,
    /// Chunks that this acknowledgement says arrived by an earlier sending than their last, and by which path.
    late: BTreeMap<ExtendedTsn, PathId>,
}

/// The receiver of one path.
#[derive(Debug, Default)]
struct Receiver {
    /// Sendings that arrived above its CumPSN, as far as gap ack blocks told.
    arrived: Runs,
    /// Its CumPSN is known to be up to here, exclusive, once the acknowledgement at hand is handled.
    reached: SendNo,
    /// Nothing in flight is below.
    settled: SendNo,
    /// The first number behind the last sending that is not worth waiting for.
    forward: SendNo,
    /// That of which it was told, and when.
    told: SendNo,
    told_at: Timestamp,
}

impl Receiver {
    /// Notes what arrived; hands over each sending that newly did.
    fn note(&mut self, ack: &NamedPath, flight: &mut Flight, mut newly: impl FnMut(SendNo, ExtendedTsn)) {
        let base = flight.base();
        // What is below was looked at when the receiver's CumPSN came there.
        for no in self.reached.max(base)..ack.below {
            // What the receiver was told not to wait for may be passed without having arrived.
            let passed = no < self.told;
            if !passed && let Some(tsn) = flight.on_named(no) {
                newly(no, tsn);
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
                for no in run.first..=run.last {
                    if let Some(tsn) = flight.on_named(no) {
                        newly(no, tsn);
                    }
                }
            }
            if any {
                self.arrived.insert(block);
            }
        }
    }

    /// Forgets what the receiver's CumPSN has passed, and finds what it is not to wait for.
    fn settle(&mut self, flight: &mut Flight) {
        for no in self.settled..flight.earliest() {
            if flight.get(no).is_some_and(|sending| !sending.has_arrived()) {
                self.forward = no + 1;
            }
        }
        self.settled = self.settled.max(flight.earliest());
        flight.on_passed(self.reached);
        self.arrived.remove_below(flight.base());
    }
}

impl Identity {
    fn receiver(&mut self, path: PathId) -> &mut Receiver {
        if self.paths.len() <= path.index() {
            self.paths.resize_with(path.index() + 1, Receiver::default);
        }
        &mut self.paths[path.index()]
    }

    /// Notes what an acknowledgement names; hands over each sending that newly arrived: its path, number and chunk.
    pub(crate) fn note(
        &mut self,
        ack: &NamedAck,
        paths: &mut Paths,
        mut newly: impl FnMut(PathId, SendNo, ExtendedTsn),
    ) {
        self.late.clear();
        for named in &ack.paths {
            let path = named.path;
            let flight = &mut paths.path_mut(path).flight;
            self.receiver(path)
                .note(named, flight, |no, tsn| newly(path, no, tsn));
        }
    }

    /// A chunk arrived by an earlier sending than its last, on `path`.
    pub(crate) fn note_late(&mut self, tsn: ExtendedTsn, path: PathId) {
        self.late.insert(tsn, path);
    }

    /// The path of such a sending.
    pub(crate) fn late_by(&self, tsn: ExtendedTsn) -> Option<PathId> {
        self.late.get(&tsn).copied()
    }

    /// An acknowledgement or a timer was handled: what is not in flight any more is not waited for.
    pub(crate) fn settle(&mut self, paths: &mut Paths) {
        for path in paths.iter_mut() {
            self.receiver(path.id).settle(&mut path.flight);
        }
    }

    /// What the receiver of a path should be told not to wait for: it was not told so far, or `wait` has passed since and
    /// it is not known to have heard.
    pub(crate) fn forward_due(
        &self,
        path: PathId,
        flight: &Flight,
        now: Timestamp,
        wait: Duration,
    ) -> Option<Psn> {
        let receiver = self.paths.get(path.index())?;
        let again = now.saturating_duration_since(receiver.told_at) >= wait;
        let due = receiver.forward > flight.base() && (receiver.forward > receiver.told || again);
        due.then(|| Psn::new((receiver.forward - 1) as u32))
    }

    /// It was told.
    pub(crate) fn on_forward_told(&mut self, path: PathId, now: Timestamp) {
        let receiver = self.receiver(path);
        receiver.told = receiver.told.max(receiver.forward);
        receiver.told_at = now;
    }
}
