//! CUBIC (RFC 9438) with HyStart++ (RFC 9406), called as the sender calls it. Packets have 1,000 bytes of DATA chunks.

use core::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel};
use anabranch_proto::controller::{
    CongestionControl, Controller, NewPath, RateSample, Reduction, Report, SentPacket,
};
use anabranch_proto::{Config, CoupledControl, MultipathMode, Timestamp};
use anabranch_testkit::{Bulk, Side, with, with_buffers};

const PACKET: usize = 1000;
const MS: Duration = Duration::from_millis(1);
const RTT: Duration = Duration::from_millis(100);

/// A controller on a path whose window is always full, and the current time.
struct Path<C> {
    control: C,
    now: Timestamp,
    delivered: u64,
}

fn cubic() -> Config {
    with(Config::default(), |config| {
        config.congestion_control = CongestionControl::Cubic
    })
}

/// A path with an initial window of this many packets.
fn path(packets: usize) -> Path<impl Controller> {
    Path {
        control: cubic().controller(&NewPath {
            max_data: PACKET,
            initial_window: packets * PACKET,
            seed: 0,
        }),
        now: Timestamp::ZERO,
        delivered: 0,
    }
}

impl<C: Controller> Path<C> {
    fn report(&mut self, change: impl FnOnce(&mut Report)) {
        let mut report = Report {
            prior_flight: self.control.window(),
            acked: 0,
            advanced: true,
            smoothed_rtt: Some(RTT),
            ..Report::of_nothing(self.now)
        };
        change(&mut report);
        self.control.on_report(&report);
    }

    fn reduce(&mut self, reduction: Reduction) {
        self.report(|report| report.reduction = Some(reduction));
    }

    /// A full window is acknowledged, packet by packet, in this time, which is the RTT of each packet.
    fn round(&mut self, rtt: Duration, change: impl Fn(&mut Report)) {
        let packets = self.control.window() / PACKET;
        let begin = self.delivered;
        for _ in 0..packets {
            self.now += rtt / packets as u32;
            self.delivered += PACKET as u64;
            let sample = RateSample {
                delivered: PACKET as u64,
                interval: rtt,
                application_limited: false,
                rtt: Some(rtt),
                flight_when_sent: packets * PACKET,
                lost: 0,
                delivered_before: begin,
                total_delivered: self.delivered,
            };
            self.report(|report| {
                (report.acked, report.latest_rtt) = (PACKET, Some(rtt));
                report.sample = Some(sample);
                change(report);
            });
        }
    }

    fn rounds(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.round(RTT, |_| {});
        }
    }

    /// Checks the window in packets, with a tolerance of a fifth of a packet.
    fn has_packets(&self, packets: f64) {
        let window = self.control.window() as f64 / PACKET as f64;
        assert!(
            (window - packets).abs() < 0.2,
            "{window:.3}, not {packets} packets"
        );
    }
}

/// W_cubic after `seconds`, in packets: the window was reduced from `w_max` to `cwnd`.
fn w_cubic(seconds: f64, cwnd: f64, w_max: f64) -> f64 {
    let k = ((w_max - cwnd) / 0.4).cbrt();
    0.4 * (seconds - k).powi(3) + w_max
}

/// RFC 9438 §4.2: K is 4.217 s.
#[test]
fn after_a_loss_the_window_follows_the_curve() {
    let mut path = path(100);
    path.reduce(Reduction::Loss);
    assert_eq!(path.control.window(), 70_000);
    path.report(|report| report.acked = 1);
    for seconds in 1..=5 {
        path.rounds(10);
        path.has_packets(w_cubic(f64::from(seconds), 70.0, 100.0));
    }
}

/// RFC 9438 §4.7: the second curve is flat at 0.85 · 90 packets.
#[test]
fn a_loss_below_the_last_one_lowers_the_plateau() {
    let mut path = path(100);
    path.reduce(Reduction::Loss);
    path.rounds(20);
    let window = path.control.window() as f64 / PACKET as f64;
    assert!(window < 100.0);
    path.reduce(Reduction::Loss);
    path.report(|report| report.acked = 1);
    path.rounds(20);
    path.has_packets(w_cubic(2.0, 0.7 * window, 0.85 * window));
}

/// RFC 9438 §5.8: a pause does not count as elapsed time of the curve.
#[test]
fn time_without_data_does_not_count() {
    let mut path = path(100);
    path.reduce(Reduction::Loss);
    path.report(|report| report.acked = 1);
    path.rounds(20);
    path.now += Duration::from_secs(30);
    path.control.on_sent(&SentPacket {
        now: path.now,
        bytes: PACKET,
        flight: PACKET,
        application_limited: false,
    });
    path.rounds(20);
    path.has_packets(w_cubic(4.0, 70.0, 100.0));
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    for reduced in [false, true] {
        let mut path = path(100);
        if reduced {
            path.reduce(Reduction::Loss);
        }
        let window = path.control.window();
        for _ in 0..50 {
            path.round(RTT, |report| report.application_limited = true);
            assert_eq!(path.control.window(), window);
            path.round(RTT, |report| report.recovering = true);
            assert_eq!(path.control.window(), window);
        }
    }
}

/// RFC 9438 §4.8: a window of one packet, slow start up to 0.7 of the old window, then a curve that begins at its plateau.
#[test]
fn a_timeout_forgets_the_plateau() {
    let mut path = path(100);
    path.reduce(Reduction::Timeout);
    assert_eq!(path.control.window(), PACKET);
    path.report(|report| report.acked = 100_000);
    assert_eq!(path.control.window(), 70_000);
    path.report(|report| report.acked = 1);
    path.rounds(50);
    path.has_packets(w_cubic(5.0, 70.0, 70.0));
}

/// RFC 9438 §4.9: after a spurious loss the window, ssthresh and the curve are those before the loss.
#[test]
fn a_spurious_loss_leaves_no_trace() {
    let mut path = path(100);
    path.reduce(Reduction::Loss);
    path.report(|report| report.acked = 1);
    path.rounds(20);
    let before = path.control.metrics();
    path.reduce(Reduction::Loss);
    assert!(path.control.window() < before.cwnd);
    path.control.on_spurious(path.now);
    assert_eq!(path.control.metrics(), before);
    path.rounds(20);
    path.has_packets(w_cubic(4.0, 70.0, 100.0));
}

/// RFC 9406 §4.2: at an RTT of 100 ms a rise by 12.5 ms starts CSS (conservative slow start). After five round trips with a
/// quarter of the growth slow start ends, unless a lower RTT resumes it.
#[test]
fn slow_start_ends_when_the_rtt_rises() {
    let mut path = path(16);
    path.rounds(1);
    path.round(112 * MS, |_| {});
    assert_eq!(path.control.window(), 64_000, "doubled twice");
    path.round(126 * MS, |_| {});
    assert_eq!(path.control.window(), 64_000 + 8000 + 56_000 / 4);
    path.round(125 * MS, |_| {});
    let window = 86_000 + 8000 / 4 + 78_000;
    assert_eq!(path.control.window(), window, "resumed after eight samples");
    path.round(150 * MS, |_| {});
    for _ in 0..4 {
        let window = path.control.window();
        path.round(150 * MS, |_| {});
        let grown = path.control.window() - window;
        assert_eq!(grown, window / PACKET * PACKET / 4);
        assert_eq!(path.control.metrics().ssthresh, None);
    }
    let window = path.control.window();
    path.round(150 * MS, |_| {});
    assert_eq!(path.control.metrics().ssthresh, Some(window));
}

#[test]
fn several_paths_are_coupled_in_groups_or_not_at_all() {
    let mut config = cubic();
    config.multipath.mode = MultipathMode::Cmt;
    for control in [CoupledControl::Grouped, CoupledControl::Uncoupled] {
        config.multipath.congestion = control;
        assert_eq!(config.validate(), Ok(()));
    }
    for control in [CoupledControl::Lia, CoupledControl::ResourcePooling] {
        config.multipath.congestion = control;
        let error = config.validate().expect_err("windows of RFC 9260");
        assert_eq!(error.setting, "multipath.congestion");
        assert!(error.problem.contains("Grouped"));
    }
}

/// One loss in a thousand packets: CUBIC keeps 0.7 of the window where RFC 9260 keeps half, and regrows sooner.
#[test]
fn a_lossy_path_carries_more_than_with_rfc_9260() {
    let link = LinkConfig::default()
        .with_rate(50_000_000)
        .with_delay(Duration::from_millis(50))
        .with_loss(LossModel::bernoulli(0.001));
    let goodput = |control, seed| {
        let mut config = with_buffers(4 << 20);
        config.congestion_control = control;
        let mut bulk = Bulk::over(seed, std::slice::from_ref(&link), &config);
        let goodput = bulk.run_for(Duration::from_secs(60));
        let stats = &bulk.pair.association(Side::A).stats().paths[0];
        assert!(stats.cwnd >= stats.flight_size / 4, "{stats:?}");
        goodput
    };
    let [mut rfc9260, mut cubic] = [0.0; 2];
    for seed in 1..=3 {
        rfc9260 += goodput(CongestionControl::Rfc9260, seed);
        cubic += goodput(CongestionControl::Cubic, seed);
    }
    println!("RFC 9260 {:.2}, CUBIC {:.2} Mbit/s", rfc9260 / 3.0, cubic / 3.0);
    assert!(cubic > 1.1 * rfc9260);
}
