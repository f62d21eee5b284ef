//! Several local addresses and one address of the peer: each pair is a path.

use core::time::Duration;
use std::net::IpAddr;

use anabranch_proto::{
    AddressEvent, AssociationState, Config, DynamicAddressConfig, Event, MultipathMode, PathState, PathStats,
};
use anabranch_testkit::with;
use anabranch_wire::chunk::kind;

use super::fixture::*;

pub(crate) fn multipath(mode: MultipathMode) -> Config {
    with(dynamic().with_fast_failover(), |config| {
        config.multipath.mode = mode
    })
}

/// Two ends with these settings, and translators before the client.
fn translated(config: &Config) -> Roaming {
    Roaming::new([config.clone(), config.clone()], 1).behind_translator()
}

/// A client that lists two addresses, each behind a translator, and a server that lists these.
fn listed(client: [IpAddr; 2], server: &[IpAddr]) -> Roaming {
    listing(client, server).connect()
}

/// The same before set-up.
fn listing(client: [IpAddr; 2], server: &[IpAddr]) -> Roaming {
    let listing = |addresses: &[IpAddr]| {
        with(multipath(MultipathMode::Cmt), |config| {
            config.local_addresses = addresses.to_vec()
        })
    };
    let mut roaming = Roaming::new([listing(&client), listing(server)], 1).behind_translator();
    roaming.has = client.to_vec();
    roaming.server_has = server.to_vec();
    roaming
}

/// Fails unless both networks carry data soon, in both directions, and nothing is lost.
fn expect_both_paths(roaming: &mut Roaming) {
    roaming.run(3000 * MS);
    send_much(roaming, 200);
    for end in [End::Client, End::Server] {
        assert!(carry(roaming, end, 2), "{end:?}");
    }
    expect_all(roaming);
}

/// Fails unless both ends receive all messages.
pub(crate) fn expect_all(roaming: &mut Roaming) {
    roaming.run(2000 * MS);
    roaming.expect_complete(End::Server);
    roaming.expect_complete(End::Client);
}

/// Bytes of user data that an end sent on each active path. The network has no limit of its rate, so that the windows decide.
pub(crate) fn carried(roaming: &mut Roaming, end: End) -> Vec<u64> {
    let paths = roaming.association(end).stats().paths;
    let active = paths.iter().filter(|path| path.state == PathState::Active);
    active.map(|path| path.data_bytes_sent).collect()
}

/// Whether so many paths carry data.
pub(crate) fn carry(roaming: &mut Roaming, end: End, paths: usize) -> bool {
    let carried = carried(roaming, end);
    carried.len() == paths && carried.iter().all(|bytes| *bytes >= 50_000)
}

/// Both ends send much more than one path takes at once.
pub(crate) fn send_much(roaming: &mut Roaming, rounds: u32) {
    send_rounds(roaming, rounds, 20);
}

/// Both ends send so many messages every 10 ms.
pub(crate) fn send_rounds(roaming: &mut Roaming, rounds: u32, messages: u32) {
    for _ in 0..rounds {
        for _ in 0..messages {
            roaming.send(End::Client, 1000);
            roaming.send(End::Server, 1000);
        }
        roaming.run(10 * MS);
    }
}

// A client with two networks, each behind a translator, and a server with one address.
#[test]
fn two_networks_behind_translators_carry_data_to_one_server() {
    for mode in [MultipathMode::Cmt, MultipathMode::Eca] {
        let mut roaming = translated(&multipath(mode)).connect();
        roaming.move_to(&[WIFI, MOBILE], true);
        roaming.run(200 * MS);
        let events = roaming.address_events(End::Client);
        assert_eq!(events, [AddressEvent::LocalAdded(MOBILE)]);
        let pairs = [(Some(WIFI), SERVER), (Some(MOBILE), SERVER)];
        assert_eq!(roaming.paths(End::Client), pairs);
        send_much(&mut roaming, 200);
        for end in [End::Client, End::Server] {
            assert!(carry(&mut roaming, end, 2), "{mode:?} {end:?}");
        }
        expect_all(&mut roaming);
    }
}

// WIFI → INIT → (lost), MOBILE → INIT → Z (T1-init), and WIFI works again after three seconds.
/// A network that does not work does not prevent set-up, whichever it is.
#[test]
fn set_up_does_not_need_the_first_network() {
    for (first, second) in [(WIFI, MOBILE), (MOBILE, WIFI)] {
        let mut roaming = listing([WIFI, MOBILE], &[SERVER]);
        let until = roaming.now + 3000 * MS;
        roaming.lose_from(first, until);
        let mut roaming = roaming.connect_from(first);
        assert_eq!(
            roaming.association(End::Client).state(),
            AssociationState::Established
        );
        assert_eq!(roaming.paths(End::Client)[0], (Some(second), SERVER));
        expect_both_paths(&mut roaming);
    }
}

// WIFI → INIT → Z, MOBILE → INIT → (lost) (T1-init), WIFI ← INIT ACK (late) ← Z, WIFI → COOKIE ECHO → Z
/// The COOKIE ECHO leaves from the network where the answer came.
#[test]
fn a_late_answer_is_used_where_it_came() {
    let mut roaming = listing([WIFI, MOBILE], &[SERVER]);
    let until = roaming.now + 3000 * MS;
    roaming.lose_from(MOBILE, until);
    let mut roaming = roaming.begin_from(WIFI);
    roaming.lose(kind::INIT_ACK, 1);
    roaming.run(700 * MS);
    let answer = roaming
        .sent
        .iter()
        .find(|(_, _, packet)| kinds(packet) == [kind::INIT_ACK]);
    let mut answer = answer.expect("the server answered").2.clone();
    answer.destination = roaming.sent[0].2.source;
    roaming.inject(End::Client, answer);
    roaming.run(200 * MS);
    assert_eq!(
        roaming.association(End::Client).state(),
        AssociationState::Established
    );
    assert_eq!(roaming.paths(End::Client)[0], (Some(WIFI), SERVER));
}

// The client lists both addresses in its INIT, which the server cannot reach. It finds out, and adds the second one by a wildcard.
#[test]
fn listed_addresses_behind_translators_are_added_again() {
    let mut roaming = listed([WIFI, MOBILE], &[SERVER]);
    let pairs = [(Some(WIFI), SERVER), (Some(MOBILE), SERVER)];
    assert_eq!(roaming.paths(End::Client), pairs);
    expect_both_paths(&mut roaming);
    assert_eq!(roaming.paths(End::Client), pairs);
}

// One network has IPv4, the other one IPv6, each with a translator. The server lists an address of each version, and answers nobody at the
// second one before it was told of the client's.
#[test]
fn networks_of_both_versions_carry_data() {
    let mut roaming = listed([WIFI, SIX], &[SERVER, SERVER_SIX]);
    let pairs = [(Some(WIFI), SERVER), (Some(SIX), SERVER_SIX)];
    assert_eq!(roaming.paths(End::Client), pairs);
    expect_both_paths(&mut roaming);
}

// The INIT listed two networks, and a third one joins. Then that of set-up goes: the server hears it at once.
#[test]
fn the_network_of_set_up_leaves_by_its_name() {
    let mut roaming = listed([WIFI, MOBILE], &[SERVER]);
    roaming.run(3000 * MS);
    roaming.move_to(&[WIFI, MOBILE, CABLE], true);
    roaming.run(500 * MS);
    let gone = roaming.public(WIFI);
    roaming.move_to(&[MOBILE, CABLE], true);
    roaming.run(4 * DELAY);
    let paths = roaming.association(End::Server).stats().paths;
    assert!(paths.iter().all(|path| Some(path.remote) != gone), "{paths:?}");
    send_much(&mut roaming, 50);
    expect_all(&mut roaming);
}

// A third network joins, and the first one is pulled: the device says so. A wildcard cannot tell the server which of three addresses is gone
// (RFC 5061 §4.2.2): it finds out by its timers.
#[test]
fn networks_join_and_leave() {
    let config = multipath(MultipathMode::Cmt);
    let mut roaming = translated(&config).connect();
    roaming.move_to(&[WIFI, MOBILE], true);
    roaming.run(200 * MS);
    send_much(&mut roaming, 50);
    roaming.move_to(&[WIFI, MOBILE, CABLE], true);
    send_much(&mut roaming, 50);
    assert_eq!(carried(&mut roaming, End::Client).len(), 3);
    roaming.move_to(&[MOBILE, CABLE], true);
    send_much(&mut roaming, 50);
    roaming.run(60_000 * MS);
    let pairs = [(Some(MOBILE), SERVER), (Some(CABLE), SERVER)];
    assert_eq!(roaming.paths(End::Client), pairs);
    roaming.expect_complete(End::Server);
    roaming.expect_complete(End::Client);
    assert!(roaming.longest_pause(End::Server) < 250 * MS + 2 * 2 * DELAY);
}

// Nothing gets through a new network for 25 s. RFC 5061 allows one outstanding ASCONF and counts each expiry of T4-rto (§5.1 A3, B2).
#[test]
fn a_dead_network_neither_ends_nor_delays_the_association() {
    let config = with(multipath(MultipathMode::Cmt), |config| {
        config.retransmissions.association_max_retrans = 1;
        config.retransmissions.path_max_retrans = 1;
    });
    let mut roaming = translated(&config).connect();
    let dead = roaming.now + Duration::from_secs(25);
    roaming.move_to(&[WIFI, MOBILE], true);
    roaming.lose_from(MOBILE, dead);
    // Without data nothing resets the error counters.
    roaming.run(5000 * MS);
    for _ in 0..600 {
        roaming.send(End::Client, 1000);
        roaming.run(5 * MS);
    }
    // The request for another network need not wait for the dead one.
    roaming.move_to(&[WIFI, MOBILE, CABLE], true);
    roaming.run(5000 * MS);
    assert_eq!(
        roaming.address_events(End::Client),
        [AddressEvent::LocalAdded(CABLE)]
    );
    for _ in 0..600 {
        roaming.send(End::Client, 1000);
        roaming.run(5 * MS);
    }
    let is_sound = |path: &PathStats| path.state == PathState::Active && path.timeouts == 0;
    let paths = roaming.association(End::Client).stats().paths;
    assert!(paths.len() == 2 && paths.iter().all(is_sound), "{paths:?}");
    let doubts =
        |event: &&Event| matches!(event, Event::PathChanged { state, .. } if *state != PathState::Active);
    let doubts = roaming.events[End::Client as usize].iter().filter(doubts);
    assert_eq!(doubts.count(), 0, "nothing is wrong with the other paths");
    // It works in the end, and is added.
    roaming.run(45_000 * MS);
    let events = roaming.address_events(End::Client);
    assert_eq!(
        events.last(),
        Some(&AddressEvent::LocalAdded(MOBILE)),
        "{}",
        roaming.tail()
    );
    roaming.expect_complete(End::Server);
}

// The first network goes before a heartbeat has confirmed the path from the second one.
#[test]
fn data_goes_on_from_the_network_that_is_left() {
    let mut roaming = Roaming::new([dynamic(), dynamic()], 1).connect();
    roaming.lose(kind::HEARTBEAT_ACK, 10);
    roaming.move_to(&[WIFI, MOBILE], true);
    roaming.run(200 * MS);
    let states = roaming.association(End::Client).stats().paths;
    assert_eq!(states[1].state, PathState::Unconfirmed);
    roaming.move_to(&[MOBILE], true);
    roaming.send(End::Client, 1000);
    roaming.run(DELAY + MS);
    assert_eq!(
        roaming.arrivals[End::Server as usize].len(),
        1,
        "{}",
        roaming.tail()
    );
    assert_eq!(roaming.paths(End::Client), [(Some(MOBILE), SERVER)]);
}

// Translators forget a path after 30 s without a packet from inside: then nothing would reach the client.
#[test]
fn idle_paths_stay_open_through_translators() {
    let config = dynamic();
    let roaming = translated(&config).that_forgets_after(30_000 * MS);
    let mut roaming = roaming.connect();
    roaming.move_to(&[WIFI, MOBILE], true);
    roaming.run(600_000 * MS);
    assert_eq!(roaming.mappings(), 2, "one for each network");
    roaming.send(End::Server, 1000);
    roaming.run(100 * MS);
    roaming.expect_complete(End::Client);
}

// Without dynamic addresses the INIT lists the addresses of the client.
#[test]
fn listed_addresses_have_a_path_each_to_the_only_address_of_the_server() {
    let server = with(multipath(MultipathMode::Cmt), |config| {
        config.dynamic_addresses = None
    });
    let client = with(server.clone(), |config| {
        config.local_addresses = vec![WIFI, MOBILE]
    });
    let mut roaming = Roaming::new([client, server], 1);
    roaming.has = vec![WIFI, MOBILE];
    let mut roaming = roaming.connect();
    send_much(&mut roaming, 200);
    for end in [End::Client, End::Server] {
        assert!(carry(&mut roaming, end, 2), "{end:?}");
    }
    expect_all(&mut roaming);
}

// The server lists an address that nobody reaches, and the only path from the client's second network leads there.
#[test]
fn an_address_of_the_peer_that_cannot_be_reached_costs_no_network() {
    let plain = with(multipath(MultipathMode::Cmt), |config| {
        config.dynamic_addresses = None
    });
    let client = with(plain.clone(), |config| {
        config.local_addresses = vec![WIFI, MOBILE]
    });
    let server = with(plain, |config| config.local_addresses = vec![SERVER, SERVER_2]);
    let mut roaming = Roaming::new([client, server], 1);
    roaming.has = vec![WIFI, MOBILE];
    let mut roaming = roaming.connect();
    let listed = [(Some(WIFI), SERVER), (Some(MOBILE), SERVER_2)];
    assert_eq!(roaming.paths(End::Client), listed);
    roaming.run(5000 * MS);
    let paths = roaming.association(End::Client).stats().paths;
    let active = paths.iter().filter(|path| path.state == PathState::Active);
    let active: Vec<_> = active.map(|path| (path.local, path.remote.ip())).collect();
    assert_eq!(active, [(Some(WIFI), SERVER), (Some(MOBILE), SERVER)]);
}

// The peer does not know dynamic addresses.
#[test]
fn a_peer_without_dynamic_addresses_has_one_path() {
    let server = with(multipath(MultipathMode::Cmt), |config| {
        config.dynamic_addresses = None
    });
    let client = with(server.clone(), |config| {
        config.dynamic_addresses = Some(DynamicAddressConfig::default())
    });
    let mut roaming = Roaming::new([client, server], 1).connect();
    let now = roaming.now;
    let added = roaming
        .association(End::Client)
        .local_addresses()
        .add(now, MOBILE);
    assert!(added.is_err());
    assert_eq!(roaming.paths(End::Client).len(), 1);
}
