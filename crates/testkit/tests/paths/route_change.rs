//! The layer below SCTP takes another route (RFC 8261 §6.1), or works again after a silence.

use std::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{PathError, PathId, PathStats};
use anabranch_testkit::{Pair, Setup, Side};

const PATH: PathId = PathId(0);

fn connected() -> Pair {
    let link: LinkConfig = "rate=20mbit,delay=20ms".parse().expect("a link");
    Setup::new(1).path(link).connect()
}

fn path(pair: &Pair) -> PathStats {
    pair.association(Side::A).stats().paths[0].clone()
}

/// A has sent 200 messages of 1,000 bytes, and Z has read `read` of them.
fn run_until_read(pair: &mut Pair, read: usize) {
    let mut count = 0;
    let limit = pair.now() + Duration::from_secs(5);
    let arrived = pair.run_to(limit, |pair| {
        count += pair.messages(Side::Z).len();
        count >= read
    });
    assert!(arrived, "{count} messages in 5 s");
}

/// The window, the RTT and the path MTU are those of a new path. Data in flight is retransmitted without a window reduction.
#[test]
fn a_path_begins_anew_on_another_route() {
    let mut pair = connected();
    let fresh = path(&pair);
    for _ in 0..200 {
        pair.send(Side::A, 0, vec![0; 1000]);
    }
    run_until_read(&mut pair, 150);
    let before = path(&pair);
    assert!(before.cwnd > fresh.cwnd && before.flight_size > 0, "{before:?}");
    let now = pair.now();
    let association = pair.association_mut(Side::A);
    association.handle_path_error(now, PATH, PathError::RouteChanged);
    let after = path(&pair);
    assert_eq!((after.cwnd, after.flight_size, after.srtt), (fresh.cwnd, 0, None));
    let limit = pair.now() + Duration::from_secs(5);
    let quiet = |pair: &mut Pair| {
        let stats = pair.association(Side::A).stats();
        stats.paths[0].flight_size == 0 && stats.queued_bytes + stats.outstanding_bytes == 0
    };
    assert!(pair.run_to(limit, quiet), "all data is acknowledged");
    pair.run_for(Duration::from_millis(100));
    let end = path(&pair);
    assert!(end.srtt.is_some(), "the heartbeat measured it: {end:?}");
    assert_eq!(end.timeouts, 0);
}

/// 25 s of silence back off T3-rtx to many seconds. A heartbeat that is answered ends that.
#[test]
fn data_does_not_wait_for_the_back_off_after_a_heartbeat_was_answered() {
    let mut pair = connected();
    pair.send(Side::A, 0, "first");
    run_until_read(&mut pair, 1);
    pair.cut(0, true);
    pair.send(Side::A, 0, "second");
    pair.run_for(Duration::from_secs(25));
    assert!(path(&pair).rto > Duration::from_secs(10), "{:?}", path(&pair).rto);
    pair.cut(0, false);
    let now = pair.now();
    let asked = pair.association_mut(Side::A).request_heartbeat(now, PATH);
    asked.expect("the path exists");
    pair.run_for(Duration::from_millis(1_500));
    assert_eq!(pair.messages(Side::Z).len(), 1);
}
