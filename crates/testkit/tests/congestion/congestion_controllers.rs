//! A congestion controller from outside the core decides the bytes in flight, and all promised calls reach it. The controller
//! is the example of `docs/CONGESTION-CONTROLLERS.md`.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use anabranch_netsim::{LinkConfig, LossModel};
use anabranch_proto::controller::{
    BbrConfig, CongestionControl, Controller, Coupling, Metrics, NewPath, Reduction, Report, SentPacket,
};
use anabranch_proto::{Config, CoupledControl, MultipathMode, PathStats, Timestamp};
use anabranch_testkit::{AdditiveIncrease, Bulk, Pair, Setup, Side, with_buffers};

const SECOND: Duration = Duration::from_secs(1);

/// PMDCS of packets of 1,500 bytes in UDP over IPv4.
const PMDCS: usize = 1460;
/// RFC 9260 §7.2.1.
const INITIAL_WINDOW: usize = 4404;

/// A report, the window before and after it, and the bytes sent until then.
#[derive(Debug)]
struct Seen {
    report: Report,
    before: usize,
    after: usize,
    sent: usize,
}

/// The calls that a controller received, and its answers.
#[derive(Debug, Default)]
struct Log {
    reports: Vec<Seen>,
    /// Bytes.
    sent: usize,
    /// Packets that left though the window was full.
    beyond: u64,
    /// Pauses, each with a flag for its first RTO.
    idle: Vec<bool>,
    packet_sizes: Vec<usize>,
}

impl Log {
    fn reductions(&self, reduction: Reduction) -> u64 {
        let all = self.reports.iter();
        all.filter(|seen| seen.report.reduction == Some(reduction))
            .count() as u64
    }
}

/// The example controller and the log of its calls.
#[derive(Debug)]
struct Watched {
    inner: AdditiveIncrease,
    log: Arc<Mutex<Log>>,
}

impl Controller for Watched {
    fn on_sent(&mut self, sent: &SentPacket) {
        let mut log = self.log.lock().expect("no panic before");
        log.sent += sent.bytes;
        log.beyond += u64::from(sent.flight - sent.bytes >= self.inner.window());
        self.inner.on_sent(sent);
    }

    fn on_report(&mut self, report: &Report) {
        let before = self.inner.window();
        self.inner.on_report(report);
        let mut log = self.log.lock().expect("no panic before");
        let sent = log.sent;
        log.reports.push(Seen {
            report: *report,
            before,
            after: self.inner.window(),
            sent,
        });
    }

    fn on_idle(&mut self, now: Timestamp, first: bool) {
        self.log.lock().expect("no panic before").idle.push(first);
        self.inner.on_idle(now, first);
    }

    fn on_packet_size(&mut self, max_data: usize) {
        let mut log = self.log.lock().expect("no panic before");
        log.packet_sizes.push(max_data);
        self.inner.on_packet_size(max_data);
    }

    fn window(&self) -> usize {
        self.inner.window()
    }

    fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }
}

/// The logs of A's paths.
type Logs = Arc<Mutex<Vec<Arc<Mutex<Log>>>>>;

fn watched() -> (CongestionControl, Logs) {
    let logs = Logs::default();
    let all = Arc::clone(&logs);
    let control = CongestionControl::external(move |path: &NewPath| {
        assert_eq!((path.max_data, path.initial_window), (PMDCS, INITIAL_WINDOW));
        let log = Arc::default();
        all.lock().expect("no panic before").push(Arc::clone(&log));
        Watched {
            inner: AdditiveIncrease::new(path),
            log,
        }
    });
    (control, logs)
}

fn path(pair: &Pair, index: usize) -> PathStats {
    pair.association(Side::A).stats().paths.swap_remove(index)
}

fn link() -> LinkConfig {
    LinkConfig::default()
        .with_rate(10_000_000)
        .with_delay(Duration::from_millis(20))
}

/// A sends without end over these links, with the example controller on each path.
fn bulk(seed: u64, links: &[LinkConfig], change: impl FnOnce(&mut Config)) -> (Bulk, Logs) {
    let (control, logs) = watched();
    let setup = links.iter().fold(Setup::new(seed), |setup, there| {
        setup.path_of(there.clone(), link())
    });
    let mut config = with_buffers(256 << 10);
    change(&mut config);
    let setup = setup.config(config);
    let bulk = Bulk::new(setup.adjust(Side::A, |config| config.congestion_control = control));
    (bulk, logs)
}

/// Checks that the window changes with reports only, as the example's rule says. Returns the last window.
fn follows_its_rule(log: &Log) -> usize {
    let (mut window, mut acked) = (INITIAL_WINDOW, 0);
    for seen in &log.reports {
        assert_eq!(seen.before, window, "{seen:?}");
        window = seen.after;
        acked += seen.report.acked;
        match seen.report.reduction {
            Some(reduction) => {
                acked = 0;
                let reduced = match reduction {
                    Reduction::Loss | Reduction::Ecn => (seen.before / 2).max(2 * PMDCS),
                    Reduction::Timeout => PMDCS,
                };
                assert_eq!(window, reduced, "{seen:?}");
            }
            None if window == seen.before + PMDCS => {
                let used = seen.report.prior_flight >= seen.before;
                assert!(used && !seen.report.recovering, "{seen:?}");
                acked = acked.checked_sub(seen.before).expect("a window was acknowledged");
            }
            None => assert_eq!(window, seen.before, "{seen:?}"),
        }
    }
    window
}

/// Checks that sent bytes are in flight until they are reported as acknowledged or lost. Bytes that T3-rtx found lost may have
/// arrived, so they may be reported as both.
fn counts_each_byte(log: &Log) {
    let (mut gone, mut exact) = (0, true);
    for seen in &log.reports {
        let report = &seen.report;
        assert!(report.acked > 0 || report.lost > 0, "{report:?}");
        let counted = report.prior_flight + gone;
        assert!(
            counted == seen.sent || (!exact && counted > seen.sent),
            "{seen:?}"
        );
        gone += report.acked + report.lost;
        exact &= report.reduction != Some(Reduction::Timeout);
    }
}

#[test]
fn the_document_shows_the_controller() {
    let page = include_str!("../../../../docs/CONGESTION-CONTROLLERS.md");
    let example = page
        .split("```rust\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    assert_eq!(example, Some(include_str!("../../src/additive_increase.rs")));
}

/// The window follows the rule of the example, its reductions are those that the path counts, and no more bytes are in flight
/// than it allows.
#[test]
fn the_example_controls_a_lossy_path() {
    for seed in 1..=3 {
        let lossy = link().with_loss(LossModel::bernoulli(0.01));
        let (mut bulk, logs) = bulk(seed, &[lossy], |_| {});
        let goodput = bulk.run_for(60 * SECOND);
        assert!((2.0..5.0).contains(&goodput), "{goodput:.2} Mbit/s");

        let logs = logs.lock().expect("no panic before");
        let [log] = logs.as_slice() else {
            panic!("{} controllers for one path", logs.len());
        };
        let log = log.lock().expect("no panic before");
        let stats = path(&bulk.pair, 0);
        assert_eq!(stats.cwnd, follows_its_rule(&log));
        assert_eq!(stats.ssthresh, usize::MAX);
        counts_each_byte(&log);

        let losses = log.reductions(Reduction::Loss);
        let timeouts = log.reductions(Reduction::Timeout);
        assert!(losses > 50, "{losses}");
        assert_eq!((losses, timeouts), (stats.fast_recoveries, stats.timeouts));
        // A packet leaves if the bytes in flight are below the window. After each reduction one packet leaves in any case (RFC
        // 9260 §7.2.4).
        assert!(log.beyond <= losses + timeouts, "{}", log.beyond);

        let rtt = |report: &Report| report.smoothed_rtt.is_some_and(|rtt| rtt >= 2 * link().delay);
        assert!(log.reports.iter().all(|seen| rtt(&seen.report)));
        let coupling = |report: &Report| report.coupling == Coupling::Uncoupled;
        assert!(log.reports.iter().all(|seen| coupling(&seen.report)));
    }
}

/// A path loses 20 % of the packets, whatever the sender does: more than the share that counts as random everywhere.
#[test]
fn bbr_learns_what_a_path_loses_in_any_case() {
    for seed in 1..=2 {
        let lossy = link().with_rate(50_000_000).with_loss(LossModel::bernoulli(0.2));
        let mut config = with_buffers(8 << 20);
        config.congestion_control = CongestionControl::Bbr(BbrConfig {
            tolerate_random_loss: true,
        });
        let mut bulk = Bulk::new(Setup::new(seed).path_of(lossy, link()).config(config));
        let goodput = bulk.run_for(30 * SECOND);
        assert!(
            goodput > 4.0,
            "{goodput:.2} Mbit/s, and 1.5 if all losses beyond 15 % are taken for congestion"
        );
    }
}

/// Each path has its own controller, which is told the number of paths that share the growth of one flow (RFC 6356), or its weight in its
/// group. One of these paths has no queue, so that the groups fall apart.
#[test]
fn each_path_has_its_own_controller() {
    let lossy = link().with_loss(LossModel::bernoulli(0.005));
    for control in [CoupledControl::Lia, CoupledControl::Grouped] {
        let (mut bulk, logs) = bulk(1, &[lossy.clone(), link()], |config| {
            config.multipath.mode = MultipathMode::Cmt;
            config.multipath.congestion = control;
        });
        bulk.run_for(20 * SECOND);
        let logs = logs.lock().expect("no panic before");
        assert_eq!(logs.len(), 2);
        for (index, log) in logs.iter().enumerate() {
            let log = log.lock().expect("no panic before");
            let stats = path(&bulk.pair, index);
            assert_eq!(log.reductions(Reduction::Loss), stats.fast_recoveries);
            let last = log.reports.last().expect("reports");
            assert_eq!(stats.cwnd, last.after);
            let coupled = |report: &Report| match report.coupling {
                Coupling::Linked { paths, avoidance } => paths == 2 && avoidance < 1.0,
                Coupling::Grouped { weight } => weight == 0.5,
                _ => false,
            };
            assert!(
                log.reports.iter().any(|seen| coupled(&seen.report)),
                "{control:?}"
            );
            let apart = last.report.coupling == Coupling::Grouped { weight: 1.0 };
            assert_eq!(apart, control == CoupledControl::Grouped);
        }
    }
}

/// A pause is reported when it ends, one call per RTO. A larger path MTU is reported when it is found.
#[test]
fn pauses_and_packet_sizes_are_reported() {
    let (control, logs) = watched();
    let mut config = with_buffers(256 << 10);
    config.path_mtu_limit = 9000;
    let setup = Setup::new(1).path(link().with_mtu(9000)).config(config);
    let mut pair = setup
        .adjust(Side::A, |config| config.congestion_control = control)
        .connect();
    let send = |pair: &mut Pair| {
        for _ in 0..50 {
            pair.send(Side::A, 0, vec![0; 1400]);
        }
    };
    send(&mut pair);
    pair.run_for(5 * SECOND);
    send(&mut pair);
    pair.run_for(5 * SECOND);
    let logs = logs.lock().expect("no panic before");
    let log = logs[0].lock().expect("no panic before");
    let pmdcs = usize::from(path(&pair, 0).pmtu) - 40;
    assert_eq!(log.packet_sizes.last(), Some(&pmdcs));
    assert!(pmdcs > 8000 && log.idle.len() >= 3, "{log:?}");
    assert!(log.idle[0] && !log.idle[1], "{:?}", log.idle);
}
