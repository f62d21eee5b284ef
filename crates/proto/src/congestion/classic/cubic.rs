//! CUBIC (RFC 9438): after a reduction the window grows along a cubic curve, fast at first, slowly near the window at which chunks
//! were lost, and fast again beyond.
//!
//! RFC 9438 counts in segments; a segment is a full DATA chunk here (PMDCS), and windows are bytes. Where the texts leave a choice:
//!
//! * **Use of the window.** The window grows if [`Report::application_limited`] is false, even if `prior_flight` did not fill the window: a
//!   paced sender need not fill its window, and still uses it (RFC 9002 §7.8). RFC 9438 §4.6 demands more of a sender that reduces its
//!   window and not its flight size, because the peer's window may limit it too. So a window of more than twice the bytes in flight of
//!   the last two round trips does not grow either.
//! * **Elapsed time.** A congestion avoidance stage begins with the first report that lets the window grow: recovery, in which the
//!   window stays, does not count. Neither do times without DATA in flight and times in which the window was not used
//!   (RFC 9438 §4.2 and §5.8).
//! * **Slow start** grows by all bytes acknowledged once packets are paced, by at most eight packets for each report before (RFC 9406
//!   §4.2). It stops at ssthresh. A window of just ssthresh is in congestion avoidance (RFC 5681 §3.1 leaves it open).
//! * **ECN.** In congestion avoidance the window is reduced to 0.85 (RFC 8511 §3.1), in slow start to 0.7, down to one packet (RFC 9438
//!   §4.6). Fast convergence takes the same factor; the Reno-friendly region always takes 0.7.
//! * **T3-rtx** that expires again, with no bytes acknowledged since, does not lower ssthresh again (RFC 5681 §3.1).
//! * **A pause** halves the window for each RTO, not below the initial window, and keeps three quarters of it as ssthresh (RFC 2861). That
//!   is less than the reduction of RFC 5681 §4.1, which falls to the initial window at once; it is enough because packets are paced. In
//!   the first slow start HyStart++ continues (RFC 9406 §4.3).
//! * **Coupling.** A path with the weight w in its group shall have w times the window of a flow. Reno's window is proportional to the root
//!   of its growth, so the Reno-friendly window grows by w². CUBIC's is proportional to the fourth root of C (RFC 9438 §5.1), so C is
//!   multiplied by w⁴: the time since the reduction runs slower by a factor of ∛w⁴.

use core::time::Duration;

use super::Rounds;
use super::hystart::HyStart;
use crate::controller::{Controller, Coupling, Metrics, NewPath, Pace, Reduction, Report, SentPacket};
use crate::time::Timestamp;

/// The factor by which a loss reduces the window (β_cubic, RFC 9438 §4.6).
pub(super) const BETA: f64 = 0.7;
/// The factor by which a CE mark reduces the window (RFC 8511 §3.1).
const BETA_ECN: f64 = 0.85;
/// Packets per second³ (RFC 9438 §5).
const C: f64 = 0.4;
/// Packets that the Reno-friendly window grows by in a round trip (α_cubic, RFC 9438 §4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// The most packets that a report adds in slow start while nothing is paced (RFC 9406 §4.3).
const L: f64 = 8.0;
/// The largest window in bytes, so that products of windows and times stay finite.
pub(super) const MAX_WINDOW: f64 = (1_u64 << 40) as f64;
/// The largest packet in bytes.
const MAX_PACKET: usize = 65_535;
/// The pacing rate in slow start, in windows per smoothed RTT: the window doubles in a round trip.
const PACE_SLOW_START: f64 = 2.0;
/// The pacing rate in congestion avoidance, in windows per smoothed RTT: variations of the RTT leave no part of the window unused (RFC
/// 9002 §7.7).
const PACE_AVOIDANCE: f64 = 1.25;
/// Bytes per second, 1.2 Mbit/s: below this rate two packets at once are a noticeable burst.
const SLOW: f64 = 150_000.0;
/// The most bytes that leave at once.
const MOST_AT_ONCE: f64 = 65_536.0;

/// CUBIC on one path.
#[derive(Clone, Debug)]
pub(crate) struct Cubic {
    pub(super) state: State,
    /// The state before the last reduction, if its losses may be spurious.
    undo: Option<State>,
    /// PMDCS: the largest DATA chunk that fits a packet of the path.
    packet: f64,
    initial_window: f64,
    smoothed_rtt: Option<Duration>,
    latest_rtt: Option<Duration>,
    rounds: Rounds,
    /// The most bytes in flight in this round trip and in the last one.
    flights: [usize; 2],
    /// The time of the last report, or of the end of a pause after it. From then to the next report the window counts as used.
    since: Timestamp,
    /// T3-rtx expired, and no bytes were acknowledged since.
    timed_out: bool,
}

/// The variables that a reduction changes and an undo restores (RFC 9438 §4.9.2). Windows in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct State {
    pub(super) cwnd: f64,
    /// `None` while unlimited: in the first slow start.
    pub(super) ssthresh: Option<f64>,
    /// The window when ssthresh was set.
    pub(super) cwnd_prior: f64,
    /// `None` if there was no congestion event yet, or if the last one was a timeout: the window at which the next congestion avoidance
    /// stage begins takes its place, and K is 0 (RFC 9438 §4.8, §4.10).
    pub(super) w_max: Option<f64>,
    pub(super) epoch: Option<Epoch>,
    pub(super) hystart: HyStart,
}

/// A congestion avoidance stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Epoch {
    /// The time in which the window was used (t).
    pub(super) age: Duration,
    /// Seconds until the window reaches `w_max` again (K).
    pub(super) k: f64,
    /// In bytes.
    w_max: f64,
    /// C in bytes per second³, with the packets of the begin of the stage.
    c: f64,
    /// The window that Reno would have, in bytes (W_est).
    pub(super) w_est: f64,
}

impl Epoch {
    fn new(cwnd: f64, w_max: f64, packet: f64) -> Self {
        let c = C * packet;
        Self {
            age: Duration::ZERO,
            k: cube_root((w_max - cwnd) / c),
            w_max,
            c,
            w_est: cwnd,
        }
    }

    /// W_cubic so many seconds after the begin of the stage (RFC 9438 §4.2).
    #[inline]
    pub(super) fn w_cubic(&self, seconds: f64) -> f64 {
        let t = seconds - self.k;
        self.c * (t * t * t) + self.w_max
    }
}

impl Cubic {
    /// `initial_ssthresh` is [`crate::RecoveryRules::initial_ssthresh`]; if it is not unlimited, slow start ends there, without HyStart++.
    pub(crate) fn new(path: &NewPath, initial_ssthresh: usize) -> Self {
        let packet = packet(path.max_data);
        let initial_window = (path.initial_window as f64).clamp(packet, MAX_WINDOW);
        Self {
            state: State {
                cwnd: initial_window,
                ssthresh: (initial_ssthresh != usize::MAX).then_some(initial_ssthresh as f64),
                cwnd_prior: initial_window,
                w_max: None,
                epoch: None,
                hystart: HyStart::default(),
            },
            undo: None,
            packet,
            initial_window,
            smoothed_rtt: None,
            latest_rtt: None,
            rounds: Rounds::default(),
            flights: [0; 2],
            since: Timestamp::ZERO,
            timed_out: false,
        }
    }

    #[inline]
    fn in_slow_start(&self) -> bool {
        let state = &self.state;
        state.ssthresh.is_none_or(|ssthresh| state.cwnd < ssthresh)
    }

    /// Whether the sender uses its window: see *Use of the window* in the module documentation.
    #[inline]
    fn is_used(&self, report: &Report) -> bool {
        let flight = self.flights[0].max(self.flights[1]) as f64;
        !report.application_limited && self.state.cwnd <= 2.0 * flight
    }

    /// RFC 9406 §4.2 and RFC 5681 §3.1.
    fn slow_start(&mut self, acked: usize) {
        let most = match self.smoothed_rtt {
            Some(_) => MAX_WINDOW,
            None => L * self.packet,
        };
        let state = &mut self.state;
        let divisor = match state.ssthresh {
            Some(_) => 1.0,
            None => state.hystart.divisor(),
        };
        let grown = state.cwnd + (acked as f64).min(most) / divisor;
        let end = state.ssthresh.unwrap_or(MAX_WINDOW).min(MAX_WINDOW);
        state.cwnd = grown.min(end).max(state.cwnd);
    }

    /// HyStart++ found the end of the first slow start, without a loss (RFC 9438 §4.10).
    fn end_first_slow_start(&mut self) {
        let cwnd = self.state.cwnd;
        self.state.ssthresh = Some(cwnd);
        self.state.cwnd_prior = cwnd;
    }

    /// RFC 9438 §4.2 to §4.5.
    fn avoid_congestion(&mut self, acked: usize, weight: f64) {
        let packet = self.packet;
        let round_trip = in_group(self.smoothed_rtt.unwrap_or_default(), weight).as_secs_f64();
        let state = &mut self.state;
        let cwnd = state.cwnd;
        let epoch = state.epoch.get_or_insert_with(|| {
            // If the window is beyond W_max, as after a slow start, its curve begins at the window.
            let w_max = state.w_max.map_or(cwnd, |w_max| w_max.max(cwnd));
            state.w_max = Some(w_max);
            Epoch::new(cwnd, w_max, packet)
        });
        // Acknowledgements of an earlier, larger window must not raise this window beyond its target.
        let share = (acked as f64 / cwnd).min(1.0);
        let alpha = if epoch.w_est >= state.cwnd_prior {
            1.0
        } else {
            ALPHA
        };
        epoch.w_est = (epoch.w_est + weight * weight * alpha * packet * share).min(MAX_WINDOW);
        let age = epoch.age.as_secs_f64();
        let grown = if epoch.w_cubic(age) < epoch.w_est {
            cwnd.max(epoch.w_est)
        } else {
            let target = epoch.w_cubic(age + round_trip).clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) * share
        };
        // A change of the path MTU within the stage must not make the window jump.
        state.cwnd = grown.min(cwnd + acked as f64).min(MAX_WINDOW);
    }

    /// RFC 9438 §4.6 to §4.8.
    fn reduce(&mut self, reduction: Reduction) {
        let packet = self.packet;
        if reduction == Reduction::Timeout && self.timed_out {
            self.state.cwnd = packet;
            return;
        }
        self.timed_out = reduction == Reduction::Timeout;
        // Marks are never spurious.
        self.undo = (reduction != Reduction::Ecn).then_some(self.state);
        let beta = match reduction {
            Reduction::Ecn if !self.in_slow_start() => BETA_ECN,
            _ => BETA,
        };
        let state = &mut self.state;
        let cwnd = state.cwnd;
        state.w_max = match (reduction, state.w_max) {
            (Reduction::Timeout, _) => None,
            // Fast convergence (§4.7).
            (_, Some(w_max)) if cwnd < w_max => Some(cwnd * (1.0 + beta) / 2.0),
            _ => Some(cwnd),
        };
        state.cwnd_prior = cwnd;
        state.ssthresh = Some((cwnd * beta).max(2.0 * packet));
        state.cwnd = match reduction {
            Reduction::Loss => (cwnd * beta).max(2.0 * packet),
            Reduction::Ecn => (cwnd * beta).max(packet),
            Reduction::Timeout => packet,
        };
        state.epoch = None;
    }
}

impl Controller for Cubic {
    /// A packet that leaves an empty path ends a pause.
    #[inline]
    fn on_sent(&mut self, sent: &SentPacket) {
        if sent.flight <= sent.bytes {
            self.since = self.since.max(sent.now);
        }
    }

    #[inline]
    fn on_report(&mut self, report: &Report) {
        let elapsed = report.now.saturating_duration_since(self.since);
        self.since = self.since.max(report.now);
        self.smoothed_rtt = report.smoothed_rtt.or(self.smoothed_rtt);
        self.latest_rtt = report.latest_rtt.or(self.latest_rtt);
        let begins_round = self.rounds.begins(report);
        if begins_round {
            self.flights = [0, self.flights[0]];
        }
        self.flights[0] = self.flights[0].max(report.prior_flight);
        self.timed_out &= report.acked == 0;
        if let Some(reduction) = report.reduction {
            self.reduce(reduction);
            return;
        }
        let used = !report.recovering && self.is_used(report);
        let weight = weight(report.coupling);
        if used && let Some(epoch) = &mut self.state.epoch {
            epoch.age = epoch.age.saturating_add(in_group(elapsed, weight));
        }
        let first = self.state.ssthresh.is_none();
        if first && begins_round && self.state.hystart.on_round(used) {
            self.end_first_slow_start();
        }
        if used && report.acked > 0 {
            if self.in_slow_start() {
                self.slow_start(report.acked);
            } else {
                self.avoid_congestion(report.acked, weight);
            }
        }
        if first && let Some(rtt) = report.latest_rtt {
            self.state.hystart.on_rtt(rtt, used);
        }
    }

    /// RFC 9438 §4.9.2: if the window has grown beyond its former size, nothing changes.
    fn on_spurious(&mut self, now: Timestamp) {
        let Some(undo) = self.undo.take() else {
            return;
        };
        if self.state.cwnd < undo.cwnd {
            self.state = undo;
            self.state.cwnd = undo.cwnd.max(self.packet);
            self.since = self.since.max(now);
            self.timed_out = false;
        }
    }

    fn on_idle(&mut self, _: Timestamp, first: bool) {
        let state = &mut self.state;
        let lowered = (state.cwnd / 2.0).max(self.initial_window).max(self.packet);
        if lowered >= state.cwnd {
            return;
        }
        if first {
            let kept = 0.75 * state.cwnd;
            state.ssthresh = state.ssthresh.map(|ssthresh| ssthresh.max(kept));
        }
        state.cwnd = lowered;
        state.epoch = None;
        self.undo = None;
    }

    fn on_packet_size(&mut self, max_data: usize) {
        self.packet = packet(max_data);
        self.state.cwnd = self.state.cwnd.max(self.packet);
    }

    #[inline]
    fn window(&self) -> usize {
        self.state.cwnd as usize
    }

    #[inline]
    fn pace(&self) -> Option<Pace> {
        let smoothed = self.smoothed_rtt?;
        // The acknowledgement of a chunk that an outage delayed raises the smoothed RTT for many round trips. Pacing by that RTT would make
        // each of these round trips equally long.
        let most = self
            .latest_rtt
            .map_or(smoothed, |latest| latest.saturating_mul(2));
        let round_trip = smoothed.min(most).as_secs_f64().max(1e-6);
        let factor = if self.in_slow_start() {
            PACE_SLOW_START
        } else {
            PACE_AVOIDANCE
        };
        let rate = factor * self.state.cwnd / round_trip;
        let least = if rate < SLOW {
            self.packet
        } else {
            2.0 * self.packet
        };
        let quantum = (rate * 0.001).clamp(least, MOST_AT_ONCE.max(least));
        Some(Pace {
            rate,
            quantum: quantum as usize,
        })
    }

    /// The rounds of HyStart++ need the bytes delivered when a packet was sent.
    fn wants_rate_samples(&self) -> bool {
        true
    }

    fn metrics(&self) -> Metrics {
        Metrics {
            cwnd: self.window(),
            ssthresh: self.state.ssthresh.map(|ssthresh| ssthresh as usize),
            partial_bytes_acked: None,
        }
    }
}

/// The part of a flow that this path is.
fn weight(coupling: Coupling) -> f64 {
    match coupling {
        Coupling::Grouped { weight } => weight,
        _ => 1.0,
    }
}

/// The time that passes for the curve of a path with this weight: see *Coupling* in the module documentation.
fn in_group(time: Duration, weight: f64) -> Duration {
    if weight < 1.0 {
        time.mul_f64(cube_root(weight.powi(4)))
    } else {
        time
    }
}

fn packet(max_data: usize) -> f64 {
    max_data.clamp(1, MAX_PACKET) as f64
}

/// The cube root; zero for numbers that are not positive. By Newton's method, because `f64::cbrt` may differ between platforms.
pub(super) fn cube_root(x: f64) -> f64 {
    // NaN too. Below 1e-100 the squares of the root would be zero.
    if x.is_nan() || x < 1e-100 {
        return 0.0;
    }
    // A third of the exponent, whose bias is 1023: within 7 % of the root. Each step squares the error.
    let mut root = f64::from_bits(x.to_bits() / 3 + ((1023 - 1023 / 3) << 52));
    for _ in 0..5 {
        root -= (root - x / (root * root)) / 3.0;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots() {
        for (cube, root) in [(1.0, 1.0), (75.0, 4.217_163_326_508), (1e-9, 1e-3), (1e30, 1e10)] {
            assert!((cube_root(cube) / root - 1.0).abs() < 1e-12, "{cube}");
        }
        let mut x = 1e-90;
        while x < 1e90 {
            let root = cube_root(x);
            assert!((root * root * root / x - 1.0).abs() < 1e-14, "{x}");
            x *= 1.37;
        }
        for x in [0.0, -8.0, 1e-300, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(cube_root(x), 0.0);
        }
    }
}
