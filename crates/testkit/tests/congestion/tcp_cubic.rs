//! The congestion window of the simulated TCP with CUBIC (RFC 9438) and HyStart++ (RFC 9406), over links that lose certain
//! packets.

use anabranch_netsim::{
    Dumbbell, DumbbellPair, LinkConfig, LossModel, Network, TcpConfig, TcpSource, TcpStats, Traffic,
};
use anabranch_proto::Timestamp;

const MSS: f64 = 1448.0;
/// RFC 9438 §5.
const C: f64 = 0.4;

/// One greedy flow. Hosts and all links but the bottleneck have no delay.
struct Run {
    network: Network,
    flow: DumbbellPair,
    dumbbell: Dumbbell,
}

impl Run {
    fn new(config: &TcpConfig, bottleneck: LinkConfig) -> Self {
        let mut network = Network::new(1);
        let back = LinkConfig::default().with_delay(bottleneck.delay);
        let dumbbell = Dumbbell::new(&mut network, bottleneck, back);
        let mut dumbbell = dumbbell.with_access(LinkConfig::default());
        let flow = dumbbell.add_tcp(&mut network, "tcp", config, Traffic::Greedy, Timestamp::ZERO);
        Self {
            network,
            flow,
            dumbbell,
        }
    }

    fn stats(&self) -> TcpStats {
        self.network.node::<TcpSource>(self.flow.left).stats()
    }

    /// The congestion window in segments.
    fn window(&self) -> f64 {
        self.stats().congestion_window as f64 / MSS
    }

    fn until(&mut self, milliseconds: u64) -> f64 {
        self.network.run_until(Timestamp::from_millis(milliseconds));
        self.window()
    }

    /// Runs until the window is reduced: returns the time in milliseconds, rounded up, and the window before and after.
    fn until_reduced(&mut self) -> (u64, f64, f64) {
        let limit = Timestamp::from_millis(100_000);
        loop {
            let before = self.window();
            assert!(self.network.run_one(limit), "nothing was lost");
            let after = self.window();
            if after < before {
                return (self.network.now().0.div_ceil(1_000_000), before, after);
            }
        }
    }
}

/// Linux's settings, with CUBIC and a slow start that only losses end.
fn cubic() -> TcpConfig {
    TcpConfig {
        receive_window: 64 << 20,
        reno_increase: true,
        hystart: false,
        ..TcpConfig::linux().with_cubic()
    }
}

/// A fast link on which these packets are lost.
fn losing(delay: &str, packets: &[u64]) -> LinkConfig {
    let line: LinkConfig = format!("rate=1gbit,delay={delay}").parse().unwrap();
    line.with_loss(LossModel::Script(packets.to_vec()))
}

fn k(w_max: f64, cwnd: f64) -> f64 {
    ((w_max - cwnd) / C).cbrt()
}

#[test]
fn a_loss_leaves_seven_tenths_of_the_window() {
    let mut run = Run::new(&cubic(), losing("40ms", &[600]));
    let (_, before, after) = run.until_reduced();
    assert!((550.0..650.0).contains(&before), "{before}");
    let left = after / before;
    assert!((0.69..0.71).contains(&left), "{left}");
}

#[test]
fn the_window_follows_the_cubic_function() {
    let mut run = Run::new(&cubic(), losing("40ms", &[600]));
    let (lost_at, w_max, cwnd) = run.until_reduced();
    let k = k(w_max, cwnd);
    // Recovery takes an RTT. Then the window grows to the value of the function one RTT later.
    for t in [1.0, 3.0, 5.0, k, 9.0, 12.0] {
        let window = run.until(lost_at + 80 + (t * 1e3) as u64);
        let expected = C * (t - k).powi(3) + w_max;
        assert!(
            (window / expected - 1.0).abs() < 0.015,
            "after {t} s: {window}, {expected}"
        );
    }
}

#[test]
fn fast_convergence_lowers_the_plateau_below_the_last_one() {
    for fast_convergence in [true, false] {
        let config = TcpConfig {
            fast_convergence,
            ..cubic()
        };
        // About 5,500 segments leave per second: the second loss comes long before the window is back.
        let mut run = Run::new(&config, losing("40ms", &[600, 4000]));
        let (_, first, _) = run.until_reduced();
        let (lost_at, second, cwnd) = run.until_reduced();
        assert!(second < 0.97 * first, "{first}, {second}");
        let w_max = if fast_convergence { 0.85 * second } else { second };
        let plateau = run.until(lost_at + 80 + (k(w_max, cwnd) * 1e3) as u64);
        assert!((plateau / w_max - 1.0).abs() < 0.015, "{plateau}, {w_max}");
    }
}

#[test]
fn a_small_window_grows_as_renos_would() {
    // An RTT of 10 ms.
    let mut run = Run::new(&cubic(), losing("5ms", &[40]));
    let (lost_at, before, after) = run.until_reduced();
    // 9/17 of a segment in each of 15 RTTs after recovery; the cubic function has not begun to rise.
    let window = run.until(lost_at + 10 + 150);
    let grown = window - after;
    assert!((7.0..8.5).contains(&grown), "{after} to {window}");
    // One segment in each RTT above the window before the reduction.
    let mut at = lost_at + 160;
    while run.window() < before + 1.0 {
        at += 10;
        run.until(at);
    }
    let from = run.window();
    let grown = run.until(at + 100) - from;
    assert!((9.0..10.5).contains(&grown), "{grown}");
}

#[test]
fn hystart_ends_slow_start_before_the_queue_is_full() {
    let line: LinkConfig = "rate=10mbit,delay=40ms,queue=400p".parse().unwrap();
    let lost = [true, false].map(|hystart| {
        let mut run = Run::new(&TcpConfig { hystart, ..cubic() }, line.clone());
        run.until(3000);
        run.network.link_stats(run.dumbbell.forward).lost_queue
    });
    assert!(lost[0] == 0 && lost[1] > 50, "{lost:?}");
    // The link is still fully used.
    let mut run = Run::new(&cubic().with_cubic(), line);
    run.until(10_000);
    let goodput = run.stats().bytes_acked as f64 * 8e-6 / 10.0;
    assert!(goodput > 8.5, "{goodput} Mbit/s");
}

#[test]
fn a_timeout_leaves_one_segment_and_seven_tenths_for_the_threshold() {
    // All packets are lost for two seconds.
    let line: LinkConfig = "rate=1gbit,delay=40ms,loss=outage:2s-4s".parse().unwrap();
    let config = TcpConfig {
        receive_window: 100 * 1448,
        ..cubic()
    };
    let mut run = Run::new(&config, line);
    let (_, before, after) = run.until_reduced();
    assert!((before, after) == (before, 1.0), "{before}, {after}");
    // Slow start grows to 70 segments. Then growth is convex, because there is no W_max to return to.
    let window = run.until(8000);
    assert!((69.0..110.0).contains(&window), "{window}");
    assert!(run.stats().timeouts > 0);
}
