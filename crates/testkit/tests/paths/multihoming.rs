//! Several paths (RFC 9260 §5.4, §6.4, §8), with the packets of each test drawn.

use core::time::Duration;
use std::net::IpAddr;

use anabranch_netsim::{LinkConfig, LossModel};
use anabranch_proto::{
    CloseReason, Config, Event, Failover, PathId, PathPair, PathState, PathStats, SendOptions, StreamId,
};
use anabranch_testkit::{Ledger, Pair, Script, Setup, Side};
use anabranch_wire::chunk::{Chunk, Heartbeat, HeartbeatAck};
use bytes::Bytes;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn link() -> LinkConfig {
    LinkConfig::default().with_rate(10_000_000).with_delay(10 * MS)
}

/// The timeouts are those of RFC 9260.
fn paths(seed: u64, count: usize) -> Pair {
    let setup = (0..count).fold(Setup::new(seed), |setup, _| setup.path(link()));
    setup
        .adjust_both(|config| config.retransmissions.failover = Failover::Rfc9260)
        .connect()
}

fn path(pair: &Pair, side: Side, index: usize) -> PathStats {
    pair.association(side).stats().paths.swap_remove(index)
}

fn established() -> Script {
    let mut script = Script::new(Config::default(), 1);
    script.set_up();
    script.events();
    script
}

fn info(chunk: Chunk) -> Bytes {
    match chunk {
        Chunk::Heartbeat(heartbeat) => heartbeat.info().expect("a Heartbeat Info"),
        other => panic!("HEARTBEAT, not {other:?}"),
    }
}

// A → HEARTBEAT (path 1) → Z
// A ← HEARTBEAT ACK ← Z
/// §5.4: set-up confirms the address that it used, and a HEARTBEAT ACK confirms another address. An address that never answers
/// stays unconfirmed.
#[test]
fn addresses_are_confirmed() {
    let mut pair = Setup::new(1).path(link()).path(link()).path(link()).build();
    pair.cut(2, true);
    pair.establish();
    assert_eq!(path(&pair, Side::A, 0).state, PathState::Active);
    assert_eq!(path(&pair, Side::A, 1).state, PathState::Unconfirmed);
    let refused = pair.association_mut(Side::A).set_primary_path(PathId(1));
    assert_eq!(refused, Err(anabranch_proto::PathRequestError::Unconfirmed(1)));
    pair.run_for(5 * SECOND);
    for side in Side::BOTH {
        assert_eq!(path(&pair, side, 1).state, PathState::Active, "{side:?}");
        assert_ne!(path(&pair, side, 2).state, PathState::Active, "{side:?}");
    }
}

// A → HEARTBEAT → Z, every HB.interval + RTO ± half of it
// A ← HEARTBEAT ACK ← Z
/// §8.3: the heartbeat interval with its jitter. An answer keeps the error counter at zero.
#[test]
fn heartbeats_of_an_idle_path() {
    let mut script = established();
    let mut waits = Vec::new();
    for _ in 0..20 {
        waits.push(script.advance_to_timeout());
        let info = info(script.expect_chunk());
        script.send(&[Chunk::HeartbeatAck(HeartbeatAck::new(info))]);
        assert_eq!(script.association().stats().paths[0].error_count, 0);
    }
    let range = 30 * SECOND + SECOND / 2..=30 * SECOND + 3 * SECOND / 2;
    assert!(waits[1..].iter().all(|wait| range.contains(wait)), "{waits:?}");
    assert!(waits[1..].iter().any(|wait| *wait != waits[1]), "there is jitter");
}

// A → DATA → Z; A → DATA (T3-rtx) → Z, after 1, 3, 7, 15 and 31 s
// A → HEARTBEAT → Z, although DATA is in flight
/// §8.3: a path is idle if nothing was sent there that can be used for updating its RTT. Retransmissions cannot (Karn's algorithm), and
/// without heartbeats the RTO of a path with nothing but retransmissions would stay as it is.
#[test]
fn retransmissions_replace_no_heartbeats() {
    let mut script = established();
    let sent = script.act(|association, now| {
        association.send(
            now,
            StreamId(0),
            Bytes::from_static(b"lost"),
            SendOptions::default(),
        )
    });
    sent.expect("send");
    let (begin, mut heartbeats) = (script.now(), 0);
    while script.now().saturating_duration_since(begin) < 35 * SECOND {
        while let Some(packet) = script.next_answer() {
            // A path MTU probe is a HEARTBEAT with padding.
            heartbeats += usize::from(matches!(packet.chunks[..], [Chunk::Heartbeat(_)]));
        }
        script.advance_to_timeout();
    }
    assert_eq!(heartbeats, 1);
}

// A → HEARTBEAT → Z
// A ← HEARTBEAT ACK (another nonce) ← Z
/// §5.4, §8.3: a HEARTBEAT ACK with a wrong nonce is discarded, and the path becomes inactive after Path.Max.Retrans errors.
#[test]
fn a_wrong_nonce_is_no_answer() {
    let mut script = established();
    for errors in 0..=6 {
        let now = script.association().stats().paths.swap_remove(0);
        assert_eq!(now.error_count, errors.max(1) - 1);
        let expected = if now.error_count > 5 {
            PathState::Inactive
        } else {
            PathState::Active
        };
        assert_eq!(now.state, expected);
        script.advance_to_timeout();
        let mut info = info(script.expect_chunk()).to_vec();
        *info.last_mut().expect("it is not empty") ^= 1;
        script.send(&[Chunk::HeartbeatAck(HeartbeatAck::new(info))]);
    }
    let now = script.association().stats().paths.swap_remove(0);
    assert_eq!((now.error_count, now.state), (6, PathState::Inactive));
    // The right answer makes the path active again (§8.2).
    script.advance_to_timeout();
    let info = info(script.expect_chunk());
    script.send(&[Chunk::HeartbeatAck(HeartbeatAck::new(info))]);
    let now = script.association().stats().paths.swap_remove(0);
    assert_eq!((now.error_count, now.state), (0, PathState::Active));
}

// A ← HEARTBEAT ← Z
// A → HEARTBEAT ACK (the same info) → Z
/// §8.3: any Heartbeat Info comes back unchanged.
#[test]
fn a_heartbeat_is_echoed() {
    let mut script = established();
    let info = Bytes::from_static(b"of no meaning here");
    script.send(&[Chunk::Heartbeat(Heartbeat::new(info.clone()))]);
    assert_eq!(
        script.expect_chunk(),
        Chunk::HeartbeatAck(HeartbeatAck::new(info))
    );
}

// A ← HEARTBEAT from another UDP port, first with a wrong tag, then with the right one ← Z
// A → HEARTBEAT ACK, DATA to the new port → Z
/// RFC 6951 §5.4: the port follows packets with a valid tag only.
#[test]
fn the_udp_port_of_a_path_changes() {
    let mut script = established();
    let before = script.remote;
    let heartbeat = Chunk::Heartbeat(Heartbeat::new("here"));
    script.remote.set_port(40_000);
    let mut wrong = script.endpoint_tag;
    wrong.0 ^= 1;
    script.send_tagged(wrong, core::slice::from_ref(&heartbeat));
    script.skip_answers();
    assert_eq!(script.association().remote_address(), before);
    script.send(&[heartbeat]);
    assert_eq!(script.expect().destination, script.remote);
    script.act(|association, now| {
        association
            .send(now, StreamId(0), "x".into(), SendOptions::default())
            .expect("send");
    });
    assert_eq!(script.expect().destination.port(), 40_000);
}

// A ← INIT, COOKIE ECHO ← Z; A ← the same from another UDP port, from another client behind the same translator ← Z
// A → COOKIE ACK → both
/// RFC 6951 §3: two peers with one address and equal SCTP ports are two associations, distinguished by tag and UDP port. A
/// set-up from the UDP port of an existing association is a restart (§5.2.4 A).
#[test]
fn two_peers_behind_one_translator() {
    let mut script = established();
    let first = script.id();
    let first_port = script.remote.port();
    script.remote.set_port(40_000);
    script.set_up();
    assert_ne!(script.id(), first, "an association of its own");
    let restarted = |script: &mut Script| script.events().contains(&Event::Restarted);
    assert!(!restarted(&mut script));
    let second = script.id();
    script.tag.0 ^= 1;
    script.set_up();
    assert_eq!(script.id(), second, "a restart");
    assert!(restarted(&mut script));
    script.remote.set_port(first_port);
    script.tag.0 ^= 2;
    script.set_up();
    assert_eq!(
        script.id(),
        second,
        "a restart of the first: no third association"
    );
}

/// §6.4: new data goes to the primary path, also after the application has made another path primary.
#[test]
fn data_takes_the_primary_path() {
    let mut pair = paths(2, 2);
    pair.run_for(5 * SECOND);
    let sent = |pair: &Pair| [0, 1].map(|index| path(pair, Side::A, index).data_bytes_sent);
    pair.send(Side::A, 0, vec![1; 100]);
    pair.run_for(SECOND);
    assert_eq!(sent(&pair), [100, 0]);
    pair.association_mut(Side::A)
        .set_primary_path(PathId(1))
        .expect("it is confirmed");
    pair.send(Side::A, 0, vec![1; 100]);
    pair.run_for(SECOND);
    assert_eq!(sent(&pair), [100, 100]);
    assert_eq!(
        [0, 1].map(|index| path(&pair, Side::Z, index).data_bytes_received),
        [100, 100]
    );
}

// A → DATA (path 0) → (cut)
// A → DATA (path 1, T3-rtx) → Z
/// §6.4.1, §8.1, §8.2: after a timeout data is retransmitted on another active path. Each path counts its own errors.
#[test]
fn a_timeout_is_retransmitted_on_another_path() {
    let mut pair = paths(3, 2);
    pair.run_for(5 * SECOND);
    pair.cut(0, true);
    pair.send(Side::A, 0, vec![1; 100]);
    pair.run_for(3 * SECOND);
    assert_eq!(pair.messages(Side::Z).len(), 1);
    let (first, second) = (path(&pair, Side::A, 0), path(&pair, Side::A, 1));
    assert_eq!((first.data_bytes_sent, second.data_bytes_sent), (100, 100));
    assert_eq!((first.error_count, second.error_count), (1, 0));
    assert_eq!((first.timeouts, second.timeouts), (1, 0));
    assert_eq!(pair.association(Side::A).counters().retransmissions_timeout, 1);
}

// A → DATA (path 0) → (cut); A → DATA (another path) → Z
// A: path 0 inactive; its HEARTBEATs continue; path 0 works again
// A → HEARTBEAT (path 0) → Z, A ← HEARTBEAT ACK ← Z, A → DATA (path 0) → Z
/// §8.2, §6.4: failover and return with two and three paths, without loss of a message.
#[test]
fn failover_and_return() {
    for count in [2, 3] {
        let mut pair = paths(4, count);
        pair.run_for(5 * SECOND);
        pair.events(Side::A);
        let mut ledger = Ledger::new(4);
        let talk = |pair: &mut Pair, seconds: u32, ledger: &mut Ledger| {
            for _ in 0..seconds {
                let parcels: Vec<_> = (0..4).map(|_| ledger.parcel(1, 3000, false)).collect();
                pair.post(Side::A, parcels);
                pair.run_for(SECOND);
                for message in pair.messages(Side::Z) {
                    ledger.check(&message).expect("as it was sent");
                }
            }
        };
        pair.cut(0, true);
        talk(&mut pair, 180, &mut ledger);
        assert_eq!(
            path(&pair, Side::A, 0).state,
            PathState::Inactive,
            "{count} paths"
        );
        assert!(pair.association(Side::A).counters().failovers >= 1);
        let (elsewhere, here) = (path(&pair, Side::A, 1), path(&pair, Side::A, 0));
        assert!(elsewhere.data_bytes_sent > 100 * here.data_bytes_sent / 10);
        pair.cut(0, false);
        talk(&mut pair, 180, &mut ledger);
        let back = path(&pair, Side::A, 0);
        assert_eq!(back.state, PathState::Active);
        assert!(
            back.data_bytes_sent > here.data_bytes_sent + 100_000,
            "data returned to the primary"
        );
        ledger.check_complete().expect("nothing was lost");
        let states: Vec<_> = pair
            .events(Side::A)
            .into_iter()
            .filter_map(|event| match event {
                Event::PathChanged {
                    path: PathId(0),
                    state,
                    ..
                } => Some(state),
                _ => None,
            })
            .collect();
        assert_eq!(states, [PathState::Inactive, PathState::Active]);
    }
}

/// The local addresses of A's paths to the three of Z, 10.0.0.2 to 10.2.0.2, right after set-up.
fn locals(adjust: impl FnOnce(&mut Config)) -> Vec<Option<IpAddr>> {
    let setup = Setup::new(1).path(link()).path(link()).path(link());
    let pair = setup.adjust(Side::A, adjust).connect();
    let paths = pair.association(Side::A).stats().paths;
    paths.iter().map(|path| path.local).collect()
}

/// The local address for each address of the peer: the configured one; else one in the same subnet; else local addresses take
/// turns.
#[test]
fn every_address_of_the_peer_has_a_local_one() {
    let [one, two, three]: [IpAddr; 3] = [0, 1, 2].map(|subnet| [10, subnet, 0, 1].into());
    assert_eq!(locals(|_| ())[1..], [Some(two), Some(three)], "the same subnet");
    let reversed = |config: &mut Config| config.local_addresses = vec![three, two, one];
    assert_eq!(
        locals(reversed),
        [Some(one), Some(two), Some(three)],
        "in whatever order they are listed"
    );
    let crossed = |config: &mut Config| {
        config.local_addresses = vec![one, two, three];
        let pair = |local, remote: [u8; 4]| PathPair {
            local,
            remote: remote.into(),
        };
        config.path_pairs = vec![
            pair(one, [10, 0, 0, 2]),
            pair(three, [10, 1, 0, 2]),
            pair(two, [10, 2, 0, 2]),
        ];
    };
    assert_eq!(
        locals(crossed),
        [Some(one), Some(three), Some(two)],
        "what is said"
    );
    let [left, right]: [IpAddr; 2] = [[10, 128, 0, 1].into(), [10, 128, 0, 2].into()];
    let elsewhere = |config: &mut Config| config.local_addresses = vec![left, right];
    assert_eq!(locals(elsewhere)[1..], [Some(left), Some(right)], "in turn");
}

// A → DATA … → Z, some lost
/// The packets sent, retransmitted and lost on the paths add up to the association's counters.
#[test]
fn every_path_is_counted() {
    let lossy = link().with_loss(LossModel::Script([20, 21, 30].into_iter().collect()));
    let mut pair = Setup::new(1).path_of(lossy, link()).path(link()).connect();
    pair.run_for(3 * SECOND);
    for _ in 0..100 {
        pair.send(Side::A, 0, vec![0; 1000]);
    }
    pair.run_for(5 * SECOND);
    assert_eq!(pair.messages(Side::Z).len(), 100);
    let stats = pair.association(Side::A).stats();
    let sum = |count: fn(&PathStats) -> u64| stats.paths.iter().map(count).sum::<u64>();
    let repeats = stats.counters.retransmissions_fast + stats.counters.retransmissions_timeout;
    assert_eq!(sum(|path| path.data_chunks_sent), stats.counters.data_chunks_sent);
    assert_eq!(
        (
            sum(|path| path.chunks_retransmitted),
            sum(|path| path.chunks_lost)
        ),
        (repeats, repeats)
    );
    assert!(repeats >= 3 && stats.paths[1].chunks_lost == 0, "{stats:?}");
}

// A → SHUTDOWN, over the second path → Z
// A ← SHUTDOWN ACK, over the path of the SHUTDOWN ← Z
/// §6.4: the answer to a SHUTDOWN takes its path. Z has sent no data for a time, and does not know that the first path has failed.
#[test]
fn a_shutdown_ends_over_the_path_that_works() {
    for rto in [200, 300, 1000] {
        let mut pair = Setup::new(3)
            .path(link())
            .path(link())
            .adjust_both(|config| {
                config.rto.min = Duration::from_millis(rto);
                config.retransmissions.failover = Failover::PotentiallyFailed { max_retrans: 0 };
            })
            .connect();
        pair.send(Side::A, 0, "before");
        pair.run_ms(1000);
        pair.cut(0, true);
        for _ in 0..30 {
            pair.send(Side::A, 0, "after");
            pair.run_ms(100);
        }
        pair.shutdown(Side::A);
        pair.run_ms(4 * rto);
        let ended = |pair: &mut Pair, side| pair.events(side).contains(&Event::Closed(CloseReason::Shutdown));
        assert!(ended(&mut pair, Side::A), "RTO.Min of {rto} ms");
        assert!(ended(&mut pair, Side::Z), "RTO.Min of {rto} ms");
        assert_eq!(pair.messages(Side::Z).len(), 31);
    }
}
