//! RACK-TLP (RFC 8985) in the simulator: the delay after a loss, and spurious retransmissions.

use core::time::Duration;

use anabranch_netsim::{LinkConfig, LossModel, QueueLimit};
use anabranch_proto::controller::{BbrConfig, CongestionControl};
use anabranch_proto::{Config, Counters, RecoveryRules, SendOptions, StreamId, Timestamp};
use anabranch_testkit::{Bulk, Greedy, Pair, Setup, Side, with};

const MS: Duration = Duration::from_millis(1);

/// 10 Mbit/s, 20 ms each way.
fn link() -> LinkConfig {
    LinkConfig::default()
        .with_rate(10_000_000)
        .with_delay(20 * MS)
        .with_queue(QueueLimit::Packets(100))
}

fn rack() -> Config {
    with(Config::default(), |config| config.recovery = RecoveryRules::RACK)
}

/// 100 messages of 200 bytes per second, each echoed at once: the delays of the echoes in seconds, sorted.
fn echoes(seed: u64, loss: f64, config: Config, count: usize) -> (Vec<f64>, [Counters; 2]) {
    let link = link().with_loss(LossModel::bernoulli(loss));
    let mut pair = Setup::new(seed).path(link).config(config).connect();
    let begin = pair.now();
    let mut delays = Vec::new();
    let mut sent = 0_u64;
    while delays.len() < count {
        pair.run_ms(1);
        let millis = pair.now().saturating_duration_since(begin).as_millis() as u64;
        if millis.is_multiple_of(10) && (sent as usize) < count {
            let mut message = vec![0; 200];
            message[..8].copy_from_slice(&pair.now().0.to_be_bytes());
            pair.send(Side::A, 0, message);
            sent += 1;
        }
        for message in pair.messages(Side::Z) {
            pair.send(Side::Z, 0, message.bytes);
        }
        for message in pair.messages(Side::A) {
            let stamp = message.bytes[..8].try_into().expect("eight bytes");
            let then = Timestamp(u64::from_be_bytes(stamp));
            delays.push(message.at.saturating_duration_since(then).as_secs_f64());
        }
        assert!(millis < 600_000, "seed {seed}: {} of {count}", delays.len());
    }
    delays.sort_unstable_by(f64::total_cmp);
    let counters = [Side::A, Side::Z].map(|side| *pair.association(side).counters());
    (delays, counters)
}

fn percentile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

/// A lost packet of a flow that continues delays its message by one RTT, and so does a lost retransmission.
#[test]
fn a_loss_never_delays_a_message_by_a_second() {
    for (loss, most) in [(0.03, 0.15), (0.05, 0.22)] {
        let mut percentiles = Vec::new();
        for seed in 1..=5 {
            let (delays, counters) = echoes(seed, loss, rack(), 1000);
            percentiles.push(percentile(&delays, 0.99));
            for ours in counters {
                // Without RACK only T3-rtx detects a lost retransmission.
                assert_eq!(ours.timeouts, 0, "seed {seed}");
                // A tail loss probe may leave because an acknowledgement was lost.
                assert!(ours.retransmissions_spurious < 10, "seed {seed}: {ours:?}");
            }
        }
        percentiles.sort_unstable_by(f64::total_cmp);
        assert!(percentiles[2] <= most, "{loss}: {percentiles:?}");
    }
}

/// This many messages arrive at Z with the help of one tail loss probe and without T3-rtx. Returns the time from `begin` to the
/// arrival of the last one.
fn repaired_by_a_probe(pair: &mut Pair, begin: Timestamp, count: usize) -> Duration {
    let mut messages = 0;
    let arrived = pair.run_to(begin + 5000 * MS, |pair| {
        messages += pair.messages(Side::Z).len();
        messages == count
    });
    let counters = pair.association(Side::A).counters();
    assert!(arrived, "{counters:?}");
    assert_eq!(
        (counters.timeouts, counters.tail_loss_probes),
        (0, 1),
        "{counters:?}"
    );
    pair.now().saturating_duration_since(begin)
}

/// The last packet is lost: a tail loss probe detects the loss, not T3-rtx.
#[test]
fn a_lost_tail_is_repaired_by_a_probe() {
    for seed in 1..=20 {
        let mut pair = Setup::new(seed).path(link()).config(rack()).connect();
        for size in [200, 1000] {
            pair.send(Side::A, 0, vec![1; size]);
            pair.run_ms(25);
        }
        pair.messages(Side::Z);
        pair.cut(0, true);
        let begin = pair.now();
        pair.send(Side::A, 0, vec![2; 1000]);
        pair.run_ms(5);
        pair.cut(0, false);
        let took = repaired_by_a_probe(&mut pair, begin, 1);
        assert!(took <= 135 * MS, "seed {seed}: {took:?}");
        pair.run_ms(100);
        let path = &pair.association(Side::A).stats().paths[0];
        assert_eq!(path.fast_recoveries, 1, "a loss that a probe repairs is one");
    }
}

/// The last of three packets is lost. The acknowledgement of the first two does not delay the tail loss probe.
#[test]
fn an_acknowledgement_does_not_delay_the_probe() {
    let mut pair = Setup::new(1).path(link()).config(rack()).connect();
    for _ in 0..4 {
        pair.send(Side::A, 0, vec![1; 1000]);
        pair.run_ms(100);
    }
    pair.messages(Side::Z);
    let begin = pair.now();
    for last in [false, false, true] {
        pair.cut(0, last);
        pair.send(Side::A, 0, vec![2; 1000]);
        pair.run_ms(1);
    }
    pair.run_ms(2);
    pair.cut(0, false);
    let took = repaired_by_a_probe(&mut pair, begin, 3);
    assert!(took <= 110 * MS, "{took:?}");
}

/// The acknowledgement of a lone packet is lost. This looks like a delayed acknowledgement, for which later probes would wait.
/// The next acknowledgement in time shows that the peer does not delay.
#[test]
fn a_lost_acknowledgement_does_not_delay_later_probes() {
    let mut pair = Setup::new(1).path(link()).config(rack()).connect();
    let mut send = |lost: Option<bool>| {
        let (there, back) = pair.links(0);
        let lost = lost.map(|data| if data { there } else { back });
        lost.inspect(|link| pair.network.cut(*link, true));
        let begin = pair.now();
        pair.send(Side::A, 0, vec![1; 1000]);
        pair.run_ms(60);
        lost.inspect(|link| pair.network.cut(*link, false));
        let arrived = pair.run_to(begin + 2000 * MS, |pair| !pair.messages(Side::Z).is_empty());
        assert!(arrived);
        let took = pair.now().saturating_duration_since(begin);
        pair.run_ms(500);
        (
            took,
            pair.association(Side::A).counters().retransmissions_spurious,
        )
    };
    assert_eq!(send(None).1, 0);
    assert_eq!(send(Some(false)).1, 1, "the probe");
    assert_eq!(send(None).1, 1);
    let (took, spurious) = send(Some(true));
    assert!(took <= 135 * MS && spurious == 1, "{took:?}");
}

/// The second of three packets is lost, then its retransmission, and no other packet follows: a tail loss probe detects the
/// loss.
#[test]
fn a_lost_retransmission_at_the_tail_is_repaired_by_a_probe() {
    for seed in 1..=20 {
        let mut pair = Setup::new(seed).path(link()).config(rack()).connect();
        pair.send(Side::A, 0, vec![1; 1000]);
        pair.run_ms(300);
        let (there, _) = pair.links(0);
        let begin = pair.now();
        for part in 1..=3 {
            pair.network.cut(there, part == 2);
            pair.send(Side::A, 0, vec![2; 1000]);
            pair.run_ms(1);
        }
        pair.network.cut(there, true);
        let repeated = |pair: &mut Pair| pair.association(Side::A).counters().retransmissions_fast > 0;
        assert!(pair.run_to(begin + 1000 * MS, repeated), "seed {seed}");
        pair.network.cut(there, false);
        let took = repaired_by_a_probe(&mut pair, begin, 4);
        assert!(took <= 200 * MS, "seed {seed}: {took:?}");
        pair.run_ms(100);
        let path = &pair.association(Side::A).stats().paths[0];
        assert_eq!(
            path.fast_recoveries, 2,
            "the retransmission left after the first reduction"
        );
    }
}

/// Half of a window is lost, then the acknowledgements that would let all retransmissions leave: the tail loss probe is one of
/// these retransmissions.
#[test]
fn a_probe_retransmits_a_chunk_that_waits_for_the_window() {
    let mut config = rack();
    config.congestion_control = CongestionControl::Cubic;
    config.initial_window = Some(20);
    let mut pair = Setup::new(1).path(link()).config(config).connect();
    pair.run_ms(100);
    let (there, back) = pair.links(0);
    let begin = pair.now();
    for part in 0..20 {
        pair.network.cut(there, (5..15).contains(&part));
        pair.send(Side::A, 0, vec![2; 1000]);
        pair.run_ms(1);
    }
    pair.run_ms(18);
    pair.network.cut(back, true);
    pair.run_ms(100);
    pair.network.cut(back, false);
    let took = repaired_by_a_probe(&mut pair, begin, 20);
    assert!(took <= 300 * MS, "{took:?}");
    let counters = pair.association(Side::A).counters();
    assert_eq!(counters.retransmissions_spurious, 0, "{counters:?}");
}

/// A pause of the network is no loss: T3-rtx expires, and its effects are undone.
#[test]
fn a_spurious_timeout_is_undone() {
    let mut bulk = Bulk::over(1, &[link()], &rack());
    bulk.run_for(5000 * MS);
    let window = |bulk: &Bulk| bulk.pair.association(Side::A).stats().paths[0].cwnd;
    let before = window(&bulk);
    let slower = link().with_delay(1500 * MS);
    bulk.pair.set_path(0, &slower);
    bulk.pair.run_for(8000 * MS);
    let counters = bulk.pair.association(Side::A).counters();
    assert!(
        counters.timeouts > 0 && counters.reductions_undone > 0,
        "{counters:?}"
    );
    assert!(window(&bulk) >= before / 2, "{before} {}", window(&bulk));
}

/// The bytes of a burst when much data is sent at once, the time at which the next bytes leave, and the congestion window.
fn batch(config: Config) -> (usize, Option<Duration>, usize) {
    let link = link().with_rate(100_000_000);
    let mut pair = Setup::new(1).path(link).config(config).connect();
    pair.send(Side::A, 0, vec![0; 1 << 20]);
    pair.run_ms(3000);
    let now = pair.now();
    let association = pair.association_mut(Side::A);
    let message = vec![0; 1 << 19].into();
    let sent = association.send(now, StreamId(0), message, SendOptions::default());
    sent.expect("there is room");
    let (mut buffer, mut bytes) = (Vec::new(), 0);
    while let Some(transmit) = association.poll_transmit(now, &mut buffer, 64) {
        bytes += transmit.len;
    }
    let next = association
        .poll_timeout()
        .map(|next| next.saturating_duration_since(now));
    (bytes, next, association.stats().paths[0].cwnd)
}

/// A controller with a pacing rate spreads a burst over the RTT, and no data waits for a timer that is set too late.
#[test]
fn bursts_are_paced() {
    for (name, config) in controllers() {
        let (bytes, next, window) = batch(config);
        let paced = name != "rfc9260" && name != "rfc9260 rack";
        if paced {
            assert!(bytes <= window / 4, "{name}: {bytes} of {window}");
            assert!(next.is_some_and(|next| next <= 10 * MS), "{name}: {next:?}");
        } else {
            assert!(bytes <= 5 * 1500, "{name}: Max.Burst bounds {bytes}");
        }
    }
}

/// The rows for 10 Mbit/s of docs/RECOVERY.md, shortened: the goodput of each controller on a path with random loss.
#[test]
fn goodput_with_random_loss() {
    for (loss, least) in [
        (0.0, [9.0, 9.0, 9.2, 9.0, 9.0]),
        (0.01, [2.5, 2.5, 2.7, 8.0, 8.5]),
    ] {
        for ((name, config), least) in controllers().into_iter().zip(least) {
            let link = link().with_loss(LossModel::bernoulli(loss));
            let mut bulk = Bulk::of(Setup::new(1).path(link).config(config), Greedy::new(1440));
            bulk.run_for(2000 * MS);
            let goodput = bulk.run_for(10_000 * MS);
            assert!(goodput >= least, "{name} at {loss}: {goodput}");
        }
    }
}

/// If a quarter of the packets are 5 ms late, hardly any packet is treated as lost.
#[test]
fn reordering_causes_few_retransmissions() {
    let goodput = |link: LinkConfig| {
        let mut bulk = Bulk::over(1, &[link], &rack());
        bulk.run_for(5000 * MS);
        let goodput = bulk.run_for(20_000 * MS);
        (goodput, *bulk.pair.association(Side::A).counters())
    };
    let (straight, _) = goodput(link());
    let (reordered, counters) = goodput(link().with_reorder(0.25, 5 * MS));
    assert!(
        reordered >= 0.95 * straight,
        "{reordered} {straight} {counters:?}"
    );
    let spurious = counters.retransmissions_spurious as f64 / counters.data_chunks_sent as f64;
    assert!(spurious < 0.01, "{counters:?}");
}

fn controllers() -> [(&'static str, Config); 5] {
    let with = |congestion_control| {
        let mut config = rack();
        config.congestion_control = congestion_control;
        config.initial_window = Some(10);
        config.path_mtu = 1500;
        config.path_mtu_limit = 1500;
        config.buffers.send = 8 << 20;
        config.buffers.receive = 8 << 20;
        config
    };
    let lossy = BbrConfig {
        tolerate_random_loss: true,
    };
    let mut rfc9260 = with(CongestionControl::Rfc9260);
    rfc9260.recovery = RecoveryRules::RFC9260;
    rfc9260.initial_window = None;
    [
        ("rfc9260", rfc9260),
        ("rfc9260 rack", with(CongestionControl::Rfc9260)),
        ("cubic", with(CongestionControl::Cubic)),
        ("bbr", with(CongestionControl::Bbr(BbrConfig::default()))),
        ("bbr lossy", with(CongestionControl::Bbr(lossy))),
    ]
}

#[test]
#[ignore = "prints a table"]
fn goodput_table() {
    for (rate, delay, queue) in [(10_000_000, 20, 100), (50_000_000, 50, 400)] {
        for loss in [0.0, 0.001, 0.01, 0.05] {
            for (name, config) in controllers() {
                let link = LinkConfig::default()
                    .with_rate(rate)
                    .with_delay(delay * MS)
                    .with_queue(QueueLimit::Packets(queue))
                    .with_loss(LossModel::bernoulli(loss));
                let mut all = Vec::new();
                let mut last = Counters::default();
                for seed in 1..=3 {
                    let setup = Setup::new(seed).path(link.clone()).config(config.clone());
                    let mut bulk = Bulk::of(setup, Greedy::new(1440));
                    bulk.run_for(2000 * MS);
                    all.push(bulk.run_for(30_000 * MS));
                    last = *bulk.pair.association(Side::A).counters();
                }
                all.sort_by(f64::total_cmp);
                println!(
                    "{} Mbit/s {loss} {name}: {:.2}; sent {} fast {} timeouts {} probes {} spurious {} undone {}",
                    rate / 1_000_000,
                    all[1],
                    last.data_chunks_sent,
                    last.retransmissions_fast,
                    last.timeouts,
                    last.tail_loss_probes,
                    last.retransmissions_spurious,
                    last.reductions_undone,
                );
            }
        }
    }
}

#[test]
#[ignore = "prints a table"]
fn table() {
    for loss in [0.0, 0.01, 0.03, 0.05] {
        for (name, config) in [("rfc9260", Config::default()), ("rack", rack())] {
            let mut all = Vec::new();
            let mut counters = Vec::new();
            for seed in 1..=5 {
                let (delays, ends) = echoes(seed, loss, config.clone(), 1000);
                all.push((
                    percentile(&delays, 0.5),
                    percentile(&delays, 0.99),
                    delays[delays.len() - 1],
                ));
                counters.push(ends[0]);
            }
            all.sort_by(|a, b| a.1.total_cmp(&b.1));
            let sum = |f: fn(&Counters) -> u64| counters.iter().map(f).sum::<u64>();
            println!(
                "{loss} {name}: median {:.3} p99 {:.3} max {:.3}; fast {} timeouts {} probes {} spurious {} undone {}",
                all[2].0,
                all[2].1,
                all[2].2,
                sum(|c| c.retransmissions_fast),
                sum(|c| c.timeouts),
                sum(|c| c.tail_loss_probes),
                sum(|c| c.retransmissions_spurious),
                sum(|c| c.reductions_undone),
            );
        }
    }
}
