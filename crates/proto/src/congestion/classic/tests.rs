//! Tests of CUBIC against numbers computed by hand from the RFCs. Packets have 1,000 bytes.

use core::time::Duration;
use std::collections::VecDeque;

use super::Cubic;
use crate::controller::{Controller, Coupling, NewPath, RateSample, Reduction, Report, SentPacket};
use crate::time::Timestamp;

const PACKET: usize = 1000;
const RTT: Duration = Duration::from_millis(100);

fn new(packets: usize) -> Cubic {
    let path = NewPath {
        max_data: PACKET,
        initial_window: packets * PACKET,
        seed: 0,
    };
    Cubic::new(&path, usize::MAX)
}

fn at(seconds: f64) -> Timestamp {
    Timestamp((seconds * 1e9).round() as u64)
}

/// `acked` bytes acknowledged of a window that is used.
fn acked(seconds: f64, acked: usize) -> Report {
    Report {
        prior_flight: usize::MAX / 2,
        acked,
        advanced: true,
        smoothed_rtt: Some(RTT),
        ..Report::of_nothing(at(seconds))
    }
}

fn reduced(seconds: f64, reduction: Reduction) -> Report {
    Report {
        reduction: Some(reduction),
        ..acked(seconds, 0)
    }
}

/// A window of `packets` packets of which one was lost.
fn after_loss(packets: usize) -> Cubic {
    let mut cubic = new(packets);
    cubic.on_report(&reduced(0.0, Reduction::Loss));
    cubic
}

fn near(value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance, "{value}, not {expected}");
}

#[test]
fn the_cubic_curve() {
    let mut cubic = after_loss(100);
    assert_eq!(cubic.window(), 70_000);
    cubic.on_report(&acked(1.0, PACKET));
    let epoch = cubic.state.epoch.expect("in congestion avoidance");
    // K = ∛(30 / 0.4) = 4.217 s.
    near(epoch.k, 4.2172, 1e-4);
    for (seconds, packets) in [(0.0, 70.0), (2.0, 95.640), (4.2172, 100.0), (6.0, 102.267)] {
        near(epoch.w_cubic(seconds), 1000.0 * packets, 1.0);
    }
    // Target after one RTT: 100 − 0.4 · 4.0172³ = 74.068 packets; a packet of 70 takes a 70th of the way.
    cubic.state.cwnd = 70_000.0;
    cubic.on_report(&acked(1.1, PACKET));
    near(cubic.state.cwnd, 70_000.0 + 4068.0 / 70.0, 0.1);
}

/// A path with half of a flow's weight: C is a sixteenth, so time runs slower by ∛16, and Reno's window grows by a quarter.
#[test]
fn a_group_slows_the_curve_and_the_estimate() {
    let grouped = |seconds, bytes| Report {
        coupling: Coupling::Grouped { weight: 0.5 },
        ..acked(seconds, bytes)
    };
    let mut cubic = after_loss(100);
    cubic.on_report(&grouped(1.0, 0));
    cubic.on_report(&grouped(1.0, 70_000));
    let epoch = cubic.state.epoch.expect("in congestion avoidance");
    near(epoch.w_est, 70_000.0 + 529.411_764 / 4.0, 1e-3);
    cubic.on_report(&grouped(3.0, 0));
    let age = cubic.state.epoch.expect("in congestion avoidance").age;
    near(age.as_secs_f64(), 2.0 * 0.396_850, 1e-6);
    // Target after one RTT: 100 − 0.4 · (4.2172 − 0.8334)³ = 84.50 packets.
    cubic.state.cwnd = 70_000.0;
    cubic.on_report(&grouped(3.0, 70_000));
    near(cubic.state.cwnd, 84_503.0, 10.0);
}

#[test]
fn growth_is_at_most_half_of_slow_starts() {
    let mut cubic = after_loss(100);
    cubic.on_report(&acked(0.0, 0));
    cubic.on_report(&acked(0.0, 1));
    let before = cubic.state.cwnd;
    cubic.on_report(&acked(60.0, 7000));
    near(cubic.state.cwnd - before, 3500.0, 1e-6);
}

#[test]
fn fast_convergence() {
    let mut cubic = after_loss(100);
    assert_eq!(cubic.state.w_max, Some(100_000.0));
    cubic.state.cwnd = 90_000.0;
    cubic.on_report(&reduced(1.0, Reduction::Loss));
    // 90 · (1 + 0.7) / 2 packets; K = ∛((76.5 − 63) / 0.4) = 3.2317 s.
    assert_eq!(cubic.state.w_max, Some(76_500.0));
    cubic.on_report(&acked(1.0, PACKET));
    near(cubic.state.epoch.expect("begun").k, 3.2317, 1e-4);
    cubic.state.cwnd = 80_000.0;
    cubic.on_report(&reduced(2.0, Reduction::Loss));
    assert_eq!(cubic.state.w_max, Some(80_000.0), "beyond W_max");
}

/// Ten packets and 10 ms: K is 2 s, and Reno is faster.
#[test]
fn a_small_window_grows_as_reno_does() {
    let mut cubic = after_loss(10);
    let mut window = 7000.0;
    let mut rounds = 0;
    while window < 10_000.0 {
        rounds += 1;
        cubic.on_report(&Report {
            smoothed_rtt: Some(RTT / 10),
            ..acked(0.01 * f64::from(rounds), cubic.window() + 1)
        });
        // 3 · 0.3 / 1.7 of a packet for each window.
        window += 529.411_764;
        near(cubic.state.cwnd, window, 1.0);
    }
    assert_eq!(rounds, 6);
    let before = cubic.state.cwnd;
    cubic.on_report(&acked(0.07, cubic.window() + 1));
    near(cubic.state.cwnd - before, 1000.0, 1e-6);
}

#[test]
fn reductions() {
    let reduce = |packets, reductions: &[Reduction]| {
        let mut cubic = new(packets);
        for reduction in reductions {
            cubic.on_report(&reduced(0.0, *reduction));
        }
        (cubic.window(), cubic.metrics().ssthresh)
    };
    use Reduction::{Ecn, Loss, Timeout};
    assert_eq!(new(10).metrics().ssthresh, None);
    assert_eq!(reduce(100, &[Loss]), (70_000, Some(70_000)));
    assert_eq!(reduce(100, &[Ecn]), (70_000, Some(70_000)), "in slow start");
    assert_eq!(reduce(100, &[Loss, Ecn]), (59_500, Some(59_500)));
    assert_eq!(reduce(2, &[Loss]), (2000, Some(2000)));
    assert_eq!(reduce(2, &[Loss, Ecn]), (1700, Some(2000)));
    assert_eq!(reduce(2, &[Ecn, Ecn, Ecn]), (1000, Some(2000)));
    assert_eq!(reduce(100, &[Timeout]), (1000, Some(70_000)));
    assert_eq!(reduce(100, &[Timeout; 5]), (1000, Some(70_000)), "RFC 5681 §3.1");
}

#[test]
fn a_second_timeout_counts_once_bytes_were_acknowledged() {
    let mut cubic = new(100);
    cubic.on_report(&reduced(0.0, Reduction::Timeout));
    cubic.on_report(&acked(1.0, PACKET));
    assert_eq!(cubic.window(), 2000);
    cubic.on_report(&reduced(2.0, Reduction::Timeout));
    assert_eq!((cubic.window(), cubic.metrics().ssthresh), (1000, Some(2000)));
}

#[test]
fn after_a_timeout_the_curve_begins_at_its_plateau() {
    let mut cubic = after_loss(100);
    cubic.on_report(&reduced(0.0, Reduction::Timeout));
    assert_eq!(cubic.metrics().ssthresh, Some(49_000));
    cubic.on_report(&acked(1.0, 30_000));
    assert_eq!(cubic.window(), 31_000);
    cubic.on_report(&acked(1.1, 30_000));
    assert_eq!(cubic.window(), 49_000, "slow start stops at ssthresh");
    cubic.on_report(&acked(1.2, PACKET));
    let epoch = cubic.state.epoch.expect("in congestion avoidance");
    assert_eq!((epoch.k, cubic.state.w_max), (0.0, Some(49_000.0)));
    near(epoch.w_cubic(5.0), 49_000.0 + 50_000.0, 1e-6);
}

#[test]
fn the_report_of_a_reduction_grows_nothing() {
    let mut cubic = new(10);
    cubic.on_report(&Report {
        acked: 10_000,
        ..reduced(0.0, Reduction::Loss)
    });
    assert_eq!(cubic.window(), 7000);
    for keep in [
        Report {
            recovering: true,
            ..acked(0.1, 5000)
        },
        Report {
            application_limited: true,
            ..acked(0.2, 5000)
        },
    ] {
        cubic.on_report(&keep);
        assert_eq!(cubic.state.cwnd, 7000.0);
    }
    cubic.on_report(&acked(0.3, 5000));
    assert!(cubic.state.cwnd > 7000.0);
}

#[test]
fn slow_start_counts_bytes() {
    let mut cubic = new(10);
    cubic.on_report(&Report {
        smoothed_rtt: None,
        ..acked(0.0, 10_000)
    });
    assert_eq!(cubic.window(), 18_000, "not paced: eight packets at most");
    cubic.on_report(&acked(0.1, 18_000));
    assert_eq!(cubic.window(), 36_000);
}

/// RFC 9002 §7.8: a window that the pacer does not fill counts as used; one that the peer's window does not fill does not.
#[test]
fn a_window_is_used_if_half_of_it_was_in_flight() {
    let mut cubic = new(20);
    let report = |millis: u64, prior_flight| Report {
        prior_flight,
        ..acked(millis as f64 / 1000.0, 1000)
    };
    cubic.on_report(&report(0, 10_000));
    assert_eq!(cubic.window(), 21_000);
    cubic.on_report(&report(10, 10_000));
    assert_eq!(cubic.window(), 21_000);
    cubic.on_report(&report(20, 11_000));
    cubic.on_report(&report(110, 1000));
    assert_eq!(cubic.window(), 23_000, "the last round trip counts");
    cubic.state.cwnd = 15_000.0;
    cubic.on_report(&report(220, 1000));
    assert_eq!(cubic.window(), 15_000, "the one before does not");
    cubic.on_report(&report(230, 7500));
    cubic.on_report(&report(240, 1000));
    assert_eq!(cubic.window(), 16_000);
}

fn sent(seconds: f64, flight: usize) -> SentPacket {
    SentPacket {
        now: at(seconds),
        bytes: PACKET,
        flight,
        application_limited: false,
    }
}

#[test]
fn a_pause_does_not_count_as_growth() {
    let mut cubic = after_loss(100);
    cubic.on_report(&acked(1.0, PACKET));
    cubic.on_report(&acked(2.0, PACKET));
    let age = |cubic: &Cubic| cubic.state.epoch.expect("begun").age;
    assert_eq!(age(&cubic), Duration::from_secs(1));
    // 50 s without DATA in flight.
    cubic.on_sent(&sent(52.0, PACKET));
    cubic.on_sent(&sent(52.05, 2 * PACKET));
    cubic.on_report(&acked(52.1, PACKET));
    assert_eq!(age(&cubic), Duration::from_millis(1100));
    // 10 s with little to send, and a report in them.
    let limited = |seconds| Report {
        application_limited: true,
        ..acked(seconds, PACKET)
    };
    cubic.on_report(&limited(57.1));
    cubic.on_report(&limited(62.1));
    cubic.on_report(&acked(62.2, PACKET));
    assert_eq!(age(&cubic), Duration::from_millis(1200));
}

#[test]
fn a_spurious_reduction_is_undone_whole() {
    let mut cubic = after_loss(100);
    for second in 1..=4 {
        cubic.on_report(&acked(f64::from(second), 7000));
    }
    let state = cubic.state;
    assert!(state.epoch.is_some() && state.w_max.is_some());
    for reduction in [Reduction::Loss, Reduction::Timeout] {
        cubic.on_report(&reduced(5.0, reduction));
        assert_ne!(cubic.state, state);
        cubic.on_spurious(at(5.1));
        assert_eq!(cubic.state, state);
        cubic.on_spurious(at(5.2));
        assert_eq!(cubic.state, state, "nothing more to undo");
    }
    // Time until the undo does not count.
    cubic.on_report(&acked(5.2, 0));
    let age = |cubic: &Cubic| cubic.state.epoch.expect("begun").age.as_secs_f64();
    near(age(&cubic), 3.1, 1e-9);

    cubic.on_report(&reduced(6.0, Reduction::Timeout));
    cubic.on_report(&reduced(7.0, Reduction::Timeout));
    cubic.on_spurious(at(8.0));
    assert_eq!(cubic.state.cwnd, state.cwnd, "both timeouts");

    cubic.on_report(&reduced(9.0, Reduction::Loss));
    cubic.on_report(&acked(9.1, PACKET));
    cubic.state.cwnd = 150_000.0;
    let grown = cubic.state;
    cubic.on_spurious(at(9.2));
    assert_eq!(cubic.state, grown, "more than before");

    cubic.on_report(&reduced(10.0, Reduction::Loss));
    cubic.on_report(&reduced(11.0, Reduction::Ecn));
    let marked = cubic.state;
    cubic.on_spurious(at(11.1));
    assert_eq!(cubic.state, marked, "a mark since then stands");
}

#[test]
fn an_undo_resumes_the_first_slow_start() {
    let mut cubic = new(10);
    cubic.on_report(&reduced(0.0, Reduction::Loss));
    cubic.on_spurious(at(0.1));
    assert_eq!((cubic.window(), cubic.metrics().ssthresh), (10_000, None));
}

#[test]
fn a_pause_halves_the_window_down_to_the_initial_one() {
    let mut cubic = new(10);
    cubic.on_idle(at(1.0), true);
    assert_eq!((cubic.window(), cubic.metrics().ssthresh), (10_000, None));
    cubic.state.cwnd = 100_000.0;
    cubic.on_report(&reduced(1.0, Reduction::Loss));
    cubic.state.ssthresh = Some(20_000.0);
    let windows = [35_000, 17_500, 10_000, 10_000];
    for (index, window) in windows.into_iter().enumerate() {
        cubic.on_idle(at(9.0), index == 0);
        assert_eq!((cubic.window(), cubic.metrics().ssthresh), (window, Some(52_500)));
    }
    cubic.on_spurious(at(9.0));
    assert_eq!(cubic.window(), 10_000, "too old to undo");
}

#[test]
fn pacing() {
    let mut cubic = new(10);
    assert_eq!(cubic.pace(), None);
    cubic.on_report(&acked(0.0, 0));
    let pace = |cubic: &Cubic| {
        let pace = cubic.pace().expect("an RTT is known");
        (pace.rate.round() as u64, pace.quantum)
    };
    // 2 · 10,000 bytes in 100 ms; two packets are more than what 1 ms carries.
    assert_eq!(pace(&cubic), (200_000, 2000));
    cubic.on_report(&reduced(0.1, Reduction::Loss));
    assert_eq!(pace(&cubic), (87_500, 1000), "less than 1.2 Mbit/s");
    cubic.state.cwnd = 1e6;
    assert_eq!(pace(&cubic), (12_500_000, 12_500));
    cubic.state.cwnd = 1e8;
    assert_eq!(pace(&cubic), (1_250_000_000, 65_536));
}

/// After an outage has raised the smoothed RTT, pacing does not slow down a path that is fast again.
#[test]
fn pacing_does_not_last_as_long_as_an_outage() {
    let mut cubic = new(10);
    let report = |latest| Report {
        smoothed_rtt: Some(100 * RTT),
        latest_rtt: Some(latest),
        ..acked(0.0, 0)
    };
    cubic.on_report(&report(100 * RTT));
    assert_eq!(cubic.pace().expect("an RTT is known").rate.round(), 2000.0);
    cubic.on_report(&report(RTT));
    assert_eq!(cubic.pace().expect("an RTT is known").rate.round(), 100_000.0);
}

/// Acknowledges a window of packets, one each, with this RTT; time and bytes delivered advance.
fn slow_start_round(cubic: &mut Cubic, now: &mut f64, delivered: &mut u64, rtt: f64) {
    let begin = *delivered;
    let packets = cubic.window() / PACKET;
    for _ in 0..packets {
        *now += rtt / packets as f64;
        let before = *delivered;
        *delivered += PACKET as u64;
        cubic.on_report(&Report {
            latest_rtt: Some(Duration::from_secs_f64(rtt)),
            sample: Some(RateSample {
                delivered: PACKET as u64,
                interval: RTT,
                application_limited: false,
                rtt: None,
                flight_when_sent: 0,
                lost: 0,
                // Sent when the acknowledgement of the packet a window before arrived.
                delivered_before: before.saturating_sub((packets * PACKET) as u64 - 1).max(begin),
                total_delivered: *delivered,
            }),
            ..acked(*now, PACKET)
        });
    }
}

#[test]
fn hystart_ends_the_first_slow_start() {
    let mut cubic = new(16);
    let (mut now, mut delivered) = (0.0, 0);
    let mut round = |cubic: &mut Cubic, rtt| slow_start_round(cubic, &mut now, &mut delivered, rtt);
    round(&mut cubic, 0.1);
    assert_eq!(cubic.window(), 32_000);
    round(&mut cubic, 0.1);
    assert_eq!(cubic.window(), 64_000);
    // 12.5 ms more: the first eight packets grow the window by their full size, the other packets by a quarter.
    round(&mut cubic, 0.113);
    assert_eq!(cubic.window(), 64_000 + 8000 + 56_000 / 4);
    let mut window = 86_000;
    for _ in 0..4 {
        assert_eq!(cubic.metrics().ssthresh, None);
        round(&mut cubic, 0.113);
        window += window / PACKET * PACKET / 4;
        assert_eq!(cubic.window(), window);
    }
    round(&mut cubic, 0.113);
    assert_eq!(cubic.metrics().ssthresh, Some(window), "five rounds in CSS");
    let epoch = cubic.state.epoch.expect("in congestion avoidance");
    assert_eq!((epoch.k, cubic.state.w_max), (0.0, Some(window as f64)));
}

/// A window of 200 packets lost one. It is back at 200 packets after K = ∛(60 / 0.4) = 5.313 s, within a round trip, on a link that holds
/// the whole window and on a link with a queue. The curve is flat there, so the test measures 199 and 201 packets, 1.357 s before and
/// after.
#[test]
fn in_a_closed_loop_the_window_is_back_after_k() {
    for bytes_per_second in [1e9, 1.6e6] {
        let mut cubic = after_loss(200);
        let (mut now, mut free, mut flight) = (0.0_f64, 0.0_f64, 0);
        let mut packets = VecDeque::new();
        let mut smoothed = 0.1;
        let mut begun = None;
        let mut reached = Vec::new();
        while reached.len() < 2 {
            while flight < cubic.window() {
                flight += PACKET;
                free = free.max(now) + PACKET as f64 / bytes_per_second;
                packets.push_back((now, free + 0.1));
                cubic.on_sent(&sent(now, flight));
            }
            let (sent_at, acked_at) = packets.pop_front().expect("in flight");
            now = acked_at;
            let rtt = now - sent_at;
            smoothed += (rtt - smoothed) / 8.0;
            cubic.on_report(&Report {
                prior_flight: flight,
                smoothed_rtt: Some(Duration::from_secs_f64(smoothed)),
                ..acked(now, PACKET)
            });
            flight -= PACKET;
            let epoch = cubic.state.epoch.expect("in congestion avoidance");
            near(epoch.k, 5.3133, 1e-4);
            let t = now - *begun.get_or_insert(now);
            let (window, lag) = (cubic.state.cwnd, rtt + 0.001);
            let earlier = epoch.w_cubic((t - lag).max(0.0)) - 3.0;
            let later = epoch.w_cubic(t + lag) + 3.0;
            assert!((earlier..=later).contains(&window), "{t} s: {window}");
            if window >= [199_000.0, 201_000.0][reached.len()] {
                reached.push(t);
            }
        }
        near(reached[0], 5.3133 - 1.3572, 0.125);
        near(reached[1], 5.3133 + 1.3572, 0.125);
        near((reached[0] + reached[1]) / 2.0, 5.3133, 0.1);
    }
}
