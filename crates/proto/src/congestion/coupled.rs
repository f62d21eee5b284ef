//! Coupled congestion control: how the windows of an association's paths depend on each other, so that several paths through
//! one bottleneck take no more of it than one flow (draft-tuexen-tsvwg-sctp-multipath §6).
//!
//! * LIA, RFC 6356 §3: in congestion avoidance all windows together grow as fast as one window on the best path would.
//! * Resource pooling, CMT/RPv1 (Dreibholz, Becke, Pulinthanath, Rathgeb, *Applying TCP-Friendly Congestion Control to
//!   Concurrent Multipath Transfer*, AINA 2010): a path grows by its share of the summed slow start thresholds, and a loss
//!   takes half of all windows from the path that lost.

use core::time::Duration;

use crate::config::CoupledControl;

/// One path with data in flight, as the others see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) cwnd: usize,
    pub(crate) ssthresh: usize,
    pub(crate) round_trip: Duration,
}

/// How one path's window depends on the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Coupling {
    /// Of what the window would grow by in slow start.
    pub(crate) slow_start: f64,
    /// Whether a window that is just as large as ssthresh, as after each cut, grows as in slow start (RFC 9260 §7.2.1; RFC 5681
    /// §3.1 leaves it open). It is one packet a cut: little for one flow, much for the small windows of its parts.
    pub(crate) slow_start_at_threshold: bool,
    /// Of what it would grow by in congestion avoidance.
    pub(crate) avoidance: f64,
    /// What a cut takes from the window, in bytes; `None` is half of it.
    pub(crate) cut: Option<usize>,
    /// Of the least ssthresh after a cut.
    pub(crate) floor: f64,
}

impl Coupling {
    /// RFC 9260: each path by itself.
    pub(crate) const NONE: Self = Self {
        slow_start: 1.0,
        slow_start_at_threshold: true,
        avoidance: 1.0,
        cut: None,
        floor: 1.0,
    };

    /// How the window of `this` depends on `members`, of which it is one.
    pub(crate) fn new(
        kind: CoupledControl,
        this: Member,
        members: impl Iterator<Item = Member> + Clone,
    ) -> Self {
        let count = members.clone().count();
        match kind {
            CoupledControl::Uncoupled => Self::NONE,
            CoupledControl::Lia => Self {
                avoidance: lia(this, members),
                // RFC 9260's floor of four packets is for one flow, not for each of its parts.
                floor: 1.0 / count.max(1) as f64,
                slow_start_at_threshold: count <= 1,
                ..Self::NONE
            },
            CoupledControl::ResourcePooling => {
                // Without a threshold yet, the window is what is known of the path.
                let known = |member: &Member| member.ssthresh.min(member.cwnd.max(1) * 2) as f64;
                let share = known(&this) / members.clone().map(|member| known(&member)).sum::<f64>();
                let total: usize = members.map(|member| member.cwnd).sum();
                Self {
                    slow_start: share,
                    slow_start_at_threshold: true,
                    avoidance: share,
                    cut: Some(total / 2),
                    floor: share,
                }
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn member(cwnd: usize, millis: u64) -> Member {
        Member {
            cwnd,
            ssthresh: usize::MAX,
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
        assert_eq!(alone(CoupledControl::Uncoupled), Coupling::NONE);
        let linked = alone(CoupledControl::Lia);
        assert!((linked.avoidance - 1.0).abs() < 1e-9 && linked.slow_start_at_threshold);
        let pooled = alone(CoupledControl::ResourcePooling);
        assert_eq!((pooled.avoidance, pooled.cut), (1.0, Some(5000)));
    }

    #[test]
    fn equal_paths_share_the_growth_of_one() {
        // With n equal paths alpha is 1/n, and each has 1/n of the summed windows.
        for coupling in coupling(CoupledControl::Lia, &[member(10_000, 50); 4]) {
            assert!((coupling.avoidance - 1.0 / 16.0).abs() < 1e-9, "{coupling:?}");
            assert_eq!((coupling.slow_start, coupling.cut), (1.0, None));
            assert!(!coupling.slow_start_at_threshold);
        }
        for coupling in coupling(CoupledControl::ResourcePooling, &[member(10_000, 50); 4]) {
            assert!((coupling.avoidance - 0.25).abs() < 1e-9);
            assert_eq!(coupling.cut, Some(20_000));
        }
    }

    #[test]
    fn no_path_grows_faster_than_alone() {
        let members = [member(3000, 10), member(90_000, 400), member(20_000, 80)];
        for coupling in coupling(CoupledControl::Lia, &members) {
            assert!(coupling.avoidance > 0.0 && coupling.avoidance <= 1.0);
        }
    }
}
