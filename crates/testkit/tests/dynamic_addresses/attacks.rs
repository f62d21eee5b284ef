//! Attacks of RFC 5062 that use dynamic addresses: §3 (hijacking), §5 (bombing). The attacker knows the tags and ports of the association,
//! but no key.

use anabranch_testkit::{protect, with};
use std::net::{IpAddr, SocketAddr};

use anabranch_netsim::{Ecn, Packet};
use anabranch_proto::{AddressEvent, AuthenticationConfig, Config, Dscp, SharedKey};
use anabranch_wire::chunk::{Asconf, AsconfAck, Auth, Chunk, Heartbeat, kind};
use anabranch_wire::packet::{CommonHeader, PacketWriter};
use anabranch_wire::parameter::{AddressAction, Parameter, Parameters, ParametersBuilder};
use bytes::Bytes;

use super::fixture::*;

const ATTACKER: IpAddr = ip([10, 66, 0, 6]);
const VICTIM: IpAddr = ip([10, 77, 0, 7]);

/// A packet to the server with the client's ports and the right tag.
fn forged(roaming: &mut Roaming, source: IpAddr, chunks: &[Chunk]) -> Packet {
    let bytes = to_end(roaming, End::Server, chunks);
    Packet {
        source: SocketAddr::new(source, 9899),
        destination: SocketAddr::new(SERVER, 9899),
        payload: bytes.into(),
        may_fragment: false,
        ecn: Ecn::NotEct,
        dscp: Dscp::default(),
    }
}

fn requests(list: &[(AddressAction, IpAddr)]) -> Parameters {
    let first = ParametersBuilder::new().push(&Parameter::Ipv4([10, 0, 0, 1].into()));
    let push = |builder: ParametersBuilder, (action, address): &(AddressAction, IpAddr)| {
        builder.push(&Parameter::Address {
            action: *action,
            correlation: 1,
            address: *address,
        })
    };
    list.iter().fold(first, push).finish()
}

/// All serial numbers near the one that the server expects.
fn asconfs(roaming: &mut Roaming, list: &[(AddressAction, IpAddr)]) -> Vec<Chunk> {
    let sent = roaming
        .sent
        .iter()
        .find(|(_, end, packet)| *end == End::Client && kinds(packet) == [kind::INIT]);
    let sctp = anabranch_wire::packet::Packet::parse(sent.expect("an INIT").2.payload.clone().into_sctp());
    let first = sctp
        .expect("a packet")
        .chunks()
        .next()
        .expect("a chunk")
        .map(Chunk::decode);
    let Ok(Ok(Chunk::Init(init))) = first else {
        panic!("an INIT")
    };
    let serials = (0..3).map(|more| init.initial_tsn.0.wrapping_add(more));
    let chunk = |serial| {
        Chunk::Asconf(Asconf {
            serial,
            parameters: requests(list),
        })
    };
    serials.map(chunk).collect()
}

// attacker → ASCONF (Add itself, Delete client) → server, without AUTH, or with an AUTH of a wrong key
/// §3: the association cannot be hijacked: the request and the rest of its packet are discarded without an answer.
#[test]
fn an_asconf_without_authentication_is_discarded_with_its_packet() {
    let mut roaming = Roaming::new([dynamic(), dynamic()], 1).connect();
    let zero = ip([0; 4]);
    let hijack = [
        (AddressAction::Add, zero),
        (AddressAction::SetPrimary, zero),
        (AddressAction::Delete, zero),
    ];
    let chunks = asconfs(&mut roaming, &hijack);
    for source in [ATTACKER, WIFI] {
        for chunk in &chunks {
            let (sent, before) = (roaming.sent.len(), *roaming.association(End::Server).counters());
            // It would be answered.
            let data = Chunk::Heartbeat(Heartbeat::new("from nobody"));
            let plain = forged(&mut roaming, source, &[chunk.clone(), data.clone()]);
            roaming.inject(End::Server, plain);
            for (shared_key_id, hmac_id, len) in [(0, 3, 32), (0, 1, 20), (5, 3, 32)] {
                let auth = Chunk::Auth(Auth {
                    shared_key_id,
                    hmac_id,
                    hmac: vec![7; len].into(),
                });
                let signed = forged(&mut roaming, source, &[auth, chunk.clone(), data.clone()]);
                roaming.inject(End::Server, signed);
            }
            assert_eq!(roaming.sent.len(), sent, "no answer\n{}", roaming.tail());
            let after = *roaming.association(End::Server).counters();
            assert_eq!(after.asconfs_received, 0);
            assert_eq!(after.packets_unverified, before.packets_unverified + 3);
            assert_eq!(after.chunks_unauthenticated, before.chunks_unauthenticated + 1);
        }
    }
    assert_eq!(roaming.paths(End::Server), [(Some(SERVER), WIFI)]);
    assert_eq!(roaming.address_events(End::Server), []);
    roaming.send(End::Server, 100);
    roaming.run(100 * MS);
    roaming.expect_complete(End::Client);
}

// attacker → ASCONF-ACK → client, which waits for one
/// §5.1, A5: neither can an attacker acknowledge a request.
#[test]
fn an_asconf_ack_without_authentication_is_discarded() {
    let mut roaming = Roaming::new([dynamic(), dynamic()], 1).connect();
    roaming.lose(kind::ASCONF, 1);
    roaming.move_to(&[WIFI, MOBILE], true);
    let (remote, local) = roaming.association(End::Client).ports();
    let (tag, _) = roaming.association(End::Client).tags();
    let asconf = roaming
        .sent
        .iter()
        .rev()
        .find(|(.., packet)| kinds(packet).contains(&kind::ASCONF));
    assert!(asconf.is_none(), "it leaves with the next run");
    roaming.run(1 * MS);
    for serial in asconfs(&mut roaming, &[]) {
        let Chunk::Asconf(Asconf { serial, .. }) = serial else {
            panic!("an ASCONF")
        };
        let ack = Chunk::AsconfAck(AsconfAck {
            serial,
            parameters: Parameters::empty(),
        });
        let mut packet = forged(&mut roaming, SERVER, &[]);
        let header = CommonHeader {
            source_port: local,
            destination_port: remote,
            verification_tag: tag,
        };
        let mut bytes = Vec::new();
        let mut writer = PacketWriter::new(&mut bytes, header, 1500);
        writer.push(&ack);
        let _ = writer.finish();
        packet.payload = Bytes::from(bytes).into();
        packet.destination = SocketAddr::new(WIFI, 9899);
        roaming.inject(End::Client, packet);
    }
    assert_eq!(roaming.address_events(End::Client), []);
    assert_eq!(
        roaming.association(End::Client).counters().chunks_unauthenticated,
        3
    );
}

/// §3.3: an attacker who saw the set-up has all but the endpoint pair shared key. Two ends with different keys show that this key is part
/// of the signature.
#[test]
fn a_shared_key_protects_against_attackers_who_saw_the_set_up() {
    let with_key = |secret: &'static [u8]| {
        with(dynamic(), |config| {
            let mut authentication = AuthenticationConfig::default();
            authentication.keys = vec![SharedKey {
                id: 1,
                secret: Bytes::from_static(secret),
            }];
            config.authentication = Some(authentication);
        })
    };
    for (other, works) in [(&b"right"[..], true), (b"wrong", false)] {
        let configs = [with_key(b"right"), with_key(other)];
        let mut roaming = Roaming::new(configs, 1).connect();
        roaming.move_to(&[WIFI, MOBILE], true);
        roaming.run(500 * MS);
        assert_eq!(roaming.paths(End::Server).len(), 1 + usize::from(works));
        let unverified = roaming.association(End::Server).counters().packets_unverified;
        assert_eq!(unverified == 0, works);
    }
}

/// Settings with dynamic addresses and protected packets.
fn protected() -> Config {
    with(dynamic(), protect)
}

// client (new address) → ASCONF (Add 0.0.0.0, Delete 0.0.0.0), protected → attacker
// attacker (another address) → the same packet → server
/// Nothing but the AEAD protects a protected ASCONF, and it does not cover the source. A wildcard therefore deletes other addresses only when
/// a heartbeat has confirmed the source.
#[test]
fn a_protected_request_from_elsewhere_deletes_nothing() {
    let mut roaming = Roaming::new([protected(), protected()], 1).connect();
    roaming.run(500 * MS);
    roaming.observer = Some(Box::new(|end, packet| {
        if end == End::Client && packet.source.ip() == MOBILE {
            packet.source.set_ip(ATTACKER);
        }
        true
    }));
    roaming.move_to(&[MOBILE], true);
    roaming.run(3000 * MS);
    let known = |roaming: &mut Roaming| -> Vec<_> {
        let paths = roaming.association(End::Server).stats().paths;
        paths.iter().map(|path| path.remote.ip()).collect()
    };
    assert_eq!(known(&mut roaming), [WIFI, ATTACKER]);
    // Without an attacker the new address is confirmed after one round trip.
    let mut roaming = Roaming::new([protected(), protected()], 1).connect();
    roaming.run(500 * MS);
    roaming.move_to(&[MOBILE], true);
    roaming.run(3 * DELAY / 2);
    assert_eq!(known(&mut roaming), [WIFI, MOBILE]);
    roaming.run(2 * DELAY);
    assert_eq!(known(&mut roaming), [MOBILE]);
}

// attacker (a client with an association of its own) → ASCONF (Add victim, Set Primary victim, Delete itself)
/// §5: a client names the address of a victim. The server sends a few heartbeats there, and neither data nor acknowledgements.
#[test]
fn a_victim_gets_nothing_but_heartbeats() {
    let mut config = Config::default();
    config.dynamic_addresses = Some(anabranch_proto::DynamicAddressConfig {
        form: anabranch_proto::AddressForm::Explicit,
    });
    let mut roaming = Roaming::new([config.clone(), config], 1).connect();
    let now = roaming.now;
    let mut addresses = roaming.association(End::Client).local_addresses();
    addresses.add(now, VICTIM).expect("negotiated");
    addresses.ask_primary(now, VICTIM).expect("it is in the list");
    let begin = roaming.now;
    for _ in 0..2000 {
        roaming.send(End::Server, 1000);
        roaming.run(5 * MS);
    }
    let to_victim: Vec<_> = roaming
        .sent
        .iter()
        .filter(|(at, _, packet)| *at >= begin && packet.destination.ip() == VICTIM)
        .collect();
    assert!(
        !to_victim.is_empty() && to_victim.len() <= 12,
        "{}",
        to_victim.len()
    );
    let bytes: usize = to_victim
        .iter()
        .map(|(.., packet)| packet.payload.clone().into_sctp().len())
        .sum();
    assert!(bytes < 1000, "{bytes}");
    assert!(
        to_victim
            .iter()
            .all(|(.., packet)| kinds(packet) == [kind::HEARTBEAT])
    );
    roaming.expect_complete(End::Client);
    let told = roaming.address_events(End::Server);
    assert!(matches!(told[0], AddressEvent::PeerAdded { address: VICTIM, .. }));
}
