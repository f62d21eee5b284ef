//! Tests of BBR in the simulation of `bottleneck.rs`.

use super::events::config;
use super::*;
use crate::congestion::bottleneck::{Bottleneck, Link, Source, new_path};

const BULK: Source = Source::Bulk(Timestamp::ZERO);

fn second(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

fn bed(link: Link, seed: u64, tolerate: bool, source: Source) -> Bottleneck<Bbr> {
    let bbr = Bbr::new(&new_path(seed), config(tolerate));
    Bottleneck::new(link, seed, [(bbr, source)])
}

/// Mbit/s, the 95th percentile of the queueing delay in ms, and the share of packets lost, in 60 s; medians over seeds.
fn median(link: Link, tolerate: bool) -> [f64; 3] {
    let runs: Vec<_> = (1..=5)
        .map(|seed| {
            let mut bed = bed(link, seed, tolerate, BULK);
            bed.run_until(second(60));
            let flow = &bed.flows[0];
            let lost = flow.lost_packets as f64 / flow.sent_packets as f64;
            [bed.goodput(0, Timestamp::ZERO, 0), bed.delay_p95(0), lost]
        })
        .collect();
    [0, 1, 2].map(|which| {
        let mut values: Vec<_> = runs.iter().map(|run| run[which]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    })
}

/// Runs to this time; returns Mbit/s during the run.
fn run(bed: &mut Bottleneck<Bbr>, from: Timestamp, until: Timestamp) -> f64 {
    let before = bed.flows[0].delivered_packets();
    bed.run_until(until);
    bed.goodput(0, from, before)
}

/// Mbit/s of two flows from 30 to 90 s, the second of which begins at `later`, and the queueing delay in ms.
fn share(link: Link, seed: u64, later: Timestamp) -> ([f64; 2], f64) {
    let flow = |from, seed| (Bbr::new(&new_path(seed), config(false)), Source::Bulk(from));
    let flows = [flow(Timestamp::ZERO, seed), flow(later, seed + 100)];
    let mut bed = Bottleneck::new(link, seed, flows);
    bed.run_until(second(30));
    let before = [0, 1].map(|index: usize| bed.flows[index].delivered_packets());
    let from = bed.delays.len();
    bed.run_until(second(90));
    let each = [0, 1].map(|index| bed.goodput(index, second(30), before[index]));
    (each, bed.delay_p95(from))
}

/// The times in ms at which ProbeRTT began and ended.
fn probes(bed: &mut Bottleneck<Bbr>, until: Timestamp) -> Vec<[u64; 2]> {
    let mut probes: Vec<[u64; 2]> = Vec::new();
    let mut within = false;
    for millis in 1..=until.0 / 1_000_000 {
        bed.run_until(Timestamp::from_millis(millis));
        let is = bed.flows[0].control.state == State::ProbeRtt;
        if is && !within {
            probes.push([millis, u64::MAX]);
        } else if within && !is {
            probes.last_mut().expect("began")[1] = millis;
        }
        within = is;
    }
    probes
}

#[test]
#[ignore = "prints a table"]
fn table() {
    for (mbits, millis, queue) in [(10, 40, 100), (10, 40, 1000), (50, 100, 400)] {
        for loss in [0.0, 0.001, 0.01, 0.02, 0.05] {
            let [one, other] = [false, true]
                .map(|tolerate| median(Link::new(mbits, millis, queue).with_loss(loss), tolerate));
            println!(
                "{mbits} Mbit/s, {millis} ms, queue {queue}, loss {loss}: {one:.3?}; tolerant {other:.3?}"
            );
        }
    }
    for (mbits, millis, queue) in [
        (10, 40, 5),
        (10, 40, 10),
        (10, 40, 33),
        (10, 40, 1000),
        (50, 100, 40),
        (50, 100, 417),
    ] {
        let [one, other] = [false, true].map(|tolerate| median(Link::new(mbits, millis, queue), tolerate));
        println!("{mbits} Mbit/s, {millis} ms, queue {queue}: {one:.3?}; tolerant {other:.3?}");
        for seed in 1..=2 {
            for later in [0, 10] {
                let (each, delay) = share(Link::new(mbits, millis, queue), seed, second(later));
                println!("  two flows, the second after {later} s: {each:.2?}, {delay:.1} ms");
            }
        }
    }
}

#[test]
fn fills_a_link_and_keeps_its_queue_short() {
    let [goodput, delay, lost] = median(Link::new(10, 40, 1000), false);
    assert!(goodput > 9.2 && delay < 31.0, "{goodput} Mbit/s, {delay} ms");
    assert!(lost < 1e-4, "{lost}");
}

#[test]
fn a_loss_of_one_percent_costs_little() {
    let [goodput, delay, _] = median(Link::new(10, 40, 100).with_loss(0.01), false);
    assert!(goodput > 8.5 && delay < 50.0, "{goodput} Mbit/s, {delay} ms");
    let [goodput, ..] = median(Link::new(50, 100, 400).with_loss(0.01), false);
    assert!(goodput > 40.0, "{goodput} Mbit/s");
}

#[test]
fn tolerates_random_loss_if_asked() {
    let link = Link::new(10, 40, 100).with_loss(0.05);
    let [without, with] = [false, true].map(|tolerate| median(link, tolerate)[0]);
    assert!(without < 7.0 && with > 8.0, "{without}, {with} Mbit/s");
    let [goodput, ..] = median(Link::new(50, 100, 400).with_loss(0.05), true);
    assert!(goodput > 40.0, "{goodput} Mbit/s");
}

/// A path that loses a fifth of all packets is used, because these losses do not depend on what is sent.
#[test]
fn learns_what_a_path_loses_in_any_case() {
    let every = Duration::from_millis(3);
    for seed in 1..=3 {
        let mut bed = bed(
            Link::new(10, 40, 100).with_loss(0.2),
            seed,
            true,
            Source::Every(every),
        );
        bed.run_until(second(60));
        let sent = bed.flows[0].sent_packets;
        assert!(
            sent > 9_000,
            "{sent} packets of 20,000, and 5,500 if all losses beyond 15 % are taken for congestion"
        );
    }
}

/// Flows that lose packets because they are too many have a queue, so none of them takes the losses for random beyond the fixed limit.
#[test]
fn losses_of_many_flows_are_not_random() {
    for flows in [2, 8] {
        let each = (0..flows).map(|no| (Bbr::new(&new_path(no), config(true)), Source::Bulk(second(no))));
        let mut bed = Bottleneck::new(Link::new(10, 40, 10), 1, each);
        bed.run_until(second(60));
        let lost: u64 = bed.flows.iter().map(|flow| flow.lost_packets).sum();
        let sent: u64 = bed.flows.iter().map(|flow| flow.sent_packets).sum();
        let share = lost as f64 / sent as f64;
        assert!(share < 0.15, "{flows} flows: {share} lost");
        for flow in &bed.flows {
            assert_eq!(flow.control.random_loss.share(), 0.0, "{flows} flows");
        }
    }
}

#[test]
fn losses_of_a_short_queue_stay_few() {
    for tolerate in [false, true] {
        let [goodput, _, lost] = median(Link::new(10, 40, 10), tolerate);
        assert!(goodput > 8.0 && lost < 0.03, "{goodput} Mbit/s, {lost} lost");
    }
}

#[test]
fn two_flows_share_a_bottleneck() {
    for queue in [33, 1000] {
        for later in [0, 10] {
            let (each, _) = share(Link::new(10, 40, queue), 1, second(later));
            let part = each[0] / (each[0] + each[1]);
            assert!(
                (0.35..0.65).contains(&part) && each[0] + each[1] > 8.5,
                "{each:?}"
            );
        }
    }
}

/// Failures known from other implementations: ProbeRTT that never ends, also if the flow cannot fill the pipe.
#[test]
fn probe_rtt_is_entered_and_left() {
    for source in [
        BULK,
        Source::Every(Duration::from_millis(2)),
        Source::Every(Duration::from_millis(20)),
    ] {
        let link = Link::new(10, 40, 100);
        let mut bed = bed(link, 1, false, source);
        let probes = probes(&mut bed, second(60));
        assert!((9..=12).contains(&probes.len()), "{source:?}: {probes:?}");
        let lasts = |probe: &[u64; 2]| probe[1].saturating_sub(probe[0]);
        assert!(
            probes.iter().all(|probe| (200..500).contains(&lasts(probe))),
            "{source:?}: {probes:?}"
        );
        if let Source::Every(interval) = source {
            let written = 60_000 / interval.as_millis() as u64;
            assert!(bed.flows[0].delivered_packets() + 100 > written, "{source:?}");
            assert!(bed.delay_p95(0) < 10.0);
        }
    }
}

/// The path is idle between two packets, which measures the RTT as well.
#[test]
fn a_sparse_flow_needs_no_probe_rtt() {
    let sparse = Source::Every(Duration::from_millis(90));
    let mut bed = bed(Link::new(10, 40, 100), 1, false, sparse);
    assert_eq!(probes(&mut bed, second(30)), Vec::<[u64; 2]>::new());
}

#[test]
fn a_pause_ends_probe_rtt_and_costs_no_window() {
    // The times of ProbeRTT in a run without a pause.
    let [entered, left] = probes(&mut bed(Link::new(10, 40, 100), 1, false, BULK), second(8))[0];
    for (begin, end) in [
        (entered + 20, 30_000),
        (entered - 10, 30_000),
        (left + 500, 9_000),
        (3_000, 3_100),
    ] {
        let pause = Source::Pause(Timestamp::from_millis(begin), Timestamp::from_millis(end));
        let mut bed = bed(Link::new(10, 40, 100), 1, false, pause);
        bed.run_until(Timestamp::from_millis(end));
        let from = bed.delays.len();
        // A few packets after the pause.
        bed.run_until(Timestamp::from_millis(end + 10));
        let bbr = &bed.flows[0].control;
        assert!(
            bbr.state != State::ProbeRtt && bbr.window() > 30_000,
            "{begin}: {bbr:?}"
        );
        let goodput = run(
            &mut bed,
            Timestamp::from_millis(end + 10),
            Timestamp::from_millis(end + 3_010),
        );
        assert!(goodput > 8.0, "{begin}: {goodput} Mbit/s");
        assert!(bed.delay_p95(from) < 50.0);
    }
}

/// The filter of the least RTT runs out while the path is idle: the flow takes the next RTT, and needs no ProbeRTT for it.
#[test]
fn an_idle_path_forgets_its_rtt_without_probing() {
    let pause = Source::Pause(second(4), second(20));
    let mut bed = bed(Link::new(10, 40, 100), 1, false, pause);
    bed.run_until(second(19));
    bed.link.rtt = Duration::from_millis(80);
    let probes = probes(&mut bed, second(24));
    assert_eq!(probes, Vec::<[u64; 2]>::new());
    let min = bed.flows[0].control.min_rtt.get().expect("measured");
    assert!(min >= Duration::from_millis(80), "{min:?}");
}

/// A failure known from other implementations: acknowledgements that arrive late and in bursts inflate the bandwidth without bound. A
/// sample may begin within one burst and end within another, but no sample exceeds the rate of sending, and the window bounds the queue.
#[test]
fn bursts_of_acknowledgements_inflate_the_bandwidth_little() {
    let mut link = Link::new(10, 40, 100);
    link.ack_interval = Duration::from_millis(20);
    let mut bed = bed(link, 1, false, BULK);
    bed.run_until(second(30));
    let bbr = &bed.flows[0].control;
    let bits = bbr.model.max_bw.get() * 8.0 * 1500.0 / 1460.0;
    assert!((9.5e6..11.5e6).contains(&bits), "{bits}");
    assert!(bbr.extra_acked() > 10_000.0, "{bbr:?}");
    let (goodput, delay) = (bed.goodput(0, Timestamp::ZERO, 0), bed.delay_p95(0));
    assert!(goodput > 9.0 && delay < 90.0, "{goodput} Mbit/s, {delay} ms");
}

#[test]
fn recovers_from_an_outage() {
    let mut bed = bed(Link::new(10, 40, 100), 1, false, BULK);
    bed.run_until(second(8));
    bed.link.loss = 1.0;
    bed.run_until(second(11));
    assert!(bed.flows[0].timeouts >= 2);
    assert!(bed.flows[0].control.window() < 2 * 1460);
    bed.link.loss = 0.0;
    bed.run_until(second(14));
    let goodput = run(&mut bed, second(14), second(20));
    assert!(goodput > 8.8, "{goodput} Mbit/s");
}

#[test]
fn follows_a_change_of_the_link() {
    let mut bed = bed(Link::new(50, 40, 200), 1, false, BULK);
    bed.run_until(second(10));
    bed.link.rate = 10_000_000;
    bed.run_until(second(20));
    let from = bed.delays.len();
    let goodput = run(&mut bed, second(20), second(30));
    let delay = bed.delay_p95(from);
    assert!(
        goodput > 9.0 && delay < 50.0,
        "slower: {goodput} Mbit/s, {delay} ms"
    );
    bed.link.rate = 50_000_000;
    bed.run_until(second(45));
    let goodput = run(&mut bed, second(45), second(55));
    assert!(goodput > 42.0, "faster: {goodput} Mbit/s");
    bed.link.rtt = Duration::from_millis(100);
    bed.run_until(second(75));
    let goodput = run(&mut bed, second(75), second(85));
    assert!(goodput > 42.0, "farther: {goodput} Mbit/s");
    let min = bed.flows[0].control.min_rtt.get().expect("measured");
    assert!(min >= Duration::from_millis(100), "{min:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let link = Link::new(10, 40, 100).with_loss(0.01);
    let [one, same, other] = [1, 1, 2].map(|seed| {
        let mut bed = bed(link, 1, false, BULK);
        bed.flows[0].control = Bbr::new(&new_path(seed), config(false));
        bed.run_until(second(20));
        bed.delays
    });
    assert!(one == same && one != other);
}
