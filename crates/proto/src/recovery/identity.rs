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
use crate::path::{Fate, Flight, PathId, Paths, SendNo};
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
    /// Transmissions that arrived although another one had brought their chunk, and these chunks.
    pub(crate) duplicates: Vec<Duplicate>,
}

/// A transmission that was not needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Duplicate {
    pub(crate) tsn: ExtendedTsn,
    /// Whether it was a copy.
    pub(crate) copy: bool,
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
            let sending = flight.get(unwrap(flight, one.number)?)?;
            Some(Duplicate {
                tsn: sending.tsn,
                copy: sending.is_copy(),
            })
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
    /// Chunks that this acknowledgement shows to have arrived by another transmission than their last, and that one.
    others: BTreeMap<ExtendedTsn, Other>,
}

/// The transmission that brought a chunk, if it is not the last one: an earlier one that was late, or a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Other {
    pub(crate) path: PathId,
    /// The number of a copy, and when it left.
    pub(crate) copy: Option<(SendNo, Timestamp)>,
}

/// The receiver of one path.
#[derive(Debug, Default)]
struct Receiver {
    /// Transmissions that arrived above the CumPSN, as far as gap ack blocks listed them.
    arrived: Runs,
    /// The CumPSN after this acknowledgement: all transmissions below this number.
    reached: SendNo,
    /// No transmission below is in flight, nor a copy whose fate is unknown.
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
        while self.settled < flight.earliest() {
            match flight.get(self.settled).map(|sending| sending.fate) {
                Some(Fate::Copy) => break,
                Some(Fate::Open | Fate::Reneged | Fate::Closed) => self.forward = self.settled + 1,
                Some(Fate::Arrived) | None => {}
            }
            self.settled += 1;
        }
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
        self.others.clear();
        for named in &ack.paths {
            let path = named.path;
            let flight = &mut paths.path_mut(path).flight;
            self.receiver(path)
                .note(named, flight, |no, tsn| newly(path, no, tsn));
        }
    }

    /// A chunk arrived by another transmission than its last.
    pub(crate) fn note_other(&mut self, tsn: ExtendedTsn, other: Other) {
        self.others.insert(tsn, other);
    }

    /// The transmission that brought a chunk, if it is not the last one.
    pub(crate) fn brought_by(&self, tsn: ExtendedTsn) -> Option<Other> {
        self.others.get(&tsn).copied()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Sending;

    // 0: lost; 1: a copy; 2: arrived
    #[test]
    fn a_copy_may_still_arrive() {
        let mut paths = Paths::for_models(1);
        let flight = &mut paths.path_mut(PathId(0)).flight;
        flight.name();
        flight.push(7, false, Timestamp::ZERO, 100, 80);
        assert_eq!(flight.push_copy(8, Timestamp::ZERO), 1);
        flight.push(9, false, Timestamp::ZERO, 100, 80);
        assert_eq!(flight.newest(), Some(9));
        flight.acknowledge(2, 100, 80);
        flight.close(0, Fate::Closed, 100, 80);
        flight.settle();
        let mut identity = Identity::default();
        let wait = Duration::from_secs(1);
        let due = |identity: &Identity, paths: &Paths| {
            let flight = &paths.path(PathId(0)).flight;
            identity.forward_due(PathId(0), flight, Timestamp::ZERO, wait)
        };
        identity.settle(&mut paths);
        assert_eq!(due(&identity, &paths), Some(Psn::new(0)), "not the copy");
        paths.path_mut(PathId(0)).flight.on_copy_lost(1);
        identity.settle(&mut paths);
        assert_eq!(due(&identity, &paths), Some(Psn::new(1)));
    }

    #[test]
    fn a_copy_is_no_data_in_flight() {
        let mut flight = Flight::default();
        flight.name();
        flight.push(7, false, Timestamp::ZERO, 100, 80);
        flight.push_copy(7, Timestamp::ZERO);
        assert_eq!((flight.bytes(), flight.newest()), (100, Some(7)));
        assert_eq!(flight.on_named(1), Some(7), "the copy came first");
        flight.become_copy(0, 100, 80);
        assert!(flight.is_empty() && flight.get(0).is_some_and(Sending::is_copy));
        assert_eq!(flight.on_named(0), Some(7), "the original came too");
    }
}
