//! Networks behind one public address: the paths of the server differ by the UDP port of the client alone.

use core::time::Duration;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use anabranch_netsim::Packet;
use anabranch_proto::{
    AddressEvent, Config, Event, IcmpKind, IcmpMessage, LowerLayer, MultipathMode, PathId, PathState,
    PathStats,
};
use anabranch_testkit::with;
use anabranch_wire::cause::Causes;
use anabranch_wire::chunk::{Abort, Chunk, Heartbeat, HeartbeatAck, kind};
use anabranch_wire::packet::{CommonHeader, Packet as SctpPacket, PacketWriter};
use bytes::Bytes;

use super::fixture::*;
use super::pairs::{carried, carry, expect_all, multipath, send_much, send_rounds};

/// A client whose networks share one public address.
fn shared(config: &Config) -> Roaming {
    let configs = [config.clone(), config.clone()];
    Roaming::new(configs, 1).behind_translator().at_one_address()
}

/// The same, with two paths that are confirmed.
fn two_networks(config: &Config) -> Roaming {
    let mut roaming = shared(config).connect();
    roaming.move_to(&[WIFI, MOBILE], true);
    roaming.run(500 * MS);
    assert_eq!(to(&mut roaming), publics(&roaming, &[WIFI, MOBILE]));
    roaming
}

/// Where the active paths of the server lead.
fn to(roaming: &mut Roaming) -> Vec<Option<SocketAddr>> {
    let paths = roaming.association(End::Server).stats().paths;
    let active = paths.iter().filter(|path| path.state == PathState::Active);
    active.map(|path| Some(path.remote)).collect()
}

/// Where the translators of these networks let packets in.
fn publics(roaming: &Roaming, networks: &[IpAddr]) -> Vec<Option<SocketAddr>> {
    networks.iter().map(|one| roaming.public(*one)).collect()
}

// client (two networks) → translators → 192.0.2.7:40000 and 192.0.2.7:40001 → server
#[test]
fn two_networks_of_one_public_address_carry_data() {
    for mode in [MultipathMode::Cmt, MultipathMode::Eca] {
        let mut roaming = two_networks(&multipath(mode));
        assert_eq!(
            roaming.address_events(End::Client),
            [AddressEvent::LocalAdded(MOBILE)]
        );
        send_much(&mut roaming, 200);
        for end in [End::Client, End::Server] {
            assert!(roaming.association(end).stats().extensions.port_pairs);
            assert!(carry(&mut roaming, end, 2), "{mode:?} {end:?}");
        }
        assert_eq!(to(&mut roaming), publics(&roaming, &[WIFI, MOBILE]));
        expect_all(&mut roaming);
        for public in publics(&roaming, &[WIFI, MOBILE]) {
            let public = public.expect("a mapping");
            assert!(too_large(&mut roaming, End::Server, SERVER, public));
        }
    }
}

// The router of one network restarts, and its mapping moves: the server finds out by a heartbeat, without a request.
#[test]
fn a_mapping_that_moves_replaces_the_path_that_is_silent() {
    for (restarted, mode) in [
        (WIFI, MultipathMode::Cmt),
        (MOBILE, MultipathMode::Cmt),
        (MOBILE, MultipathMode::Eca),
    ] {
        let mut roaming = two_networks(&multipath(mode));
        send_much(&mut roaming, 50);
        let asconfs = roaming.association(End::Server).counters().asconfs_received;
        let former = roaming.public(restarted).expect("a mapping");
        roaming.restart_routers(&[restarted]);
        send_much(&mut roaming, 150);
        assert_eq!(
            to(&mut roaming),
            publics(&roaming, &[WIFI, MOBILE]),
            "{}",
            roaming.tail()
        );
        expect_all(&mut roaming);
        let after = roaming.association(End::Server).counters().asconfs_received;
        assert!(after <= asconfs + 1, "{after} requests, {asconfs} before");
        let new = roaming.public(restarted).expect("a mapping");
        let found = [former, new].map(|port| too_large(&mut roaming, End::Server, SERVER, port));
        assert_eq!(found, [false, true], "the endpoint follows the port");
    }
}

// Both routers restart at once: the server cannot know which new port belongs to which path, and the client renews both.
#[test]
fn two_mappings_that_move_keep_apart() {
    for end in [End::Client, End::Server] {
        let mut roaming = two_networks(&multipath(MultipathMode::Cmt));
        roaming.restart_routers(&[WIFI, MOBILE]);
        for _ in 0..200 {
            roaming.send(end, 1000);
            roaming.run(10 * MS);
            // A path of one network never leads to another one.
            let paths = roaming.association(End::Server).stats().paths;
            for (path, other) in [(0, MOBILE), (1, WIFI)] {
                let remote = paths.iter().find(|one| one.id.0 == path).map(|one| one.remote);
                assert_ne!(remote, roaming.public(other), "{}", roaming.tail());
            }
        }
        // An end that only receives notices nothing before its next heartbeat.
        roaming.run(40_000 * MS);
        assert_eq!(
            to(&mut roaming),
            publics(&roaming, &[WIFI, MOBILE]),
            "{end:?}\n{}",
            roaming.tail()
        );
        expect_all(&mut roaming);
    }
}

// Both routers restart, and each gives the port that the other one gave before.
#[test]
fn a_port_moves_from_one_network_to_another() {
    let mut roaming = two_networks(&multipath(MultipathMode::Cmt));
    let before = publics(&roaming, &[WIFI, MOBILE]);
    roaming.swap_ports(WIFI, MOBILE);
    send_rounds(&mut roaming, 300, 1);
    // Packets for a port reach the client, by whichever network: the paths work, and stay two.
    let mut after = to(&mut roaming);
    after.sort();
    assert_eq!(after, before);
    expect_all(&mut roaming);
}

// The first network gets the port of the second one, which gets a new one, and the first one fails for a second.
#[test]
fn a_pair_is_renewed_at_the_port_of_another_one() {
    let mut roaming = two_networks(&multipath(MultipathMode::Cmt));
    roaming.swap_ports(WIFI, MOBILE);
    roaming.restart_routers(&[MOBILE]);
    let dead = roaming.now + Duration::from_secs(1);
    roaming.lose_from(WIFI, dead);
    send_rounds(&mut roaming, 1000, 1);
    let mut after = to(&mut roaming);
    after.sort();
    let mut expected = publics(&roaming, &[WIFI, MOBILE]);
    expected.sort();
    assert_eq!(after, expected, "{}", roaming.tail());
    // The names are right: the second one is removed.
    roaming.move_to(&[WIFI], true);
    roaming.run(500 * MS);
    assert_eq!(to(&mut roaming), publics(&roaming, &[WIFI]));
    expect_all(&mut roaming);
}

// The first network is dead. The mapping of the second one moves while a heartbeat to its former port is in flight, so that the answer comes from
// the new port: it does not show that the former one works.
#[test]
fn an_answer_from_the_new_port_does_not_speak_for_the_former_one() {
    let mut roaming = two_networks(&multipath(MultipathMode::Off));
    let first = roaming.public(WIFI);
    let dead = roaming.now + Duration::from_secs(20);
    roaming.lose_from(WIFI, dead);
    let now = roaming.now;
    let asked = roaming.association(End::Server).request_heartbeat(now, PathId(1));
    asked.expect("there is such a path");
    roaming.run(MS);
    roaming.restart_routers(&[MOBILE]);
    for _ in 0..20 {
        let now = roaming.now;
        let asked = roaming.association(End::Client).request_heartbeat(now, PathId(1));
        asked.expect("there is such a path");
        roaming.run(100 * MS);
        let paths = roaming.association(End::Server).stats().paths;
        assert_eq!(Some(paths[0].remote), first, "{}", roaming.tail());
    }
}

// Translators that forget a path after 30 s of silence, and a client that sends heartbeats less often.
#[test]
fn mappings_that_are_forgotten_come_back() {
    let mut roaming = two_networks(&multipath(MultipathMode::Cmt)).that_forgets_after(30_000 * MS);
    let begin = roaming.mappings();
    roaming.run(300_000 * MS);
    assert_eq!(roaming.mappings(), begin, "heartbeats keep them");
    // Nothing leaves for a minute, as when a computer sleeps.
    let awake = roaming.now + Duration::from_secs(60);
    for network in [WIFI, MOBILE] {
        roaming.lose_from(network, awake);
    }
    roaming.restart_routers(&[WIFI, MOBILE]);
    roaming.run(65_000 * MS);
    send_much(&mut roaming, 300);
    assert_eq!(
        to(&mut roaming),
        publics(&roaming, &[WIFI, MOBILE]),
        "{}",
        roaming.tail()
    );
    expect_all(&mut roaming);
}

// The server keeps one path, so that it does not negotiate pairs. It takes the second request for the address that it knows.
#[test]
fn a_peer_without_pairs_keeps_one_path_and_the_association() {
    let client = multipath(MultipathMode::Cmt);
    let server = with(client.clone(), |config| config.max_paths = 1);
    let roaming = Roaming::new([client, server], 1);
    let mut roaming = roaming.behind_translator().at_one_address().connect();
    roaming.move_to(&[WIFI, MOBILE], true);
    roaming.run(500 * MS);
    for end in [End::Client, End::Server] {
        assert!(!roaming.association(end).stats().extensions.port_pairs);
    }
    assert_eq!(
        roaming.address_events(End::Client),
        [
            AddressEvent::LocalAdded(MOBILE),
            AddressEvent::LocalMayShare(MOBILE)
        ]
    );
    send_much(&mut roaming, 100);
    assert_eq!(carried(&mut roaming, End::Server).len(), 1);
    expect_all(&mut roaming);
    // The first network still works alone.
    roaming.move_to(&[WIFI], true);
    send_much(&mut roaming, 50);
    expect_all(&mut roaming);
}

// Of three networks one is removed: the request names its pair.
#[test]
fn one_of_three_networks_is_removed_by_its_name() {
    for removed in [WIFI, MOBILE, CABLE] {
        for one_address in [false, true] {
            let config = multipath(MultipathMode::Cmt);
            let mut roaming = Roaming::new([config.clone(), config], 1).behind_translator();
            if one_address {
                roaming = roaming.at_one_address();
            }
            let mut roaming = roaming.connect();
            roaming.move_to(&[WIFI, MOBILE, CABLE], true);
            roaming.run(500 * MS);
            let mut left = vec![WIFI, MOBILE, CABLE];
            assert_eq!(to(&mut roaming), publics(&roaming, &left));
            left.retain(|one| *one != removed);
            roaming.move_to(&left, true);
            roaming.run(200 * MS);
            assert_eq!(
                to(&mut roaming),
                publics(&roaming, &left),
                "{removed}\n{}",
                roaming.tail()
            );
            send_much(&mut roaming, 50);
            expect_all(&mut roaming);
            assert_eq!(roaming.association(End::Server).stats().paths.len(), 2);
        }
    }
}

// The only network gets another public address, as when a modem registers anew.
#[test]
fn a_path_gets_another_public_address() {
    let mut roaming = Roaming::new([dynamic(), dynamic()], 1)
        .behind_translator()
        .connect();
    roaming = roaming.at_one_address();
    roaming.restart_routers(&[WIFI]);
    for _ in 0..100 {
        roaming.send(End::Client, 1000);
        roaming.run(100 * MS);
    }
    assert_eq!(to(&mut roaming), publics(&roaming, &[WIFI]), "{}", roaming.tail());
    expect_all(&mut roaming);
}

#[test]
fn it_is_offered_with_dynamic_addresses_over_udp_alone() {
    let raw_ip = with(dynamic(), |config| config.lower_layer = LowerLayer::Ip);
    for (config, offers) in [(dynamic(), true), (Config::default(), false), (raw_ip, false)] {
        let mut roaming = Roaming::new([config.clone(), config], 1).connect();
        assert_eq!(
            roaming.association(End::Client).stats().extensions.port_pairs,
            offers
        );
    }
}

/// A packet of the client that an attacker recorded, from this port of the client's public address.
fn replayed(roaming: &Roaming, port: u16) -> Packet {
    let of_client = |(_, end, packet): &&(_, End, Packet)| {
        *end == End::Client && kinds(packet) == [kind::DATA] && packet.source.ip() == WIFI
    };
    let (.., packet) = roaming
        .sent
        .iter()
        .rfind(of_client)
        .expect("the client sent data");
    let mut public = roaming.public(WIFI).expect("a mapping");
    public.set_port(port);
    Packet {
        source: public,
        ..packet.clone()
    }
}

// attacker (behind the client's translator) → a recorded packet, from other ports → server
/// A port that is not of a pair gets heartbeats alone, one a second, and one port at a time. It moves no pair that works.
#[test]
fn a_replayed_packet_moves_no_path() {
    let mut roaming = two_networks(&multipath(MultipathMode::Cmt));
    send_much(&mut roaming, 20);
    let (before, begin) = (to(&mut roaming), roaming.now);
    for round in 0..1000 {
        let packet = replayed(&roaming, 50_000 + round % 7);
        roaming.inject(End::Server, packet);
        roaming.send(End::Server, 1000);
        roaming.run(10 * MS);
    }
    assert_eq!(to(&mut roaming), before);
    let known = publics(&roaming, &[WIFI, MOBILE]);
    let to_attacker: Vec<_> = roaming
        .sent
        .iter()
        .filter(|(at, end, packet)| {
            *at >= begin && *end == End::Server && !known.contains(&Some(packet.destination))
        })
        .collect();
    assert!((1..=11).contains(&to_attacker.len()), "{}", to_attacker.len());
    assert!(
        to_attacker
            .iter()
            .all(|(.., packet)| kinds(packet) == [kind::HEARTBEAT])
    );
    let ports: BTreeSet<_> = to_attacker
        .iter()
        .map(|(.., packet)| packet.destination.port())
        .collect();
    assert!(ports.len() <= 3, "one candidate in five seconds");
    assert!(roaming.association(End::Server).stats().paths.len() == 2);
    roaming.expect_complete(End::Client);
}

// attacker → a recorded HEARTBEAT, from another port → server
/// The answer on a path of the client would tell the client that its path works, on which the server sends nothing.
#[test]
fn a_heartbeat_from_a_new_port_is_not_answered() {
    let mut roaming = two_networks(&multipath(MultipathMode::Cmt));
    let is_heartbeat = |packet: &&Packet| kinds(packet) == [kind::HEARTBEAT];
    let heartbeat = roaming.delivered.iter().find(is_heartbeat).cloned();
    let mut heartbeat = heartbeat.expect("the client tested its path");
    for (port, answers) in [(heartbeat.source.port(), 1), (50_000, 0)] {
        heartbeat.source.set_port(port);
        let begin = roaming.sent.len();
        roaming.inject(End::Server, heartbeat.clone());
        let is_answer = |(.., packet): &&(_, _, Packet)| kinds(packet).contains(&kind::HEARTBEAT_ACK);
        assert_eq!(roaming.sent[begin..].iter().filter(is_answer).count(), answers);
    }
}

// attacker (reads the heartbeat, and answers it) → HEARTBEAT ACK → server
/// An attacker that reads what goes to its port can answer. The pairs are heard from, so that none is replaced.
#[test]
fn an_answered_heartbeat_replaces_no_path_that_works() {
    let mut roaming = two_networks(&multipath(MultipathMode::Cmt));
    send_much(&mut roaming, 20);
    let (before, port) = (to(&mut roaming), 50_000);
    let begin = roaming.sent.len();
    for _ in 0..300 {
        let packet = replayed(&roaming, port);
        let (source, destination) = (packet.source, packet.destination);
        roaming.inject(End::Server, packet);
        let asked = roaming.sent[begin..].iter().filter_map(|(.., packet)| {
            let is_asked = packet.destination == source && kinds(packet) == [kind::HEARTBEAT];
            is_asked.then(|| packet.clone())
        });
        for mut answer in asked.collect::<Vec<_>>() {
            answer.payload = answering(&mut roaming, &answer, |_| ()).into();
            (answer.source, answer.destination) = (source, destination);
            roaming.inject(End::Server, answer);
        }
        roaming.send(End::Server, 1000);
        roaming.run(10 * MS);
    }
    assert_eq!(to(&mut roaming), before);
    roaming.expect_complete(End::Client);
}

// The second network is dead, and an attacker sends recorded packets from another port. It answers with a nonce that it guesses.
#[test]
fn a_candidate_without_an_answer_replaces_no_port() {
    let mut roaming = two_networks(&multipath(MultipathMode::Cmt));
    send_much(&mut roaming, 20);
    let dead = roaming.now + Duration::from_secs(60);
    roaming.lose_from(MOBILE, dead);
    let begin = roaming.sent.len();
    let mobile = roaming.public(MOBILE);
    for _ in 0..300 {
        let packet = replayed(&roaming, 50_000);
        let (source, destination) = (packet.source, packet.destination);
        roaming.inject(End::Server, packet);
        let asked = roaming.sent[begin..]
            .iter()
            .rfind(|(.., packet)| packet.destination == source);
        if let Some((.., mut guess)) = asked.cloned() {
            guess.payload = answering(&mut roaming, &guess, |info| {
                *info.last_mut().expect("a nonce") ^= 1
            })
            .into();
            (guess.source, guess.destination) = (source, destination);
            roaming.inject(End::Server, guess);
        }
        roaming.send(End::Server, 1000);
        roaming.run(10 * MS);
    }
    let remotes = roaming.association(End::Server).stats().paths;
    let remotes: Vec<_> = remotes.iter().map(|path| Some(path.remote)).collect();
    assert_eq!(remotes, [roaming.public(WIFI), mobile]);
    roaming.expect_complete(End::Client);
}

// The second network is dead. Its renewal is withdrawn from the first one, which changes nothing at the server.
#[test]
fn a_dead_network_is_renewed_by_no_other() {
    let mut roaming = two_networks(&multipath(MultipathMode::Cmt));
    let dead = roaming.now + Duration::from_secs(5);
    roaming.lose_from(MOBILE, dead);
    send_much(&mut roaming, 200);
    let asconf = |(_, end, packet): &&(_, End, Packet)| {
        *end == End::Client && kinds(packet) == [kind::ASCONF] && packet.source.ip() == WIFI
    };
    assert!(
        roaming.sent.iter().any(|sent| asconf(&sent)),
        "{}",
        roaming.tail()
    );
    let remotes = roaming.association(End::Server).stats().paths;
    let remotes: Vec<_> = remotes.iter().map(|path| Some(path.remote)).collect();
    assert_eq!(remotes, publics(&roaming, &[WIFI, MOBILE]));
    // It works again, with the same mapping.
    roaming.run(5000 * MS);
    send_much(&mut roaming, 200);
    assert_eq!(to(&mut roaming), publics(&roaming, &[WIFI, MOBILE]));
    assert!(carry(&mut roaming, End::Server, 2));
    expect_all(&mut roaming);
}

/// The HEARTBEAT ACK for a HEARTBEAT of the server, with its information changed.
fn answering(roaming: &mut Roaming, heartbeat: &Packet, change: impl Fn(&mut Vec<u8>)) -> Bytes {
    let sctp = SctpPacket::parse(heartbeat.payload.clone().into_sctp()).expect("a packet");
    let last = sctp.chunks().map(|raw| raw.expect("a chunk")).last();
    let Ok(Chunk::Heartbeat(heartbeat)) = Chunk::decode(last.expect("a HEARTBEAT")) else {
        panic!("a HEARTBEAT")
    };
    let mut info = HeartbeatAck::answering(heartbeat)
        .info()
        .expect("its information")
        .to_vec();
    change(&mut info);
    let heartbeat = Heartbeat::new(info);
    to_end(
        roaming,
        End::Server,
        &[Chunk::HeartbeatAck(HeartbeatAck::answering(heartbeat))],
    )
}

// server (does not know the association at this address) → ABORT with the T bit → client, at its second network
/// The association continues, and the address is added again. If no other network works, the association ends.
#[test]
fn an_abort_with_the_t_bit_concerns_one_network() {
    for (networks, ends) in [(&[WIFI, MOBILE][..], false), (&[WIFI], true)] {
        let mut roaming = shared(&multipath(MultipathMode::Cmt)).connect();
        roaming.move_to(networks, true);
        roaming.run(500 * MS);
        let before = roaming.address_events(End::Client).len();
        let at = networks[networks.len() - 1];
        let (local, remote) = roaming.association(End::Client).ports();
        let (_, reflected) = roaming.association(End::Client).tags();
        let header = CommonHeader {
            source_port: remote,
            destination_port: local,
            verification_tag: reflected,
        };
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, header, 1500);
        writer.push(&Chunk::Abort(Abort {
            reflected_tag: true,
            causes: Causes::empty(),
        }));
        let _ = writer.finish();
        let known = |(_, end, packet): &&(_, End, Packet)| *end == End::Client && packet.source.ip() == WIFI;
        let mut packet = roaming.sent.iter().find(known).expect("it sent").2.clone();
        (packet.source, packet.destination) = (packet.destination, packet.source);
        packet.destination.set_ip(at);
        packet.payload = Bytes::from(bytes).into();
        // Several packets were in flight.
        for _ in 0..3 {
            roaming.inject(End::Client, packet.clone());
        }
        let closed = |event: &Event| matches!(event, Event::Closed(_));
        assert_eq!(roaming.events[End::Client as usize].iter().any(closed), ends);
        if !ends {
            roaming.run(500 * MS);
            let told = roaming.address_events(End::Client);
            assert_eq!(told[before..], [AddressEvent::LocalAdded(MOBILE)]);
            send_much(&mut roaming, 100);
            assert!(carry(&mut roaming, End::Client, 2));
            expect_all(&mut roaming);
        }
    }
}

/// A router of one path says that a packet of the end was too large. Returns whether the endpoint finds the association.
fn too_large(roaming: &mut Roaming, end: End, source: IpAddr, destination: SocketAddr) -> bool {
    let (local, remote) = roaming.association(end).ports();
    let (_, peer_tag) = roaming.association(end).tags();
    let header = CommonHeader {
        source_port: local,
        destination_port: remote,
        verification_tag: peer_tag,
    };
    let mut bytes = Vec::new();
    let _ = PacketWriter::new(&mut bytes, header, 1500).finish();
    let message = IcmpMessage {
        kind: IcmpKind::TooLarge(Some(700)),
        source: Some(source),
        destination,
        quote: bytes.into(),
    };
    let now = roaming.now;
    roaming.association(end).handle_icmp(now, &message);
    roaming.host(end).endpoint_mut().route_icmp(&message).is_some()
}

// router → ICMP → the client, whose paths differ by its own address; and the server, whose paths differ by the port of the client
#[test]
fn an_icmp_message_shrinks_the_packets_of_its_path() {
    for network in [WIFI, MOBILE] {
        for end in [End::Client, End::Server] {
            let mut roaming = two_networks(&multipath(MultipathMode::Cmt));
            let server = SocketAddr::new(SERVER, 9899);
            let public = roaming.public(network).expect("a mapping");
            let (source, destination) = match end {
                End::Client => (network, server),
                End::Server => (SERVER, public),
            };
            assert!(too_large(&mut roaming, end, source, destination));
            let is_named = |path: &PathStats| match end {
                End::Client => path.local == Some(network),
                End::Server => path.remote == public,
            };
            for path in roaming.association(end).stats().paths {
                assert_eq!(path.pmtu == 700, is_named(&path), "{path:?}");
            }
            // A port that no path has any more.
            let mut former = destination;
            former.set_port(1);
            let before = roaming.association(end).stats().paths;
            assert!(!too_large(&mut roaming, end, source, former));
            assert_eq!(roaming.association(end).stats().paths, before);
        }
    }
}
