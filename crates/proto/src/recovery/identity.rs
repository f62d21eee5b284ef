//! ECA-SCTP: which transmission brought a chunk. Acknowledgements name transmissions by path sequence numbers (PSNs); this module applies
//! the receiver's CumPSN and gap ack blocks to each path's [`Flight`].
//!
//! A transmission that was declared lost stays in the flight's order, because it may be late and not lost. FORWARD-PSN tells the
//! receiver not to wait for it. The receiver's CumPSN then moves past it, which does not acknowledge it.

use core::time::Duration;
use std::collections::BTreeMap;

use anabranch_wire::Psn;
use anabranch_wire::chunk::{CoopSack, GapAckBlock, PathSequence};

use super::{InvalidAck, normalise};
use crate::path::{Flight, PathId, Paths, SendNo};
use crate::seq::{ExtendedTsn, Run, Runs, extend_psn};
use crate::time::Timestamp;

/// The part of an acknowledgement about one path, in numbers that do not wrap.
#[derive(Clone, Debug)]
pub(crate) struct NamedPath {
    path: PathId,
    /// The transmissions below this number have arrived, or FORWARD-PSN told the receiver not to wait for them.
    below: SendNo,
    /// The transmissions above that have arrived.
    runs: Vec<Run>,
}

/// The contents of a valid acknowledgement.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedAck {
    pub(crate) paths: Vec<NamedPath>,
    /// Chunks of which a duplicate transmission arrived.
    pub(crate) duplicates: Vec<ExtendedTsn>,
}

impl NamedAck {
    /// Reads an acknowledgement. Paths that do not exist are skipped: they may have existed before.
    ///
    /// # Errors
    /// The acknowledgement names a transmission or chunk that was never sent.
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
            // The number before the first: nothing has arrived in order.
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

/// The number of a PSN, without wrapping, near the receiver's CumPSN. `None` if it is before the first.
fn unwrap(flight: &Flight, psn: Psn) -> Option<SendNo> {
    extend_psn(psn, flight.base())
}

/// The state of the receivers of all paths: the transmissions that arrived, and FORWARD-PSN.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    paths: Vec<Receiver>,
    /// Chunks that this acknowledgement shows to have arrived by an earlier transmission than their last; and the path of that
    /// transmission.
    late: BTreeMap<ExtendedTsn, PathId>,
}

/// The receiver of one path.
#[derive(Debug, Default)]
struct Receiver {
    /// Transmissions that arrived above the CumPSN, as far as gap ack blocks listed them.
    arrived: Runs,
    /// The CumPSN after this acknowledgement: all transmissions below this number.
    reached: SendNo,
    /// No transmission below is in flight.
    settled: SendNo,
    /// FORWARD-PSN may cover the transmissions below this number.
    forward: SendNo,
    /// The transmissions below this number were covered by the FORWARD-PSN sent last, and when it was sent.
    told: SendNo,
    told_at: Timestamp,
}

impl Receiver {
    /// Notes the transmissions that arrived; calls `newly` for each new one.
    fn note(&mut self, ack: &NamedPath, flight: &mut Flight, mut newly: impl FnMut(SendNo, ExtendedTsn)) {
        let base = flight.base();
        // Transmissions below were handled when the CumPSN passed them.
        for no in self.reached.max(base)..ack.below {
            // The CumPSN may pass a transmission that FORWARD-PSN covered although it has not arrived.
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

    /// Forgets the transmissions below the CumPSN, and finds those that FORWARD-PSN is to cover.
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

    /// Notes the transmissions that an acknowledgement names; calls `newly` for each new one: its path, number and chunk.
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

    /// A chunk arrived by an earlier transmission than its last, on `path`.
    pub(crate) fn note_late(&mut self, tsn: ExtendedTsn, path: PathId) {
        self.late.insert(tsn, path);
    }

    /// The path of the earlier transmission that brought a chunk.
    pub(crate) fn late_by(&self, tsn: ExtendedTsn) -> Option<PathId> {
        self.late.get(&tsn).copied()
    }

    /// Called after an acknowledgement or a timer: FORWARD-PSN may cover transmissions that are no longer in flight.
    pub(crate) fn settle(&mut self, paths: &mut Paths) {
        for path in paths.iter_mut() {
            self.receiver(path.id).settle(&mut path.flight);
        }
    }

    /// The PSN of the FORWARD-PSN that is due for a path: it was not sent so far, or `wait` has passed since and the CumPSN has not reached
    /// it.
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

    /// A FORWARD-PSN was sent.
    pub(crate) fn on_forward_told(&mut self, path: PathId, now: Timestamp) {
        let receiver = self.receiver(path);
        receiver.told = receiver.told.max(receiver.forward);
        receiver.told_at = now;
    }
}
