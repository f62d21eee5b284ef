//! A peer that answers heartbeats and takes no data: the application is told after a minute. A is the sender, Z the receiver.

use core::time::Duration;

use anabranch_proto::{AssociationState, Event};
use anabranch_testkit::{Pair, Setup, Side};

/// Z has room for some 8 KiB, and its application reads nothing.
fn pair() -> Pair {
    let mut pair = Setup::new(1)
        .adjust(Side::Z, |config| {
            config.buffers.receive = 8 << 10;
            config.buffers.growth = 1;
        })
        .connect();
    pair.set_reading(Side::Z, false);
    pair
}

/// The bytes of each `Event::Stalled` at A.
fn stalled(pair: &mut Pair) -> Vec<usize> {
    let stalled = |event| match event {
        Event::Stalled { bytes } => Some(bytes),
        _ => None,
    };
    pair.events(Side::A).into_iter().filter_map(stalled).collect()
}

/// The windows of Z hold the first messages; the others wait until Z reads.
#[test]
fn a_peer_that_takes_no_data_for_a_minute_is_told() {
    let mut pair = pair();
    for _ in 0..40 {
        pair.send(Side::A, 0, vec![7; 1_000]);
    }
    pair.run_ms(58_000);
    assert_eq!(stalled(&mut pair), []);
    pair.run_ms(65_000);
    let bytes = stalled(&mut pair);
    assert!(
        bytes.len() == 1 && (10_000..40_000).contains(&bytes[0]),
        "{bytes:?}"
    );
    pair.run_ms(1_200_000);
    assert_eq!(stalled(&mut pair), [], "once");
    assert_eq!(pair.state(Side::A), Some(AssociationState::Established));

    pair.read(Side::Z);
    pair.run_ms(5_000);
    pair.run_ms(120_000);
    assert_eq!(stalled(&mut pair).len(), 1, "again after the peer took data");

    pair.set_reading(Side::Z, true);
    pair.run_ms(200_000);
    assert_eq!(stalled(&mut pair), [], "everything is acknowledged");
    assert_eq!(pair.messages(Side::Z).len(), 40);
}

/// A slow reader is none that takes nothing, and neither is a peer without data.
#[test]
fn a_slow_reader_and_an_idle_association_are_not_stalled() {
    let mut pair = pair();
    for _ in 0..40 {
        pair.send(Side::A, 0, vec![7; 1_000]);
    }
    for _ in 0..10 {
        pair.run_for(Duration::from_secs(40));
        pair.read(Side::Z);
    }
    pair.set_reading(Side::Z, true);
    pair.run_for(Duration::from_secs(600));
    assert_eq!(stalled(&mut pair), []);
}
