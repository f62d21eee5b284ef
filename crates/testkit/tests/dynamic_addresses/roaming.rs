//! A client changes its only address while data flows.

use anabranch_proto::{AddressEvent, EcnState, PathState};

use super::fixture::*;

/// A client that sends a message of 1,000 bytes every 5 ms, and a server that does the same, over 3 s. At 1 s the client has both
/// addresses, at 2 s only the new one.
fn moves_with_both(mut roaming: Roaming) -> Roaming {
    for step in 0..600 {
        match step {
            200 => roaming.move_to(&[WIFI, MOBILE], true),
            400 => roaming.move_to(&[MOBILE], true),
            _ => {}
        }
        roaming.send(End::Client, 1000);
        roaming.send(End::Server, 1000);
        roaming.run(5 * MS);
    }
    roaming.run(5000 * MS);
    roaming
}

/// The same, but the client is without a network for 1 s.
fn moves_without(mut roaming: Roaming) -> Roaming {
    for step in 0..600 {
        match step {
            200 => roaming.move_to(&[], false),
            400 => roaming.move_to(&[MOBILE], true),
            _ => {}
        }
        roaming.send(End::Client, 1000);
        roaming.send(End::Server, 1000);
        roaming.run(5 * MS);
    }
    roaming.run(10_000 * MS);
    roaming
}

#[test]
fn make_before_break() {
    for translated in [false, true] {
        let mut roaming = Roaming::new([dynamic(), dynamic()], 1);
        if translated {
            roaming = roaming.behind_translator();
        }
        let mut roaming = moves_with_both(roaming.connect());
        roaming.expect_complete(End::Server);
        roaming.expect_complete(End::Client);
        assert_eq!(roaming.paths(End::Client), [(Some(MOBILE), SERVER)]);
        assert_eq!(roaming.paths(End::Server).len(), 1);
        let events = roaming.address_events(End::Client);
        assert_eq!(
            events,
            [AddressEvent::LocalAdded(MOBILE), AddressEvent::LocalRemoved(WIFI)]
        );
        eprintln!(
            "{translated} {:?} {:?}",
            roaming.longest_pause(End::Server),
            roaming.longest_pause(End::Client)
        );
    }
}

#[test]
fn a_successor_replaces_the_old_address() {
    let mut roaming = Roaming::new([dynamic(), dynamic()], 1).connect();
    for step in 0..400 {
        if step == 100 {
            roaming.has = vec![WIFI, MOBILE];
            let now = roaming.now;
            let moved = roaming
                .association(End::Client)
                .local_addresses()
                .move_to(now, MOBILE);
            moved.expect("dynamic addresses");
        }
        roaming.send(End::Client, 1000);
        roaming.send(End::Server, 1000);
        roaming.run(5 * MS);
    }
    roaming.expect_complete(End::Server);
    roaming.expect_complete(End::Client);
    assert_eq!(roaming.paths(End::Client), [(Some(MOBILE), SERVER)]);
    assert_eq!(roaming.paths(End::Server), [(Some(SERVER), MOBILE)]);
    assert!(roaming.longest_pause(End::Server) < 60 * MS && roaming.longest_pause(End::Client) < 60 * MS);
}

// The client has two addresses that the server knows. The network of the one in use fails, and nothing tells the client.
#[test]
fn data_leaves_an_address_that_fails() {
    let mut roaming = Roaming::new([dynamic(), dynamic()], 1).connect();
    roaming.move_to(&[WIFI, MOBILE], true);
    roaming.run(500 * MS);
    let both = [(Some(WIFI), SERVER), (Some(MOBILE), SERVER)];
    assert_eq!(roaming.paths(End::Client), both);
    roaming.move_to(&[MOBILE], false);
    for _ in 0..20 {
        roaming.send(End::Client, 1000);
        roaming.run(1000 * MS);
    }
    roaming.run(60_000 * MS);
    roaming.expect_complete(End::Server);
    let states = roaming.association(End::Client).stats().paths;
    let states: Vec<_> = states.iter().map(|path| path.state).collect();
    assert_eq!(states, [PathState::Inactive, PathState::Active]);
}

#[test]
fn break_before_make() {
    for translated in [false, true] {
        let mut roaming = Roaming::new([dynamic(), dynamic()], 1);
        if translated {
            roaming = roaming.behind_translator();
        }
        let mut roaming = moves_without(roaming.connect());
        roaming.expect_complete(End::Server);
        roaming.expect_complete(End::Client);
        assert_eq!(roaming.paths(End::Client), [(Some(MOBILE), SERVER)]);
        assert_eq!(roaming.paths(End::Server).len(), 1);
        eprintln!(
            "{translated} {:?} {:?}",
            roaming.longest_pause(End::Server),
            roaming.longest_pause(End::Client)
        );
    }
}

/// A path forgets its measurements with its addresses: a network that loses ECN-capable packets says nothing about the next one.
#[test]
fn the_next_network_may_carry_ecn() {
    let mut config = dynamic();
    config.ecn = true;
    let mut roaming = Roaming::new([config.clone(), config], 1).connect();
    roaming.observer = Some(Box::new(|_, packet| {
        let here = [packet.source.ip(), packet.destination.ip()].contains(&WIFI);
        !(here && packet.ecn.is_capable())
    }));
    let states = |roaming: &mut Roaming| {
        [End::Client, End::Server].map(|end| {
            let stats = roaming.association(end).stats();
            stats.paths.last().expect("a path").ecn.state
        })
    };
    let talk = |roaming: &mut Roaming| {
        for _ in 0..100 {
            roaming.send(End::Client, 1000);
            roaming.send(End::Server, 1000);
            roaming.run(5 * MS);
        }
        roaming.run(30_000 * MS);
    };
    talk(&mut roaming);
    assert_eq!(states(&mut roaming), [EcnState::Failed; 2]);
    roaming.move_to(&[MOBILE], true);
    roaming.run(5_000 * MS);
    talk(&mut roaming);
    assert_eq!(roaming.paths(End::Client), [(Some(MOBILE), SERVER)]);
    assert_eq!(states(&mut roaming), [EcnState::Capable; 2]);
    roaming.expect_complete(End::Server);
    roaming.expect_complete(End::Client);
}
