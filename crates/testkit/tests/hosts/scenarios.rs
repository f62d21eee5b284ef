//! Single rules of a host with several addresses, with the packets drawn. Z is the endpoint, with L1 and more addresses; P is
//! its peer, with R1 and more.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use anabranch_proto::{
    AssociationState, Config, ConnectOptions, EcnCodepoint, Endpoint, Event, Handling, PathId,
    PathRequestError, PathState, SendOptions, StreamId, VerificationTag,
};
use anabranch_testkit::{FromEndpoint, PORT, Script, quiet, state_cookie};
use anabranch_wire::cause::Causes;
use anabranch_wire::chunk::{Abort, Chunk, CookieEcho, Heartbeat, HeartbeatAck};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use bytes::Bytes;

const SECOND: Duration = Duration::from_secs(1);
/// The endpoint's addresses; it lists none of them.
const L1: IpAddr = ip([10, 0, 0, 1]);
const L2: IpAddr = ip([10, 0, 1, 1]);
/// The peer's addresses.
const R1: IpAddr = ip([10, 0, 0, 2]);
const R2: IpAddr = ip([10, 0, 1, 2]);
/// An address of the peer that no local address can reach.
const R6: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 2));

const fn ip([a, b, c, d]: [u8; 4]) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(a, b, c, d))
}

fn listing(addresses: &[IpAddr]) -> Parameters {
    let builder = addresses
        .iter()
        .fold(ParametersBuilder::new(), |builder, address| {
            builder.push(&match address {
                IpAddr::V4(ip) => Parameter::Ipv4(*ip),
                IpAddr::V6(ip) => Parameter::Ipv6(*ip),
            })
        });
    builder.finish()
}

fn script(config: Config) -> Script {
    let script = Script::new(config, 1);
    assert_eq!((script.local.ip(), script.remote.ip()), (L1, R1));
    script
}

/// Z with an association from an INIT of P that lists these addresses. Z's HEARTBEATs to them have left.
fn listed(config: Config, addresses: &[IpAddr]) -> Script {
    let mut script = script(config);
    script.set_up_with(listing(addresses));
    script.events();
    script.advance(SECOND / 10);
    script
}

fn answers(script: &mut Script) -> Vec<FromEndpoint> {
    core::iter::from_fn(|| script.next_answer()).collect()
}

fn heartbeat() -> Chunk {
    Chunk::Heartbeat(Heartbeat::new("from the peer"))
}

/// A host's answer to a packet of an association that it does not have (§8.4 rule 8).
fn reflected_abort() -> Chunk {
    Chunk::Abort(Abort {
        reflected_tag: true,
        causes: Causes::empty(),
    })
}

fn info(answer: FromEndpoint) -> Bytes {
    match answer.only() {
        Chunk::Heartbeat(heartbeat) => heartbeat.info().expect("a Heartbeat Info"),
        other => panic!("HEARTBEAT, not {other:?}"),
    }
}

// P (R1) → INIT (lists R1, R2), COOKIE ECHO → Z (L1)
// P (R2) ← HEARTBEAT ← Z (L1)
// P (R2) → HEARTBEAT → Z (L1); P (R2) ← HEARTBEAT ACK ← Z (L1)
/// §5.1.2: if an endpoint lists no addresses, the peer knows only the address that set-up used.
#[test]
fn all_packets_leave_from_the_address_of_set_up() {
    let mut script = listed(Config::default(), &[R1, R2]);
    let probe = script.expect();
    assert_eq!((probe.source, probe.destination.ip()), (L1, R2));
    script.remote.set_ip(R2);
    let ack = Chunk::HeartbeatAck(HeartbeatAck::new(info(probe)));
    script.send(&[ack, heartbeat()]);
    let answer = script.expect();
    assert_eq!((answer.source, answer.destination.ip()), (L1, R2));
    assert_eq!(script.association().stats().paths[1].state, PathState::Active);
    let data = script.data(0, 0, "from R2");
    script.send(&[data]);
    script.advance(120 * SECOND);
    let all = answers(&mut script);
    assert!(all.len() > 4, "SACK, heartbeats");
    assert!(all.iter().all(|answer| answer.source == L1), "{all:?}");
}

// P (R1) ← INIT ← Z (by routing)
// P (R1) → INIT ACK (lists R1, R2) → Z (L2)
// P (R1) ← COOKIE ECHO ← Z (L2); P (R2) ← HEARTBEAT ← Z (L2)
/// The INIT ACK tells a client the address by which the peer knows it.
#[test]
fn a_client_learns_its_address_from_the_init_ack() {
    let mut script = script(Config::default());
    script.connect();
    script.local.set_ip(L2);
    let mut init_ack = script.init_ack(b"a cookie");
    let cookie = Parameter::StateCookie(Bytes::from_static(b"a cookie"));
    init_ack.parameters = ParametersBuilder::new()
        .push(&Parameter::Ipv4([10, 0, 1, 2].into()))
        .push(&cookie)
        .finish();
    script.send(&[Chunk::InitAck(init_ack)]);
    assert_eq!(script.expect().source, L2, "COOKIE ECHO");
    script.send(&[Chunk::CookieAck]);
    script.advance(SECOND / 10);
    let probe = script.expect();
    assert_eq!((probe.source, probe.destination.ip()), (L2, R2));
}

// P → INIT (lists R1, R2, an IPv6 address), COOKIE ECHO → Z, without the local address
/// Without packet information the local address is unknown. Routing chooses it, and R2 may not be reachable from it.
#[test]
fn without_a_known_local_address_no_path_is_added() {
    let mut peer = script(quiet());
    let mut endpoint = Endpoint::new(Config::default(), [1; 32]).expect("the settings are in range");
    endpoint.listen(PORT).expect("not port 0");
    let (now, remote) = (peer.now(), peer.remote);
    let init = peer.packet(
        VerificationTag(0),
        &[Chunk::Init(peer.init(listing(&[R1, R2, R6])))],
    );
    let Handling::Reply(reply) =
        endpoint.handle_datagram(now, None, remote, init.into(), EcnCodepoint::NotEct)
    else {
        panic!("INIT ACK")
    };
    let packet = anabranch_wire::packet::Packet::parse(reply.packet).expect("it is right");
    let first = packet.chunks().next().expect("a chunk").expect("a chunk");
    let Ok(Chunk::InitAck(ack)) = Chunk::decode(first) else {
        panic!("INIT ACK")
    };
    peer.endpoint_tag = ack.initiate_tag;
    let echo = Chunk::CookieEcho(CookieEcho {
        cookie: state_cookie(&ack),
    });
    let echo = peer.packet(ack.initiate_tag, &[echo]);
    let Handling::Accept(_, association) =
        endpoint.handle_datagram(now, None, remote, echo.into(), EcnCodepoint::NotEct)
    else {
        panic!("an association")
    };
    let paths = association.stats().paths;
    assert_eq!((paths.len(), paths[0].local), (1, None), "{paths:?}");
}

// P → INIT (lists R1, an IPv6 address, fe80::2) → Z (L1)
// P restarts: P → INIT (lists the same), COOKIE ECHO → Z
/// Addresses that no local address can reach are not used, but they belong to the peer: a restart that lists them adds no
/// address (§5.2.2).
#[test]
fn unused_addresses_still_belong_to_the_peer() {
    let link_local: IpAddr = "fe80::2".parse().expect("an address");
    let addresses = [R1, R6, link_local];
    let mut script = listed(Config::default(), &addresses);
    assert_eq!(script.association().stats().paths.len(), 1);
    script.expect_silence();
    script.tag = VerificationTag(0x0bad_cafe);
    script.set_up_with(listing(&addresses));
    assert_eq!(script.association().counters().restarts, 1);
    assert_eq!(script.events()[0], Event::Restarted);
}

// P (R1) → INIT (lists R2), COOKIE ECHO → Z (L1)
// P (R1) → INIT (lists R2), COOKIE ECHO → Z (L2): a restart
// P (R2) ← HEARTBEAT ← Z (L2)
/// §5.2.4 A: a peer that restarted knows only the address that the new set-up used.
#[test]
fn a_restart_may_come_to_another_address() {
    let mut script = listed(Config::default(), &[R2]);
    script.skip_answers();
    script.tag = VerificationTag(0x0bad_cafe);
    script.local.set_ip(L2);
    script.set_up_with(listing(&[R2]));
    assert_eq!(script.association().counters().restarts, 1);
    script.advance(SECOND / 10);
    let probe = script.expect();
    assert_eq!((probe.source, probe.destination.ip()), (L2, R2));
    let locals = script.association().stats().paths;
    assert!(locals.iter().all(|path| path.local == Some(L2)), "{locals:?}");
}

// P (R1) ← INIT ← Z (by routing)
// P (R1) → INIT (lists R1, R2) → Z (L2); P (R1) ← INIT ACK ← Z (L2)
// P (R1) → COOKIE ECHO → Z (L2); P (R1) ← COOKIE ACK ← Z (L2); P (R2) ← HEARTBEAT ← Z (L2)
/// §5.2.4 B: if both endpoints send INIT at once, the peer knows the address to which it sent its own INIT.
#[test]
fn a_collision_at_another_address() {
    let mut script = script(Config::default());
    let (now, remote, port) = (script.now(), script.remote, script.port);
    let options = ConnectOptions::default().local_port(Some(PORT));
    let connected = script.host_mut().connect(now, remote, port, options);
    connected.expect("connect");
    script.act(|_, _| ());
    assert!(script.expect().source.is_unspecified(), "INIT");
    script.local.set_ip(L2);
    script.send_tagged(
        VerificationTag(0),
        &[Chunk::Init(script.init(listing(&[R1, R2])))],
    );
    let answer = script.expect();
    assert_eq!(answer.source, L2);
    let Chunk::InitAck(ack) = answer.only() else {
        panic!("INIT ACK")
    };
    script.endpoint_tag = ack.initiate_tag;
    script.send(&[Chunk::CookieEcho(CookieEcho {
        cookie: state_cookie(&ack),
    })]);
    assert_eq!(script.association().state(), AssociationState::Established);
    script.advance(SECOND / 10);
    let all = answers(&mut script);
    assert!(all.len() >= 2, "COOKIE ACK, HEARTBEAT");
    assert!(all.iter().all(|answer| answer.source == L2), "{all:?}");
}

// P (R2) ← HEARTBEAT ← Z; another host at R2 → ABORT (T bit) → Z
// P (R1) → DATA → Z; P (R1) ← SACK ← Z
/// §5.4, §8.4: an ABORT with the T bit from an address that was never confirmed comes from a host without the association. The
/// association continues without that path, which gets HEARTBEATs at the usual interval.
#[test]
fn an_abort_from_an_unconfirmed_address_fails_its_path_only() {
    let mut script = listed(Config::rfc9260(), &[R2]);
    assert_eq!(script.expect().destination.ip(), R2);
    script.remote.set_ip(R2);
    script.send_tagged(script.tag, &[reflected_abort()]);
    script.remote.set_ip(R1);
    assert_eq!(script.association().state(), AssociationState::Established);
    assert_eq!(
        script.association().stats().paths[1].state,
        PathState::Unconfirmed
    );
    script.advance(29 * SECOND);
    script.expect_silence();
    for number in 0..3 {
        let data = script.data(0, number, "from R1");
        script.send(&[data]);
        script.advance(SECOND);
    }
    let to_r2 = |answer: &FromEndpoint| answer.destination.ip() == R2;
    let all = answers(&mut script);
    assert_eq!(all.iter().filter(|answer| to_r2(answer)).count(), 1, "{all:?}");
    assert_eq!(script.events(), []);
    // An ABORT with the endpoint's own tag is the peer's, from any address.
    script.remote.set_ip(R2);
    script.send(&[Chunk::Abort(Abort {
        reflected_tag: false,
        causes: Causes::empty(),
    })]);
    assert_eq!(script.association().state(), AssociationState::Closed);
}

// P (R1) → ABORT (T bit) → Z; P (R2), once it is confirmed, → ABORT (T bit) → Z
/// §8.5.1 B: from a confirmed address, the ABORT ends the association.
#[test]
fn an_abort_from_a_confirmed_address_ends_the_association() {
    for from in [R1, R2] {
        let mut script = listed(Config::default(), &[R2]);
        script.remote.set_ip(R2);
        let info = info(script.expect());
        script.send(&[Chunk::HeartbeatAck(HeartbeatAck::new(info))]);
        script.remote.set_ip(from);
        script.send_tagged(script.tag, &[reflected_abort()]);
        assert_eq!(script.association().state(), AssociationState::Closed, "{from}");
    }
}

// P (R2) ← HEARTBEAT, many times, ← Z, and no answer; then there is no answer from R1 either
/// §5.4: an address that was never confirmed stays unconfirmed, however many HEARTBEATs it leaves unanswered. It gets no data
/// and cannot become the primary path.
#[test]
fn an_unconfirmed_address_stays_unconfirmed() {
    let mut script = listed(Config::default().with_fast_failover(), &[R2]);
    for _ in 0..600 {
        script.advance(SECOND / 10);
        for answer in answers(&mut script) {
            if answer.destination.ip() == R1 {
                let info = info(answer);
                script.send(&[Chunk::HeartbeatAck(HeartbeatAck::new(info))]);
            }
        }
    }
    let path = script.association().stats().paths.swap_remove(1);
    assert!(path.error_count > 5, "{path:?}");
    assert_eq!(path.state, PathState::Unconfirmed);
    script.skip_answers();
    let refused = script.act(|association, _| association.set_primary_path(PathId(1)));
    assert_eq!(refused, Err(PathRequestError::Unconfirmed(1)));
    script
        .act(|association, now| {
            let message = Bytes::from_static(&[1; 1000]);
            association.send(now, StreamId(0), message, SendOptions::default())
        })
        .expect("it is established");
    script.advance(120 * SECOND);
    let sent = answers(&mut script);
    let is_data = |answer: &&FromEndpoint| answer.data().next().is_some();
    let destinations: Vec<_> = sent
        .iter()
        .filter(is_data)
        .map(|answer| answer.destination.ip())
        .collect();
    assert!(destinations.len() > 3, "{sent:?}");
    assert!(
        destinations.iter().all(|address| *address == R1),
        "{destinations:?}"
    );
}

// P (R1) → INIT (lists 20 addresses), COOKIE ECHO → Z
// P (the 20th) → HEARTBEAT → Z
/// The peer has more addresses than the endpoint keeps. A packet with the association's tag from another address is the peer's.
/// An ABORT (§8.4 rule 8) would end the association at the peer while it exists here.
#[test]
fn a_packet_of_an_association_from_another_address_is_not_answered() {
    let many: Vec<_> = (0..20).map(|last| ip([10, 1, 0, last + 1])).collect();
    let mut script = listed(Config::default(), &many);
    script.skip_answers();
    script.remote.set_ip(many[19]);
    script.send(&[heartbeat()]);
    script.expect_silence();
    script.send_tagged(VerificationTag(script.endpoint_tag.0 ^ 1), &[heartbeat()]);
    assert_eq!(
        script.expect_chunk(),
        reflected_abort(),
        "under another tag it is out of the blue"
    );
    let port = core::mem::replace(&mut script.port, 1);
    script.send(&[heartbeat()]);
    assert_eq!(script.expect_chunk(), reflected_abort(), "at another port too");
    script.port = port;
    // The same peer after its restart.
    script.remote.set_ip(R1);
    script.tag = VerificationTag(0x0bad_cafe);
    script.set_up_with(listing(&many));
    assert_eq!(script.association().counters().restarts, 1);
}

// P (fe80::2 on interface 3) → INIT (lists fe80::3, fd00::2) → Z (fe80::1) …
/// RFC 4007 §6: a link-local address is valid only with its interface, and reaches only link-local addresses.
#[test]
fn link_local_addresses() {
    let [own, peer, other]: [std::net::Ipv6Addr; 3] =
        ["fe80::1", "fe80::2", "fe80::3"].map(|text| text.parse().expect("an address"));
    let on_interface = |address| SocketAddr::V6(std::net::SocketAddrV6::new(address, 9899, 0, 3));
    let mut script = Script::new(Config::default(), 1);
    script.local = on_interface(own);
    script.remote = on_interface(peer);
    script.set_up_with(listing(&[other.into(), R6]));
    script.advance(SECOND / 10);
    let probe = script.expect();
    assert_eq!(
        (probe.source, probe.destination),
        (own.into(), on_interface(other))
    );
    script.send(&[heartbeat()]);
    assert_eq!(script.expect().destination, on_interface(peer));
    assert_eq!(script.association().stats().paths.len(), 2);
    let (now, remote) = (script.now(), on_interface(other));
    let connected = script
        .host_mut()
        .connect(now, remote, 4000, ConnectOptions::default());
    connected.expect("connect");
    script.act(|_, _| ());
    assert_eq!(script.expect().destination, remote, "INIT");
}
