//! TCP in networks: against the figures of ns-2, and rule by rule.

use anabranch_netsim::Recovery;

mod validation;

/// Means over a few seeds: goodput of all flows in Mbit/s, lost packets in percent, queue in kilobytes.
fn means(flows: usize, recovery: Recovery) -> [f64; 3] {
    const SEEDS: u64 = 3;
    let mut sums = [0.0; 3];
    for seed in 1..=SEEDS {
        let figures = validation::run(flows, recovery, seed);
        let acked: u64 = figures.acked.iter().sum();
        let values = [
            acked as f64 * 8.0 / 1e6 / validation::SECONDS as f64,
            figures.lost as f64 / figures.offered as f64 * 100.0,
            figures.queue / 1000.0,
        ];
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value / SEEDS as f64;
        }
    }
    sums
}

/// ns-2.35's means over 20 seeds, from `scripts/tcp-validation` of November 2026 (docs/SIMULATOR.md). Goodput is held
/// within 2 %, the queue within 6 %, the loss rate, which hangs on when few packets are lost, within 30 %.
#[test]
fn throughput_loss_and_queue_are_those_of_ns2() {
    for (flows, recovery, expected) in [
        (1, Recovery::NewReno, [9.42, 0.0557, 32.6]),
        (1, Recovery::Sack, [9.50, 0.0553, 33.7]),
        (4, Recovery::NewReno, [9.60, 0.230, 47.3]),
        (4, Recovery::Sack, [9.66, 0.213, 47.8]),
    ] {
        let measured = means(flows, recovery);
        for ((value, expected), margin) in measured.into_iter().zip(expected).zip([0.02, 0.30, 0.06]) {
            let ratio: f64 = value / expected;
            assert!(
                (ratio - 1.0).abs() <= margin,
                "{flows} flows, {recovery:?}: {measured:?}, ratio {ratio} of {expected}",
            );
        }
    }
}
