//! Hosts with several addresses change one of them while data flows on all paths at once (CMT, ECA-SCTP), and a server that moves.

use std::net::IpAddr;

use anabranch_netsim::LinkConfig;
use anabranch_proto::{
    CloseReason, Config, Event, LowerLayer, MultipathMode, PathPair, PathScheduler, PathState, Reliability,
    SendOptions,
};
use anabranch_testkit::{Setup, Side, with};

use super::fixture::*;

/// Both ends with two addresses each, and a path for each pair.
fn two_paths(mode: MultipathMode) -> [Config; 2] {
    let config = |own: [IpAddr; 2], peer: [IpAddr; 2]| {
        let mut config = with_addresses(own, peer);
        config.multipath.mode = mode;
        // One path would be enough for this data, and another scheduler would leave the other one empty.
        config.multipath.scheduler = PathScheduler::RoundRobin;
        config
    };
    let (client, server) = ([WIFI, MOBILE], [SERVER, SERVER_2]);
    [config(client, server), config(server, client)]
}

fn with_addresses(own: [IpAddr; 2], peer: [IpAddr; 2]) -> Config {
    with(dynamic(), |config| {
        config.local_addresses = own.to_vec();
        config.path_pairs = own
            .into_iter()
            .zip(peer)
            .map(|(local, remote)| PathPair { local, remote })
            .collect();
        config.lower_layer = LowerLayer::Ip;
    })
}

fn connected(configs: [Config; 2], seed: u64) -> Roaming {
    let mut roaming = Roaming::new(configs, seed);
    roaming.has = vec![WIFI, MOBILE];
    roaming.server_has = vec![SERVER, SERVER_2];
    roaming.connect()
}

const MODES: [MultipathMode; 3] = [MultipathMode::Off, MultipathMode::Cmt, MultipathMode::Eca];

/// Sends both ways, and replaces one of the client's two addresses by another, at first with three addresses or without the old one.
fn replaced(mode: MultipathMode, old: IpAddr, make_before_break: bool) {
    let mut roaming = connected(two_paths(mode), 3);
    let kept = if old == WIFI { MOBILE } else { WIFI };
    for step in 0..400 {
        match step {
            100 if make_before_break => roaming.move_to(&[WIFI, MOBILE, CABLE], true),
            100 => roaming.move_to(&[kept], false),
            200 => roaming.move_to(&[kept, CABLE], true),
            _ => {}
        }
        for _ in 0..4 {
            roaming.send(End::Client, 1400);
            roaming.send(End::Server, 1400);
        }
        roaming.run(5 * MS);
    }
    roaming.run(10_000 * MS);
    roaming.expect_complete(End::Server);
    roaming.expect_complete(End::Client);
    let mut remotes: Vec<_> = roaming
        .paths(End::Server)
        .into_iter()
        .map(|(_, remote)| remote)
        .collect();
    let mut expected = vec![kept, CABLE];
    remotes.sort();
    expected.sort();
    assert_eq!(remotes, expected, "{mode:?} {old}");
    // The paths of both ends carry data again.
    let begin = roaming.now;
    for _ in 0..400 {
        for _ in 0..4 {
            roaming.send(End::Client, 1400);
            roaming.send(End::Server, 1400);
        }
        roaming.run(5 * MS);
    }
    roaming.expect_complete(End::Server);
    roaming.expect_complete(End::Client);
    let carries = |address: IpAddr| {
        let since = roaming.sent.iter().filter(|(at, ..)| *at >= begin);
        let with = { since }
            .filter(|(.., packet)| packet.source.ip() == address || packet.destination.ip() == address);
        { with }
            .filter(|(.., packet)| packet.payload.clone().into_sctp().len() > 1000)
            .count()
    };
    if mode != MultipathMode::Off {
        assert!(
            carries(CABLE) > 100 && carries(kept) > 100,
            "{mode:?} {} {}",
            carries(CABLE),
            carries(kept)
        );
    }
    assert_eq!(carries(old), 0);
}

#[test]
fn one_of_two_addresses_is_replaced_during_a_multipath_transfer() {
    for mode in MODES {
        for old in [WIFI, MOBILE] {
            for make_before_break in [true, false] {
                replaced(mode, old, make_before_break);
            }
        }
    }
}

#[test]
fn a_server_moves() {
    for mode in MODES {
        let mut roaming = connected(two_paths(mode), 4);
        let third = ip([10, 7, 0, 2]);
        for step in 0..600 {
            match step {
                100 => roaming.move_server_to(&[SERVER, SERVER_2, third]),
                200 => roaming.move_server_to(&[SERVER_2, third]),
                300 => roaming.move_server_to(&[third]),
                400 => roaming.move_server_to(&[SERVER, SERVER_2]),
                _ => {}
            }
            roaming.send(End::Client, 1400);
            roaming.send(End::Server, 1400);
            roaming.run(5 * MS);
        }
        roaming.run(10_000 * MS);
        roaming.expect_complete(End::Server);
        roaming.expect_complete(End::Client);
        let stats = roaming.association(End::Client).stats();
        assert_eq!(stats.paths.len(), 2, "{mode:?}");
        assert!(
            stats.paths.iter().all(|path| path.state == PathState::Active),
            "{mode:?}\n{}",
            roaming.tail()
        );
    }
}

#[test]
fn both_ends_move_at_once() {
    let mut roaming = connected(two_paths(MultipathMode::Off), 5);
    let (cable, third) = (CABLE, ip([10, 7, 0, 2]));
    for step in 0..400 {
        if step == 100 {
            roaming.move_server_to(&[SERVER_2, third]);
            roaming.move_to(&[MOBILE, cable], true);
        }
        roaming.send(End::Client, 1400);
        roaming.send(End::Server, 1400);
        roaming.run(5 * MS);
    }
    roaming.run(10_000 * MS);
    roaming.expect_complete(End::Server);
    roaming.expect_complete(End::Client);
    let remotes = |paths: Vec<(Option<IpAddr>, IpAddr)>| {
        let mut remotes: Vec<_> = paths.into_iter().map(|(_, remote)| remote).collect();
        remotes.sort();
        remotes
    };
    assert_eq!(remotes(roaming.paths(End::Client)), [third, SERVER_2]);
    assert_eq!(remotes(roaming.paths(End::Server)), [MOBILE, cable]);
}

// A host that changes its network a hundred times has two paths at most, and the same numbers serve again.
#[test]
fn path_numbers_are_used_again() {
    let mut roaming = Roaming::new([dynamic(), dynamic()], 6).connect();
    let mut current = WIFI;
    for step in 0..100_u8 {
        let next = ip([10, 3, step, 1]);
        if step % 2 == 0 {
            roaming.move_to(&[current, next], true);
            roaming.run(100 * MS);
        }
        roaming.move_to(&[next], true);
        for _ in 0..10 {
            roaming.send(End::Client, 1000);
            roaming.send(End::Server, 1000);
        }
        roaming.run(200 * MS);
        current = next;
        let stats = roaming.association(End::Server).stats();
        assert_eq!(stats.paths.len(), 1, "{step}\n{}", roaming.tail());
        assert!(stats.paths[0].id.0 < 3, "{step}");
    }
    roaming.expect_complete(End::Server);
    roaming.expect_complete(End::Client);
}

// Z → I-DATA (the beginning of a message with a lifetime) → (lost)
// Z: the lifetime is over; what was sent may still arrive
// A → ASCONF (Delete the address of that path) → Z
// A ← I-FORWARD-TSN ← Z, on the other path
/// Chunks in flight to a deleted address cannot arrive any more, so the point passes them. No later event would show that.
#[test]
fn an_abandoned_message_on_a_deleted_path_is_passed() {
    let mut pair = Setup::new(8)
        .path(LinkConfig::default().with_delay(20 * MS))
        .path(LinkConfig::default().with_delay(20 * MS))
        .config(dynamic())
        .adjust_both(|config| config.interleaving.offer = true)
        .connect();
    pair.run_ms(5000);
    let (_, back) = pair.links(0);
    pair.network.cut(back, true);
    let options = SendOptions::default().reliability(Reliability::Lifetime(10 * MS));
    pair.send_with(Side::Z, 0, vec![7; 100_000], options);
    pair.run_ms(30);
    assert_eq!(pair.association(Side::Z).counters().abandoned_sent, 1);
    assert_eq!(pair.association(Side::Z).counters().forward_tsns_sent, 0);
    let (now, first) = (pair.now(), pair.addresses(Side::A)[0]);
    let removed = pair.association_mut(Side::A).local_addresses().remove(now, first);
    assert_eq!(removed, Ok(()));
    pair.run_ms(70);
    assert_eq!(pair.association(Side::Z).counters().timeouts, 0);
    assert_eq!(
        pair.association(Side::A).counters().forward_tsns_received,
        1,
        "{}",
        pair.draw()
    );
    pair.send(Side::Z, 0, vec![8; 100]);
    pair.run_ms(100);
    assert_eq!(pair.messages(Side::A).len(), 1, "the next message of the stream");
}

// client → SHUTDOWN, ASCONF (Delete), at once; nothing arrives. T2-shutdown and T4-rto expire at the same times, until the last error.
/// The end of an association is its last event, also if another timer expires at the same time (found by fuzzing).
#[test]
fn two_timers_end_an_association_once() {
    for path_max_retrans in 0..8 {
        let mut pair = Setup::new(3)
            .path(LinkConfig::default())
            .path(LinkConfig::default())
            .config(dynamic())
            .adjust_both(|config| {
                config.retransmissions.path_max_retrans = path_max_retrans;
                config.retransmissions.association_max_retrans = 4;
                // Not before the last error.
                config.shutdown_guard = None;
            })
            .connect();
        pair.run_ms(5000);
        drop(pair.events(Side::A));
        pair.cut(0, true);
        pair.cut(1, true);
        let (now, second) = (pair.now(), pair.addresses(Side::A)[1]);
        let removed = pair
            .association_mut(Side::A)
            .local_addresses()
            .remove(now, second);
        assert_eq!(removed, Ok(()));
        pair.shutdown(Side::A);
        pair.run_ms(300_000);
        let events = pair.events(Side::A);
        let end = Some(&Event::Closed(CloseReason::Unreachable));
        assert_eq!(
            events.last(),
            end,
            "{path_max_retrans}: {events:?}\n{}",
            pair.draw()
        );
    }
}
