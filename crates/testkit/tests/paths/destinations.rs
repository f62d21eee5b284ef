//! Messages that name the path of their first transmission (RFC 9260 §11.1.5; `SCTP_ADDR_OVER`, RFC 6458 §5.3.2).

use core::time::Duration;

use anabranch_netsim::LinkConfig;
use anabranch_proto::controller::{BbrConfig, CongestionControl};
use anabranch_proto::{
    Config, MultipathMode, PathId, PathSettings, PathState, PathStats, Reliability, SendError, SendOptions,
    StreamId,
};
use anabranch_testkit::{Ledger, Pair, Setup, Side};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn link(delay: u32) -> LinkConfig {
    LinkConfig::default().with_rate(10_000_000).with_delay(delay * MS)
}

/// Path 0 has a delay of 10 ms and is the primary path, path 1 has a delay of 60 ms.
fn two_paths(change: impl Fn(&mut Config)) -> Pair {
    let setup = Setup::new(1).path(link(10)).path(link(60));
    let mut pair = setup.adjust_both(change).connect();
    pair.run_for(5 * SECOND);
    assert_eq!(path(&pair, 1).state, PathState::Active);
    pair
}

fn path(pair: &Pair, index: usize) -> PathStats {
    pair.association(Side::A).stats().paths.swap_remove(index)
}

/// Bytes of user data that A sent on each path.
fn sent(pair: &Pair) -> (u64, u64) {
    (path(pair, 0).data_bytes_sent, path(pair, 1).data_bytes_sent)
}

fn send(pair: &mut Pair, len: usize, path: Option<u8>) -> Result<(), SendError> {
    let now = pair.now();
    let message = vec![path.map_or(9, |path| path); len].into();
    let options = SendOptions::default().path(path.map(PathId));
    let association = pair.association_mut(Side::A);
    association.send(now, StreamId(0), message, options).map(|_| ())
}

// A → DATA (path 1) → Z    for a message that names path 1, also if it has several fragments
// A → DATA (path 0) → Z    for one that names none
/// Each message takes the path that it names, others the primary path. With several paths at once messages that name none are spread.
#[test]
fn messages_take_the_path_that_they_name() {
    let multipath = |mode| move |config: &mut Config| config.multipath.mode = mode;
    let pairs = [
        two_paths(|_| ()),
        two_paths(multipath(MultipathMode::Cmt)),
        two_paths(multipath(MultipathMode::Eca)),
    ];
    for mut pair in pairs {
        for len in [100, 5000, 100, 20_000] {
            send(&mut pair, len, Some(1)).expect("send");
        }
        pair.run_for(2 * SECOND);
        assert_eq!(sent(&pair), (0, 25_200));
        send(&mut pair, 700, Some(0)).expect("send");
        pair.run_for(SECOND);
        assert_eq!(sent(&pair), (700, 25_200));
        assert_eq!(pair.messages(Side::Z).len(), 5);
    }
    let mut pair = two_paths(|_| ());
    send(&mut pair, 300, None).expect("send");
    pair.run_for(SECOND);
    assert_eq!(sent(&pair), (300, 0));
}

// A → DATA (path 1) → Z, A → DATA, DATA (path 0) → Z, A → DATA (path 1) → Z, A → DATA (path 0) → Z
/// Messages for different paths do not share a packet. Those for one path do, also if only one of them names it.
#[test]
fn a_packet_has_messages_for_one_path() {
    let mut pair = two_paths(|_| ());
    let before = pair.association(Side::A).counters().packets_sent;
    for (len, path) in [
        (100, Some(1)),
        (200, None),
        (400, Some(0)),
        (800, Some(1)),
        (50, None),
    ] {
        send(&mut pair, len, path).expect("send");
    }
    pair.run_ms(1);
    assert_eq!(sent(&pair), (650, 900));
    assert_eq!(pair.association(Side::A).counters().packets_sent - before, 4);
}

// A → DATA (path 1) → (cut); A: T3-rtx, path 1 is inactive
// A → DATA (retransmission, path 0) → Z
// A → DATA (new, names path 1, path 0) → Z
// A → DATA (new, names path 1, path 1) → Z    path 1 works again
/// Retransmissions leave the failed path. New messages that name it take the path that the association chooses until it works again.
#[test]
fn a_failed_path_is_not_used() {
    let mut pair = two_paths(|config| config.heartbeat.interval = Some(SECOND));
    let now = pair.now();
    let settings = PathSettings::default().max_retrans(0);
    let association = pair.association_mut(Side::A);
    association
        .set_path(now, PathId(1), &settings)
        .expect("valid settings");
    pair.cut(1, true);
    send(&mut pair, 100, Some(1)).expect("send");
    pair.run_for(5 * SECOND);
    assert_eq!(path(&pair, 1).state, PathState::Inactive);
    assert_eq!(pair.messages(Side::Z).len(), 1, "retransmitted on path 0");
    let before = sent(&pair);
    send(&mut pair, 700, Some(1)).expect("send");
    pair.run_ms(100);
    assert_eq!(sent(&pair), (before.0 + 700, before.1));
    assert_eq!(pair.messages(Side::Z).len(), 1);
    pair.cut(1, false);
    pair.run_for(20 * SECOND);
    send(&mut pair, 900, Some(1)).expect("send");
    pair.run_for(SECOND);
    assert_eq!(sent(&pair), (before.0 + 700, before.1 + 900));
}

/// An address that is not confirmed gets no data (RFC 9260 §5.4), whatever a message names. A path that does not exist is refused.
#[test]
fn paths_that_cannot_be_used() {
    let mut pair = Setup::new(1).path(link(10)).path(link(60)).build();
    pair.cut(1, true);
    pair.establish();
    assert_eq!(path(&pair, 1).state, PathState::Unconfirmed);
    send(&mut pair, 100, Some(1)).expect("send");
    pair.run_ms(100);
    assert_eq!(sent(&pair), (100, 0));
    let refused = send(&mut pair, 100, Some(2)).expect_err("no such path");
    assert_eq!(refused, SendError::UnknownPath(2));
    assert!(refused.to_string().contains("choose one"), "{refused}");
}

// A → DATA (path 1), DATA (path 0), DATA (path 1) … → Z
/// The messages of a stream arrive in order, although path 1 is slower. RACK finds losses on each path by itself, so that nothing is
/// retransmitted spuriously.
#[test]
fn the_order_is_kept_across_paths() {
    let mut pair = two_paths(|_| ());
    let mut ledger = Ledger::new(1);
    for round in 0..300_usize {
        let parcel = ledger.parcel(0, 400 + round * 7, false);
        let options = parcel
            .options
            .path([Some(1), None, Some(0), Some(1)][round % 4].map(PathId));
        let (now, stream) = (pair.now(), StreamId(0));
        let association = pair.association_mut(Side::A);
        association
            .send(now, stream, parcel.bytes, options)
            .expect("send");
        pair.run_ms(10);
    }
    pair.run_for(5 * SECOND);
    for message in pair.messages(Side::Z) {
        ledger.check(&message).expect("in order, as it was sent");
    }
    assert_eq!(ledger.arrived(), 300);
    let counters = *pair.association(Side::A).counters();
    assert_eq!(
        (counters.retransmissions_fast, counters.retransmissions_timeout),
        (0, 0)
    );
}

// A → DATA (path 1), as much as its window allows → Z
/// The congestion window of the named path bounds its data, whatever other paths would allow.
#[test]
fn the_window_of_the_named_path_counts() {
    let mut pair = two_paths(|_| ());
    send(&mut pair, 500_000, Some(1)).expect("send");
    let mut most = 0;
    for _ in 0..200 {
        pair.run_ms(10);
        let (other, named) = (path(&pair, 0), path(&pair, 1));
        assert_eq!(other.flight_size, 0);
        assert!(named.flight_size <= named.cwnd + usize::from(named.pmtu));
        most = most.max(named.flight_size);
    }
    assert!(most > 10_000, "{most}");
}

// A → DATA → Z, on path 0, within its lifetime of 40 ms; on path 1, with a delay of 60 ms, it would come too late
/// A message is hopeless if it cannot arrive in time on the path that it names, whatever another path could do.
#[test]
fn hopeless_messages_are_judged_by_their_path() {
    for (named, hopeless) in [(Some(1), 1), (Some(0), 0), (None, 0)] {
        let mut pair = two_paths(|config| {
            config.partial_reliability.discard_hopeless = true;
            config.congestion_control = CongestionControl::Bbr(BbrConfig::default());
        });
        // Long enough for BBR to learn the rates of both paths.
        for path in [0, 1] {
            send(&mut pair, 5_000_000, Some(path)).expect("send");
            pair.run_for(10 * SECOND);
        }
        assert_eq!(pair.messages(Side::Z).len(), 2);
        let options = SendOptions::default()
            .path(named.map(PathId))
            .reliability(Reliability::Lifetime(40 * MS));
        pair.send_with(Side::A, 0, vec![1; 100], options);
        pair.run_for(SECOND);
        let abandoned = pair.association(Side::A).counters().abandoned_unsent;
        assert_eq!(
            (abandoned, pair.messages(Side::Z).len()),
            (hopeless, 1 - hopeless as usize),
            "{named:?}"
        );
    }
}
