//! Coupled congestion control: how the windows of an association's paths depend on each other, so that several paths through
//! one bottleneck take no more of it than one flow (draft-tuexen-tsvwg-sctp-multipath §6).
//!
//! * LIA, RFC 6356 §3: in congestion avoidance all windows together grow as fast as one window on the best path would.
//!   In groups: the same among the paths that may share a bottleneck (`groups`).
//! * Resource pooling, CMT/RPv1 (Dreibholz, Becke, Pulinthanath, Rathgeb, *Applying TCP-Friendly Congestion Control to
//!   Concurrent Multipath Transfer*, AINA 2010): a window grows by its path's share of the summed slow start thresholds, and a loss
//!   reduces the window of its path by half of the sum of all windows.

use core::time::Duration;

use crate::config::CoupledControl;
use crate::controller::Coupling;

/// One path with data in flight, with the values that coupling uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) cwnd: usize,
    pub(crate) ssthresh: usize,
    pub(crate) round_trip: Duration,
    /// The rate that the path carried lately, in bytes per second; 0 if it is not known.
    pub(crate) rate: f64,
}

impl Coupling {
    /// How the window of `this` depends on `members`, of which it is one.
    pub(crate) fn new(
        kind: CoupledControl,
        this: Member,
        members: impl Iterator<Item = Member> + Clone,
    ) -> Self {
        match kind {
            CoupledControl::Uncoupled => Self::Uncoupled,
            CoupledControl::Lia => Self::Linked {
                paths: members.clone().count(),
                avoidance: lia(this, members),
            },
            CoupledControl::Grouped => Self::Grouped {
                weight: 1.0 / count(members),
            },
            CoupledControl::ResourcePooling => {
                let sum = |part: fn(&Member) -> usize| {
                    let all = members.clone().map(|member| part(&member));
                    all.fold(0, usize::saturating_add).saturating_sub(part(&this))
                };
                Self::Pooled {
                    other_windows: sum(|member| member.cwnd),
                    other_thresholds: sum(|member| threshold(member.cwnd, member.ssthresh)),
                }
            }
        }
    }

    /// The factor for the growth of a window of `cwnd` bytes in slow start, relative to one uncoupled flow.
    pub(super) fn slow_start(self, cwnd: usize, ssthresh: usize) -> f64 {
        match self {
            Self::Uncoupled | Self::Linked { .. } | Self::Grouped { .. } => 1.0,
            Self::Pooled { other_thresholds, .. } => share(threshold(cwnd, ssthresh), other_thresholds),
        }
    }

    /// The factor for the growth in congestion avoidance.
    pub(super) fn avoidance(self, cwnd: usize, ssthresh: usize) -> f64 {
        match self {
            Self::Linked { avoidance, .. } => avoidance,
            // A window that grows by a factor f is √f times as large in the long run.
            Self::Grouped { weight } => weight * weight,
            Self::Uncoupled | Self::Pooled { .. } => self.slow_start(cwnd, ssthresh),
        }
    }

    /// Whether a window that equals ssthresh, as after each reduction, grows as in slow start (RFC 9260 §7.2.1; RFC 5681 §3.1 leaves it
    /// open). The difference is one packet for each reduction: little for one flow, much for the small windows of coupled paths.
    pub(super) fn slow_starts_at_threshold(self) -> bool {
        match self {
            Self::Linked { paths, .. } => paths <= 1,
            Self::Grouped { weight } => weight >= 1.0,
            Self::Uncoupled | Self::Pooled { .. } => true,
        }
    }

    /// By how many bytes a reduction reduces a window of `cwnd` bytes.
    pub(super) fn reduction(self, cwnd: usize) -> usize {
        match self {
            Self::Uncoupled | Self::Linked { .. } | Self::Grouped { .. } => cwnd - cwnd / 2,
            Self::Pooled { other_windows, .. } => other_windows.saturating_add(cwnd) / 2,
        }
    }

    /// The smallest ssthresh of this path, as a share of that of one uncoupled flow.
    pub(super) fn floor(self, cwnd: usize, ssthresh: usize) -> f64 {
        match self {
            // RFC 9260's floor of four packets is for one flow, not for each of several coupled paths.
            Self::Linked { paths, .. } => 1.0 / paths.max(1) as f64,
            Self::Grouped { weight } => weight,
            Self::Uncoupled | Self::Pooled { .. } => self.slow_start(cwnd, ssthresh),
        }
    }
}

/// The slow start threshold; before the first reduction, the window.
fn threshold(cwnd: usize, ssthresh: usize) -> usize {
    ssthresh.min(cwnd.max(1).saturating_mul(2))
}

/// The share of `own` in the sum of both.
fn share(own: usize, others: usize) -> f64 {
    own as f64 / (own as f64 + others as f64)
}

/// RFC 6356 §3: a window's worth of acknowledgements adds alpha · cwnd / cwnd_total packets, one at most, with
/// alpha = cwnd_total · max(cwnd_i / rtt_i²) / (Σ cwnd_i / rtt_i)².
fn lia(this: Member, members: impl Iterator<Item = Member> + Clone) -> f64 {
    let seconds = |member: &Member| member.round_trip.as_secs_f64().max(1e-6);
    let best = members
        .clone()
        .map(|member| member.cwnd as f64 / seconds(&member).powi(2))
        .fold(0.0, f64::max);
    let rate: f64 = members.map(|member| member.cwnd as f64 / seconds(&member)).sum();
    (best * this.cwnd as f64 / (rate * rate)).min(1.0)
}

/// How many paths share the weight of one flow. A path that carries less than an eighth of what the best one carries counts less: if
/// something else limits it, the best path keeps the weight.
fn count(members: impl Iterator<Item = Member> + Clone) -> f64 {
    let best = members.clone().map(|member| member.rate).fold(1.0, f64::max);
    let counts = members.map(|member| (8.0 * member.rate / best).min(1.0));
    counts.sum::<f64>().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(cwnd: usize, millis: u64) -> Member {
        Member {
            cwnd,
            ssthresh: usize::MAX,
            rate: 0.0,
            round_trip: Duration::from_millis(millis),
        }
    }

    fn coupling(kind: CoupledControl, members: &[Member]) -> Vec<Coupling> {
        let each = members.iter();
        each.map(|this| Coupling::new(kind, *this, members.iter().copied()))
            .collect()
    }

    #[test]
    fn one_path_is_rfc_9260() {
        let alone = |kind| coupling(kind, &[member(10_000, 50)])[0];
        assert_eq!(alone(CoupledControl::Uncoupled), Coupling::Uncoupled);
        let linked = alone(CoupledControl::Lia);
        let avoidance = linked.avoidance(10_000, usize::MAX);
        assert!((avoidance - 1.0).abs() < 1e-9 && linked.slow_starts_at_threshold());
        let pooled = alone(CoupledControl::ResourcePooling);
        let avoidance = pooled.avoidance(10_000, usize::MAX);
        assert_eq!((avoidance, pooled.reduction(10_000)), (1.0, 5000));
    }

    #[test]
    fn equal_paths_share_the_growth_of_one() {
        // With n equal paths alpha is 1/n, and each has 1/n of the summed windows.
        for coupling in coupling(CoupledControl::Lia, &[member(10_000, 50); 4]) {
            let avoidance = coupling.avoidance(10_000, usize::MAX);
            assert!((avoidance - 1.0 / 16.0).abs() < 1e-9, "{coupling:?}");
            let slow_start = coupling.slow_start(10_000, usize::MAX);
            assert_eq!((slow_start, coupling.reduction(10_000)), (1.0, 5000));
            assert!(!coupling.slow_starts_at_threshold());
        }
        for coupling in coupling(CoupledControl::ResourcePooling, &[member(10_000, 50); 4]) {
            assert!((coupling.avoidance(10_000, usize::MAX) - 0.25).abs() < 1e-9);
            assert_eq!(coupling.reduction(10_000), 20_000);
        }
    }

    #[test]
    fn no_path_grows_faster_than_alone() {
        let members = [member(3000, 10), member(90_000, 400), member(20_000, 80)];
        for coupling in coupling(CoupledControl::Lia, &members) {
            let avoidance = coupling.avoidance(3000, usize::MAX);
            assert!(avoidance > 0.0 && avoidance <= 1.0);
        }
    }

    #[test]
    fn a_path_that_carries_little_has_little_weight() {
        let carries = |rate: f64| Member {
            rate,
            ..member(10_000, 50)
        };
        let weight = |rates: &[f64]| {
            let members = rates.iter().map(|rate| carries(*rate));
            let coupling = Coupling::new(CoupledControl::Grouped, member(10_000, 50), members);
            let Coupling::Grouped { weight } = coupling else {
                panic!("{coupling:?}")
            };
            weight
        };
        assert_eq!(weight(&[1e6]), 1.0);
        assert_eq!(weight(&[0.0]), 1.0);
        assert_eq!(weight(&[1e6, 1e6, 1e6, 2e5]), 0.25);
        assert_eq!(weight(&[1.6e6, 1e5]), 1.0 / 1.5);
        assert_eq!(weight(&[1e6, 0.0]), 1.0);
    }
}
