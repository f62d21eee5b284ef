//! What follows from an acknowledgement (RFC 9260 §6.2.1, §6.3, §7.2, §8.1): the ring tells what it did to each path,
//! and each path's clocks and windows are moved here.

use core::time::Duration;

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{NrSack, Sack};

use super::Association;
use crate::config::Config;
use crate::controller::{Controller, Coupling, Reduction, Report};
use crate::event::CloseReason;
use crate::path::PathId;
use crate::recovery::{
    AckOutcome, AckReport, Answer, InvalidAck, Outstanding, PathOutcome, Phase, normalise,
};
use crate::time::Timestamp;

impl Association {
    /// What is outstanding when nothing was sent yet.
    pub(super) fn no_outstanding(initial_tsn: Tsn, config: &Config) -> Outstanding {
        Outstanding::new(initial_tsn, config.recovery, config.multipath)
    }

    /// A SACK came in, which answers so many packets.
    pub(super) fn on_sack(&mut self, now: Timestamp, sack: &Sack, packets: u8) {
        self.counters.sacks_received += 1;
        let mut blocks = core::mem::take(&mut self.ack_blocks);
        normalise(&sack.gap_ack_blocks, &mut blocks[0]);
        let duplicates = sack.duplicate_tsns.iter();
        self.outstanding.on_duplicate_tsns(duplicates, &self.paths);
        self.on_ack_report(
            now,
            &AckReport {
                cumulative: sack.cumulative_tsn_ack,
                revocable: &blocks[0],
                nonrenegable: &[],
                duplicates: sack.duplicate_tsns.len(),
                packets,
                a_rwnd: Some(sack.a_rwnd),
                overtaken: false,
                lists_all: true,
            },
        );
        self.ack_blocks = blocks;
    }

    /// An NR-SACK came in (draft-tuexen-tsvwg-sctp-multipath §4).
    pub(super) fn on_nr_sack(&mut self, now: Timestamp, sack: &NrSack, packets: u8) {
        self.counters.sacks_received += 1;
        let mut blocks = core::mem::take(&mut self.ack_blocks);
        normalise(&sack.revocable, &mut blocks[0]);
        normalise(&sack.nonrenegable, &mut blocks[1]);
        let duplicates = sack.duplicate_tsns.iter();
        self.outstanding.on_duplicate_tsns(duplicates, &self.paths);
        self.on_ack_report(
            now,
            &AckReport {
                cumulative: sack.cumulative_tsn_ack,
                revocable: &blocks[0],
                nonrenegable: &blocks[1],
                duplicates: sack.duplicate_tsns.len(),
                packets,
                a_rwnd: Some(sack.a_rwnd),
                overtaken: false,
                lists_all: true,
            },
        );
        self.ack_blocks = blocks;
    }

    fn on_ack_report(&mut self, now: Timestamp, report: &AckReport<'_>) {
        let mut outcome = core::mem::take(&mut self.outcome);
        outcome.begin(self.paths.len());
        let judge = self.judge(now);
        let paths = &mut self.paths;
        let result = self.outstanding.on_ack(report, paths, &judge, &mut outcome);
        if result.is_ok() {
            self.counters.retransmissions_spurious += report.duplicates as u64;
        }
        self.after_ack(now, result, report.a_rwnd, &mut outcome);
        self.outcome = outcome;
    }

    /// The ring has handled an acknowledgement, which advertised a window of `a_rwnd`: what follows for the paths.
    pub(super) fn after_ack(
        &mut self,
        now: Timestamp,
        result: Result<(), InvalidAck>,
        a_rwnd: Option<u32>,
        outcome: &mut AckOutcome,
    ) {
        match result {
            Ok(()) => {
                self.counters.reneged += u64::from(outcome.reneged);
                self.counters.early_discards += u64::from(outcome.early_discards);
                self.counters.freed_early_bytes += outcome.freed_early as u64;
                self.counters.nr_sack_contradictions += u64::from(outcome.contradicts);
                let newly_acked = outcome.paths.iter().any(|path| path.newly_acked > 0);
                self.peer_window
                    .on_ack(a_rwnd, outcome.cumulative_moved, newly_acked);
                self.apply_outcome(now, outcome);
                self.queue.on_arrived(now, &outcome.arrived);
                self.after_acknowledgement(now, &outcome.given_up);
                self.on_window_update();
                self.on_time_rule(now, outcome);
            }
            Err(InvalidAck::Stale) => self.counters.sacks_stale += 1,
            Err(InvalidAck::NeverSent) => {
                self.abort_for_violation("an acknowledgement of what was never sent");
            }
        }
    }

    /// What became of each path's chunks moves its clocks and windows.
    fn apply_outcome(&mut self, now: Timestamp, outcome: &AckOutcome) {
        self.counters.fast_recoveries += u64::from(outcome.recoveries);
        for index in 0..self.paths.len() {
            let path = PathId(index as u8);
            self.apply_to_path(now, path, &outcome.paths[index]);
            if outcome.paths[index].phase == Phase::Reduced {
                self.retransmit_at_once(path);
            }
        }
        self.hurry_first_repeat(outcome);
    }

    /// When what later packets of `path` have overtaken left first, and the time after which it is lost.
    fn time_rule_wait(&self, path: PathId) -> Option<(Timestamp, Duration)> {
        let (left, quarters) = self.outstanding.overtaken(path, &self.paths)?;
        let round_trip = self.paths.path(path).rto.srtt()?;
        Some((left, round_trip * quarters / 4))
    }

    /// When that has passed.
    pub(super) fn time_rule_due(&self, path: PathId) -> Option<Timestamp> {
        self.time_rule_wait(path).map(|(left, wait)| left + wait)
    }

    /// The time rule: what was overtaken on its path and is not acknowledged 1.25 round trips after it left is lost.
    pub(super) fn on_time_rule(&mut self, now: Timestamp, outcome: &mut AckOutcome) {
        if !self.outstanding.has_time_rule() {
            return;
        }
        for index in 0..self.paths.len() {
            let path = PathId(index as u8);
            let Some((_, wait)) = self
                .time_rule_wait(path)
                .filter(|(left, wait)| *left + *wait <= now)
            else {
                continue;
            };
            outcome.begin(self.paths.len());
            let judge = self.judge(now);
            let paths = &mut self.paths;
            self.outstanding
                .on_overtaken(path, now.before(wait), &judge, paths, outcome);
            self.counters.losses_by_time += u64::from(outcome.paths[index].lost);
            self.apply_outcome(now, outcome);
            self.after_acknowledgement(now, &outcome.given_up);
        }
    }

    /// The first losses of an episode were found on a path: a packet of retransmissions leaves whatever the window is (§7.2.4).
    fn retransmit_at_once(&mut self, id: PathId) {
        let first = self.outstanding.first_lost();
        let to = match first {
            Some(index) if self.paths.spreads() => self.repeat_path(index),
            _ => id,
        };
        self.paths.path_mut(to).repeat_now = first.is_some();
    }

    /// A SHUTDOWN acknowledges too, without a window and without blocks (§3.3.8): what gap blocks said stays said.
    pub(super) fn on_shutdown_cumulative(&mut self, now: Timestamp, cumulative: Tsn) {
        self.on_ack_report(
            now,
            &AckReport {
                cumulative,
                revocable: &[],
                nonrenegable: &[],
                duplicates: 0,
                packets: 1,
                a_rwnd: None,
                overtaken: false,
                lists_all: false,
            },
        );
    }

    fn apply_to_path(&mut self, now: Timestamp, id: PathId, outcome: &PathOutcome) {
        let max_burst = self.config.max_burst;
        let reduction = (outcome.phase == Phase::Reduced).then_some(Reduction::Loss);
        let changed = outcome.newly_acked > 0 || outcome.lost > 0 || reduction.is_some();
        // Costs a look at every path.
        let coupling = if changed {
            self.paths.coupling(id)
        } else {
            Coupling::Uncoupled
        };
        let split = self.config.multipath.is_on();
        let path = self.paths.path_mut(id);
        if let Some(sent_at) = outcome.sample {
            path.on_rtt_sample(now, sent_at);
        }
        if let Some(bound) = path.delay_bound.as_mut().filter(|_| outcome.newly_acked > 0) {
            bound.on_ack(now, outcome.newly_acked, outcome.largest, path.pmtu.max_data());
        }
        if outcome.newly_acked > 0 {
            path.single_packet = false;
            if core::mem::take(&mut path.silent_timeouts) > 0 {
                path.pmtu.on_answered_again(now);
            }
            if split {
                let round_trip = path.rto.srtt().unwrap_or(path.rto.current());
                let idle = path.flight.is_empty();
                path.delivery.on_acked(now, outcome.newly_acked, round_trip, idle);
            }
        }
        if changed {
            path.fast_recoveries += u64::from(reduction.is_some());
            path.control.on_report(&Report {
                now,
                prior_flight: path.flight.progress().bytes_before,
                acked: outcome.newly_acked,
                lost: outcome.lost_bytes,
                reduction,
                recovering: outcome.phase == Phase::Recovering,
                advanced: outcome.advanced,
                all_acked: path.flight.is_empty() && (split || self.outstanding.is_empty()),
                smoothed_rtt: path.rto.srtt(),
                coupling,
            });
        }
        path.delivery.on_lost(outcome.lost);
        path.open_burst(now, outcome.newly_acked, max_burst);
        if path.flight.is_empty() {
            path.t3 = None;
        } else if outcome.restarts_t3 || (outcome.reneged > 0 && path.t3.is_none()) {
            path.start_t3(now);
        }
        match outcome.answer {
            Answer::OfThisPath => self.on_path_answered(id),
            Answer::Data => self.on_path_may_have_answered(id),
            Answer::Skipped => self.error_count = 0,
            Answer::Nothing => {}
        }
    }

    /// The window may have opened: a probe is no longer due.
    fn on_window_update(&mut self) {
        if !self.peer_window.is_closed() && self.timers.window_probe.is_none() {
            return;
        }
        let left = self.peer_window.left(self.paths.payload_in_flight());
        let fits = self.next_payload_len().is_none_or(|len| len <= left);
        if fits {
            self.timers.window_probe = None;
            self.peer_window.note_open();
        }
    }

    /// The peer broke the protocol beyond repair: ABORT with the cause Protocol Violation (§3.3.10.13).
    pub(super) fn abort_for_violation(&mut self, what: &'static str) {
        let text = bytes::Bytes::from_static(what.as_bytes());
        self.abort_with(
            anabranch_wire::cause::Cause::ProtocolViolation(text),
            CloseReason::ProtocolViolation(what),
        );
    }
}
