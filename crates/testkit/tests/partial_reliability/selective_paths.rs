//! Selective forward TSN on several paths: a notice follows its chunk on the chunk's path, so it never overtakes the chunk.

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, CoupledControl, MultipathMode, PathScheduler, Reliability, SendOptions};
use anabranch_testkit::fixture::{ALL, FULL, Fixture, MS, NEVER_AGAIN};
use anabranch_testkit::{Pair, Setup, Side, quiet};

fn config() -> Config {
    let mut config = quiet();
    config.partial_reliability.offer = true;
    config.partial_reliability.selective_forward_tsn = Some(1);
    config
}

/// Two confirmed paths with these one-way delays in milliseconds.
fn two_paths(delays: [u32; 2], config: Config) -> Pair {
    let link = |delay: u32| LinkConfig::default().with_rate(10_000_000).with_delay(delay * MS);
    let setup = delays
        .into_iter()
        .fold(Setup::new(1), |setup, delay| setup.path(link(delay)));
    let mut pair = setup.config(config).connect();
    pair.run_ms(3000);
    pair
}

fn send(pair: &mut Pair, reliability: Reliability, len: usize) {
    let options = SendOptions::default().reliability(reliability);
    pair.send_with(Side::A, 0, vec![7; len], options);
}

// A → DATA 0 (path 1, 100 ms) → Z;  A → DATA 1 (path 0, 10 ms) → Z;  A → DATA 3, no notice of 0 (path 0) → Z
/// Without loss and without reordering on a path, no message may arrive after its notice, neither whole nor in fragments on
/// both paths.
#[test]
fn a_notice_does_not_overtake_its_message() {
    for mode in [MultipathMode::Cmt, MultipathMode::Eca] {
        for len in [1000, 3000] {
            let mut config = config();
            config.multipath.mode = mode;
            config.multipath.scheduler = PathScheduler::RoundRobin;
            config.multipath.congestion = CoupledControl::Uncoupled;
            let mut pair = two_paths([10, 100], config);
            for _ in 0..60 {
                send(&mut pair, NEVER_AGAIN, len);
            }
            pair.run_ms(5000);
            let (sent, received) = (pair.association(Side::A), pair.association(Side::Z));
            assert!(
                sent.counters().selective_notices_sent > 20,
                "{mode:?}, {len} bytes"
            );
            assert!(sent.stats().paths.iter().all(|path| path.data_chunks_sent > 3));
            assert_eq!(received.counters().late_messages, 0, "{mode:?}, {len} bytes");
            assert_eq!(pair.messages(Side::Z).len(), 60, "{mode:?}, {len} bytes");
        }
    }
}

// A → DATA 0 (path 0, lost);  T3;  A → DATA 0 (path 1, 300 ms) → Z;  A → DATA 1, 2, no notice of 0 (path 0, 5 ms) → Z
/// A retransmission uses another path (RFC 9260 §6.4.1). Its notice does not follow on the path of new data.
#[test]
fn a_notice_does_not_overtake_a_retransmission() {
    let mut pair = two_paths([5, 300], config());
    pair.cut(0, true);
    send(&mut pair, Reliability::Retransmissions(1), 1000);
    pair.run_ms(500);
    pair.cut(0, false);
    let limit = pair.now() + 5000 * MS;
    let repeated = |pair: &mut Pair| pair.association(Side::A).counters().retransmissions_timeout == 1;
    assert!(pair.run_to(limit, repeated));
    for _ in 0..2 {
        send(&mut pair, NEVER_AGAIN, 1000);
        pair.run_ms(20);
    }
    pair.run_ms(2000);
    assert_eq!(pair.association(Side::Z).counters().late_messages, 0);
    assert_eq!(pair.messages(Side::Z).len(), 3);
}

// A → DATA 0 (lost), 1, 2, 3 → Z;  A ← three missing reports ← Z;  A → DATA 0 again, then 4 … 13, one notice of 0 → Z
/// The RTT became shorter than the sender's estimate, and the chunk is retransmitted within its lifetime. The notice of the
/// first transmission is dropped, and the notice of the second transmission follows that one.
#[test]
fn no_notice_of_a_retransmitted_chunk() {
    let mut config = anabranch_testkit::fixture::config();
    config.partial_reliability.selective_forward_tsn = Some(6);
    let mut fixture = Fixture::new(config, &ALL);
    fixture.send(&[Reliability::Reliable], 100);
    fixture.script.advance(400 * MS);
    fixture.nr_sack(1, &[], &[]);
    fixture.send(&[Reliability::Lifetime(5 * MS)], FULL - 12);
    fixture.send(&[Reliability::Reliable; 3], FULL - 12);
    fixture.report_one_by_one(1, 2, 4);
    fixture.send(&[Reliability::Reliable; 8], FULL - 12);
    let sent = fixture.sent();
    assert_eq!(sent[5], "DATA 1");
    let notices = sent.iter().filter(|packet| packet.contains("NOTICE 1"));
    assert_eq!(
        notices.collect::<Vec<_>>(),
        ["NOTICE 1 (0:1), DATA 10"],
        "{sent:?}"
    );
}
