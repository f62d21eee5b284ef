//! With default settings a path with a large bandwidth-delay product is filled: windows and buffers grow (RFC 9260 §7.2.1).

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{Config, StreamId};
use anabranch_testkit::{Pair, Setup, Side};
use bytes::Bytes;

const GBIT: u64 = 1_000_000_000;
const ONE_WAY: Duration = Duration::from_millis(50);

/// Keeps A's send buffer full for a while; returns the bytes that Z read.
fn carry(pair: &mut Pair, message: &Bytes, duration: Duration) -> u64 {
    let end = pair.now() + duration;
    let mut read = 0;
    while pair.now() < end {
        let now = pair.now();
        let association = pair.association_mut(Side::A);
        while association
            .send(now, StreamId(0), message.clone(), Default::default())
            .is_ok()
        {}
        pair.run_ms(5);
        read += pair
            .messages(Side::Z)
            .iter()
            .map(|message| message.bytes.len() as u64)
            .sum::<u64>();
    }
    read
}

/// 1 Gbit/s × 100 ms: nine tenths of the rate within ten seconds, headers included. The queue has no limit. With a queue
/// shorter than the path, slow start ends in thousands of gaps, which the recovery of RFC 9260 §7.2.4 repairs slowly.
#[test]
fn a_gigabit_over_a_hundred_milliseconds_is_filled() {
    let link = LinkConfig::default().with_rate(GBIT).with_delay(ONE_WAY);
    let mut pair = Setup::new(1)
        .captured(false)
        .config(Config::default())
        .path(link)
        .connect();
    let message = Bytes::from(vec![7; 64 << 10]);
    let mut rates = Vec::new();
    for _ in 0..10 {
        let bytes = carry(&mut pair, &message, Duration::from_secs(1));
        rates.push(bytes * 8 * 1500 / 1444 / 1_000_000);
    }
    println!("Mbit/s, second by second: {rates:?}");
    let best = rates.iter().max().copied().unwrap_or(0);
    assert!(best >= 900, "{rates:?}");
}

/// RFC 6928 as an option: ten packets leave before the first acknowledgement.
#[test]
fn the_initial_window_may_be_ten_packets() {
    for (initial_window, packets) in [(None, 4), (Some(10), 10)] {
        let link = LinkConfig::default().with_delay(ONE_WAY);
        let mut config = anabranch_testkit::quiet();
        config.initial_window = initial_window;
        // Max.Burst is another limit for a burst (§6.1 D).
        config.max_burst = 100;
        let mut pair = Setup::new(1).captured(false).config(config).path(link).connect();
        pair.send(Side::A, 0, vec![7; 100_000]);
        pair.run_ms(20);
        assert_eq!(pair.association(Side::A).counters().data_chunks_sent, packets);
    }
}
