//! A controller with checks of its properties at each call, for the models that drive controllers over any network.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::AnyController;
use crate::config::Config;
use crate::controller::{
    CongestionControl, Controller, LostPacket, Metrics, NewPath, Pace, Reduction, Report, SentPacket,
};
use crate::time::Timestamp;

/// The largest window of any controller, in bytes.
const LARGEST: usize = 1 << 41;

/// A call of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Reduced(Reduction),
    Undone,
}

/// The calls of the controllers of one endpoint since the last look, each with the number of its path in the order in which the paths were
/// made.
pub(crate) type Log = Receiver<(usize, Told)>;

/// The algorithm that these settings choose, checked at each call.
pub(crate) fn checked(config: &Config) -> (CongestionControl, Log) {
    let (sender, log) = channel();
    let (config, paths) = (config.clone(), AtomicUsize::new(0));
    let control = CongestionControl::external(move |path: &NewPath| Checked {
        inner: AnyController::of_path(&config, path),
        path: paths.fetch_add(1, Ordering::Relaxed),
        log: sender.clone(),
        packet: path.max_data,
        least: path.max_data.min(path.initial_window),
        highest: path.initial_window,
        before: None,
        timed_out: false,
    });
    (control, log)
}

#[derive(Debug)]
struct Checked {
    inner: AnyController,
    path: usize,
    log: Sender<(usize, Told)>,
    packet: usize,
    /// The smallest packet size so far: a larger path MTU need not raise a window.
    least: usize,
    /// The largest window so far.
    highest: usize,
    /// The state before the last reduction, if that may be undone.
    before: Option<Before>,
    /// T3-rtx expired, and no bytes were acknowledged since.
    timed_out: bool,
}

/// The state that an undo restores.
#[derive(Clone, Copy, Debug)]
struct Before {
    metrics: Metrics,
    /// BBR's bounds.
    bounds: [f64; 3],
    /// The size of a packet then.
    packet: usize,
}

impl Checked {
    /// Whether only losses, marks and pauses reduce the window of this algorithm.
    fn is_loss_based(&self) -> bool {
        !matches!(self.inner, AnyController::Bbr(_))
    }

    /// The bandwidth and the bounds of BBR's model.
    fn model(&self) -> (f64, [f64; 3]) {
        match &self.inner {
            AnyController::Bbr(bbr) => bbr.model_bounds(),
            _ => (0.0, [0.0; 3]),
        }
    }

    fn state(&self) -> Before {
        Before {
            metrics: self.inner.metrics(),
            bounds: self.model().1,
            packet: self.packet,
        }
    }

    fn tell(&self, told: Told) {
        // While a model is dropped, the receiving end may be gone.
        self.log.send((self.path, told)).ok();
    }

    /// The bounds of windows and rates.
    fn check(&mut self) {
        let window = self.inner.window();
        self.highest = self.highest.max(window);
        assert!((self.least..=LARGEST).contains(&window), "{window}: {self:?}");
        assert_eq!(self.inner.metrics().cwnd, window);
        if let Some(pace) = self.inner.pace() {
            assert!(pace.rate.is_finite() && pace.rate >= 1.0, "{pace:?}: {self:?}");
            let most = 65_536.max(2 * self.packet);
            assert!((self.packet..=most).contains(&pace.quantum), "{pace:?}: {self:?}");
        }
        let (bandwidth, bounds) = self.model();
        assert!(bandwidth.is_finite() && bandwidth >= 0.0, "{self:?}");
        assert!(bounds.iter().all(|bound| *bound >= 0.0), "{self:?}");
    }

    /// Checks a report that asks for no reduction.
    fn check_growth(&self, report: &Report, before: usize, bandwidth: f64) {
        let after = self.inner.window();
        if self.is_loss_based() {
            assert!(after >= before, "{before} {report:?} {self:?}");
            let used = match self.inner {
                // RFC 9260 §7.2.1: the window grows only if it was full.
                AnyController::Rfc9260(_) => report.prior_flight >= before,
                _ => !report.application_limited,
            };
            if !used || report.recovering || report.acked == 0 {
                assert_eq!(after, before, "{report:?} {self:?}");
            }
        }
        // Slow start is the fastest growth. When recovery or ProbeRTT ends, BBR returns to an earlier window, and has at least four
        // packets.
        let from = if self.is_loss_based() {
            before
        } else {
            self.highest
        };
        let most = (from + report.acked.max(self.packet) + 1).max(4 * self.packet);
        assert!(after <= most, "{before} {report:?} {self:?}");
        let (now, _) = self.model();
        let sampled = report.sample.map_or(0.0, |sample| sample.rate());
        assert!(now <= bandwidth.max(sampled), "{bandwidth} {report:?} {self:?}");
    }

    /// Checks a reduction: one, and no more than one.
    fn check_reduction(&self, reduction: Reduction, before: usize) {
        let after = self.inner.window();
        if !self.is_loss_based() {
            return;
        }
        match reduction {
            Reduction::Timeout => assert_eq!(after, self.packet, "{self:?}"),
            Reduction::Loss | Reduction::Ecn => {
                // Half, minus the rounding of an odd window.
                assert!(after + 1 >= before / 2, "{before} {self:?}");
                assert!(after <= before.max(4 * self.packet), "{before} {self:?}");
            }
        }
    }
}

impl Controller for Checked {
    fn on_sent(&mut self, sent: &SentPacket) {
        let before = self.inner.window();
        self.inner.on_sent(sent);
        // A pause ends BBR's ProbeRTT, and the window from before returns.
        let most = if self.is_loss_based() {
            before
        } else {
            self.highest
        };
        assert!(
            (before..=most).contains(&self.inner.window()),
            "{before} {self:?}"
        );
        self.check();
    }

    fn on_lost(&mut self, lost: &LostPacket) {
        self.inner.on_lost(lost);
        self.check();
    }

    fn on_report(&mut self, report: &Report) {
        let (state, (bandwidth, _)) = (self.state(), self.model());
        let before = state.metrics.cwnd;
        self.inner.on_report(report);
        self.timed_out &= report.acked == 0;
        match report.reduction {
            None => self.check_growth(report, before, bandwidth),
            Some(reduction) => {
                self.check_reduction(reduction, before);
                self.tell(Told::Reduced(reduction));
                let again = reduction == Reduction::Timeout && self.timed_out;
                if !again || self.before.is_none() {
                    self.before = (reduction != Reduction::Ecn).then_some(state);
                }
                self.timed_out = reduction == Reduction::Timeout;
            }
        }
        self.check();
    }

    /// Checks that the state before the reduction is restored, unless the window has grown beyond it since.
    fn on_spurious(&mut self, now: Timestamp) {
        let reduced = self.inner.window();
        self.inner.on_spurious(now);
        self.tell(Told::Undone);
        if let Some(Before {
            metrics,
            bounds,
            packet,
        }) = self.before.take()
        {
            let after = self.inner.metrics();
            assert!(after.cwnd >= metrics.cwnd.max(reduced), "{metrics:?} {self:?}");
            if self.is_loss_based() && reduced < metrics.cwnd && metrics.cwnd >= self.packet {
                // The report that reduced the window may have raised it first.
                assert_eq!(after.ssthresh, metrics.ssthresh, "{self:?}");
                assert!(after.cwnd <= metrics.cwnd + packet, "{metrics:?} {self:?}");
            }
            let (_, restored) = self.model();
            let whole = restored.iter().zip(&bounds).all(|(now, then)| now >= then);
            assert!(whole, "{bounds:?} {self:?}");
        }
        self.check();
    }

    fn on_idle(&mut self, now: Timestamp, first: bool) {
        let before = self.inner.window();
        self.inner.on_idle(now, first);
        let after = self.inner.window();
        let most = if self.is_loss_based() {
            before
        } else {
            self.highest
        };
        assert!((before / 2..=most).contains(&after), "{before} {self:?}");
        if after < before {
            self.before = None;
        }
        self.check();
    }

    fn on_packet_size(&mut self, max_data: usize) {
        self.inner.on_packet_size(max_data);
        self.packet = max_data;
        self.least = self.least.min(max_data);
        self.check();
    }

    fn window(&self) -> usize {
        self.inner.window()
    }

    fn pace(&self) -> Option<Pace> {
        self.inner.pace()
    }

    fn known_rate(&self) -> Option<f64> {
        self.inner.known_rate()
    }

    fn wants_rate_samples(&self) -> bool {
        self.inner.wants_rate_samples()
    }

    fn uses_proportional_rate_reduction(&self) -> bool {
        self.inner.uses_proportional_rate_reduction()
    }

    fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }
}
