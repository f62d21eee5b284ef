//! Settings of one path (RFC 6458 §8.1.12): heartbeats, path MTU, maximum retransmissions.

use core::time::Duration;

use anabranch_netsim::{Ecn, LinkConfig};
use anabranch_proto::{
    Dscp, Failover, PathHeartbeats, PathId, PathMtu, PathRequestError, PathSettings, PathState, PathStats,
    SendOptions, StreamId, VerificationTag,
};
use anabranch_testkit::{Pair, Script, Setup, Side, quiet, state_cookie};
use anabranch_wire::chunk::{Chunk, CookieEcho};
use anabranch_wire::parameter::{Parameter, ParametersBuilder};
use bytes::Bytes;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn link() -> LinkConfig {
    LinkConfig::default().with_rate(10_000_000).with_delay(10 * MS)
}

fn two_paths() -> Pair {
    let mut pair = Setup::new(1)
        .path(link())
        .path(link())
        .adjust_both(|config| config.retransmissions.failover = Failover::Rfc9260)
        .connect();
    pair.run_for(2 * SECOND);
    pair
}

fn set(pair: &mut Pair, path: u8, settings: PathSettings) {
    let now = pair.now();
    let set = pair
        .association_mut(Side::A)
        .set_path(now, PathId(path), &settings);
    set.expect("valid settings");
}

fn heartbeats(interval: Duration) -> PathSettings {
    PathSettings::default().heartbeats(PathHeartbeats::Every(interval))
}

fn path(pair: &Pair, index: usize) -> PathStats {
    pair.association(Side::A).stats().paths.swap_remove(index)
}

/// The heartbeats that A sends within this time.
fn sent_within(pair: &mut Pair, time: Duration) -> u64 {
    let sent = |pair: &Pair| pair.association(Side::A).counters().heartbeats_sent;
    let before = sent(pair);
    pair.run_for(time);
    sent(pair) - before
}

// A → HEARTBEAT (path 1) → Z    every 2 s and an RTO of 1 s with its jitter
/// RFC 9260 §8.3: the interval of a path counts from the call, and for this path alone.
#[test]
fn a_path_has_its_own_heartbeat_interval() {
    let mut pair = two_paths();
    assert_eq!(path(&pair, 1).heartbeat_interval, Some(30 * SECOND));
    set(&mut pair, 1, heartbeats(2 * SECOND));
    assert_eq!(path(&pair, 0).heartbeat_interval, Some(30 * SECOND));
    assert_eq!(path(&pair, 1).heartbeat_interval, Some(2 * SECOND));
    assert_eq!(
        sent_within(&mut pair, 4 * SECOND),
        1,
        "at once, not at the end of the old interval"
    );
    // In 60 s path 1 sends one each 2.5 to 3.5 s, path 0 one each 30.5 to 31.5 s.
    let sent = sent_within(&mut pair, 60 * SECOND);
    assert!((17 + 1..=24 + 2).contains(&sent), "{sent}");
}

// A … no HEARTBEAT
/// A path without heartbeats does not learn that it failed. Without heartbeats on any path nothing leaves an idle association.
#[test]
fn a_path_without_heartbeats() {
    let mut pair = two_paths();
    let off = PathSettings::default().heartbeats(PathHeartbeats::Off);
    set(&mut pair, 0, off);
    set(&mut pair, 1, off);
    assert_eq!(path(&pair, 1).heartbeat_interval, None);
    pair.cut(1, true);
    assert_eq!(sent_within(&mut pair, 300 * SECOND), 0);
    assert_eq!(
        (path(&pair, 1).state, path(&pair, 1).error_count),
        (PathState::Active, 0)
    );
    set(&mut pair, 1, heartbeats(SECOND));
    assert!(sent_within(&mut pair, 10 * SECOND) >= 2, "on again");
}

// A → HEARTBEAT (path 1, cut), as many as its own maximum and one more; path 1 is inactive
/// RFC 9260 §8.2: a path becomes inactive when its error counter exceeds its own Path.Max.Retrans.
#[test]
fn a_path_fails_after_its_own_maximum() {
    for most in [0, 2, 7] {
        let mut pair = two_paths();
        set(&mut pair, 1, heartbeats(SECOND).max_retrans(most));
        assert_eq!(
            (path(&pair, 0).max_retrans, path(&pair, 1).max_retrans),
            (5, most)
        );
        pair.cut(1, true);
        let limit = pair.now() + 600 * SECOND;
        let mut errors = 0;
        assert!(pair.run_to(limit, |pair| {
            let is_active = path(pair, 1).state == PathState::Active;
            if is_active {
                errors = path(pair, 1).error_count;
            }
            !is_active
        }));
        assert_eq!((errors, path(&pair, 1).error_count), (most, most + 1));
        assert_eq!(path(&pair, 1).state, PathState::Inactive);
    }
}

// A → DATA (944 bytes of user data: a packet of 1,000 bytes) → Z
/// Packets have the fixed size, and path MTU discovery does not raise it.
#[test]
fn a_fixed_path_mtu() {
    let mut script = Script::new(quiet(), 1);
    script.set_up();
    let settings = PathSettings::default().path_mtu(PathMtu::Fixed(1000));
    script.act(|association, now| {
        association
            .set_path(now, PathId(0), &settings)
            .expect("valid settings");
        let message = Bytes::from(vec![1; 10_000]);
        association
            .send(now, StreamId(0), message, SendOptions::default())
            .expect("send")
    });
    // Less headers of IPv4, UDP, SCTP and DATA.
    let most = 1000 - 20 - 8 - 12 - 16;
    let answer = script.expect();
    let sizes: Vec<_> = answer.data().map(|data| data.payload.len()).collect();
    assert_eq!(sizes, [most]);

    let mut pair = Setup::new(1).path(link().with_mtu(1500)).connect();
    set(&mut pair, 0, settings);
    transfer(&mut pair);
    assert_eq!(
        (path(&pair, 0).pmtu, path(&pair, 0).discovers_pmtu),
        (1000, false)
    );
    assert_eq!(pair.association(Side::A).counters().mtu_probes_sent, 0);
    set(
        &mut pair,
        0,
        PathSettings::default().path_mtu(PathMtu::Discovered),
    );
    assert_eq!(
        (path(&pair, 0).pmtu, path(&pair, 0).discovers_pmtu),
        (1280, true),
        "begins anew"
    );
    transfer(&mut pair);
    assert_eq!(path(&pair, 0).pmtu, 1500);
}

fn transfer(pair: &mut Pair) {
    for _ in 0..20 {
        pair.send(Side::A, 0, vec![1; 20_000]);
        pair.run_for(SECOND);
    }
    pair.run_for(60 * SECOND);
}

// A → DATA (packets of 1,400 bytes) → (the path carries 1,300)
/// A fixed size is not reduced where packets are lost: the application chose it.
#[test]
fn a_fixed_path_mtu_is_not_reduced() {
    let mut pair = Setup::new(1).path(link().with_mtu(1300)).connect();
    set(
        &mut pair,
        0,
        PathSettings::default().path_mtu(PathMtu::Fixed(1400)),
    );
    pair.send(Side::A, 0, vec![1; 20_000]);
    pair.run_for(30 * SECOND);
    assert!(path(&pair, 0).timeouts >= 3);
    assert_eq!(path(&pair, 0).pmtu, 1400);
}

/// A setting out of range is refused, and says what to do. No setting changes then.
#[test]
fn settings_out_of_range() {
    let mut pair = two_paths();
    let now = pair.now();
    let association = pair.association_mut(Side::A);
    let before = association.stats().paths;
    let small = PathSettings::default()
        .max_retrans(1)
        .path_mtu(PathMtu::Fixed(575));
    let long = heartbeats(Duration::from_secs(86_401)).max_retrans(1);
    for (settings, says) in [(small, "choose Discovered"), (long, "choose Off")] {
        let refused = association
            .set_path(now, PathId(0), &settings)
            .expect_err("out of range");
        assert!(refused.to_string().contains(says), "{refused}");
    }
    let unknown = association.set_path(now, PathId(9), &PathSettings::default());
    assert_eq!(unknown, Err(PathRequestError::Unknown(9)));
    assert_eq!(association.stats().paths, before);
    let edge = heartbeats(Duration::from_secs(86_400)).path_mtu(PathMtu::Fixed(576));
    assert_eq!(association.set_path(now, PathId(0), &edge), Ok(()));
}

// A → INIT ACK (EF) → Z, A → COOKIE ACK (EF) → Z, A → DATA (AF41) → Z, A → ABORT (EF) → a stranger
/// All packets have the codepoint of the settings, also the answers that belong to no association, until a path gets its own. The bits of
/// ECN are beside it.
#[test]
fn packets_have_the_codepoint_of_their_path() {
    let (usual, own) = (Dscp::EF, Dscp::new(34).expect("AF41"));
    let mut config = quiet();
    config.dscp = usual;
    config.ecn = true;
    let mut script = Script::new(config, 1);
    let init = script.init(ParametersBuilder::new().push(&Parameter::EcnCapable).finish());
    script.send_tagged(VerificationTag(0), &[Chunk::Init(init)]);
    let answer = script.expect();
    assert_eq!(answer.dscp, usual);
    let Chunk::InitAck(ack) = answer.only() else {
        panic!("INIT ACK")
    };
    script.endpoint_tag = ack.initiate_tag;
    let cookie = state_cookie(&ack);
    script.send(&[Chunk::CookieEcho(CookieEcho { cookie })]);
    assert_eq!(script.expect().dscp, usual);
    let path = |script: &Script| script.association().stats().paths.swap_remove(0);
    assert_eq!(path(&script).dscp, usual);
    script.act(|association, now| {
        let settings = PathSettings::default().dscp(own);
        association
            .set_path(now, PathId(0), &settings)
            .expect("valid settings");
        let message = Bytes::from_static(b"data");
        association
            .send(now, StreamId(0), message, SendOptions::default())
            .expect("send")
    });
    let data = script.expect();
    assert_eq!((data.dscp, data.ecn), (own, Ecn::Ect0));
    assert_eq!(path(&script).dscp, own);
    script.port = 4000;
    script.send_tagged(VerificationTag(5), &[Chunk::CookieAck, Chunk::ShutdownAck]);
    script.act(|association, now| association.abort(now, Bytes::new()));
    let dscps: Vec<_> = core::iter::from_fn(|| script.next_answer())
        .map(|answer| answer.dscp)
        .collect();
    assert_eq!(dscps, [usual, own]);
}
