//! Processing of a received SACK, NR-SACK, COOP-SACK or SHUTDOWN (RFC 9260 §6.2.1): `outstanding` determines its effects on each path;
//! here they change each path's T3-rtx (§6.3.2), RTT (§6.3.1), congestion window (§7.2) and error counter (§8.2).

use core::time::Duration;

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{CoopSack, NrSack, Sack, TsnList};

use super::{Cx, Sender};
use crate::controller::{Controller, Coupling, Reduction, Report};
use crate::event::Acknowledged;
use crate::negotiation::Capabilities;
use crate::path::{Path, PathId, Paths};
use crate::recovery::{AckOutcome, AckReport, Answer, InvalidAck, Listing, PathOutcome, Phase, normalise};
use crate::time::Timestamp;

impl Sender {
    /// A SACK arrived, which answers `packets` packets.
    pub(crate) fn on_sack(&mut self, cx: &mut Cx<'_>, sack: &Sack, packets: u8) {
        let [renegable, nonrenegable] = &mut self.ack_blocks;
        normalise(&sack.gap_ack_blocks, renegable);
        nonrenegable.clear();
        self.on_blocks(
            cx,
            sack.cumulative_tsn_ack,
            sack.a_rwnd,
            &sack.duplicate_tsns,
            packets,
        );
    }

    /// An NR-SACK arrived (draft-tuexen-tsvwg-sctp-multipath §4).
    pub(crate) fn on_nr_sack(&mut self, cx: &mut Cx<'_>, sack: &NrSack, packets: u8) {
        let [renegable, nonrenegable] = &mut self.ack_blocks;
        normalise(&sack.renegable, renegable);
        normalise(&sack.nonrenegable, nonrenegable);
        self.on_blocks(
            cx,
            sack.cumulative_tsn_ack,
            sack.a_rwnd,
            &sack.duplicate_tsns,
            packets,
        );
    }

    /// An acknowledgement arrived whose gap ack blocks are in `ack_blocks`.
    fn on_blocks(
        &mut self,
        cx: &mut Cx<'_>,
        cumulative: Tsn,
        a_rwnd: u32,
        duplicates: &TsnList,
        packets: u8,
    ) {
        cx.counters.sacks_received += 1;
        let of_copies = self.outstanding.on_duplicate_tsns(duplicates.iter(), cx.paths);
        cx.counters.early_copies_unnecessary += of_copies as u64;
        let blocks = core::mem::take(&mut self.ack_blocks);
        self.on_ack_report(
            cx,
            &AckReport {
                cumulative,
                renegable: &blocks[0],
                nonrenegable: &blocks[1],
                duplicates: duplicates.len() - of_copies,
                packets,
                a_rwnd: Some(a_rwnd),
                overtaken: false,
                listing: Listing::of_blocks(blocks[0].len() + blocks[1].len()),
            },
        );
        self.ack_blocks = blocks;
    }

    /// A COOP-SACK arrived (ECA-SCTP).
    pub(crate) fn on_coop_sack(&mut self, cx: &mut Cx<'_>, sack: &CoopSack) {
        cx.counters.sacks_received += 1;
        let overtaken = self.sources.cooperation.is_overtaken(sack.timestamp_ms);
        let mut outcome = core::mem::take(&mut self.outcome);
        outcome.begin(cx.paths.len());
        if cx.paths.samples_rates {
            outcome.earliest = Some(self.sources.cooperation.earliest(cx.now, sack.timestamp_ms));
        }
        let judge = self.judge(cx);
        let paths = &mut *cx.paths;
        let result = self
            .outstanding
            .on_coop_ack(sack, overtaken, paths, &judge, &mut outcome);
        if result.is_ok() {
            let of_copies = u64::from(outcome.copies_unnecessary);
            cx.counters.retransmissions_spurious += sack.duplicates.len() as u64 - of_copies;
            cx.counters.early_copies_unnecessary += of_copies;
            cx.counters.sacks_stale += u64::from(overtaken);
            self.drop_samples(cx, &mut outcome);
        }
        let a_rwnd = Some(sack.a_rwnd).filter(|_| !overtaken);
        self.after_ack(cx, result, a_rwnd, &mut outcome);
        self.outcome = outcome;
    }

    /// For comparison ([`crate::EcaConfig::sample_any_ack`]): acknowledgements that return on another path than the data give no RTT
    /// sample.
    fn drop_samples(&self, cx: &Cx<'_>, outcome: &mut AckOutcome) {
        if !cx.config.multipath.eca.sample_any_ack {
            let home = cx.paths.last_arrival.index();
            let others = outcome.paths.iter_mut().enumerate().filter(|(at, _)| *at != home);
            others.for_each(|(_, path)| path.sample = None);
        }
    }

    /// A SHUTDOWN acknowledges too, without window and gap ack blocks (§3.3.8): gap-acknowledged chunks stay acknowledged.
    pub(crate) fn on_shutdown_cumulative(&mut self, cx: &mut Cx<'_>, cumulative: Tsn) {
        self.on_ack_report(
            cx,
            &AckReport {
                cumulative,
                renegable: &[],
                nonrenegable: &[],
                duplicates: 0,
                packets: 1,
                a_rwnd: None,
                overtaken: false,
                listing: Listing::Nothing,
            },
        );
    }

    /// The peer proved in another way that all that was sent arrived.
    pub(crate) fn on_all_received(&mut self, cx: &mut Cx<'_>) {
        let newest = Tsn(self.outstanding.next_tsn().0.wrapping_sub(1));
        self.on_shutdown_cumulative(cx, newest);
    }

    fn on_ack_report(&mut self, cx: &mut Cx<'_>, report: &AckReport<'_>) {
        let mut outcome = core::mem::take(&mut self.outcome);
        outcome.begin(cx.paths.len());
        let judge = self.judge(cx);
        let paths = &mut *cx.paths;
        let result = self.outstanding.on_ack(report, paths, &judge, &mut outcome);
        if result.is_ok() {
            cx.counters.retransmissions_spurious += report.duplicates as u64;
        }
        self.after_ack(cx, result, report.a_rwnd, &mut outcome);
        self.outcome = outcome;
    }

    /// `outstanding` has handled an acknowledgement with a window of `a_rwnd`: applies its effects.
    fn after_ack(
        &mut self,
        cx: &mut Cx<'_>,
        result: Result<(), InvalidAck>,
        a_rwnd: Option<u32>,
        outcome: &mut AckOutcome,
    ) {
        // An undo concerns losses before those found now, which reduce the restored window. A stale acknowledgement may have listed
        // duplicates too.
        if self.outstanding.uses_rack() {
            self.undo_reductions(cx);
        }
        match result {
            Ok(()) => {
                cx.counters.reneged += u64::from(outcome.reneged);
                cx.counters.early_discards += u64::from(outcome.early_discards);
                cx.counters.freed_early_bytes += outcome.freed_early as u64;
                cx.counters.nr_sack_contradictions += u64::from(outcome.contradicts);
                let newly_acked = outcome.paths.iter().any(|path| path.newly_acked > 0);
                let in_flight = cx.paths.payload_in_flight();
                let moved = outcome.cumulative_moved;
                let reopened = self.window.on_ack(a_rwnd, moved, newly_acked, in_flight);
                self.apply_outcome(cx, outcome);
                self.queue.on_arrived(cx.now, &outcome.arrived);
                if !outcome.confirmed.is_empty() {
                    self.confirm(&mut outcome.confirmed);
                }
                self.after_acknowledgement(cx, &outcome.abandoned);
                self.on_window_update(cx);
                if reopened {
                    self.requeue_outstanding(cx);
                }
                self.on_time_rule(cx, outcome);
            }
            Err(InvalidAck::Stale) => cx.counters.sacks_stale += 1,
            Err(InvalidAck::NeverSent) => {
                self.happened.violation = Some("an acknowledgement of what was never sent");
            }
        }
    }

    /// Messages of which the receiver now has all fragments, if the application wants to learn of that.
    #[cold]
    fn confirm(&mut self, confirmed: &mut Vec<Acknowledged>) {
        let confirmations = &mut self.confirmations;
        let whole = confirmed
            .drain(..)
            .filter(|one| confirmations.on_acknowledged(one));
        self.happened.acknowledged.extend(whole);
    }

    /// Updates timers, RTT and window of each path.
    pub(super) fn apply_outcome(&mut self, cx: &mut Cx<'_>, outcome: &AckOutcome) {
        cx.counters.fast_recoveries += u64::from(outcome.recoveries);
        for index in 0..cx.paths.len() {
            let path = PathId(index as u8);
            if outcome.paths[index].lost > 0 {
                let here = outcome.lost.iter().filter(|(on, ..)| *on == path);
                let lost = here.map(|(_, no, bytes)| (*no, *bytes));
                cx.paths.path_mut(path).on_sendings_lost(cx.now, lost);
            }
            self.apply_to_path(cx, path, &outcome.paths[index], outcome.earliest);
            if self.sources.ecn.is_testing(path) {
                let flight = &cx.paths.path(path).flight;
                let lost = outcome.lost.iter().map(|(on, no, _)| (*on, *no));
                let lost = lost.chain(outcome.skipped.iter().copied());
                self.sources.ecn.on_acknowledged(path, flight, lost);
            }
            if outcome.paths[index].phase.begins_repairs() {
                let next = self.outstanding.next_index();
                self.sources.ecn.on_reduced(path, next, false);
                self.retransmit_at_once(cx, path);
            }
        }
        self.hurry_first_retransmission(cx, outcome);
        if self.outstanding.uses_rack() {
            if self.outstanding.first_lost().is_none() {
                cx.paths
                    .iter_mut()
                    .for_each(|path| path.timers.retransmit_now = false);
            }
            for index in (0..cx.paths.len()).filter(|index| outcome.paths[*index].asks) {
                self.send_probe(cx, PathId(index as u8));
            }
        }
    }

    /// A chunk that was sent once, at `sent_at`, is acknowledged: the round-trip time of its path is measured.
    fn on_round_trip(&self, cx: &mut Cx<'_>, id: PathId, sent_at: Timestamp) {
        if cx.config.multipath.is_on() {
            cx.paths.note_rtt(cx.now, id, sent_at);
        }
        let path = cx.paths.path_mut(id);
        path.rtt.on_acknowledged(cx.now, sent_at);
        if let Some(estimate) = path.copies.estimate() {
            let own = self.queue_of_less_urgent(cx.config);
            estimate.on_acknowledged(cx.now, sent_at, own);
        }
    }

    /// Updates timers, RTT and window of one path; `earliest` is as in [`AckOutcome`].
    fn apply_to_path(
        &mut self,
        cx: &mut Cx<'_>,
        id: PathId,
        outcome: &PathOutcome,
        earliest: Option<Timestamp>,
    ) {
        let max_burst = cx.config.max_burst;
        let reduction = (outcome.phase == Phase::Reduced).then_some(Reduction::Loss);
        let changed = outcome.newly_acked > 0 || outcome.lost > 0 || reduction.is_some();
        let coupling = if changed {
            cx.paths.coupling(id)
        } else {
            Coupling::Uncoupled
        };
        let split = cx.config.multipath.is_on();
        if let Some(sent_at) = outcome.sample {
            self.on_round_trip(cx, id, sent_at);
        }
        let path = cx.paths.path_mut(id);
        if outcome.newly_acked > 0 {
            on_news(path, cx.now, outcome, split, self.outstanding.uses_rack());
        }
        if changed {
            path.delivery.fast_recoveries += u64::from(reduction.is_some());
            let report = Report {
                now: cx.now,
                prior_flight: path.flight.progress().bytes_before,
                acked: outcome.newly_acked,
                lost: outcome.lost_bytes,
                marked: 0,
                reduction,
                recovering: matches!(outcome.phase, Phase::Recovering | Phase::ReducedBefore),
                advanced: outcome.advanced,
                all_acked: path.flight.is_empty() && (split || self.outstanding.is_empty()),
                application_limited: !self.blocked.is_for_network(),
                smoothed_rtt: path.rtt.smoothed(),
                latest_rtt: outcome
                    .sample
                    .map(|sent_at| cx.now.saturating_duration_since(sent_at)),
                min_rtt: path.rtt.min(),
                sample: path.sample_rate(
                    cx.now,
                    earliest,
                    outcome.newly_acked + outcome.copies_arrived,
                    outcome.newest,
                ),
                coupling,
            };
            path.control.on_report(&report);
            if self.outstanding.uses_rack() {
                path.follow_recovery(&report, self.outstanding.is_recovering(id));
            }
        }
        path.delivery.on_lost(outcome.lost);
        path.copies.on_lost_beside(outcome.lost_beside());
        path.open_burst(cx.now, outcome.newly_acked, max_burst);
        if path.flight.is_empty() {
            path.timers.stop_t3();
        } else if outcome.restarts_t3 || (outcome.reneged > 0 && path.timers.t3().is_none()) {
            path.start_t3(cx.now);
        }
        self.apply_answer(cx, id, outcome.answer);
    }

    /// Resets error counters, as far as the acknowledgement proves that the path or the peer works (§8.1, §8.2).
    fn apply_answer(&mut self, cx: &mut Cx<'_>, id: PathId, answer: Answer) {
        match answer {
            Answer::OfThisPath => self.on_path_answered(cx, id),
            // The acknowledgement proves that the peer is reachable, not that a path in doubt works (RFC 7829 §3.2, item 9).
            Answer::Data if cx.paths.path(id).is_in_doubt(&cx.config.retransmissions) => {
                self.happened.answered = true;
            }
            Answer::Data => self.on_path_answered(cx, id),
            Answer::Skipped => {
                let path = cx.paths.path_mut(id);
                path.on_progress(cx.now, false);
                path.gates
                    .recovery
                    .take_if(|_| !self.outstanding.is_recovering(id));
                self.happened.answered = true;
            }
            Answer::Nothing => {}
        }
    }

    /// Fast retransmit (§7.2.4 step 3): the first losses of an episode were found on a path, so a packet of retransmissions leaves whatever
    /// the window is.
    fn retransmit_at_once(&mut self, cx: &mut Cx<'_>, id: PathId) {
        let first = self.outstanding.first_lost();
        let to = match first {
            Some(index) if cx.paths.spreads() => self.retransmission_path(cx, index),
            _ => id,
        };
        cx.paths.path_mut(to).timers.retransmit_now = first.is_some();
    }

    /// ECA-SCTP, rule 10: the first retransmission after an acknowledgement leaves whatever the congestion window is.
    fn hurry_first_retransmission(&mut self, cx: &mut Cx<'_>, outcome: &AckOutcome) {
        let any = outcome.paths.iter().any(|path| path.lost > 0);
        if !any || !cx.capabilities.has(Capabilities::ECA) {
            return;
        }
        if let Some(index) = self.outstanding.first_lost() {
            let to = self.retransmission_path(cx, index);
            cx.paths.path_mut(to).timers.retransmit_now = true;
        }
    }

    /// The peer's window may have opened: a window probe is then no longer due.
    fn on_window_update(&mut self, cx: &Cx<'_>) {
        if !self.window.is_closed() && self.window_probe.is_none() {
            return;
        }
        let left = self.window.left(cx.paths.payload_in_flight());
        let fits = self.next_payload_len(cx).is_none_or(|len| len <= left);
        if fits {
            self.window_probe = None;
            self.window.note_open();
        }
    }

    /// When the earliest overtaken chunk in flight on `path` left, and how long the time rule waits from then on.
    fn time_rule_wait(&self, paths: &Paths, path: PathId) -> Option<(Timestamp, Duration)> {
        let (left, quarters) = self.outstanding.overtaken(path, paths)?;
        let round_trip = paths.path(path).rtt.smoothed()?;
        Some((left, round_trip * quarters / 4))
    }

    /// When the time rule declares that chunk lost.
    pub(super) fn time_rule_due(&self, paths: &Paths, path: PathId) -> Option<Timestamp> {
        self.time_rule_wait(paths, path).map(|(left, wait)| left + wait)
    }

    /// The time rule: a chunk that was overtaken on its path and is not acknowledged 1.25 round trips after it left is lost.
    fn on_time_rule(&mut self, cx: &mut Cx<'_>, outcome: &mut AckOutcome) {
        if !self.outstanding.has_time_rule() {
            return;
        }
        for index in 0..cx.paths.len() {
            let path = PathId(index as u8);
            let Some((_, wait)) = self
                .time_rule_wait(cx.paths, path)
                .filter(|(left, wait)| *left + *wait <= cx.now)
            else {
                continue;
            };
            outcome.begin(cx.paths.len());
            let judge = self.judge(cx);
            let paths = &mut *cx.paths;
            self.outstanding
                .on_overtaken(path, cx.now.before(wait), &judge, paths, outcome);
            cx.counters.losses_by_time += u64::from(outcome.paths[index].lost);
            self.apply_outcome(cx, outcome);
            self.after_acknowledgement(cx, &outcome.abandoned);
        }
    }

    /// The path works: the peer acknowledged data that was sent there and nowhere else.
    fn on_path_answered(&mut self, cx: &mut Cx<'_>, id: PathId) {
        self.happened.answered = true;
        let arrived_here = cx.paths.last_arrival == id;
        if cx.paths.path_mut(id).on_answered(arrived_here) {
            self.happened.changed.push(id);
        }
    }

    /// Called when the time rule may declare chunks lost.
    pub(super) fn on_time_rule_timer(&mut self, cx: &mut Cx<'_>) {
        let mut outcome = core::mem::take(&mut self.outcome);
        self.on_time_rule(cx, &mut outcome);
        self.outcome = outcome;
    }
}

/// Data of the path is acknowledged for the first time; `split`: data takes several paths.
#[inline]
fn on_news(path: &mut Path, now: Timestamp, outcome: &PathOutcome, split: bool, uses_rack: bool) {
    if let Some(bound) = &mut path.gates.delay_bound {
        bound.on_ack(now, outcome.newly_acked, outcome.largest, path.pmtu.max_data());
    }
    path.timers.single_packet = false;
    path.on_progress(now, outcome.probe_spurious);
    if path.flight.is_named() {
        path.extend_t3();
    }
    // With RACK the first T3-rtx retransmits one chunk: its small packet may pass although full packets are lost.
    let full = outcome.sample.is_some() || !uses_rack;
    if full && core::mem::take(&mut path.timers.silent_timeouts) > 0 {
        path.pmtu.on_answered_again(now);
    }
    if split {
        let round_trip = path.rtt.smoothed_or_rto();
        let idle = path.flight.is_empty();
        path.delivery.on_acked(now, outcome.newly_acked, round_trip, idle);
    }
}
