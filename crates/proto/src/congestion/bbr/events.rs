//! Tests of BBR's reaction to single events.

use proptest::prelude::*;

use super::*;
use crate::congestion::bottleneck::{Bottleneck, DATA, Flow, Link, Source, new_path};
use crate::controller::{RateSample, Reduction};

pub(super) fn config(tolerate_random_loss: bool) -> BbrConfig {
    BbrConfig { tolerate_random_loss }
}

fn report(now: Timestamp, prior_flight: usize, acked: usize) -> Report {
    Report {
        prior_flight,
        acked,
        advanced: true,
        ..Report::of_nothing(now)
    }
}

/// A flow of 10 Mbit/s and 40 ms at the moment when it enters this state, and the time.
fn in_state(state: State, tolerate: bool) -> (Bbr, Timestamp) {
    let bbr = Bbr::new(&new_path(1), config(tolerate));
    let flows = [(bbr, Source::Bulk(Timestamp::ZERO))];
    let mut bed = Bottleneck::new(Link::new(10, 40, 100), 1, flows);
    for millis in 1..20_000 {
        let now = Timestamp::from_millis(millis);
        bed.run_until(now);
        if bed.flows[0].control.state == state {
            let Flow { control, .. } = bed.flows.remove(0);
            return (control, now);
        }
    }
    panic!("never in {state:?}");
}

/// `packets` of `of` packets in flight are lost.
fn lose(bbr: &mut Bbr, now: Timestamp, packets: usize, of: usize) {
    for lost in 1..=packets {
        bbr.on_lost(&LostPacket {
            now,
            bytes: DATA,
            flight_when_sent: of * DATA,
            lost_since: (lost * DATA) as u64,
            application_limited: false,
        });
    }
}

#[test]
fn is_paced_from_the_start() {
    let path = new_path(1);
    let mut bbr = Bbr::new(&path, BbrConfig::default());
    let nominal = 2.77 * path.initial_window as f64;
    let rate = |bbr: &Bbr| bbr.pace().expect("paced").rate;
    assert!(
        (rate(&bbr) - nominal * 1e3).abs() < 1.0,
        "initial window a millisecond"
    );
    let rtt = Some(Duration::from_millis(100));
    bbr.on_report(&Report {
        smoothed_rtt: rtt,
        latest_rtt: rtt,
        ..report(Timestamp::from_millis(100), path.initial_window, DATA)
    });
    assert!(
        (rate(&bbr) - nominal * 10.0).abs() < 1.0,
        "initial window a round trip"
    );
    assert_eq!(bbr.pace().expect("paced").quantum, 2 * DATA);
}

/// A failure known from other implementations: with fewer than 50 packets in flight, one lost packet exceeds 2 %.
#[test]
fn a_single_lost_packet_ends_no_probe() {
    let too_high = |packets, of| {
        let (mut bbr, now) = in_state(State::Up, false);
        lose(&mut bbr, now, packets, of);
        assert_eq!(bbr.state == State::Down, bbr.probe.too_high);
        assert_eq!(bbr.model.inflight_longterm.is_finite(), bbr.probe.too_high);
        bbr.probe.too_high
    };
    assert!(!too_high(1, 10) && !too_high(1, 49) && !too_high(2, 100));
    assert!(too_high(2, 10) && too_high(2, 99) && too_high(3, 100));
}

#[test]
fn the_long_term_bound_is_where_losses_crossed_the_threshold() {
    let (mut bbr, now) = in_state(State::Up, false);
    lose(&mut bbr, now, 2, 60);
    let longterm = bbr.model.inflight_longterm / DATA as f64;
    assert!((59.0..60.0).contains(&longterm), "{longterm}");
    let (mut bbr, now) = in_state(State::Up, false);
    let target = bbr.target_inflight() / DATA as f64;
    lose(&mut bbr, now, 2, 10);
    let longterm = bbr.model.inflight_longterm / DATA as f64;
    assert!((longterm - 0.7 * target).abs() < 0.01, "{longterm}, {target}");
}

#[test]
fn random_loss_is_tolerated_only_without_a_queue() {
    for (millis, packets, tolerated) in [(44, 4, true), (44, 5, false), (54, 4, true), (58, 4, false)] {
        let (mut bbr, now) = in_state(State::Up, true);
        bbr.latest_rtt = Some(Duration::from_millis(millis));
        assert_eq!(bbr.min_rtt.get().expect("measured").as_millis(), 41);
        lose(&mut bbr, now, packets, 32);
        assert_eq!(
            bbr.state == State::Up,
            tolerated,
            "{millis} ms, {packets} packets"
        );
        let (mut bbr, now) = in_state(State::Cruise, true);
        bbr.latest_rtt = Some(Duration::from_millis(millis));
        lose(&mut bbr, now, packets, 32);
        lose_round(&mut bbr, now);
        assert_eq!(
            bbr.model.bw_shortterm.is_infinite(),
            tolerated,
            "{millis} ms, {packets} packets"
        );
    }
}

/// In a flight of eight packets two lost ones are more than 15 %, and a path with a loss rate of 20 % loses three of eight often.
#[test]
fn a_few_losses_of_a_small_flight_are_random_if_there_is_no_queue_at_all() {
    for (millis, packets, tolerated) in [(44, 4, true), (44, 5, false), (46, 2, false), (46, 1, true)] {
        let (mut bbr, now) = in_state(State::Up, true);
        bbr.latest_rtt = Some(Duration::from_millis(millis));
        lose(&mut bbr, now, packets, 8);
        assert_eq!(
            bbr.state == State::Up,
            tolerated,
            "{millis} ms, {packets} packets"
        );
    }
}

/// The round in which the losses were found ends.
fn lose_round(bbr: &mut Bbr, now: Timestamp) {
    for step in 1..=2 {
        let delivered_before = bbr.delivered;
        bbr.on_report(&Report {
            lost: usize::from(step == 1),
            recovering: true,
            sample: Some(RateSample {
                delivered: 30 * DATA as u64,
                interval: Duration::from_millis(50),
                application_limited: false,
                rtt: bbr.latest_rtt,
                flight_when_sent: 30 * DATA,
                lost: 0,
                delivered_before,
                total_delivered: delivered_before + DATA as u64,
            }),
            ..report(now + step * Duration::from_millis(40), 30 * DATA, DATA)
        });
    }
}

#[test]
fn a_loss_while_cruising_lowers_the_short_term_model_only() {
    let (mut bbr, now) = in_state(State::Cruise, false);
    let bw = bbr.model.max_bw.get();
    lose(&mut bbr, now, 1, 32);
    lose_round(&mut bbr, now);
    let model = &bbr.model;
    assert!(
        model.bw_shortterm < bw && model.bw_shortterm >= 0.7 * bw,
        "{model:?}"
    );
    assert!(model.inflight_longterm.is_infinite());
    assert_eq!(model.max_bw.get(), bw);
}

#[test]
fn a_mark_counts_as_a_loss() {
    let marked = |now| Report {
        marked: 1,
        reduction: Some(Reduction::Ecn),
        ..report(now, 30 * DATA, DATA)
    };
    // Marks are never random.
    let (mut bbr, now) = in_state(State::Up, true);
    bbr.on_report(&marked(now));
    assert!(bbr.state == State::Down && bbr.probe.too_high);
    let (mut bbr, now) = in_state(State::Cruise, true);
    bbr.on_report(&marked(now));
    lose_round(&mut bbr, now);
    assert!(bbr.model.bw_shortterm.is_finite());
}

#[test]
fn a_timeout_leaves_one_packet_and_a_spurious_one_nothing() {
    let (mut bbr, now) = in_state(State::Cruise, true);
    let before = bbr.window();
    let timeout = |now| Report {
        lost: 30 * DATA,
        reduction: Some(Reduction::Timeout),
        ..report(now, 30 * DATA, 0)
    };
    bbr.on_report(&timeout(now));
    assert_eq!(bbr.window(), DATA);
    bbr.on_report(&report(now, DATA, DATA));
    assert_eq!(bbr.window(), 4 * DATA, "the least window");
    // The lost packets are repaired.
    for _ in 0..29 {
        bbr.on_report(&report(now, 2 * DATA, DATA));
    }
    let repaired = bbr.window();
    assert!(repaired >= before, "{repaired} < {before}");
    bbr.on_report(&timeout(now));
    bbr.on_spurious(now);
    assert_eq!(bbr.window(), repaired);
}

#[test]
fn a_spurious_recovery_is_undone_as_a_whole() {
    let (mut bbr, now) = in_state(State::Up, false);
    lose(&mut bbr, now, 3, 40);
    bbr.on_report(&Report {
        lost: 3 * DATA,
        reduction: Some(Reduction::Loss),
        recovering: true,
        ..report(now, 40 * DATA, DATA)
    });
    assert_eq!(bbr.state, State::Down);
    // More losses of the same episode do not change the saved state.
    lose(&mut bbr, now, 1, 40);
    lose_round(&mut bbr, now);
    assert!(bbr.model.inflight_longterm.is_finite() && bbr.model.bw_shortterm.is_finite());
    bbr.on_spurious(now);
    assert_eq!(bbr.state, State::Refill);
    assert!(bbr.model.inflight_longterm.is_infinite() && bbr.model.bw_shortterm.is_infinite());
    let state = format!("{bbr:?}");
    bbr.on_spurious(now);
    assert_eq!(format!("{bbr:?}"), state, "undone once");
}

/// Acknowledgements of three rounds with 12 packets in flight and a growing rate. Each finds a loss, as part of a recovery episode or not.
/// Returns the state after each.
fn startup_with_losses(recovering: bool) -> (Bbr, Timestamp, Vec<State>) {
    let (mut bbr, mut now) = in_state(State::Startup, false);
    let mut delivered = 0;
    let mut states = Vec::new();
    for packet in 0..36_u64 {
        now += Duration::from_millis(3);
        let before = packet.saturating_sub(12) * DATA as u64;
        delivered += DATA as u64;
        lose(&mut bbr, now, 1, 12);
        bbr.on_report(&Report {
            lost: DATA,
            reduction: (packet == 0 && recovering).then_some(Reduction::Loss),
            recovering,
            sample: Some(RateSample {
                delivered: delivered - before,
                interval: Duration::from_secs_f64(0.04 * 0.95_f64.powi(packet as i32)),
                application_limited: true,
                rtt: Some(Duration::from_millis(40)),
                flight_when_sent: 12 * DATA,
                lost: 12 * DATA as u64,
                delivered_before: before,
                total_delivered: delivered,
            }),
            ..report(now, 12 * DATA, DATA)
        });
        states.push(bbr.state);
    }
    (bbr, now, states)
}

#[test]
fn startup_ends_by_loss_after_a_round_of_recovery() {
    let (mut bbr, now, states) = startup_with_losses(true);
    assert!(
        states[..12].iter().all(|state| *state == State::Startup),
        "{states:?}"
    );
    assert!(bbr.full_pipe.reached && bbr.model.inflight_longterm.is_finite());
    bbr.on_spurious(now);
    assert!(bbr.state == State::Startup && !bbr.full_pipe.reached);
    let (bbr, ..) = startup_with_losses(false);
    assert!(bbr.state == State::Startup && !bbr.full_pipe.reached);
}

/// The state after eight application-limited rounds at the same rate, with a least RTT of 40 ms and this RTT.
fn after_limited_rounds(millis: u64) -> State {
    let mut bbr = Bbr::new(&new_path(1), config(false));
    for round in 0..8 {
        let rtt = Duration::from_millis(if round == 0 { 40 } else { millis });
        bbr.on_report(&Report {
            application_limited: true,
            latest_rtt: Some(rtt),
            min_rtt: Some(Duration::from_millis(40)),
            sample: Some(RateSample {
                delivered: 10 * DATA as u64,
                interval: Duration::from_millis(100),
                application_limited: true,
                rtt: Some(rtt),
                flight_when_sent: 10 * DATA,
                lost: 0,
                delivered_before: 10 * DATA as u64 * round,
                total_delivered: 10 * DATA as u64 * (round + 1),
            }),
            ..report(Timestamp::from_millis(100 * (round + 1)), 10 * DATA, 10 * DATA)
        });
    }
    bbr.state
}

#[test]
fn an_application_limited_sender_leaves_startup_if_it_fills_a_long_queue() {
    assert_eq!(after_limited_rounds(60), State::Startup);
    assert_ne!(after_limited_rounds(70), State::Startup);
}

/// Without a rate sample no round trip is counted; ProbeRTT ends nevertheless.
#[test]
fn probe_rtt_ends_without_samples() {
    let (mut bbr, mut now) = in_state(State::ProbeRtt, false);
    for _ in 0..110 {
        now += Duration::from_millis(100);
        bbr.on_report(&report(now, 4 * DATA, DATA));
    }
    assert_ne!(bbr.state, State::ProbeRtt);
}

#[test]
fn a_rate_over_less_than_a_round_trip_is_ignored() {
    let (mut bbr, now) = in_state(State::Cruise, false);
    let bw = bbr.model.max_bw.get();
    let mut sample = |millis| {
        let delivered_before = bbr.delivered;
        bbr.on_report(&Report {
            min_rtt: Some(Duration::from_millis(40)),
            sample: Some(RateSample {
                delivered: 60 * DATA as u64,
                interval: Duration::from_millis(millis),
                application_limited: false,
                rtt: None,
                flight_when_sent: 30 * DATA,
                lost: 0,
                delivered_before,
                total_delivered: delivered_before + DATA as u64,
            }),
            ..report(now, 30 * DATA, DATA)
        });
        bbr.model.max_bw.get()
    };
    assert_eq!((sample(0), sample(39)), (bw, bw));
    assert!(sample(40) > 1.5 * bw);
}

#[derive(Clone, Debug)]
enum Step {
    Sent(usize, usize, bool),
    Lost(usize, usize, u64),
    Report(Box<Report>),
    Spurious,
    Idle(bool),
    PacketSize(usize),
}

fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![Just(0), 1_usize..100_000, Just(1 << 41), Just(usize::MAX)]
}

fn time() -> impl Strategy<Value = Duration> {
    let nanos = prop_oneof![Just(0), 1_u64..1_000, 1_u64..10_000_000_000, Just(u64::MAX)];
    nanos.prop_map(Duration::from_nanos)
}

fn sample() -> impl Strategy<Value = RateSample> {
    let bytes = || bytes().prop_map(|bytes| bytes as u64);
    let volumes = (bytes(), bytes(), bytes(), bytes());
    let rest = (time(), any::<bool>(), proptest::option::of(time()), self::bytes());
    (volumes, rest).prop_map(|((delivered, lost, delivered_before, total_delivered), rest)| {
        let (interval, application_limited, rtt, flight_when_sent) = rest;
        RateSample {
            delivered,
            interval,
            application_limited,
            rtt,
            flight_when_sent,
            lost,
            delivered_before,
            total_delivered,
        }
    })
}

fn any_report() -> impl Strategy<Value = Report> {
    let reduction = prop_oneof![
        6 => Just(None),
        1 => Just(Some(Reduction::Loss)),
        1 => Just(Some(Reduction::Ecn)),
        1 => Just(Some(Reduction::Timeout)),
    ];
    let volumes = (bytes(), bytes(), bytes(), prop_oneof![Just(0), any::<u32>()]);
    let optional = || proptest::option::of(time());
    let rest = (reduction, any::<bool>(), optional(), optional(), optional());
    (volumes, rest, proptest::option::of(sample())).prop_map(|(volumes, rest, sample)| {
        let (prior_flight, acked, lost, marked) = volumes;
        let (reduction, recovering, smoothed_rtt, latest_rtt, min_rtt) = rest;
        Report {
            lost,
            marked,
            reduction,
            recovering,
            smoothed_rtt,
            latest_rtt,
            min_rtt,
            sample,
            ..report(Timestamp::ZERO, prior_flight, acked)
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (bytes(), bytes(), any::<bool>()).prop_map(|(bytes, flight, limited)| Step::Sent(bytes, flight, limited)),
        2 => (bytes(), bytes(), bytes()).prop_map(|(bytes, flight, lost)| Step::Lost(bytes, flight, lost as u64)),
        5 => any_report().prop_map(|report| Step::Report(Box::new(report))),
        1 => Just(Step::Spurious),
        1 => any::<bool>().prop_map(Step::Idle),
        1 => bytes().prop_map(Step::PacketSize),
    ]
}

proptest! {
    /// For any calls of the sender, the window and the pacing rate stay within bounds.
    #[test]
    fn absurd_values_do_no_harm(
        steps in proptest::collection::vec((time(), step()), 1..200),
        begin in prop_oneof![Just(None), Just(Some(State::Up)), Just(Some(State::ProbeRtt))],
        tolerate in any::<bool>(),
        window in bytes(),
    ) {
        let path = NewPath { initial_window: window, ..new_path(1) };
        let new = || (Bbr::new(&path, config(tolerate)), Timestamp::ZERO);
        let (mut bbr, mut now) = begin.map_or_else(new, |state| in_state(state, tolerate));
        let mut packet = DATA;
        for (pause, step) in steps {
            now += pause;
            match step {
                Step::Sent(bytes, flight, application_limited) => {
                    bbr.on_sent(&SentPacket { now, bytes, flight, application_limited });
                }
                Step::Lost(bytes, flight_when_sent, lost_since) => bbr.on_lost(&LostPacket {
                    now,
                    bytes,
                    flight_when_sent,
                    lost_since,
                    application_limited: false,
                }),
                Step::Report(report) => bbr.on_report(&Report { now, ..*report }),
                Step::Spurious => bbr.on_spurious(now),
                Step::Idle(first) => bbr.on_idle(now, first),
                Step::PacketSize(size) => {
                    packet = size;
                    bbr.on_packet_size(size);
                }
            }
            let least = packet.clamp(1, 1 << 40);
            prop_assert!((least..=1 << 40).contains(&bbr.window()), "{bbr:?}");
            let pace = bbr.pace().expect("paced");
            prop_assert!(pace.rate.is_finite() && pace.rate >= 1.0 && pace.quantum >= least, "{bbr:?}");
            prop_assert!(!bbr.model.bw.is_nan() && !bbr.control.cwnd.is_nan(), "{bbr:?}");
        }
    }
}
