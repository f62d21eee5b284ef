//! Rules of RFC 5061 §5 that concern the packets of an association: which addresses packets leave from and go to, and when.

use anabranch_netsim::{Ecn, Packet};
use anabranch_proto::{
    AddressError, AddressEvent, AddressForm, AssociationState, Config, Dscp, DynamicAddressConfig, Event,
    PathState,
};
use anabranch_testkit::{Script, with};
use anabranch_wire::cause::Cause;
use anabranch_wire::chunk::{Chunk, kind};
use anabranch_wire::parameter::{Parameter, ParametersBuilder};
use bytes::Bytes;

use super::fixture::*;

fn connected() -> Roaming {
    Roaming::new([dynamic(), dynamic()], 1).connect()
}

/// Explicit addresses, although the packets are in UDP.
fn explicit() -> Config {
    with(Config::default(), |config| {
        config.dynamic_addresses = Some(DynamicAddressConfig {
            form: AddressForm::Explicit,
        })
    })
}

fn is(kinds: &[u8], allowed: &[u8]) -> bool {
    kinds.iter().all(|kind| allowed.contains(kind))
}

// client (WIFI) → ASCONF (Add MOBILE) → server;  lost twice
// client (MOBILE) sends nothing else until ASCONF-ACK (§5.3 F1, F2)
#[test]
fn a_new_address_carries_nothing_but_asconf_before_it_is_acknowledged() {
    for config in [dynamic(), explicit()] {
        let mut roaming = Roaming::new([config.clone(), config], 1).connect();
        roaming.lose(kind::ASCONF, 2);
        roaming.move_to(&[WIFI, MOBILE], true);
        for _ in 0..1000 {
            roaming.send(End::Client, 100);
            roaming.run(5 * MS);
        }
        roaming.run(500 * MS);
        let events = roaming.address_events(End::Client);
        assert_eq!(events, [AddressEvent::LocalAdded(MOBILE)], "{}", roaming.tail());
        let acks = roaming
            .sent
            .iter()
            .filter(|(_, end, packet)| *end == End::Server && kinds(packet).contains(&kind::ASCONF_ACK));
        let (added, ..) = { acks }.last().expect("the address was added");
        let from_new = roaming
            .sent
            .iter()
            .filter(|(at, _, packet)| packet.source.ip() == MOBILE && *at < *added + DELAY);
        for (at, _, packet) in from_new {
            assert!(is(&kinds(packet), &[kind::ASCONF]), "{at}\n{}", roaming.tail());
        }
        roaming.expect_complete(End::Server);
        // Afterwards it carries everything.
        roaming.move_to(&[MOBILE], true);
        let begin = roaming.now;
        roaming.send(End::Client, 100);
        roaming.run(500 * MS);
        let later = roaming
            .sent
            .iter()
            .filter(|(at, end, _)| *at >= begin && *end == End::Client);
        assert!(
            { later }.all(|(.., packet)| packet.source.ip() == MOBILE),
            "§5.3 F4\n{}",
            roaming.tail()
        );
        roaming.expect_complete(End::Server);
    }
}

// client (MOBILE) → ASCONF (Add 0.0.0.0, Delete 0.0.0.0) → server; its ASCONF-ACK is lost
// client sends nothing but ASCONF (§5.3 F1, F4); the server sends to MOBILE ASCONF-ACK and HEARTBEAT (§5.3 F1, F14)
#[test]
fn between_two_addresses_nothing_else_leaves() {
    let mut roaming = connected();
    roaming.lose(kind::ASCONF_ACK, 2);
    let begin = roaming.now;
    roaming.move_to(&[MOBILE], true);
    for _ in 0..40 {
        roaming.send(End::Client, 100);
        roaming.send(End::Server, 100);
        roaming.run(5 * MS);
    }
    let sent = roaming
        .sent
        .iter()
        .filter(|(at, end, _)| *at >= begin && *end == End::Client);
    assert!(
        { sent }.all(|(.., packet)| is(&kinds(packet), &[kind::ASCONF, kind::HEARTBEAT_ACK])),
        "{}",
        roaming.tail()
    );
    roaming.run(10_000 * MS);
    roaming.expect_complete(End::Server);
    roaming.expect_complete(End::Client);
    let acks = roaming
        .sent
        .iter()
        .filter(|(.., packet)| kinds(packet).contains(&kind::ASCONF_ACK));
    assert_eq!(
        acks.count(),
        3,
        "the same request is answered again\n{}",
        roaming.tail()
    );
    assert_eq!(roaming.association(End::Server).counters().asconfs_received, 1);
}

// The client replaces its only address. The server sends nothing but ASCONF-ACK and HEARTBEAT before the new one is confirmed, although
// the client sends data and the server has data (§5.3 F1, F14).
#[test]
fn only_heartbeats_leave_while_no_address_is_confirmed() {
    let mut roaming = connected();
    roaming.lose(kind::HEARTBEAT_ACK, 2);
    let begin = roaming.now;
    roaming.move_to(&[MOBILE], true);
    for _ in 0..100 {
        roaming.send(End::Client, 100);
        roaming.send(End::Server, 100);
        roaming.run(5 * MS);
    }
    for (at, end, packet) in &roaming.sent {
        if *end == End::Server && *at >= begin && packet.destination.ip() == MOBILE {
            assert!(
                is(&kinds(packet), &[kind::ASCONF_ACK, kind::HEARTBEAT]),
                "{at}\n{}",
                roaming.tail()
            );
        }
    }
    roaming.run(10_000 * MS);
    roaming.expect_complete(End::Server);
    roaming.expect_complete(End::Client);
}

// The server sends nothing but ASCONF-ACK and HEARTBEAT to an address that no HEARTBEAT ACK confirmed.
#[test]
fn an_added_address_is_confirmed_before_data_goes_there() {
    let mut roaming = connected();
    roaming.lose(kind::HEARTBEAT_ACK, 2);
    roaming.move_to(&[WIFI, MOBILE], true);
    roaming.run(100 * MS);
    let now = roaming.now;
    let asked = roaming
        .association(End::Client)
        .local_addresses()
        .ask_primary(now, MOBILE);
    asked.expect("it is an address of the client");
    let mut confirmed = None;
    for _ in 0..1000 {
        roaming.send(End::Server, 100);
        roaming.run(5 * MS);
        let stats = roaming.association(End::Server).stats();
        let path = stats
            .paths
            .iter()
            .find(|path| path.remote.ip() == MOBILE)
            .expect("it was added");
        assert!(!path.primary || path.state == PathState::Active, "§5.4");
        if path.state == PathState::Active && confirmed.is_none() {
            assert!(path.primary, "§5.4: primary as soon as it is confirmed");
            confirmed = Some(roaming.now);
        }
    }
    let confirmed = confirmed.expect("a heartbeat is answered in the end");
    for (at, end, packet) in &roaming.sent {
        let to_new = *end == End::Server && packet.destination.ip() == MOBILE;
        if to_new && *at + 5 * MS < confirmed {
            assert!(
                is(
                    &kinds(packet),
                    &[kind::ASCONF_ACK, kind::HEARTBEAT, kind::HEARTBEAT_ACK]
                ),
                "{at}\n{}",
                roaming.tail()
            );
        }
    }
    let data = roaming
        .sent
        .iter()
        .filter(|(.., packet)| kinds(packet).contains(&kind::DATA));
    let last = { data }.last().expect("data was sent");
    assert_eq!(last.2.destination.ip(), MOBILE);
    roaming.expect_complete(End::Client);
    let told = roaming.address_events(End::Server);
    assert!(
        matches!(
            told[..],
            [
                AddressEvent::PeerAdded { address: MOBILE, .. },
                AddressEvent::PeerPrimary { address: MOBILE, .. }
            ]
        ),
        "{told:?}"
    );
}

// §5.3 F13: nothing is sent to a deleted address, and packets from there are out of the blue. §5.3.1: no ABORT ends the association.
#[test]
fn a_deleted_address_has_no_part_in_the_association() {
    let mut roaming = connected();
    roaming.move_to(&[WIFI, MOBILE], true);
    roaming.run(200 * MS);
    roaming.send(End::Client, 100);
    roaming.run(200 * MS);
    let old = roaming
        .sent
        .iter()
        .rev()
        .find(|(_, end, packet)| *end == End::Client && kinds(packet).contains(&kind::DATA));
    let old = old.expect("data was sent").2.clone();
    assert_eq!(old.source.ip(), WIFI);
    roaming.move_to(&[MOBILE], true);
    roaming.run(200 * MS);
    let (begin, received) = (
        roaming.now,
        roaming.association(End::Server).counters().packets_received,
    );
    roaming.inject(End::Server, old);
    assert_eq!(
        roaming.association(End::Server).counters().packets_received,
        received
    );
    roaming.send(End::Server, 100);
    roaming.run(60_000 * MS);
    let to_old = roaming
        .sent
        .iter()
        .filter(|(at, _, packet)| *at >= begin && packet.destination.ip() == WIFI);
    assert_eq!(to_old.count(), 0, "{}", roaming.tail());
    assert_eq!(
        roaming.association(End::Client).state(),
        AssociationState::Established
    );
    assert_eq!(roaming.paths(End::Server), [(Some(SERVER), MOBILE)]);
}

// client (MOBILE) → ASCONF (Delete WIFI) → server
// server → ABORT to WIFI: a packet from there came after the deletion (§5.3.1)
#[test]
fn an_abort_at_an_address_that_is_being_deleted_is_ignored() {
    let mut roaming = connected();
    roaming.move_to(&[WIFI, MOBILE], true);
    roaming.run(200 * MS);
    let (_, _, data) = roaming.sent[0].clone();
    roaming.has = vec![WIFI, MOBILE];
    let now = roaming.now;
    let set = roaming
        .association(End::Client)
        .local_addresses()
        .set(now, &[MOBILE]);
    set.expect("dynamic addresses");
    let (own, peer) = roaming.association(End::Client).tags();
    let (local, remote) = roaming.association(End::Client).ports();
    let abort = |destination| {
        let chunk = Chunk::Abort(anabranch_wire::chunk::Abort {
            reflected_tag: true,
            causes: anabranch_wire::cause::Causes::empty(),
        });
        packet(remote, local, peer, &[chunk], data.destination, destination)
    };
    assert_ne!(own, peer);
    roaming.inject(
        End::Client,
        abort(std::net::SocketAddr::new(WIFI, data.source.port())),
    );
    assert_eq!(
        roaming.association(End::Client).state(),
        AssociationState::Established
    );
    roaming.inject(
        End::Client,
        abort(std::net::SocketAddr::new(MOBILE, data.source.port())),
    );
    assert_eq!(
        roaming.association(End::Client).state(),
        AssociationState::Closed,
        "at another address it counts"
    );
}

/// A hand-made packet.
fn packet(
    source_port: u16,
    destination_port: u16,
    tag: anabranch_proto::VerificationTag,
    chunks: &[Chunk],
    source: std::net::SocketAddr,
    destination: std::net::SocketAddr,
) -> Packet {
    let header = anabranch_wire::packet::CommonHeader {
        source_port,
        destination_port,
        verification_tag: tag,
    };
    let mut bytes = Vec::new();
    let mut writer = anabranch_wire::packet::PacketWriter::new(&mut bytes, header, 1500);
    chunks.iter().for_each(|chunk| writer.push(chunk));
    let _ = writer.finish();
    Packet {
        source,
        destination,
        payload: Bytes::from(bytes).into(),
        may_fragment: false,
        ecn: Ecn::NotEct,
        dscp: Dscp::default(),
    }
}

#[test]
fn the_last_address_cannot_be_deleted() {
    let mut roaming = connected();
    let now = roaming.now;
    let mut addresses = roaming.association(End::Client).local_addresses();
    assert_eq!(addresses.list(), [WIFI]);
    assert_eq!(addresses.remove(now, WIFI), Err(AddressError::Last));
    assert_eq!(addresses.remove(now, MOBILE), Err(AddressError::Unknown(MOBILE)));
    let multicast = ip([224, 0, 0, 1]);
    assert_eq!(
        addresses.add(now, multicast),
        Err(AddressError::NotUnicast(multicast))
    );
    assert_eq!(
        addresses.ask_primary(now, MOBILE),
        Err(AddressError::Unknown(MOBILE))
    );
    let many: Vec<_> = (0..17).map(|last| ip([10, 3, 0, last])).collect();
    assert_eq!(addresses.set(now, &many), Err(AddressError::TooMany));
}

#[test]
fn both_endpoints_must_offer_it() {
    for configs in [[dynamic(), Config::default()], [Config::default(), dynamic()]] {
        let mut roaming = Roaming::new(configs, 1).connect();
        let now = roaming.now;
        let added = roaming
            .association(End::Client)
            .local_addresses()
            .add(now, MOBILE);
        assert_eq!(added, Err(AddressError::NotNegotiated));
        for end in [End::Client, End::Server] {
            let extensions = roaming.association(end).stats().extensions;
            assert!(!extensions.dynamic_addresses);
        }
    }
    let mut roaming = connected();
    for end in [End::Client, End::Server] {
        let extensions = roaming.association(end).stats().extensions;
        assert!(extensions.dynamic_addresses && extensions.authentication);
    }
}

// peer → INIT (Supported Extensions: ASCONF, ASCONF-ACK; no RANDOM) → endpoint; ABORT (§4.2.7)
#[test]
fn a_peer_with_asconf_and_without_auth_is_refused() {
    let mut script = Script::new(dynamic(), 1);
    let listed = Parameter::SupportedExtensions(Bytes::from_static(&[kind::ASCONF, kind::ASCONF_ACK]));
    let init = script.init(ParametersBuilder::new().push(&listed).finish());
    script.send_tagged(anabranch_proto::VerificationTag(0), &[Chunk::Init(init)]);
    match script.expect().only() {
        Chunk::Abort(abort) => {
            let cause = abort.causes.iter().next().expect("a cause").expect("whole");
            assert!(matches!(cause, Cause::ProtocolViolation(_)), "{cause:?}");
        }
        other => panic!("ABORT, not {other:?}"),
    }
}

#[test]
fn the_application_gets_the_adaptation_layer_of_the_peer() {
    let indicating = |adaptation_layer| {
        with(Config::default(), |config| {
            config.adaptation_layer = adaptation_layer
        })
    };
    let roaming = Roaming::new([indicating(Some(7)), indicating(Some(9))], 1).connect();
    let told = |end: End| {
        let events = roaming.events[end as usize].iter();
        let points = events.filter_map(|event| match event {
            Event::AdaptationLayer(point) => Some(*point),
            _ => None,
        });
        points.collect::<Vec<_>>()
    };
    assert_eq!((told(End::Client), told(End::Server)), (vec![9], vec![7]));
    let roaming = Roaming::new([indicating(Some(7)), indicating(None)], 1).connect();
    let any = |event: &Event| matches!(event, Event::AdaptationLayer(_));
    assert!(!roaming.events[0].iter().any(any) && roaming.events[1].iter().any(any));
}

// §5.1 C4: ASCONF and ASCONF-ACK belong to an association that is established or shuts down; a shutdown completes after a move.
#[test]
fn an_address_changes_during_a_shutdown() {
    let mut roaming = connected();
    for _ in 0..50 {
        roaming.send(End::Client, 1000);
    }
    let now = roaming.now;
    roaming.association(End::Client).shutdown(now);
    roaming.move_to(&[MOBILE], true);
    roaming.run(5000 * MS);
    roaming.expect_complete(End::Server);
    assert_eq!(
        roaming.association(End::Client).state(),
        AssociationState::Closed,
        "{}",
        roaming.tail()
    );
}
