//! The losses that a path has shown in the last seconds.

use core::time::Duration;

use super::Loss;
use crate::path::SendNo;
use crate::time::Timestamp;

/// The least length of a measurement.
const LEAST_TIME: Duration = Duration::from_secs(5);
/// A measurement ends after this time however few were sent: after an outage few messages take the path, and it would count as lossy for ever.
const LONGEST_TIME: Duration = Duration::from_secs(60);
/// The least number of transmissions in a shorter measurement, and before losses are known at all.
const LEAST_SENT: u64 = 50;
/// The loss that is assumed before.
const PRIOR: f64 = 0.02;
/// How probable it is that a loss follows another one at once, before losses are known.
const PRIOR_OF_BURST: f64 = 0.5;
/// After so many losses, earlier ones count half for the length of bursts.
const HALVES: u32 = 64;

/// The transmissions of a path and the losses among them, counted from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fates {
    sent: u64,
    lost: u64,
}

/// The losses of a path: measured from one mark to the next but one, so that at least one measurement is complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentLoss {
    /// The beginnings of the last complete measurement and of the current one.
    marks: [(Timestamp, Fates); 2],
    /// Early copies sent, and losses of which the chunks are not declared lost.
    beside: Fates,
    last_lost: Option<SendNo>,
    /// Losses, and those among them that followed another one at once.
    losses: u32,
    followed: u32,
}

impl RecentLoss {
    /// An early copy left.
    pub(crate) fn on_copied(&mut self) {
        self.beside.sent += 1;
    }

    /// So many packets were lost whose chunks are not declared lost: a copy or a tail loss probe arrived.
    pub(crate) fn on_lost_beside(&mut self, packets: u32) {
        self.beside.lost += u64::from(packets);
    }

    /// The transmission `no` is declared lost.
    pub(crate) fn on_lost(&mut self, no: SendNo) {
        if self.losses == HALVES {
            self.losses /= 2;
            self.followed /= 2;
        }
        self.losses += 1;
        let follows = no > 0 && self.last_lost == Some(no - 1);
        self.followed += u32::from(follows);
        self.last_lost = Some(no);
    }

    /// How probable it is that a transmission is lost which follows a lost one on the path, if another path could take it instead: until
    /// losses are known, each may be the beginning of a burst.
    pub(crate) fn burst(&self) -> f64 {
        (f64::from(self.followed) + 2.0 * PRIOR_OF_BURST) / (f64::from(self.losses) + 2.0)
    }

    /// How probable a loss is on a path that sent so many chunks, of which so many were declared lost.
    pub(crate) fn loss(&mut self, now: Timestamp, sent: u64, lost: u64) -> Loss {
        let fates = Fates {
            sent: sent + self.beside.sent,
            lost: lost + self.beside.lost,
        };
        let (begun, first) = self.marks[1];
        let lasts = now.saturating_duration_since(begun);
        let is_complete = lasts >= LEAST_TIME && fates.sent - first.sent >= LEAST_SENT;
        if is_complete || lasts >= LONGEST_TIME {
            self.marks = [self.marks[1], (now, fates)];
        }
        let (_, before) = self.marks[0];
        let (sent, lost) = (fates.sent - before.sent, fates.lost - before.lost);
        let any = if sent < LEAST_SENT {
            PRIOR
        } else {
            // As if two more had been sent with the loss assumed at first: of a path without losses, little is expected.
            ((lost as f64 + 2.0 * PRIOR) / (sent as f64 + 2.0)).min(1.0)
        };
        let next = (f64::from(self.followed) + 2.0 * any) / (f64::from(self.losses) + 2.0);
        Loss { any, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    #[test]
    fn losses_are_assumed_until_fifty_were_sent() {
        let mut recent = RecentLoss::default();
        let mut loss = |sent, lost| recent.loss(at(1), sent, lost).any;
        assert!((loss(49, 9) - PRIOR).abs() < 1e-9);
        assert!(loss(50, 0) < 0.001, "nothing was lost");
        assert!((loss(98, 5) - 0.05).abs() < 0.01);
    }

    #[test]
    fn old_losses_are_forgotten() {
        let mut recent = RecentLoss::default();
        recent.loss(at(5000), 100, 50);
        let any = recent.loss(at(5001), 101, 50).any;
        assert!(any > 0.4, "the first measurement");
        recent.loss(at(10_000), 200, 50);
        recent.loss(at(15_000), 300, 50);
        assert!(recent.loss(at(15_001), 301, 50).any < 0.001);
        recent.loss(at(60_000), 310, 50);
        assert_eq!(recent.marks[1].0, at(15_000), "ten say little");
    }

    #[test]
    fn an_outage_is_forgotten_although_little_is_sent() {
        let mut recent = RecentLoss::default();
        recent.loss(at(5_000), 100, 0);
        let mut loss = |seconds: u64, sent| recent.loss(at(1_000 * seconds), sent, 50).any;
        assert!(loss(64, 152) > 0.3, "an outage after a hundred");
        assert!(loss(66, 153) > 0.3);
        assert!(loss(123, 154) > 0.3);
        assert!((loss(125, 155) - PRIOR).abs() < 1e-9, "few were sent since");
    }

    #[test]
    fn copies_and_what_they_show_count() {
        let mut recent = RecentLoss::default();
        (0..50).for_each(|_| recent.on_copied());
        recent.on_lost_beside(10);
        assert!((recent.loss(at(1), 50, 0).any - 0.1).abs() < 0.01);
    }

    #[test]
    fn losses_that_follow_each_other_make_bursts() {
        let next = |lost: &[SendNo]| {
            let mut recent = RecentLoss::default();
            lost.iter().for_each(|no| recent.on_lost(*no));
            recent.loss(at(1), 1000, 10).next
        };
        let apart: Vec<_> = (0..100).map(|no| 7 * no).collect();
        let bursts: Vec<_> = (0..100).map(|no| 7 * (no / 4) + no % 4).collect();
        assert!(next(&apart) < 0.05, "{}", next(&apart));
        assert!((next(&bursts) - 0.75).abs() < 0.05, "{}", next(&bursts));
    }

    #[test]
    fn a_burst_is_likely_until_losses_are_known() {
        let mut recent = RecentLoss::default();
        let mut burst = |no| {
            recent.on_lost(no);
            recent.burst()
        };
        assert!((burst(7) - 1.0 / 3.0).abs() < 1e-9, "one that no other followed");
        assert!((burst(8) - 0.5).abs() < 1e-9);
        (2..100).for_each(|no| recent.on_lost(7 * no));
        assert!(recent.burst() < 0.05, "{}", recent.burst());
    }
}
