//! BBR's model of the path (draft-ietf-ccwg-bbr §5.5): rounds, the largest bandwidth, aggregation of acknowledgements, and the bounds of
//! the long and the short term.

use super::sample::Sample;
use crate::time::Timestamp;

/// `BBR.ExtraAckedFilterLen`, in rounds.
pub(super) const EXTRA_ACKED_ROUNDS: usize = 10;

/// §5.5.1: round trips, counted by packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    pub(super) count: u64,
    /// Whether the acknowledgement at hand began a round.
    pub(super) start: bool,
    next_delivered: u64,
}

impl Rounds {
    /// `StartRound`.
    pub(super) fn restart(&mut self, delivered: u64) {
        self.next_delivered = delivered;
    }

    /// `UpdateRound`.
    pub(super) fn update(&mut self, sample: &Sample, delivered: u64) {
        let of_this_round = |prior| prior >= self.next_delivered;
        self.start = sample.prior_delivered.is_some_and(of_this_round);
        if self.start {
            self.restart(delivered);
            self.count += 1;
        }
    }
}

/// `BBR.max_bw_filter`: the largest rate of the previous and of the current cycle of ProbeBW.
#[derive(Clone, Debug, Default)]
pub(super) struct MaxBandwidth {
    cycles: [f64; 2],
}

impl MaxBandwidth {
    pub(super) fn get(&self) -> f64 {
        self.cycles[0].max(self.cycles[1])
    }

    /// `UpdateMaxBw`. Application-limited samples count only if they are larger (§5.5.4).
    pub(super) fn update(&mut self, sample: &Sample) {
        if sample.rate > 0.0 && (sample.rate >= self.get() || !sample.app_limited) {
            self.cycles[1] = self.cycles[1].max(sample.rate);
        }
    }

    /// `AdvanceMaxBwFilter`. A cycle without a sample forgets nothing.
    pub(super) fn advance(&mut self) {
        if self.cycles[1] > 0.0 {
            self.cycles = [self.cycles[1], 0.0];
        }
    }
}

/// `BBR.extra_acked` (§5.5.9): how much more is acknowledged at a time than the bandwidth explains.
#[derive(Clone, Debug, Default)]
pub(super) struct ExtraAcked {
    interval_start: Option<Timestamp>,
    delivered: f64,
    /// The largest excess of each of the last rounds.
    rounds: [f64; EXTRA_ACKED_ROUNDS],
    round: u64,
}

impl ExtraAcked {
    pub(super) fn restart(&mut self, now: Timestamp) {
        self.interval_start = Some(now);
    }

    /// `BBR.extra_acked` over the last `length` rounds.
    pub(super) fn get(&self, length: usize) -> f64 {
        let rounds = (0..length.min(EXTRA_ACKED_ROUNDS) as u64).map(|back| self.round.wrapping_sub(back));
        let slots = rounds.map(|round| self.rounds[slot(round)]);
        slots.fold(0.0, f64::max)
    }

    pub(super) fn update(&mut self, now: Timestamp, round: u64, newly_acked: f64, bw: f64, cwnd: f64) {
        while self.round < round {
            self.round += 1;
            self.rounds[slot(self.round)] = 0.0;
        }
        let since = *self.interval_start.get_or_insert(now);
        let mut expected = bw * now.saturating_duration_since(since).as_secs_f64();
        if self.delivered <= expected {
            self.delivered = 0.0;
            self.interval_start = Some(now);
            expected = 0.0;
        }
        self.delivered += newly_acked;
        let extra = (self.delivered - expected).min(cwnd);
        let most = &mut self.rounds[slot(round)];
        *most = most.max(extra);
    }
}

fn slot(round: u64) -> usize {
    (round % EXTRA_ACKED_ROUNDS as u64) as usize
}

/// The model: what the path can carry, as far as known.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) max_bw: MaxBandwidth,
    /// `BBR.bw`: the bandwidth to use.
    pub(super) bw: f64,
    pub(super) bw_shortterm: f64,
    pub(super) inflight_shortterm: f64,
    pub(super) inflight_longterm: f64,
    pub(super) extra_acked: ExtraAcked,
    pub(super) bw_latest: f64,
    pub(super) inflight_latest: f64,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            max_bw: MaxBandwidth::default(),
            bw: 0.0,
            bw_shortterm: f64::INFINITY,
            inflight_shortterm: f64::INFINITY,
            inflight_longterm: f64::INFINITY,
            extra_acked: ExtraAcked::default(),
            bw_latest: 0.0,
            inflight_latest: 0.0,
        }
    }
}

impl Model {
    /// `BoundBWForModel`.
    pub(super) fn bound_bw(&mut self) {
        self.bw = self.max_bw.get().min(self.bw_shortterm);
    }

    /// `ResetShortTermModel`.
    pub(super) fn reset_short_term(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = f64::INFINITY;
    }
}
