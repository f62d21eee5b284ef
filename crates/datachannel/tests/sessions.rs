//! Sessions that exchange datagrams in memory.

mod common;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use anabranch_datachannel::{
    ChannelConfig, ChannelEvent, ChannelId, ChannelMessage, Datagram, OpenError, SdpError, Session,
    SessionConfig, SessionEnd, SessionError, SessionEvent,
};
use anabranch_dtls::{Certificate, DtlsConfig, DtlsError, Effects, Peers};
use anabranch_proto::{CloseReason, Timestamp};
use bytes::Bytes;
use common::Told;
use is::stun::{StunMessage, TransId};
use is::{DefaultSha1HmacProvider, IceCreds, Sha1HmacProvider};

const OFFERER: usize = 0;
const ANSWERER: usize = 1;

fn address(side: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1 + side as u8], 4000 + side as u16))
}

/// The address of a side after a change of its network.
fn moved(side: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 1, 1 + side as u8], 4000 + side as u16))
}

fn config(side: usize) -> SessionConfig {
    SessionConfig::new(Certificate::generate().unwrap(), [address(side)])
}

/// The events of a side.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Connected,
    Channel(Told),
    Silent,
    Heard,
    Closed(SessionEnd),
}

impl Seen {
    fn of(event: SessionEvent) -> Option<Self> {
        match event {
            SessionEvent::Connected => Some(Self::Connected),
            SessionEvent::Channel(event) => Told::of(event).map(Self::Channel),
            SessionEvent::Silent => Some(Self::Silent),
            SessionEvent::Heard => Some(Self::Heard),
            SessionEvent::Closed(end) => Some(Self::Closed(end)),
            _ => None,
        }
    }
}

struct Pair {
    now: Timestamp,
    sides: [Session; 2],
    wire: VecDeque<Datagram>,
    events: [Vec<Seen>; 2],
    longest: usize,
}

impl Pair {
    fn new(offerer: SessionConfig, answerer: SessionConfig) -> Self {
        Self::changed(offerer, answerer, |offer| offer, |answer| answer)
    }

    /// With another text of the offer and of the answer.
    fn changed(
        offerer: SessionConfig,
        answerer: SessionConfig,
        change_offer: impl FnOnce(String) -> String,
        change_answer: impl FnOnce(String) -> String,
    ) -> Self {
        let now = Timestamp::ZERO;
        let (mut offers, offer) = Session::offer(now, offerer).unwrap();
        let (answers, answer) = Session::answer(now, answerer, &change_offer(offer)).unwrap();
        offers.accept_answer(now, &change_answer(answer)).unwrap();
        Self::of(now, [offers, answers])
    }

    fn of(now: Timestamp, sides: [Session; 2]) -> Self {
        Self {
            now,
            sides,
            wire: VecDeque::new(),
            events: Default::default(),
            longest: 0,
        }
    }

    fn pump(&mut self) {
        for side in [OFFERER, ANSWERER] {
            while let Some(event) = self.sides[side].poll_event(self.now) {
                let events = &mut self.events[side];
                if let SessionEvent::Channel(ChannelEvent::Readable(id)) = event {
                    let read = || self.sides[side].recv(self.now, id);
                    let seen = |message| Seen::Channel(Told::Message(id, message));
                    events.extend(std::iter::from_fn(read).map(seen));
                }
                events.extend(Seen::of(event));
            }
            while let Some(datagram) = self.sides[side].poll_datagram(self.now) {
                assert!([address(side), moved(side)].contains(&datagram.source));
                self.longest = self.longest.max(datagram.bytes.len());
                self.wire.push_back(datagram);
            }
        }
    }

    /// Runs for this time; `keep` decides which datagrams arrive.
    fn run(&mut self, time: Duration, mut keep: impl FnMut(&Datagram) -> bool) {
        let end = self.now + time;
        loop {
            self.pump();
            if let Some(datagram) = self.wire.pop_front() {
                let owns = |side: usize| [address(side), moved(side)].contains(&datagram.destination);
                let to = usize::from(owns(ANSWERER));
                if keep(&datagram) && owns(to) {
                    self.sides[to].handle_datagram(
                        self.now,
                        datagram.source,
                        datagram.destination,
                        &datagram.bytes,
                    );
                }
                continue;
            }
            let next = self.sides.iter_mut().filter_map(Session::poll_timeout).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next) + Duration::from_micros(100);
            for side in &mut self.sides {
                if side.poll_timeout().is_some_and(|due| due <= self.now) {
                    side.handle_timeout(self.now);
                }
            }
        }
        self.now = self.now.max(end);
    }

    fn settle(&mut self) {
        self.run(Duration::from_secs(5), |_| true);
    }

    fn take(&mut self, side: usize) -> Vec<Seen> {
        std::mem::take(&mut self.events[side])
    }

    fn send(&mut self, side: usize, id: ChannelId, bytes: impl Into<Bytes>) {
        let message = ChannelMessage {
            is_text: false,
            bytes: bytes.into(),
        };
        self.sides[side].send(self.now, id, message).unwrap();
    }
}

fn connected(offerer: SessionConfig, answerer: SessionConfig) -> Pair {
    let mut pair = Pair::new(offerer, answerer);
    pair.settle();
    for side in [OFFERER, ANSWERER] {
        assert_eq!(pair.take(side), [Seen::Connected], "{side}");
    }
    pair
}

fn message(bytes: &[u8]) -> ChannelMessage {
    ChannelMessage {
        is_text: false,
        bytes: Bytes::copy_from_slice(bytes),
    }
}

#[test]
fn two_sessions_exchange_messages() {
    for (offerer_lite, answerer_lite) in [(false, false), (false, true), (true, false)] {
        let mut pair = connected(
            config(OFFERER).ice_lite(offerer_lite),
            config(ANSWERER).ice_lite(answerer_lite),
        );
        let stats = pair.sides[OFFERER].stats().unwrap();
        assert!(
            stats.extensions.zero_checksum
                && stats.extensions.interleaving
                && stats.extensions.reconfiguration
        );
        for (from, to) in [(OFFERER, ANSWERER), (ANSWERER, OFFERER)] {
            let config = ChannelConfig::new(format!("from {from}"));
            let id = pair.sides[from].open(pair.now, config.clone()).unwrap();
            pair.send(from, id, "hello");
            pair.settle();
            assert_eq!(
                pair.take(to),
                [
                    Seen::Channel(Told::Accepted(id, config)),
                    Seen::Channel(Told::Message(id, message(b"hello")))
                ]
            );
            assert_eq!(pair.take(from), [Seen::Channel(Told::Opened(id))]);
            let large = vec![7; 262_144];
            pair.send(to, id, large.clone());
            pair.settle();
            assert_eq!(
                pair.take(from),
                [Seen::Channel(Told::Message(id, message(&large)))]
            );
            pair.sides[to].close_channel(pair.now, id);
            pair.settle();
            for side in [from, to] {
                assert_eq!(pair.take(side), [Seen::Channel(Told::Closed(id))]);
            }
        }
        // Path MTU discovery has run: Chromium ends the connection if a record has more than 2,048 bytes.
        assert!((1400..=1500 - 28).contains(&pair.longest), "{}", pair.longest);
    }
}

/// Numbers beyond 1,023 (RFC 8831 §6.2: there are 65,535 streams).
#[test]
fn one_side_opens_600_channels() {
    let mut pair = connected(config(OFFERER), config(ANSWERER));
    let ids: Vec<ChannelId> = (0..600)
        .map(|_| {
            pair.sides[OFFERER]
                .open(pair.now, ChannelConfig::new("x"))
                .unwrap()
        })
        .collect();
    pair.settle();
    let opened = pair.take(OFFERER);
    let is_open = |id: &ChannelId| opened.contains(&Seen::Channel(Told::Opened(*id)));
    assert!(ids.iter().all(is_open) && opened.len() == 600, "{}", opened.len());
    assert_eq!(pair.take(ANSWERER).len(), 600);
}

#[test]
fn a_peer_with_another_certificate_is_refused() {
    let other = Certificate::generate().unwrap().fingerprint();
    let theirs = config(ANSWERER);
    let print = theirs.certificate.fingerprint().to_string();
    let change = |answer: String| {
        assert!(answer.contains(&print));
        answer.replace(&print, &other.to_string())
    };
    let mut pair = Pair::changed(config(OFFERER), theirs, |offer| offer, change);
    pair.settle();
    let events = pair.take(OFFERER);
    assert!(
        matches!(
            events[..],
            [Seen::Closed(SessionEnd::Dtls(DtlsError::Refused(_)))]
        ),
        "{events:?}"
    );
    assert!(!pair.take(ANSWERER).contains(&Seen::Connected));
}

/// RFC 8122 §5: a peer may announce several certificates, and several hashes of each. It has one of them.
#[test]
fn one_of_several_fingerprints_is_that_of_the_peer() {
    let other = Certificate::generate().unwrap().fingerprint();
    let line = |print: &str| format!("a=fingerprint:sha-256 {print}\r\n");
    let sha512 = format!("a=fingerprint:sha-512 {}\r\n", "AB:".repeat(63) + "AB");
    for [before, after] in [
        [sha512.clone(), String::new()],
        [line(&other.to_string()), String::new()],
        [sha512.clone(), line(&other.to_string())],
    ] {
        let (ours, theirs) = (config(OFFERER), config(ANSWERER));
        let among = |own: &SessionConfig| {
            let own = line(&own.certificate.fingerprint().to_string());
            let all = format!("{before}{own}{after}");
            move |text: String| text.replace(&own, &all)
        };
        let (offer, answer) = (among(&ours), among(&theirs));
        let mut pair = Pair::changed(ours, theirs, offer, answer);
        pair.settle();
        for side in [OFFERER, ANSWERER] {
            assert_eq!(pair.take(side), [Seen::Connected], "{before}{after}");
        }
    }
}

/// RFC 9143 §7.1.3: the offer has audio too, whose section has the transport attributes of both.
#[test]
fn a_bundle_only_section_connects() {
    const DATA: &str =
        "m=application 4000 UDP/DTLS/SCTP webrtc-datachannel\r\nc=IN IP4 10.0.0.1\r\na=mid:0\r\n";
    let with_audio = |offer: String| {
        assert!(offer.contains(DATA), "{offer}");
        let audio = "m=audio 9 UDP/TLS/RTP/SAVPF 0\r\nc=IN IP4 0.0.0.0\r\na=mid:a\r\n";
        let data = DATA.replace("application 4000", "application 0");
        let offer = offer
            .replace("BUNDLE 0", "BUNDLE a 0")
            .replace(DATA, audio)
            .replace("a=sctp-port:5000\r\n", "");
        format!("{offer}{data}a=bundle-only\r\na=sctp-port:5000\r\n")
    };
    // The offer of this side had one section.
    let without_audio = |answer: String| {
        let (start, rest) = answer.split_once("m=audio 4001 ").expect("the transport");
        let (audio, data) = rest.split_once("m=application 4001 ").expect("data channels");
        let is_transport = |line: &&str| {
            let names = ["a=ice-", "a=fingerprint:", "a=setup:", "a=candidate:"];
            names.iter().any(|name| line.starts_with(name))
        };
        let transport: String = audio.split_inclusive("\r\n").filter(is_transport).collect();
        format!("{start}m=application 4001 {data}{transport}")
    };
    let mut pair = Pair::changed(config(OFFERER), config(ANSWERER), with_audio, without_audio);
    pair.settle();
    for side in [OFFERER, ANSWERER] {
        assert_eq!(pair.take(side), [Seen::Connected], "{side}");
    }
}

#[test]
fn set_up_survives_losses() {
    for lost in 0..12 {
        let mut pair = Pair::new(config(OFFERER), config(ANSWERER));
        let mut number = 0;
        pair.run(Duration::from_secs(20), |_| {
            number += 1;
            number != lost + 1
        });
        for side in [OFFERER, ANSWERER] {
            assert_eq!(pair.take(side), [Seen::Connected], "datagram {lost} lost");
        }
    }
}

#[test]
fn a_close_is_told_to_the_peer() {
    for closing in [OFFERER, ANSWERER] {
        let mut pair = connected(config(OFFERER), config(ANSWERER));
        let id = pair.sides[closing]
            .open(pair.now, ChannelConfig::new("x"))
            .unwrap();
        pair.settle();
        pair.take(OFFERER);
        pair.take(ANSWERER);
        let now = pair.now;
        pair.sides[closing].close(now);
        pair.settle();
        assert!(pair.take(closing).contains(&Seen::Closed(SessionEnd::Closed)));
        let told = pair.take(1 - closing);
        assert!(told.contains(&Seen::Channel(Told::Closed(id))), "{told:?}");
        let is_end = |event: &Seen| matches!(event, Seen::Closed(_));
        assert!(told.iter().any(is_end), "{told:?}");
        assert_eq!(pair.sides[closing].poll_timeout(), None);
    }
}

/// The session's end is told after the ends of its channels, and nothing after it. Found by the fuzz target `session`.
#[test]
fn the_end_is_the_last_event() {
    for vanishes in [false, true] {
        let (mut pair, id) = with_channel([false, false]);
        if !vanishes {
            let now = pair.now;
            pair.sides[OFFERER].close(now);
        }
        pair.run(Duration::from_secs(120), |_| !vanishes);
        for side in [OFFERER, ANSWERER] {
            let told = pair.take(side);
            let [.., Seen::Channel(Told::Closed(closed)), Seen::Closed(_)] = told[..] else {
                panic!("{vanishes}, {side}: {told:?}");
            };
            assert_eq!(closed, id);
            let negotiated = ChannelConfig::new("y").negotiated(8);
            let opened = pair.sides[side].open(pair.now, negotiated);
            assert_eq!(opened, Err(OpenError::Ended));
        }
        // A new handshake has no effect.
        let late = Peers::new(DtlsConfig::new(Certificate::generate().unwrap()));
        let mut effects = Effects::default();
        late.connect(pair.now, (), &mut effects);
        let (_, hello) = effects.datagrams().next().expect("a ClientHello");
        pair.sides[OFFERER].handle_datagram(pair.now, address(ANSWERER), address(OFFERER), hello);
        pair.settle();
        assert_eq!(pair.take(OFFERER), []);
    }
}

/// All that the closing side sends is lost. It answers no more checks, so that the peer finds it missing. Found by the fuzz target `session`.
#[test]
fn a_close_that_is_lost_is_found() {
    let mut pair = connected(config(OFFERER), config(ANSWERER));
    let now = pair.now;
    pair.sides[ANSWERER].close(now);
    pair.run(Duration::from_secs(45), |datagram| {
        datagram.source != address(ANSWERER) || datagram.bytes[0] < 20
    });
    let told = pair.take(OFFERER);
    assert_eq!(
        told.last(),
        Some(&Seen::Closed(SessionEnd::Unreachable)),
        "{told:?}"
    );
}

/// A peer that vanishes without a word.
#[test]
fn a_peer_that_vanishes_is_found_missing() {
    let mut pair = connected(config(OFFERER), config(ANSWERER));
    let id = pair.sides[OFFERER]
        .open(pair.now, ChannelConfig::new("x"))
        .unwrap();
    pair.send(OFFERER, id, "anybody there?");
    pair.run(Duration::from_secs(120), |_| false);
    for side in [OFFERER, ANSWERER] {
        let ended = pair
            .take(side)
            .into_iter()
            .any(|event| matches!(event, Seen::Closed(_)));
        assert!(ended, "{side}");
    }
}

/// Datagrams of strangers, and records from an address that ICE has not verified.
#[test]
fn strangers_have_no_effect() {
    let mut pair = connected(config(OFFERER), config(ANSWERER));
    let id = pair.sides[OFFERER]
        .open(pair.now, ChannelConfig::new("x"))
        .unwrap();
    pair.settle();
    pair.take(ANSWERER);
    pair.send(OFFERER, id, "once");
    pair.pump();
    let sent: Vec<Datagram> = pair.wire.drain(..).collect();
    let stranger: SocketAddr = "10.9.9.9:9".parse().unwrap();
    for datagram in &sent {
        pair.sides[ANSWERER].handle_datagram(pair.now, stranger, address(ANSWERER), &datagram.bytes);
    }
    let garbage: [&[u8]; 5] = [&[], &[0], &[22, 254, 253], &[1; 100], &[255; 2000]];
    for bytes in garbage {
        for source in [stranger, address(OFFERER)] {
            pair.sides[ANSWERER].handle_datagram(pair.now, source, address(ANSWERER), bytes);
        }
    }
    pair.pump();
    assert_eq!(pair.take(ANSWERER), []);
    // From the right address they arrive, and once only.
    for datagram in sent.iter().chain(&sent) {
        pair.sides[ANSWERER].handle_datagram(
            pair.now,
            datagram.source,
            datagram.destination,
            &datagram.bytes,
        );
    }
    pair.settle();
    let once = Seen::Channel(Told::Message(id, message(b"once")));
    assert_eq!(pair.take(ANSWERER), [once]);
}

/// Segmentation offload sends a batch with one call, and one acknowledgement answers all datagrams that arrived together.
#[test]
fn datagrams_leave_in_batches() {
    let mut pair = connected(config(OFFERER), config(ANSWERER));
    let id = pair.sides[OFFERER]
        .open(pair.now, ChannelConfig::new("bulk"))
        .unwrap();
    pair.settle();
    // A first message opens the congestion window and the path MTU.
    pair.send(OFFERER, id, vec![7; 262_144]);
    pair.settle();
    pair.now += Duration::from_secs(1);
    pair.send(OFFERER, id, vec![8; 20_000]);
    let mut buffer = Vec::new();
    let batch = pair.sides[OFFERER]
        .poll_transmit(pair.now, &mut buffer, 64)
        .expect("datagrams");
    let count = buffer[..batch.len].chunks(batch.segment).len();
    assert!(
        count > 2 && batch.len <= 65_507,
        "{count} datagrams in {} bytes",
        batch.len
    );
    for datagram in buffer[..batch.len].chunks(batch.segment) {
        pair.sides[ANSWERER].handle_datagram(pair.now, batch.source, batch.destination, datagram);
    }
    let answer = pair.sides[ANSWERER].poll_datagram(pair.now);
    assert!(answer.is_some(), "one acknowledgement");
    assert_eq!(
        pair.sides[ANSWERER].poll_datagram(pair.now),
        None,
        "for all of them"
    );
}

/// The socket is full, and the peer's checks go on: their answers do not fill the memory.
#[test]
fn datagrams_that_wait_are_bounded() {
    let mut pair = Pair::new(config(OFFERER), config(ANSWERER));
    let mut check = None;
    pair.run(Duration::from_secs(1), |datagram| {
        let is_request = datagram.source == address(OFFERER) && datagram.bytes[..2] == [0, 1];
        if is_request {
            check = Some(datagram.clone());
        }
        true
    });
    let check = check.expect("a check");
    for _ in 0..5000 {
        pair.sides[ANSWERER].handle_datagram(pair.now, check.source, check.destination, &check.bytes);
    }
    let answers = std::iter::from_fn(|| pair.sides[ANSWERER].poll_datagram(pair.now)).count();
    assert!((1..=1100).contains(&answers), "{answers}");
}

/// RFC 8445 §7.3: the answerer's checks may be faster than its answer.
#[test]
fn checks_may_arrive_before_the_answer() {
    let now = Timestamp::ZERO;
    let (mut offers, offer) = Session::offer(now, config(OFFERER)).unwrap();
    let (mut answers, answer) = Session::answer(now, config(ANSWERER), &offer).unwrap();
    let check = answers.poll_datagram(now).expect("a check");
    offers.handle_datagram(now, check.source, check.destination, &check.bytes);
    offers.accept_answer(now, &answer).unwrap();
    let mut pair = Pair::of(now, [offers, answers]);
    pair.settle();
    assert_eq!(pair.take(OFFERER), [Seen::Connected]);
}

/// Browsers begin with DTLS as soon as a check was answered, before they nominate a path: the answer must not wait for that.
#[test]
fn dtls_may_begin_before_a_path_is_nominated() {
    let mut pair = Pair::new(config(OFFERER), config(ANSWERER));
    // Only the answerer's checks arrive, which nominate nothing, and the answers to them (RFC 8489 §5).
    pair.run(Duration::from_secs(1), |datagram| {
        datagram.source == address(ANSWERER) || datagram.bytes[..2] == [1, 1]
    });
    let early = Peers::new(DtlsConfig::new(Certificate::generate().unwrap()));
    let mut effects = Effects::default();
    early.connect(pair.now, (), &mut effects);
    let (_, hello) = effects.datagrams().next().expect("a ClientHello");
    pair.sides[ANSWERER].handle_datagram(pair.now, address(OFFERER), address(ANSWERER), hello);
    pair.pump();
    let answer = pair.wire.iter().find(|datagram| datagram.bytes[0] >= 20);
    assert_eq!(answer.expect("an answer").destination, address(OFFERER));
}

/// A ClientHello of somebody else, with the peer's address as its source, begins a handshake beside the connection. Its end is not the end of
/// the session.
#[test]
fn a_forged_handshake_does_not_end_a_session() {
    let mut pair = connected(config(OFFERER), config(ANSWERER));
    for side in [OFFERER, ANSWERER] {
        let stranger = Peers::new(DtlsConfig::new(Certificate::generate().unwrap()));
        let mut effects = Effects::default();
        stranger.connect(pair.now, (), &mut effects);
        let (_, hello) = effects.datagrams().next().expect("a ClientHello");
        pair.sides[side].handle_datagram(pair.now, address(1 - side), address(side), hello);
    }
    // Longer than a handshake may take.
    pair.run(Duration::from_secs(120), |_| true);
    for side in [OFFERER, ANSWERER] {
        let events = pair.take(side);
        assert!(
            !events.iter().any(|event| matches!(event, Seen::Closed(_))),
            "{events:?}"
        );
    }
}

/// The library for ICE panics at user fragments that are longer. Found by the fuzz target `session`.
#[test]
fn a_user_fragment_has_at_most_111_bytes() {
    let now = Timestamp::ZERO;
    for (len, is_right) in [(111, true), (112, false), (256, false)] {
        let (_, offer) = Session::offer(now, config(OFFERER)).unwrap();
        let mut lines = offer.lines();
        let own = lines.find_map(|line| line.strip_prefix("a=ice-ufrag:"));
        let offer = offer.replace(own.expect("it is there"), &"u".repeat(len));
        match Session::answer(now, config(ANSWERER), &offer) {
            Ok((mut session, _)) => {
                assert!(is_right, "{len}");
                assert!(session.poll_datagram(now).is_some(), "a check");
            }
            Err(SessionError::Sdp(SdpError::Attribute("ice-ufrag"))) => assert!(!is_right, "{len}"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A peer that checks from ever more addresses, and names ever more addresses in its answers, takes no memory for them. Found by the fuzz
/// target `session`.
#[test]
fn the_addresses_of_a_peer_are_bounded() {
    let (now, own) = (Timestamp::ZERO, IceCreds::new());
    let (mut session, offer) = Session::offer(now, config(OFFERER)).unwrap();
    let value = |name: &str| {
        let mut lines = offer.lines();
        let value = lines.find_map(|line| line.strip_prefix(name));
        value.expect("it is there").to_owned()
    };
    let (theirs, password) = (value("a=ice-ufrag:"), value("a=ice-pwd:"));
    let answer = offer
        .replace(&theirs, &own.ufrag)
        .replace(&password, &own.pass)
        .replace("a=setup:actpass", "a=setup:active");
    session.accept_answer(now, &answer).unwrap();
    let check = session.poll_datagram(now).expect("a check");
    let transaction = StunMessage::parse(&check.bytes).unwrap().trans_id();
    let hmac = |key: &[u8], parts: &[&[u8]]| DefaultSha1HmacProvider.sha1_hmac(key, parts);
    let mut buffer = [0; 1000];
    let (mut answers, mut mapped) = (0, Vec::new());
    for number in 0..1000_u32 {
        let stranger = SocketAddr::new(std::net::IpAddr::V4((0x0b00_0000 + number).into()), 9);
        let name = format!("{theirs}:{}", own.ufrag);
        let request = StunMessage::binding_request(&name, TransId::new(), false, 1, 1, false);
        let len = request
            .to_bytes(Some(password.as_bytes()), &mut buffer, hmac)
            .unwrap();
        session.handle_datagram(now, stranger, address(OFFERER), &buffer[..len]);
        let success = StunMessage::binding_reply(transaction, stranger);
        let len = success
            .to_bytes(Some(own.pass.as_bytes()), &mut buffer, hmac)
            .unwrap();
        session.handle_datagram(now, address(OFFERER), address(OFFERER), &buffer[..len]);
        let sent = std::iter::from_fn(|| session.poll_datagram(now));
        for datagram in sent.filter(|datagram| datagram.bytes[..2] == [1, 1]) {
            answers += 1;
            mapped.push(datagram.destination);
        }
    }
    // This side's own address counts too.
    assert_eq!(answers, 63, "of 1,000 addresses");
    // Those that are known go on.
    let name = format!("{theirs}:{}", own.ufrag);
    let request = StunMessage::binding_request(&name, TransId::new(), false, 1, 1, false);
    let len = request
        .to_bytes(Some(password.as_bytes()), &mut buffer, hmac)
        .unwrap();
    session.handle_datagram(now, mapped[0], address(OFFERER), &buffer[..len]);
    assert!(session.poll_datagram(now).is_some());
}

#[test]
fn mistakes_are_errors() {
    let now = Timestamp::ZERO;
    let none = SessionConfig::new(Certificate::generate().unwrap(), []);
    assert!(matches!(Session::offer(now, none), Err(SessionError::Local(_))));
    let anywhere: SocketAddr = "0.0.0.0:1".parse().unwrap();
    let unspecified = SessionConfig::new(Certificate::generate().unwrap(), [anywhere]);
    assert!(matches!(
        Session::offer(now, unspecified),
        Err(SessionError::Local(_))
    ));
    let (mut offers, offer) = Session::offer(now, config(OFFERER).ice_lite(true)).unwrap();
    let both = Session::answer(now, config(ANSWERER).ice_lite(true), &offer);
    assert!(matches!(both, Err(SessionError::BothLite)));
    assert!(matches!(
        Session::answer(now, config(ANSWERER), "nonsense"),
        Err(SessionError::Sdp(_))
    ));
    assert!(matches!(
        offers.open(now, ChannelConfig::new("")),
        Err(OpenError::NotConnected)
    ));
    let (mut answers, answer) = Session::answer(now, config(ANSWERER), &offer).unwrap();
    assert!(matches!(
        answers.accept_answer(now, &answer),
        Err(SessionError::NoAnswerExpected)
    ));
    offers.accept_answer(now, &answer).unwrap();
    assert!(matches!(
        offers.accept_answer(now, &answer),
        Err(SessionError::NoAnswerExpected)
    ));
}

/// Whether one side only answers checks: neither, the offerer, the answerer.
const LITE: [[bool; 2]; 3] = [[false, false], [true, false], [false, true]];

/// A session with an open channel.
fn with_channel([offerer, answerer]: [bool; 2]) -> (Pair, ChannelId) {
    let mut pair = connected(
        config(OFFERER).ice_lite(offerer),
        config(ANSWERER).ice_lite(answerer),
    );
    let id = pair.sides[OFFERER]
        .open(pair.now, ChannelConfig::new("x"))
        .unwrap();
    pair.settle();
    pair.take(OFFERER);
    pair.take(ANSWERER);
    (pair, id)
}

/// Both sides have sent something, and it arrives within this time.
fn assert_arrives(pair: &mut Pair, id: ChannelId, time: Duration, mut keep: impl FnMut(&Datagram) -> bool) {
    pair.run(time, &mut keep);
    for side in [OFFERER, ANSWERER] {
        let seen = pair.take(side);
        let arrived = Seen::Channel(Told::Message(id, message(b"are you there?")));
        assert!(seen.contains(&arrived), "{side}: {seen:?}");
        assert!(
            !seen.iter().any(|seen| matches!(seen, Seen::Closed(_))),
            "{side}: {seen:?}"
        );
    }
}

fn ask(pair: &mut Pair, id: ChannelId) {
    for side in [OFFERER, ANSWERER] {
        pair.send(side, id, "are you there?");
    }
}

/// RFC 7675 §5.1: consent lasts 30 s. SCTP's timers do not wait for the end of their back-off.
#[test]
fn a_cut_of_25_s_does_not_end_a_session() {
    for lite in LITE {
        let (mut pair, id) = with_channel(lite);
        ask(&mut pair, id);
        pair.run(Duration::from_secs(25), |_| false);
        for side in [OFFERER, ANSWERER] {
            assert_eq!(pair.take(side), [Seen::Silent], "{lite:?}");
        }
        assert_arrives(&mut pair, id, Duration::from_secs(5), |_| true);
        pair.run(Duration::from_secs(60), |_| true);
        for side in [OFFERER, ANSWERER] {
            assert_eq!(pair.take(side), [], "{lite:?}");
        }
    }
}

/// `side` makes an offer of an ICE restart, and the peer answers it.
fn restart(pair: &mut Pair, side: usize, local: &[SocketAddr]) {
    let offer = pair.sides[side].restart_ice(pair.now, local).unwrap();
    let answer = pair.sides[1 - side].accept_offer(pair.now, &offer).unwrap();
    pair.sides[side].accept_answer(pair.now, &answer).unwrap();
}

/// The network of one side is gone for 25 s. Then this side has another address.
#[test]
fn an_ice_restart_finds_another_route() {
    for (lite, side) in LITE
        .into_iter()
        .flat_map(|lite| [(lite, OFFERER), (lite, ANSWERER)])
    {
        let (mut pair, id) = with_channel(lite);
        ask(&mut pair, id);
        pair.run(Duration::from_secs(25), |_| false);
        let works = |datagram: &Datagram| ![datagram.source, datagram.destination].contains(&address(side));
        restart(&mut pair, side, &[moved(side)]);
        assert_arrives(&mut pair, id, Duration::from_secs(5), works);
        ask(&mut pair, id);
        assert_arrives(&mut pair, id, Duration::from_secs(60), works);
    }
}

/// A record that left on the former route arrives after the new one is chosen.
#[test]
fn late_records_of_the_former_route_count() {
    let (mut pair, id) = with_channel([false, false]);
    pair.send(ANSWERER, id, "are you there?");
    pair.pump();
    let late: Vec<Datagram> = pair.wire.drain(..).collect();
    restart(&mut pair, ANSWERER, &[moved(ANSWERER)]);
    // None of the retransmissions arrives.
    pair.run(Duration::from_secs(3), |datagram| {
        let is_stun = datagram.bytes[0] < 20;
        is_stun && ![datagram.source, datagram.destination].contains(&address(ANSWERER))
    });
    assert_eq!(pair.take(OFFERER), []);
    for datagram in late {
        let Datagram {
            source,
            destination,
            bytes,
        } = datagram;
        pair.sides[OFFERER].handle_datagram(pair.now, source, destination, &bytes);
    }
    pair.pump();
    let arrived = Seen::Channel(Told::Message(id, message(b"are you there?")));
    assert_eq!(pair.take(OFFERER), [arrived]);
}

/// RFC 8261 §6.1: the congestion window of the former route says nothing about the new one.
#[test]
fn another_route_has_a_window_of_its_own() {
    let (mut pair, id) = with_channel([false, false]);
    let window = |pair: &Pair| pair.sides[OFFERER].stats().unwrap().paths[0].cwnd;
    let fresh = window(&pair);
    pair.send(OFFERER, id, vec![0; 200_000]);
    pair.settle();
    assert!(window(&pair) > 2 * fresh);
    restart(&mut pair, OFFERER, &[moved(OFFERER)]);
    pair.run(Duration::from_secs(5), |datagram| {
        ![datagram.source, datagram.destination].contains(&address(OFFERER))
    });
    assert!(window(&pair) <= fresh, "{} {fresh}", window(&pair));
}

/// The side whose network has not changed may restart ICE too.
#[test]
fn an_ice_restart_by_the_other_side_brings_a_session_back() {
    for (lite, side) in LITE
        .into_iter()
        .flat_map(|lite| [(lite, OFFERER), (lite, ANSWERER)])
    {
        let (mut pair, id) = with_channel(lite);
        ask(&mut pair, id);
        pair.run(Duration::from_secs(25), |_| false);
        restart(&mut pair, side, &[]);
        assert_arrives(&mut pair, id, Duration::from_secs(5), |_| true);
    }
}

/// The former route carries data until the new one is chosen, also if nobody answers the offer.
#[test]
fn a_restart_that_is_not_answered_changes_nothing() {
    let (mut pair, id) = with_channel([false, false]);
    let offer = pair.sides[OFFERER].restart_ice(pair.now, &[]).unwrap();
    ask(&mut pair, id);
    assert_arrives(&mut pair, id, Duration::from_secs(60), |_| true);
    // The peer restarts as well: its offer wins, and the late answer to the other one is refused.
    restart(&mut pair, ANSWERER, &[]);
    let (_, answer) = Session::answer(pair.now, config(ANSWERER), &offer).unwrap();
    let late = pair.sides[OFFERER].accept_answer(pair.now, &answer);
    assert!(matches!(late, Err(SessionError::NoAnswerExpected)), "{late:?}");
    ask(&mut pair, id);
    assert_arrives(&mut pair, id, Duration::from_secs(60), |_| true);
}

/// The checks of the restart are lost. The former route still has the peer's consent.
#[test]
fn a_restart_that_finds_no_route_changes_nothing() {
    let (mut pair, id) = with_channel([false, false]);
    let offer = pair.sides[OFFERER].restart_ice(pair.now, &[]).unwrap();
    let answer = pair.sides[ANSWERER].accept_offer(pair.now, &offer).unwrap();
    pair.sides[OFFERER].accept_answer(pair.now, &answer).unwrap();
    let ufrag = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("a=ice-ufrag:"));
        line.unwrap().trim().as_bytes().to_vec()
    };
    let (ours, theirs) = (ufrag(&offer), ufrag(&answer));
    let contains = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    let old = |datagram: &Datagram| !contains(&datagram.bytes, &ours) || !contains(&datagram.bytes, &theirs);
    pair.run(Duration::from_secs(25), old);
    for side in [OFFERER, ANSWERER] {
        assert_eq!(pair.take(side), []);
    }
    ask(&mut pair, id);
    assert_arrives(&mut pair, id, Duration::from_secs(1), old);
    pair.run(Duration::from_secs(60), |_| true);
    for side in [OFFERER, ANSWERER] {
        assert_eq!(pair.take(side), []);
    }
}

/// A further offer is of the same DTLS connection, or belongs to another session.
#[test]
fn offers_of_another_connection_are_refused() {
    let (mut pair, id) = with_channel([false, false]);
    let (_, stranger) = Session::offer(pair.now, config(OFFERER)).unwrap();
    let refused = pair.sides[ANSWERER].accept_offer(pair.now, &stranger);
    assert!(matches!(refused, Err(SessionError::OtherPeer)), "{refused:?}");
    let offer = pair.sides[OFFERER].restart_ice(pair.now, &[]).unwrap();
    // The answerer is the DTLS server.
    let other_role = offer.replace("a=setup:actpass", "a=setup:passive");
    let refused = pair.sides[ANSWERER].accept_offer(pair.now, &other_role);
    assert!(matches!(refused, Err(SessionError::OtherPeer)), "{refused:?}");
    ask(&mut pair, id);
    assert_arrives(&mut pair, id, Duration::from_secs(5), |_| true);
    let (mut early, offer) = Session::offer(pair.now, config(OFFERER)).unwrap();
    for refused in [
        early.restart_ice(pair.now, &[]),
        early.accept_offer(pair.now, &offer),
    ] {
        assert!(matches!(refused, Err(SessionError::NotBegun)), "{refused:?}");
    }
}

/// Trickle ICE (RFC 8838): candidates follow the descriptions.
#[test]
fn candidates_may_come_after_the_descriptions() {
    let now = Timestamp::ZERO;
    let without = |text: &str| -> String {
        text.split_inclusive('\n')
            .filter(|line| !line.contains("candidate"))
            .collect()
    };
    for late in [OFFERER, ANSWERER] {
        let (mut offers, offer) = Session::offer(now, config(OFFERER)).unwrap();
        let (answers, answer) = Session::answer(now, config(ANSWERER), &without(&offer)).unwrap();
        let early = offers.add_candidate(now, "");
        assert!(matches!(early, Err(SessionError::NotBegun)), "{early:?}");
        offers.accept_answer(now, &without(&answer)).unwrap();
        let mut pair = Pair::of(now, [offers, answers]);
        // Names of mDNS may take any time.
        pair.run(Duration::from_secs(90), |_| true);
        assert_eq!((pair.take(OFFERER), pair.take(ANSWERER)), (vec![], vec![]));
        let theirs = if late == OFFERER { answer } else { offer };
        let lines: Vec<&str> = theirs.lines().filter(|line| line.contains("candidate")).collect();
        assert!(lines.len() > 1, "{theirs}");
        for line in lines {
            pair.sides[late].add_candidate(pair.now, line).unwrap();
        }
        let ignored = [
            "",
            "candidate:1 1 udp 2113937151 0a0b0c0d-0000-0000-0000-000000000000.local 5 typ host",
            "candidate:1 1 tcp 1518280447 192.0.2.1 9 typ host tcptype active",
        ];
        for line in ignored {
            pair.sides[late].add_candidate(pair.now, line).unwrap();
        }
        for wrong in [
            "candidate:",
            "candidate:1 1 udp 2113937151 192.0.2.1 5",
            "a=mid:0",
        ] {
            let wrong = pair.sides[late].add_candidate(pair.now, wrong);
            assert!(matches!(wrong, Err(SessionError::Sdp(_))), "{wrong:?}");
        }
        pair.settle();
        for side in [OFFERER, ANSWERER] {
            assert_eq!(pair.take(side), [Seen::Connected]);
        }
    }
}

/// All messages are acknowledged before the end, although datagrams are lost.
#[test]
fn a_shutdown_waits_for_acknowledgements() {
    for closing in [OFFERER, ANSWERER] {
        let (mut pair, id) = with_channel([false, false]);
        for _ in 0..20 {
            pair.send(closing, id, vec![7; 10_000]);
        }
        pair.sides[closing].shutdown(pair.now);
        let late = pair.sides[closing].send(pair.now, id, message(b"late"));
        assert!(late.is_err());
        let mut count = 0;
        pair.run(Duration::from_secs(30), |_| {
            count += 1;
            // If the SHUTDOWN COMPLETE were lost, DTLS would end first.
            count % 7 != 0 || count > 200
        });
        let told = pair.take(1 - closing);
        let arrived = told
            .iter()
            .filter(|seen| matches!(seen, Seen::Channel(Told::Message(..))));
        assert_eq!(arrived.count(), 20);
        let end = SessionEnd::Sctp(CloseReason::Shutdown);
        assert!(told.contains(&Seen::Channel(Told::Closed(id))));
        assert_eq!(told.last(), Some(&Seen::Closed(end)));
        assert_eq!(pair.take(closing).last(), Some(&Seen::Closed(SessionEnd::Closed)));
    }
    // Nothing is connected yet.
    let (mut early, _) = Session::offer(Timestamp::ZERO, config(OFFERER)).unwrap();
    early.shutdown(Timestamp::ZERO);
    let end = SessionEvent::Closed(SessionEnd::Closed);
    assert_eq!(early.poll_event(Timestamp::ZERO), Some(end));
}
