//! Attempts to take over an association: set-up, restart and their cookies do not make another host the peer (RFC 9260 §5.2,
//! RFC 5062 §3, §4). M is the attacker, A the endpoint, Z its peer.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use anabranch_netsim::LinkConfig;
use anabranch_proto::{
    AssociationState as State, ConnectOptions, EcnCodepoint, Event, Failover, Handling, PathId, PathState,
    SendOptions, StreamId, Tsn, VerificationTag,
};
use anabranch_testkit::fixture::FULL;
use anabranch_testkit::{FromEndpoint, PORT, Script, Setup, Side, quiet, sack, state_cookie};
use anabranch_wire::cause::Causes;
use anabranch_wire::chunk::{Abort, Chunk, CookieEcho, Heartbeat, HeartbeatAck, Init, InitAck};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use bytes::Bytes;

const SECOND: Duration = Duration::from_secs(1);
const ZERO: VerificationTag = VerificationTag(0);
const ATTACKER: [u8; 4] = [10, 66, 0, 1];

fn listing(addresses: &[IpAddr]) -> Parameters {
    let builder = addresses
        .iter()
        .fold(ParametersBuilder::new(), |builder, address| {
            builder.push(&match *address {
                IpAddr::V4(ip) => Parameter::Ipv4(ip),
                IpAddr::V6(ip) => Parameter::Ipv6(ip),
            })
        });
    builder.finish()
}

fn answers(script: &mut Script) -> Vec<FromEndpoint> {
    core::iter::from_fn(|| script.next_answer()).collect()
}

/// Sends the INIT of a peer with this tag; returns the endpoint's INIT ACK.
fn init(script: &mut Script, tag: u32, parameters: Parameters) -> InitAck {
    let init = Init {
        initiate_tag: VerificationTag(tag),
        initial_tsn: Tsn(tag),
        ..script.init(parameters)
    };
    script.send_tagged(ZERO, &[Chunk::Init(init)]);
    match script.expect_chunk() {
        Chunk::InitAck(ack) => ack,
        other => panic!("INIT ACK, not {other:?}"),
    }
}

fn echo(ack: &InitAck) -> [Chunk; 1] {
    [Chunk::CookieEcho(CookieEcho {
        cookie: state_cookie(ack),
    })]
}

/// The peer has lost all state and sets up again with this tag; returns the packet with its COOKIE ECHO.
fn restart(script: &mut Script, tag: u32) -> Vec<u8> {
    let ack = init(script, tag, Parameters::empty());
    let packet = script.packet(ack.initiate_tag, &echo(&ack));
    script.send_raw(packet.clone());
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    (script.tag, script.tsn) = (VerificationTag(tag), Tsn(tag));
    (script.endpoint_tag, script.endpoint_tsn) = (ack.initiate_tag, ack.initial_tsn);
    packet
}

// A → INIT → Z
// M → INIT (lists Z) → A
// A → INIT ACK (A's tag) → Z, and nothing → M
/// §5.2.1 rule 1: in COOKIE-WAIT and COOKIE-ECHOED the INIT ACK with this endpoint's tag goes only to the address that the INIT
/// was sent to, whatever the source address of the peer's INIT.
#[test]
fn an_init_that_lists_the_server_does_not_learn_the_tag() {
    for echoed in [false, true] {
        let mut script = Script::new(quiet(), 1);
        let own = script.connect();
        let server = script.remote;
        if echoed {
            script.send(&[Chunk::InitAck(script.init_ack(b"a cookie"))]);
            script.skip_answers();
        }
        let attacker = SocketAddr::new(ATTACKER.into(), server.port());
        script.remote = attacker;
        let claims = [
            listing(&[server.ip()]),
            listing(&[server.ip(), attacker.ip()]),
            listing(&[attacker.ip(), server.ip()]),
        ];
        for parameters in claims {
            let init = Init {
                initiate_tag: VerificationTag(0x0bad),
                ..script.init(parameters)
            };
            script.send_tagged(ZERO, &[Chunk::Init(init)]);
            for answer in answers(&mut script) {
                let tells = answer.chunks.iter().any(|chunk| match chunk {
                    Chunk::InitAck(ack) => ack.initiate_tag == own.initiate_tag,
                    _ => false,
                });
                assert!(
                    !tells || answer.destination == server,
                    "told to {}",
                    answer.destination
                );
            }
        }
        // A guess does not help: the endpoint accepts only packets with the tag.
        let mut ack = script.init_ack(b"M's cookie");
        ack.parameters = listing(&[server.ip(), attacker.ip()]);
        script.send_tagged(VerificationTag(own.initiate_tag.0 ^ 1), &[Chunk::InitAck(ack)]);
        script.advance(10 * SECOND);
        assert!(
            answers(&mut script)
                .iter()
                .all(|answer| answer.destination == server)
        );
        // The set-up with the server continues.
        script.remote = server;
        if !echoed {
            script.send(&[Chunk::InitAck(script.init_ack(b"a cookie"))]);
        }
        script.send(&[Chunk::CookieAck]);
        assert_eq!(script.association().state(), State::Established);
        assert_eq!(script.association().tags().1, script.tag);
        assert_eq!(script.association().stats().paths.len(), 1);
    }
}

// A (address 1) → INIT → Z (address 1) and Z (address 2) → INIT → A (address 2), at once
// A → INIT ACK → Z (address 1): where A's own INIT went
/// §5.2.1: both endpoints send INIT at once on different paths, and one association results.
#[test]
fn both_connect_on_different_paths() {
    for (seed, delays) in [[10, 10], [10, 80], [80, 10], [1, 300]].into_iter().enumerate() {
        let link = |ms| LinkConfig::default().with_delay(Duration::from_millis(ms));
        let mut pair = Setup::new(seed as u64)
            .config(quiet())
            .path(link(delays[0]))
            .path(link(delays[1]))
            .build();
        pair.listen(Side::A);
        for (side, path) in Side::BOTH.into_iter().zip([0, 1]) {
            let (now, remote) = (pair.now(), pair.remote(side, path));
            let options = ConnectOptions::default()
                .local_port(Some(PORT))
                .local_address(Some(pair.addresses(side)[path]));
            pair.host_mut(side)
                .connect(now, remote, PORT, options)
                .expect("connect");
        }
        for side in Side::BOTH {
            pair.send(side, 0, "hello");
        }
        pair.run_for(20 * SECOND);
        for side in Side::BOTH {
            assert_eq!(pair.state(side), Some(State::Established), "{delays:?}");
            assert_eq!(pair.host(side).association_ids().count(), 1);
            assert_eq!(pair.association(side).stats().paths.len(), 2);
            let read: Vec<_> = pair.messages(side).into_iter().map(|m| m.bytes).collect();
            assert_eq!(read, ["hello"], "{delays:?}");
        }
    }
}

// Z restarts: INIT, COOKIE ECHO 1 → A; and a second time: INIT, COOKIE ECHO 2 → A
// M → COOKIE ECHO 1 (recorded) → A
/// §5.2.2, §5.2.4: the Tie-Tags belong to one association, so a cookie from before a restart cannot restart it.
#[test]
fn an_old_cookie_does_not_restart() {
    let mut script = Script::new(quiet(), 1);
    script.set_up();
    // This cookie was made before the first restart and is returned after it.
    let unused = init(&mut script, 0x5000, Parameters::empty());
    let unused = script.packet(unused.initiate_tag, &echo(&unused));
    let first = restart(&mut script, 0x5001);
    let second = restart(&mut script, 0x5002);
    script.events();
    let tags = script.association().tags();
    for old in [unused, first] {
        script.send_raw(old);
        script.expect_silence();
        assert_eq!(script.association().tags(), tags);
        assert_eq!(script.events(), []);
    }
    // The newest cookie belongs to the same set-up.
    script.send_raw(second);
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    assert_eq!(script.events(), []);
    assert_eq!(script.association().counters().restarts, 2);
}

// Z ↔ A: set-up (COOKIE ECHO recorded); Z → ABORT → A
// M → COOKIE ECHO (from Z's address and another UDP port) → A; A → ABORT → M's port
/// §5.3.1: an association that ended is not set up again with its tag. Its cookie may be valid, and an attacker could replay its data too. Z
/// may have missed an ABORT, and is told.
#[test]
fn an_association_that_ended_does_not_begin_again() {
    let mut script = Script::new(quiet(), 1);
    // The peer asked for the longest lifetime of its cookie.
    let mut wish = ParametersBuilder::new();
    wish = wish.push(&Parameter::CookiePreservative { increment_ms: 60_000 });
    let tag = script.tag.0;
    let ack = init(&mut script, tag, wish.finish());
    let packet = script.packet(ack.initiate_tag, &echo(&ack));
    script.send_raw(packet.clone());
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    let abort = Chunk::Abort(Abort {
        reflected_tag: false,
        causes: Causes::empty(),
    });
    script.send_tagged(ack.initiate_tag, std::slice::from_ref(&abort));
    script.events();
    let heartbeat = Chunk::Heartbeat(Heartbeat {
        tlvs: Bytes::from_static(b"\0\x01\0\x08yoho"),
    });
    let own = script.remote.port();
    for port in [own, own + 1] {
        script.advance(55 * SECOND);
        // The endpoint looks for associations to forget when a packet out of the blue arrives.
        script.send_tagged(ack.initiate_tag, std::slice::from_ref(&heartbeat));
        script.skip_answers();
        script.remote.set_port(port);
        script.send_raw(packet.clone());
        let answer = script.expect();
        assert_eq!(
            (answer.destination.port(), answer.header.verification_tag),
            (port, script.tag)
        );
        assert_eq!(answer.only(), abort);
        assert_eq!(script.host_mut().association_ids().count(), 1);
    }
}

// Z ↔ A: set-up (COOKIE ECHO 1 recorded); Z restarts: INIT, COOKIE ECHO 2 → A
// M → COOKIE ECHO 1 (from Z's address and another UDP port) → A
/// §5.3.1: the tag that an association had before a restart sets up no second association beside it, which could deliver data from before
/// the restart.
#[test]
fn a_cookie_from_before_a_restart_begins_no_association() {
    let mut script = Script::new(quiet(), 1);
    script.set_up();
    let former = restart(&mut script, 0x5001);
    restart(&mut script, 0x5002);
    script.remote.set_port(script.remote.port() + 1);
    script.send_raw(former);
    script.expect_silence();
    assert_eq!(script.host_mut().association_ids().count(), 1);
}

// Z (two addresses) restarts with one of its addresses
// Y → INIT (from the other address, the same ports) → A
// A → INIT ACK → Y
/// §5.2.4 A: an address that a restart leaves out no longer belongs to the peer. Another host with this address is not refused
/// as a restart with a new address.
#[test]
fn an_address_that_a_restart_omits_is_free() {
    let left = IpAddr::from([10, 1, 0, 2]);
    let mut script = Script::new(quiet(), 1);
    script.set_up_with(listing(&[left]));
    restart(&mut script, 0x5001);
    let tag = script.endpoint_tag;
    script.remote.set_ip(left);
    let stray = script.data(0, 0, "from an address that is not the peer's");
    script.send_tagged(tag, &[stray]);
    script.skip_answers();
    assert_eq!(script.messages(), []);
    script.tag = VerificationTag(0x5002);
    script.set_up();
    assert_eq!(script.host_mut().endpoint_mut().association_count(), 2);
}

// M → INIT (lists Z's second address, at Z's ports), COOKIE ECHO → A
// A → INIT → Z; A ← INIT ACK (lists both addresses) ← Z … ESTABLISHED
// Z (second address) → HEARTBEAT → A
// A → HEARTBEAT ACK → Z
/// RFC 5062 §2: an address that another host listed before belongs to the peer if the tag of its packets is the peer's.
#[test]
fn an_address_that_another_host_listed_belongs_to_the_peer() {
    let second = IpAddr::from([10, 1, 0, 2]);
    let mut script = Script::new(quiet(), 1);
    let peer = script.remote;
    (script.port, script.remote) = (PORT, SocketAddr::new(ATTACKER.into(), peer.port()));
    script.set_up_with(listing(&[second]));
    script.remote = peer;
    connect_from_the_port(&mut script);
    let mut ack = script.init_ack(b"a cookie");
    let cookie = Parameter::StateCookie(Bytes::from_static(b"a cookie"));
    ack.parameters = ParametersBuilder::new()
        .push(&Parameter::Ipv4([10, 1, 0, 2].into()))
        .push(&cookie)
        .finish();
    script.send(&[Chunk::InitAck(ack)]);
    script.send(&[Chunk::CookieAck]);
    script.skip_answers();
    script.remote.set_ip(second);
    script.send(&[Chunk::Heartbeat(Heartbeat {
        tlvs: Bytes::from_static(b"\0\x01\0\x08yoho"),
    })]);
    let answer = script.expect();
    assert_eq!(answer.destination.ip(), second);
    assert!(matches!(answer.only(), Chunk::HeartbeatAck(_)));
}

/// A starts an association from its listening port, with the host at this address and the same ports. Returns A's INIT.
fn connect_from_the_port(script: &mut Script) -> Init {
    let (now, remote) = (script.now(), script.remote);
    let options = ConnectOptions::default().local_port(Some(PORT));
    let connected = script.host_mut().connect(now, remote, PORT, options);
    connected.expect("nobody has that address");
    script.act(|_, _| ());
    let Chunk::Init(own) = script.expect_chunk() else {
        panic!("INIT")
    };
    (script.endpoint_tag, script.endpoint_tsn) = (own.initiate_tag, own.initial_tsn);
    own
}

// M → INIT (lists Z, at Z's ports), COOKIE ECHO → A; Z → ABORT (T bit) → A: Z does not know that association
// A → INIT → Z
// M → INIT (lists Z), COOKIE ECHO → A: a restart
// Z → INIT → A; A → INIT ACK (the tag of A's INIT) → Z
/// RFC 5062 §2: if another host lists the peer's address in a restart, the peer's INIT still belongs to the association that A sets up
/// with the peer. Both INITs have one result.
#[test]
fn a_restart_that_lists_the_peer_does_not_take_its_inits() {
    let mut script = Script::new(quiet(), 1);
    let (peer, attacker) = (
        script.remote,
        SocketAddr::new(ATTACKER.into(), script.remote.port()),
    );
    let claims = listing(&[peer.ip()]);
    (script.port, script.remote) = (PORT, attacker);
    script.set_up_with(claims.clone());
    script.advance(Duration::from_millis(1));
    script.skip_answers();
    script.remote = peer;
    script.send_tagged(
        script.tag,
        &[Chunk::Abort(Abort {
            reflected_tag: true,
            causes: Causes::empty(),
        })],
    );
    let own = connect_from_the_port(&mut script);
    script.remote = attacker;
    let again = init(&mut script, 0x5001, claims);
    script.send_tagged(again.initiate_tag, &echo(&again));
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    script.skip_answers();
    script.remote = peer;
    let answer = init(&mut script, 0x5002, Parameters::empty());
    assert_eq!(
        (answer.initiate_tag, answer.initial_tsn),
        (own.initiate_tag, own.initial_tsn)
    );
}

// A → INIT → Z; Z → INIT → A, late
// M → INIT ACK (of Z, from Z's address and another UDP port) → A
// A → COOKIE ECHO → M's port
// Z → INIT (arrives) → A; A → INIT ACK (the tag of A's INIT) → Z
/// RFC 6951 §5.4: an INIT ACK that another host returned from another UDP port does not hide the association from the peer's INIT, which
/// would begin a second association with the same peer.
#[test]
fn an_init_ack_from_another_port_does_not_hide_the_set_up() {
    let mut script = Script::new(quiet(), 1);
    script.port = PORT;
    let own = connect_from_the_port(&mut script);
    let udp_port = script.remote.port();
    script.remote.set_port(udp_port + 1);
    script.send(&[Chunk::InitAck(script.init_ack(b"a cookie"))]);
    assert!(matches!(script.expect_chunk(), Chunk::CookieEcho(_)));
    script.remote.set_port(udp_port);
    let tag = script.tag.0;
    let answer = init(&mut script, tag, Parameters::empty());
    assert_eq!(answer.initiate_tag, own.initiate_tag);
    script.send(&[Chunk::CookieAck]);
    assert_eq!(script.association().state(), State::Established);
    assert_eq!(script.host_mut().endpoint_mut().association_count(), 1);
}

fn send(script: &mut Script) {
    script.act(|association, now| {
        association
            .send(now, StreamId(0), "message".into(), SendOptions::default())
            .expect("send");
    });
}

// A → DATA → Z; A ← SACK ← Z
// M → HEARTBEAT (recorded, from Z's address and another UDP port) → A
// A → DATA → M's port; A → DATA (T3-rtx) → Z
/// RFC 6951 §5.4: a replayed packet from another UDP port moves the peer's port. If packets to the new port are not answered,
/// the next one goes to the port that answered last. So two endpoints that both follow replayed packets find each other again.
#[test]
fn a_port_that_was_moved_by_somebody_else_is_left_again() {
    let mut script = Script::new(quiet(), 1);
    script.set_up();
    let own = script.remote.port();
    send(&mut script);
    let acknowledged = sack(script.endpoint_tsn);
    script.send(&[acknowledged]);
    for moved in [own + 1, own + 2] {
        script.remote.set_port(moved);
        script.send(&[Chunk::Heartbeat(Heartbeat {
            tlvs: Bytes::from_static(b"\0\x01\0\x08yoho"),
        })]);
    }
    script.skip_answers();
    send(&mut script);
    for expected in [own + 2, own, own + 2, own] {
        assert_eq!(script.expect().destination.port(), expected);
        script.advance_to_timeout();
    }
}

// A → DATA → Z; M reads Z's SACK, and replays it from another UDP port before it arrives
// A → DATA → M's port; A → DATA (T3-rtx) → Z
/// RFC 6951 §5.4: an answer that arrives from another UDP port than the one that was asked may be replayed. The former port is still tried
/// when the new one does not answer.
#[test]
fn an_answer_from_a_port_that_was_not_asked_does_not_replace_the_former_port() {
    let mut script = Script::new(quiet(), 1);
    script.set_up();
    let own = script.remote.port();
    send(&mut script);
    assert_eq!(script.expect().destination.port(), own);
    script.remote.set_port(own + 1);
    let acknowledged = sack(script.endpoint_tsn);
    script.send(&[acknowledged]);
    send(&mut script);
    for expected in [own + 1, own, own + 1, own] {
        assert_eq!(script.expect().destination.port(), expected);
        script.advance_to_timeout();
    }
}

// A → DATA → Z's port; the translator gives Z another port
// Z → HEARTBEAT (from the new port) → A, before each T3-rtx
// A → DATA (T3-rtx) → Z's new port
/// RFC 6951 §5.4: a peer that sends nothing but heartbeats is found at its new port. The port that answered last is tried only after the
/// new one was asked.
#[test]
fn a_new_port_is_asked_before_the_former_one() {
    let mut script = Script::new(quiet(), 1);
    script.set_up();
    let own = script.remote.port();
    script.act(|association, now| {
        association
            .send(now, StreamId(0), "message".into(), SendOptions::default())
            .expect("send");
    });
    assert_eq!(script.expect().destination.port(), own);
    script.remote.set_port(own + 1);
    for _ in 0..3 {
        script.send(&[Chunk::Heartbeat(Heartbeat {
            tlvs: Bytes::from_static(b"\0\x01\0\x08yoho"),
        })]);
        script.skip_answers();
        script.advance_to_timeout();
        assert_eq!(script.expect().destination.port(), own + 1);
        script.remote.set_port(own + 2);
        script.send(&[Chunk::Heartbeat(Heartbeat {
            tlvs: Bytes::from_static(b"\0\x01\0\x08yoho"),
        })]);
        script.skip_answers();
        script.advance_to_timeout();
        assert_eq!(script.expect().destination.port(), own + 2);
        script.remote.set_port(own + 1);
    }
}

/// The same endpoint, from the same seed, with an association whose peer at this SCTP port is about to restart; returns the
/// INIT ACK for the restart.
fn about_to_restart(port: u16) -> (Script, InitAck) {
    let mut script = Script::new(quiet(), 1);
    script.port = port;
    script.set_up();
    let ack = init(&mut script, 0x5001, Parameters::empty());
    (script, ack)
}

// Z1 → INIT → A; A → INIT ACK (tag T) → Z1    a restart
// Z2 → COOKIE ECHO (tag T) → A                another association, which already has the tag T
// Z1 → COOKIE ECHO (tag T) → A
/// §5.3.1: a restart never takes the tag of another association of the endpoint, because packets are matched to associations by
/// their tags.
#[test]
fn a_restart_does_not_take_the_tag_of_another_association() {
    let (_, other) = about_to_restart(7001);
    let (mut script, ack) = about_to_restart(7000);
    assert_eq!(
        ack.initiate_tag, other.initiate_tag,
        "the same seed draws the same tag"
    );
    let first = script.id();
    script.port = 7001;
    script.send_tagged(other.initiate_tag, &echo(&other));
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    assert_ne!(script.id(), first, "an association of its own");
    script.port = 7000;
    script.send_tagged(ack.initiate_tag, &echo(&ack));
    script.expect_silence();
    // The other association still gets its packets.
    script.port = 7001;
    (script.endpoint_tag, script.tsn) = (other.initiate_tag, Tsn(0x5001));
    let data = script.data(0, 0, "for the second");
    script.send(&[data]);
    let read: Vec<_> = script
        .messages()
        .into_iter()
        .map(|message| message.bytes)
        .collect();
    assert_eq!(read, ["for the second"]);
    let first = first.expect("it was set up");
    let first = script.host_mut().association(first).expect("it is there");
    assert_eq!(
        (first.state(), first.counters().restarts),
        (State::Established, 0)
    );
}

// M → INIT (lists V), COOKIE ECHO → A
// A → HEARTBEAT → V, more than Path.Max.Retrans times
// M (as V) → DATA, HEARTBEAT → A
// A → SACK → M
// A → DATA → M, many times: never to V
/// §5.4: an address that never answered gets only HEARTBEATs and HEARTBEAT ACKs, however long it does not answer, and even if
/// no other path is better.
#[test]
fn an_address_that_never_answered_is_not_answered() {
    let victim = IpAddr::from([10, 1, 0, 2]);
    let mut config = quiet();
    config.heartbeat.interval = Some(SECOND);
    config.rto.max = 2 * SECOND;
    config.retransmissions.path_max_retrans = 1;
    config.retransmissions.failover = Failover::PotentiallyFailed { max_retrans: 0 };
    let mut script = Script::new(config, 1);
    script.set_up_with(listing(&[victim]));
    let attacker = script.remote;
    let heartbeat = Chunk::Heartbeat(Heartbeat {
        tlvs: Bytes::from_static(b"\0\x01\0\x08yoho"),
    });
    // More HEARTBEATs than Path.Max.Retrans.
    for _ in 0..30 {
        script.advance(SECOND);
        let acknowledged: Vec<_> = answers(&mut script)
            .into_iter()
            .filter(|answer| answer.destination == attacker)
            .flat_map(|answer| answer.chunks)
            .collect();
        for chunk in acknowledged {
            if let Chunk::Heartbeat(heartbeat) = chunk {
                let info = heartbeat.info().expect("a Heartbeat Info");
                script.send(&[Chunk::HeartbeatAck(HeartbeatAck::new(info))]);
            }
        }
    }
    assert_eq!(
        script.association().stats().paths[1].state,
        PathState::Unconfirmed
    );
    script.remote.set_ip(victim);
    let data = script.data(0, 0, "who asked for an answer?");
    script.send(&[data.clone(), heartbeat]);
    script.send(&[data]);
    script.act(|association, now| {
        association
            .send(now, StreamId(0), "for M".into(), SendOptions::default())
            .expect("send");
        assert!(
            association.set_primary_path(PathId(1)).is_err(),
            "it is not confirmed"
        );
    });
    script.advance(60 * SECOND);
    let mut asked = 0;
    for answer in answers(&mut script) {
        if answer.destination.ip() == victim {
            let harmless = |chunk: &Chunk| matches!(chunk, Chunk::Heartbeat(_) | Chunk::HeartbeatAck(_));
            assert!(answer.chunks.iter().all(harmless), "{:?}", answer.chunks);
            asked += 1;
        }
    }
    assert!(asked > 0, "heartbeats");
}

/// An association with a peer of three addresses, each confirmed.
fn with_three_paths() -> Script {
    let mut config = quiet();
    config.path_mtu_limit = 1500;
    let mut script = Script::new(config, 1);
    script.set_up_with(listing(&[[10, 1, 0, 2].into(), [10, 2, 0, 2].into()]));
    let first = script.remote;
    for _ in 0..8 {
        script.advance(SECOND);
        for answer in answers(&mut script) {
            for chunk in answer.chunks {
                if let Chunk::Heartbeat(heartbeat) = chunk {
                    script.remote = answer.destination;
                    script.send(&[Chunk::HeartbeatAck(HeartbeatAck::answering(heartbeat))]);
                }
            }
        }
    }
    script.remote = first;
    script.skip_answers();
    script
}

/// Fills packets on a path until a probe for a larger path MTU leaves.
fn fill(script: &mut Script, path: u8) {
    script.act(|association, now| {
        association
            .set_primary_path(PathId(path))
            .expect("it is confirmed");
        for _ in 0..12 {
            association
                .send(now, StreamId(0), vec![1; FULL].into(), SendOptions::default())
                .expect("send");
        }
    });
    while let Some(last) = answers(script)
        .iter()
        .flat_map(FromEndpoint::data)
        .map(|data| data.tsn)
        .last()
    {
        script.send(&[sack(last)]);
    }
}

// A: a probe of each path is due, and the socket takes one
// Z → INIT (lists no address), COOKIE ECHO → A
// A → COOKIE ACK → Z
/// §5.2.4 A: after a restart with fewer addresses, packets that waited for a removed path are dropped.
#[test]
fn a_restart_with_fewer_addresses_while_the_socket_is_full() {
    let mut script = with_three_paths();
    (0..3).for_each(|path| fill(&mut script, path));
    assert_eq!(script.association().counters().mtu_probes_sent, 3);
    let ack = init(&mut script, 0x5001, Parameters::empty());
    let packet = script.packet(ack.initiate_tag, &echo(&ack));
    let (later, remote, local) = (script.now() + 60 * SECOND, script.remote, script.local.ip());
    let endpoint = script.host_mut().endpoint_mut();
    let Handling::Deliver(id, inbound) =
        endpoint.handle_datagram(later, Some(local), remote, packet.into(), EcnCodepoint::NotEct)
    else {
        panic!("for the association")
    };
    let association = script.host_mut().association_mut(id).expect("it is there");
    let mut buffer = Vec::new();
    let one = association.poll_transmit(later, &mut buffer, 1);
    assert!(one.is_some(), "a probe, after which the socket is full");
    assert_eq!(association.counters().mtu_probes_sent, 6, "two more wait");
    association.handle_packet(later, inbound);
    let mut sent = 0;
    while let Some(transmit) = association.poll_transmit(later, &mut buffer, 1) {
        assert_eq!((transmit.path, transmit.destination), (PathId(0), remote));
        sent += 1;
    }
    assert_eq!(sent, 1, "COOKIE ACK");
    assert_eq!(association.stats().paths.len(), 1);
    assert!(core::iter::from_fn(|| association.poll_event()).any(|event| event == Event::Restarted));
}
