//! Association set-up (RFC 9260 §5.1): the four packets, their parameters, timers and cookies.

use core::time::Duration;
use std::net::IpAddr;

use anabranch_netsim::{LinkConfig, LossModel};
use anabranch_proto::{
    AddressTypes, AssociationState as State, CloseReason, Event, SendError, SendOptions, StreamId,
    VerificationTag,
};
use anabranch_testkit::{Script, Setup, Side, quiet, sack, state_cookie};
use anabranch_wire::chunk::{Chunk, CookieEcho, InitAck, kind};
use anabranch_wire::parameter::{Parameter, Parameters, ParametersBuilder};
use bytes::Bytes;

const SECOND: Duration = Duration::from_secs(1);
const ZERO: VerificationTag = VerificationTag(0);

fn nobody() -> Script {
    Script::new(quiet(), 1)
}

fn associations(script: &mut Script) -> usize {
    script.host_mut().endpoint_mut().association_count()
}

fn state(script: &Script) -> State {
    script.association().state()
}

fn established_event(script: &mut Script) -> (u16, u16) {
    let told = script.events().into_iter().find_map(|event| match event {
        Event::Established {
            outbound_streams,
            inbound_streams,
        } => Some((outbound_streams, inbound_streams)),
        _ => None,
    });
    told.expect("Established is told")
}

/// The peer's INIT with these parameters, and the endpoint's INIT ACK.
fn init_ack(script: &mut Script, parameters: Parameters) -> InitAck {
    let init = script.init(parameters);
    script.send_tagged(ZERO, &[Chunk::Init(init)]);
    let answer = script.expect();
    assert_eq!(answer.header.verification_tag, script.tag);
    match answer.only() {
        Chunk::InitAck(ack) => {
            script.endpoint_tag = ack.initiate_tag;
            script.endpoint_tsn = ack.initial_tsn;
            ack
        }
        other => panic!("INIT ACK, not {other:?}"),
    }
}

fn cookie_echo(ack: &InitAck) -> Chunk {
    let cookie = state_cookie(ack);
    Chunk::CookieEcho(CookieEcho { cookie })
}

fn send(script: &mut Script, stream: u16, text: &'static str) -> Result<(), SendError> {
    script.act(|association, now| {
        association
            .send(now, StreamId(stream), text.into(), SendOptions::default())
            .map(|_| ())
    })
}

// A ← INIT ← Z
// A → INIT ACK → Z    A keeps no state
// A ← COOKIE ECHO ← Z
// A → COOKIE ACK → Z
/// §4, §5.1: CLOSED → ESTABLISHED on the passive side. Each number of streams is the smaller of both endpoints' values
/// (§5.1.1).
#[test]
fn the_peer_connects() {
    let mut script = nobody();
    let ack = init_ack(&mut script, Parameters::empty());
    assert_eq!((ack.outbound_streams, ack.inbound_streams), (16, 65_535));
    assert_eq!(ack.a_rwnd, quiet().buffers.receive);
    assert_eq!(associations(&mut script), 0);
    script.send(&[cookie_echo(&ack)]);
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    assert_eq!(state(&script), State::Established);
    assert_eq!(established_event(&mut script), (10, 10));
    script.expect_silence();
}

// A → INIT → Z          CLOSED → COOKIE-WAIT
// A ← INIT ACK ← Z      COOKIE-WAIT → COOKIE-ECHOED
// A → COOKIE ECHO → Z
// A ← COOKIE ACK ← Z    COOKIE-ECHOED → ESTABLISHED
/// §4, §5.1: the states of the active side.
#[test]
fn the_endpoint_connects() {
    let mut script = nobody();
    let init = script.connect();
    assert_eq!((init.outbound_streams, init.inbound_streams), (16, 65_535));
    assert_eq!(state(&script), State::CookieWait);
    let ack = script.init_ack(b"a cookie");
    script.send(&[Chunk::InitAck(ack)]);
    assert_eq!(state(&script), State::CookieEchoed);
    let cookie = Bytes::from_static(b"a cookie");
    assert_eq!(script.expect_chunk(), Chunk::CookieEcho(CookieEcho { cookie }));
    assert!(script.events().is_empty());
    script.send(&[Chunk::CookieAck]);
    assert_eq!(state(&script), State::Established);
    assert_eq!(established_event(&mut script), (10, 10));
    script.expect_silence();
}

// A ← INIT ← Z (a hundred of them)
// A → INIT ACK → Z
/// §5.1.3: the endpoint keeps no state before a COOKIE ECHO, and every INIT ACK has a different tag.
#[test]
fn no_state_before_a_cookie() {
    let mut script = nobody();
    let tags: std::collections::BTreeSet<_> = (0..100)
        .map(|_| init_ack(&mut script, Parameters::empty()).initiate_tag.0)
        .collect();
    assert_eq!(tags.len(), 100);
    assert!(!tags.contains(&0));
    assert_eq!(associations(&mut script), 0);
}

// A ← COOKIE ECHO (one bit of the cookie wrong) ← Z
/// §5.1.5 step 1: the packet is silently dropped.
#[test]
fn an_altered_cookie_is_dropped() {
    let mut script = nobody();
    let ack = init_ack(&mut script, Parameters::empty());
    let cookie = state_cookie(&ack);
    for at in 0..cookie.len() {
        let mut altered = cookie.to_vec();
        altered[at] ^= 0x10;
        let cookie = altered.into();
        script.send(&[Chunk::CookieEcho(CookieEcho { cookie })]);
        script.expect_silence();
    }
    for len in 0..cookie.len() {
        let cookie = cookie.slice(..len);
        script.send(&[Chunk::CookieEcho(CookieEcho { cookie })]);
        script.expect_silence();
    }
    assert_eq!(associations(&mut script), 0);
    script.send(&[cookie_echo(&ack)]);
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
}

// A ← COOKIE ECHO (valid, but in another packet) ← Z
/// §5.1.5 step 2: the ports and the verification tag must be those of the INIT ACK, and the address one of the INIT's.
#[test]
fn a_cookie_in_the_wrong_packet_is_dropped() {
    let mut script = nobody();
    let ack = init_ack(&mut script, Parameters::empty());
    let echo = cookie_echo(&ack);
    script.send_tagged(
        VerificationTag(ack.initiate_tag.0 ^ 1),
        core::slice::from_ref(&echo),
    );
    script.expect_silence();
    let port = core::mem::replace(&mut script.port, 7001);
    script.send(core::slice::from_ref(&echo));
    script.expect_silence();
    script.port = port;
    let remote = script.remote;
    script.remote.set_ip(IpAddr::from([10, 0, 0, 99]));
    script.send(core::slice::from_ref(&echo));
    script.expect_silence();
    script.remote = remote;
    assert_eq!(associations(&mut script), 0);
    script.send(&[echo]);
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
}

/// Waits for the retransmissions of the first packet by T1, and for the end. No packet is answered.
fn expect_abandoned(script: &mut Script, repeated: u8) {
    let begun = script.now();
    script.advance(242 * SECOND);
    assert_eq!(associations(script), 1, "still trying");
    script.advance(SECOND);
    let times: Vec<_> = core::iter::from_fn(|| script.next_answer())
        .filter(|answer| answer.chunks[0].kind() == repeated)
        .map(|answer| answer.at.saturating_duration_since(begun).as_secs())
        .collect();
    // RTO.Initial doubles up to RTO.Max (§6.3.3 E2), Max.Init.Retransmits times.
    assert_eq!(times, [1, 3, 7, 15, 31, 63, 123, 183]);
    let events = script.events();
    assert_eq!(
        events.last(),
        Some(&Event::Closed(CloseReason::SetUpTimedOut)),
        "{events:?}"
    );
    let failed = events.iter().filter_map(|event| match event {
        Event::Undelivered(failed) => Some((failed.context, failed.stream.0)),
        _ => None,
    });
    assert_eq!(failed.collect::<Vec<_>>(), [(5, 3)]);
    assert_eq!(associations(script), 0);
}

fn wait_with_a_message(script: &mut Script) {
    script.act(|association, now| {
        let options = SendOptions::default().context(5);
        association
            .send(now, StreamId(3), "waits".into(), options)
            .expect("send");
    });
}

// A → INIT →  (lost)
// A → INIT (T1-init) →  … Max.Init.Retransmits times, then the application is told
/// §5.1 A, §5.1 note 4: COOKIE-WAIT → CLOSED. The application is told the messages that were not sent.
#[test]
fn t1_init_fails() {
    let mut script = nobody();
    script.connect();
    wait_with_a_message(&mut script);
    script.expect_silence();
    expect_abandoned(&mut script, kind::INIT);
}

// A → COOKIE ECHO →  (lost)
// A → COOKIE ECHO (T1-cookie) →  … Max.Init.Retransmits times, then the application is told
/// §5.1 C: COOKIE-ECHOED → CLOSED.
#[test]
fn t1_cookie_fails() {
    let mut script = nobody();
    script.connect();
    let ack = script.init_ack(b"a cookie");
    script.send(&[Chunk::InitAck(ack)]);
    assert_eq!(script.expect_chunk().kind(), kind::COOKIE_ECHO);
    // After the COOKIE ECHO no DATA may leave until the COOKIE ACK: the message waits.
    wait_with_a_message(&mut script);
    script.expect_silence();
    expect_abandoned(&mut script, kind::COOKIE_ECHO);
}

// A → INIT → Z, lost …; A ← INIT ACK ← Z, lost …; A → COOKIE ECHO → Z, lost …; A ← COOKIE ACK ← Z, lost …
/// §5.1: any one of the four packets may be lost.
#[test]
fn each_of_the_four_packets_may_be_lost() {
    for (there, back) in [(Some(0), None), (None, Some(0)), (Some(1), None), (None, Some(1))] {
        let link = |lost: Option<u64>| {
            let link = LinkConfig::default().with_delay(Duration::from_millis(10));
            match lost {
                Some(packet) => link.with_loss(LossModel::Script(vec![packet])),
                None => link,
            }
        };
        let mut pair = Setup::new(1)
            .config(quiet())
            .path_of(link(there), link(back))
            .connect();
        pair.send(Side::A, 0, "hello");
        pair.run_for(2 * SECOND);
        let read: Vec<_> = pair.messages(Side::Z).into_iter().map(|m| m.bytes).collect();
        assert_eq!(read, ["hello"], "{there:?} {back:?}");
        for side in Side::BOTH {
            assert_eq!(pair.state(side), Some(State::Established));
            assert_eq!(pair.host(side).association_ids().count(), 1);
        }
    }
}

// A ← COOKIE ECHO, DATA ← Z
// A → COOKIE ACK, SACK → Z
/// §5.1 D: user data may be bundled with the COOKIE ECHO.
#[test]
fn data_bundled_with_the_cookie_echo() {
    let mut script = nobody();
    let ack = init_ack(&mut script, Parameters::empty());
    let data = script.data(3, 0, "early");
    script.send(&[cookie_echo(&ack), data]);
    let chunks = script.expect().chunks;
    assert_eq!(chunks[0], Chunk::CookieAck);
    assert_eq!(script.messages().len(), 1);
    script.advance(SECOND);
    let acked = chunks
        .into_iter()
        .chain(core::iter::from_fn(|| script.next_answer()).flat_map(|answer| answer.chunks))
        .any(|chunk| matches!(chunk, Chunk::Sack(sack) if sack.cumulative_tsn_ack == script_tsn()));
    assert!(acked);
}

/// The first TSN of a script's peer.
fn script_tsn() -> anabranch_proto::Tsn {
    nobody().tsn
}

// A: ASSOCIATE, SEND, SHUTDOWN
// A → INIT → Z …
// A → COOKIE ECHO, DATA → Z
// A ← COOKIE ACK, SACK ← Z
// A → SHUTDOWN → Z
/// §9.2 for set-up: a shutdown asked for in COOKIE-WAIT or COOKIE-ECHOED waits for the end of set-up and for the data.
#[test]
fn a_shutdown_asked_for_during_set_up() {
    for echoed in [false, true] {
        let mut script = nobody();
        script.connect();
        send(&mut script, 0, "the last message").expect("send");
        let ask = |script: &mut Script| script.act(|association, now| association.shutdown(now));
        if !echoed {
            ask(&mut script);
        }
        let ack = script.init_ack(b"a cookie");
        script.send(&[Chunk::InitAck(ack)]);
        if echoed {
            ask(&mut script);
        }
        assert_eq!(send(&mut script, 0, "more"), Err(SendError::Closed));
        let answer = script.expect();
        assert_eq!(answer.chunks[0].kind(), kind::COOKIE_ECHO);
        let rode = answer.data().count();
        script.send(&[Chunk::CookieAck]);
        assert_eq!(state(&script), State::ShutdownPending);
        let later: usize = core::iter::from_fn(|| script.next_answer())
            .map(|answer| answer.data().count())
            .sum();
        assert_eq!(rode + later, 1, "the message left");
        let all = sack(script.endpoint_tsn);
        script.send(&[all]);
        assert_eq!(script.expect_chunk().kind(), kind::SHUTDOWN);
        assert_eq!(state(&script), State::ShutdownSent);
    }
}

fn unknown(kind: u16) -> Parameter {
    let [high, low] = kind.to_be_bytes();
    let list = Parameters::from_bytes(Bytes::from(vec![high, low, 0, 8, 1, 2, 3, 4]));
    let raw = list.iter().next().expect("one").expect("whole");
    Parameter::decode(raw).expect("of an unknown type")
}

// A ← INIT (parameter of an unknown type, then an address) ← Z
// A → INIT ACK (Unrecognized Parameter, or not) → Z
/// §3.2.1: the two highest bits say whether to process the rest, and whether to report the parameter.
#[test]
fn unknown_parameters_of_an_init() {
    let second = IpAddr::from([10, 1, 0, 2]);
    for (kind, goes_on, told) in [
        (0x0042, false, false),
        (0x4042, false, true),
        (0x8042, true, false),
        (0xC042, true, true),
    ] {
        let mut script = nobody();
        let parameters = ParametersBuilder::new()
            .push(&unknown(kind))
            .push(&Parameter::Ipv4([10, 1, 0, 2].into()))
            .finish();
        let ack = init_ack(&mut script, parameters);
        let reports: Vec<_> = ack
            .parameters
            .iter()
            .map(|raw| Parameter::decode(raw.expect("whole")).expect("known"))
            .filter_map(|parameter| match parameter {
                Parameter::UnrecognizedParameter(whole) => Some(whole),
                _ => None,
            })
            .collect();
        let [high, low] = u16::to_be_bytes(kind);
        let expected = vec![Bytes::from(vec![high, low, 0, 8, 1, 2, 3, 4]); usize::from(told)];
        assert_eq!(reports, expected, "{kind:#06x}");
        script.send(&[cookie_echo(&ack)]);
        let paths = script.association().stats().paths;
        let seen = paths.iter().any(|path| path.remote.ip() == second);
        assert_eq!(seen, goes_on, "{kind:#06x}: what follows it");
    }
}

// A ← INIT (addresses) ← Z … A → HEARTBEAT → each further address
/// §5.1.2: the peer's addresses are the source address of the INIT and the addresses in it. The endpoint leaves out addresses
/// that are not unicast, duplicates, and addresses beyond the limit.
#[test]
fn the_addresses_of_an_init() {
    let mut config = quiet();
    config.max_paths = 4;
    let mut script = Script::new(config, 1);
    let listed: [[u8; 4]; 8] = [
        [10, 0, 0, 2],
        [10, 1, 0, 2],
        [224, 0, 0, 1],
        [255, 255, 255, 255],
        [0, 0, 0, 0],
        [10, 1, 0, 2],
        [10, 2, 0, 2],
        [10, 3, 0, 2],
    ];
    let parameters = listed
        .into_iter()
        .fold(ParametersBuilder::new(), |list, ip| {
            list.push(&Parameter::Ipv4(ip.into()))
        })
        .push(&Parameter::Ipv4([10, 4, 0, 2].into()))
        .push(&Parameter::SupportedAddressTypes(vec![5, 6]))
        .finish();
    let ack = init_ack(&mut script, parameters);
    script.send(&[cookie_echo(&ack)]);
    let paths = script.association().stats().paths;
    let addresses: Vec<_> = paths.iter().map(|path| path.remote.ip()).collect();
    let expected = [[10, 0, 0, 2], [10, 1, 0, 2], [10, 2, 0, 2], [10, 3, 0, 2]].map(IpAddr::from);
    assert_eq!(addresses, expected);
    assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    // One at a time (HB.Max.Burst).
    script.advance(10 * SECOND);
    let probed: std::collections::BTreeSet<_> = core::iter::from_fn(|| script.next_answer())
        .filter(|answer| answer.chunks.iter().any(|chunk| chunk.kind() == kind::HEARTBEAT))
        .map(|answer| answer.destination.ip())
        .collect();
    assert_eq!(probed, expected[1..].iter().copied().collect());
}

// A ← INIT ACK (addresses) ← Z
/// §5.1.2: the same for an INIT ACK. The INIT lists this endpoint's addresses if there are any to list.
#[test]
fn the_addresses_of_an_init_ack() {
    let own = [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 1, 0, 1])];
    let mut config = quiet();
    config.local_addresses = own.to_vec();
    let mut script = Script::new(config, 1);
    let init = script.connect();
    assert_eq!(listed(&init.parameters), own);
    let mut ack = script.init_ack(b"a cookie");
    ack.parameters = ParametersBuilder::new()
        .push(&Parameter::Ipv4([10, 1, 0, 2].into()))
        .push(&Parameter::StateCookie(Bytes::from_static(b"a cookie")))
        .finish();
    script.send(&[Chunk::InitAck(ack)]);
    let paths = script.association().stats().paths;
    let pairs: Vec<_> = paths.iter().map(|path| (path.local, path.remote.ip())).collect();
    // The local address of a path is in the same subnet.
    assert_eq!(pairs[1], (Some(own[1]), IpAddr::from([10, 1, 0, 2])));
}

/// The addresses that INIT or INIT ACK list.
fn listed(parameters: &Parameters) -> Vec<IpAddr> {
    let decoded = parameters
        .iter()
        .map(|raw| Parameter::decode(raw.expect("whole")));
    decoded
        .filter_map(|parameter| match parameter {
            Ok(Parameter::Ipv4(ip)) => Some(ip.into()),
            Ok(Parameter::Ipv6(ip)) => Some(ip.into()),
            _ => None,
        })
        .collect()
}

// A ← INIT (Supported Address Types) ← Z
// A → INIT ACK (addresses of these types) → Z
/// §5.1.2: the INIT ACK lists addresses of the types that the peer supports. The peer also supports the types that it uses: that of the
/// source address of its INIT, here IPv4, and those of the addresses in the INIT. Host names and unknown types are ignored.
#[test]
fn addresses_of_the_types_that_the_peer_supports() {
    let (v4, v6) = (
        IpAddr::from([10, 1, 0, 1]),
        IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]),
    );
    let types = |types: &[u16]| Some(Parameter::SupportedAddressTypes(types.to_vec()));
    let address = || Some(Parameter::Ipv6([0xfd00, 0, 0, 0, 0, 0, 0, 2].into()));
    let cases = [
        (None, None, [v4, v6].to_vec()),
        (types(&[5]), None, [v4].to_vec()),
        (types(&[6]), None, [v4, v6].to_vec()),
        (types(&[6, 5]), None, [v4, v6].to_vec()),
        (types(&[]), None, [v4].to_vec()),
        (types(&[11, 77]), None, [v4].to_vec()),
        (types(&[5]), address(), [v4, v6].to_vec()),
        (address(), types(&[5]), [v4, v6].to_vec()),
    ];
    for (first, second, expected) in cases {
        let mut config = quiet();
        config.local_addresses = vec![v4, v6];
        let mut script = Script::new(config, 1);
        let parameters = [&first, &second].into_iter().flatten();
        let parameters = parameters.fold(ParametersBuilder::new(), ParametersBuilder::push);
        let ack = init_ack(&mut script, parameters.finish());
        assert_eq!(listed(&ack.parameters), expected, "{first:?}, {second:?}");
        script.send(&[cookie_echo(&ack)]);
        assert_eq!(script.expect_chunk(), Chunk::CookieAck);
    }
}

// A → INIT (Supported Address Types) → Z
/// §5.1.2, §3.3.2.1.5: an endpoint that lists addresses and has no IPv4 or no IPv6 says so in its INIT, behind all parameters but padding.
/// An endpoint that has both, or lists no addresses, says nothing.
#[test]
fn the_types_that_the_endpoint_supports() {
    let cases = [
        (true, true, true, None),
        (true, false, true, Some(5)),
        (false, true, true, Some(6)),
        (true, false, false, None),
    ];
    for (ipv4, ipv6, lists, expected) in cases {
        let mut config = quiet();
        config.address_types = AddressTypes { ipv4, ipv6 };
        config.local_addresses = lists.then_some([10, 0, 0, 1].into()).into_iter().collect();
        let init = Script::new(config, 1).connect();
        let parameters = init
            .parameters
            .iter()
            .map(|raw| Parameter::decode(raw.expect("whole")));
        let parameters: Vec<_> = parameters.map(|parameter| parameter.expect("known")).collect();
        let place = |wanted: fn(&Parameter) -> bool| parameters.iter().position(wanted);
        let types = place(|parameter| matches!(parameter, Parameter::SupportedAddressTypes(_)));
        let padding = place(|parameter| matches!(parameter, Parameter::Padding(_)));
        let told = types.map(|place| parameters[place].clone());
        assert_eq!(
            told,
            expected.map(|kind| Parameter::SupportedAddressTypes(vec![kind]))
        );
        assert!(types.is_none_or(|place| Some(place + 1) == padding));
    }
    let mut config = quiet();
    config.address_types = AddressTypes {
        ipv4: false,
        ipv6: false,
    };
    let error = config.validate().expect_err("no type is left");
    assert_eq!(error.setting, "address_types");
}

// A ← INIT ACK (2 inbound streams) ← Z
/// §5.1.1: a message that waits for a stream that the peer does not have is reported as not sent. The other messages leave.
#[test]
fn fewer_streams_than_requested() {
    let mut script = nobody();
    script.connect();
    send(&mut script, 1, "fits").expect("send");
    send(&mut script, 2, "does not").expect("send");
    let mut ack = script.init_ack(b"a cookie");
    ack.inbound_streams = 2;
    script.send(&[Chunk::InitAck(ack)]);
    script.send(&[Chunk::CookieAck]);
    let events = script.events();
    let failed: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Undelivered(failed) => Some((failed.stream, failed.sent)),
            _ => None,
        })
        .collect();
    assert_eq!(failed, [(StreamId(2), false)]);
    let left: Vec<_> = core::iter::from_fn(|| script.next_answer())
        .flat_map(|answer| answer.data().map(|data| data.stream).collect::<Vec<_>>())
        .collect();
    assert_eq!(left, [StreamId(1)]);
    let streams = 2;
    let stream = StreamId(2);
    assert_eq!(
        send(&mut script, 2, "still not"),
        Err(SendError::InvalidStream { stream, streams })
    );
}

// A ← INIT (Cookie Preservative) ← Z
// A → INIT ACK → Z
// A ← COOKIE ECHO (later than Valid.Cookie.Life) ← Z
/// §3.3.2.1.3, §5.2.6: the cookie's life is extended by the requested time, at most to twice its length.
#[test]
fn a_cookie_that_lives_longer() {
    for (asked_s, after_s, lives) in [
        (0, 59, true),
        (0, 61, false),
        (30, 89, true),
        (30, 91, false),
        (1000, 121, false),
    ] {
        let mut script = nobody();
        let increment_ms = asked_s * 1000;
        let parameters = ParametersBuilder::new()
            .push(&Parameter::CookiePreservative { increment_ms })
            .finish();
        let ack = init_ack(&mut script, parameters);
        script.advance(after_s * SECOND);
        script.send(&[cookie_echo(&ack)]);
        let answer = script.expect_chunk();
        let expected = if lives { kind::COOKIE_ACK } else { kind::ERROR };
        assert_eq!(answer.kind(), expected, "{asked_s} s more, after {after_s} s");
        assert_eq!(associations(&mut script), usize::from(lives));
    }
}

// A ← INIT (tag 0) ← Z
/// §3.3.2: an Initiate Tag of 0 is an error. It could not be reported with that tag.
#[test]
fn an_init_with_tag_zero_is_dropped() {
    let mut script = nobody();
    let mut init = script.init(Parameters::empty());
    init.initiate_tag = ZERO;
    script.send_tagged(ZERO, &[Chunk::Init(init)]);
    script.expect_silence();
    assert_eq!(associations(&mut script), 0);
}
