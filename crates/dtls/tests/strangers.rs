//! Datagrams of hosts that have not proved that they receive at their addresses (RFC 6347 §4.2.1, RFC 9147 §5.1).

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_dtls::{Certificate, DtlsConfig, DtlsError, Effects, Peers};
use anabranch_proto::Timestamp;
use client::{Client, Version};

mod client;

/// The key of the genuine client. Strangers have those from 10,000 on.
const CLIENT: u32 = 1;
const VERSIONS: [Version; 3] = [Version::Dtls12, Version::Dtls13, Version::Both];
/// Fatal alerts (RFC 8446 §6).
const HANDSHAKE_FAILURE: &[u8] = &[2, 40];
const ILLEGAL_PARAMETER: &[u8] = &[2, 47];
/// A client waits as long between two flights.
const ROUND_TRIP: Duration = Duration::from_millis(100);

struct Server {
    now: Timestamp,
    peers: Peers<u32>,
    ended: Vec<(u32, DtlsError)>,
}

impl Server {
    fn new() -> Self {
        Self::with(|config| config)
    }

    fn with(set: impl FnOnce(DtlsConfig) -> DtlsConfig) -> Self {
        Self {
            now: Timestamp::ZERO,
            peers: Peers::new(set(DtlsConfig::new(Certificate::generate().unwrap()))),
            ended: Vec::new(),
        }
    }

    fn act(&mut self, call: impl FnOnce(&Peers<u32>, Timestamp, &mut Effects<u32>)) -> Vec<Vec<u8>> {
        let mut effects = Effects::default();
        call(&mut self.peers, self.now, &mut effects);
        let answers = effects.datagrams().map(|(_, datagram)| datagram.to_vec());
        let answers = answers.collect();
        self.ended.append(&mut effects.ended);
        answers
    }

    /// A datagram arrives; returns the answers.
    fn take(&mut self, key: u32, datagram: &[u8]) -> Vec<Vec<u8>> {
        self.act(|peers, now, effects| peers.handle_datagram(now, key, datagram, effects))
    }

    /// Time passes; returns what is sent meanwhile.
    fn pass(&mut self, time: Duration) -> Vec<Vec<u8>> {
        let end = self.now + time;
        let mut sent = Vec::new();
        while let Some(next) = self.peers.timeout().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            sent.extend(self.act(Peers::handle_timeout));
        }
        self.now = end;
        sent
    }

    /// The client's flights and the answers, until none is left. Returns the client's datagrams.
    fn serve(
        &mut self,
        client: &mut Client,
        key: u32,
        mut between: impl FnMut(&mut Self, &[Vec<u8>]),
    ) -> Vec<Vec<u8>> {
        let mut sent = Vec::new();
        loop {
            let flight = client.take();
            if flight.is_empty() {
                return sent;
            }
            sent.extend(flight.iter().cloned());
            between(self, &sent);
            for datagram in flight {
                for answer in self.take(key, &datagram) {
                    client.dtls.handle_packet(&answer).unwrap();
                }
            }
            self.now += ROUND_TRIP;
            client.dtls.handle_timeout(client::instant(self.now)).unwrap();
        }
    }

    /// The second ClientHello of this client.
    fn second_hello_of(&mut self, client: &mut Client, key: u32) -> Vec<u8> {
        let answers = self.take(key, &client.take()[0]);
        client.dtls.handle_packet(&answers[0]).unwrap();
        client.take().remove(0)
    }

    /// A client proves its address, and then is silent.
    fn begin(&mut self, version: Version, key: u32) {
        let mut client = Client::new(version, self.now);
        let second = self.second_hello_of(&mut client, key);
        self.take(key, &second);
    }

    /// A connection of a new client.
    fn connect(&mut self, version: Version, key: u32) {
        let mut client = Client::new(version, self.now);
        self.serve(&mut client, key, |_, _| {});
        assert!(client.connected, "{version:?}");
    }
}

/// A record header and a handshake header that promise this many bytes of a ClientHello, and fewer.
fn fragment(len: u8, bytes: usize) -> Vec<u8> {
    let mut datagram = vec![22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12 + bytes as u8];
    datagram.extend([1, 0, 0, len, 0, 0, 0, 0, 0, 0, 0, bytes as u8]);
    datagram.extend(vec![7; bytes]);
    datagram
}

/// 8,000 forged datagrams a second, with the client's flights between them: the shortest that looked like a ClientHello, complete
/// ClientHellos, and those with a cookie of somebody else.
#[test]
fn forged_hellos_keep_nobody_out() {
    let mut template = Client::new(Version::Both, Timestamp::ZERO);
    let first = template.take().remove(0);
    for version in VERSIONS {
        let mut server = Server::with(|config| config.max_handshakes(100));
        let mut client = Client::new(version, server.now);
        let mut stranger = 10_000;
        server.serve(&mut client, CLIENT, |server, sent| {
            let short = [&[22, 254, 253, 0, 0][..], &[0; 8], &[1]].concat();
            let second = sent.get(1).unwrap_or(&first);
            for forged in [&short, &first, second].into_iter().cycle().take(800) {
                stranger += 1;
                server.take(stranger, forged);
                assert!(server.peers.handshakes() <= 1, "{version:?}");
            }
        });
        assert!(client.connected, "{version:?}");
        assert_eq!((server.peers.connections(), server.peers.handshakes()), (1, 0));
        assert!(server.ended.is_empty(), "{:?}", server.ended);
    }
}

/// A first ClientHello is answered once, with fewer bytes, and leaves nothing: neither a handshake nor a timer.
#[test]
fn a_hello_without_a_cookie_leaves_nothing() {
    for version in VERSIONS {
        let mut server = Server::new();
        let hello = Client::new(version, server.now).take().remove(0);
        for stranger in 10_000..10_100 {
            let [answer] = &server.take(stranger, &hello)[..] else {
                panic!("{version:?}: one answer")
            };
            assert!(answer.len() <= hello.len(), "{} bytes", answer.len());
        }
        assert_eq!((server.peers.handshakes(), server.peers.timeout()), (0, None));
        assert!(server.pass(Duration::from_secs(60)).is_empty());
    }
}

/// 35 bytes from a client's address, and everything else that is no complete ClientHello: no answer, no state, and the client connects.
#[test]
fn incomplete_hellos_disturb_nobody() {
    for version in VERSIONS {
        let mut server = Server::new();
        let mut client = Client::new(version, server.now);
        server.serve(&mut client, CLIENT, |server, sent| {
            let hello = &sent[0];
            let mut longer = hello.clone();
            longer.push(0);
            let mut forged = vec![fragment(200, 10), fragment(10, 10), fragment(0, 0), longer];
            forged.extend((14..hello.len()).step_by(9).map(|len| hello[..len].to_vec()));
            for datagram in forged {
                let handshakes = server.peers.handshakes();
                assert!(server.take(CLIENT, &datagram).is_empty(), "{datagram:?}");
                assert_eq!(server.peers.handshakes(), handshakes);
            }
        });
        assert!(client.connected, "{version:?}");
    }
}

/// A second ClientHello counts from its address only, once, and for two minutes at most.
#[test]
fn a_cookie_is_for_one_handshake() {
    for version in VERSIONS {
        let mut server = Server::new();
        let mut client = Client::new(version, server.now);
        let sent = server.serve(&mut client, CLIENT, |server, sent| {
            if let [_, second] = sent {
                let [alert] = &server.take(CLIENT + 1, second)[..] else {
                    panic!("another address: one answer")
                };
                assert_eq!((alert[0], &alert[13..]), (21, ILLEGAL_PARAMETER));
                for place in [40, second.len() - 1] {
                    let mut changed = second.clone();
                    changed[place] ^= 1;
                    changed[10] += 1;
                    server.take(CLIENT + 1, &changed);
                }
                assert_eq!(server.peers.handshakes(), 0);
            }
        });
        assert!(client.connected, "{version:?}");
        assert!(server.take(CLIENT, &sent[1]).is_empty(), "a replay");
        assert_eq!(server.peers.handshakes(), 0);
        server.act(|peers, now, effects| peers.close(now, CLIENT, effects));
        server.now += Duration::from_secs(121);
        server.take(CLIENT, &sent[1]);
        assert_eq!(server.peers.handshakes(), 0, "too old");
    }
}

/// A client that takes its time: the secret changes between its two ClientHellos.
#[test]
fn a_cookie_outlives_a_change_of_the_secret() {
    for version in VERSIONS {
        let mut server = Server::new();
        server.connect(version, CLIENT + 1);
        server.now += Duration::from_secs(59);
        let mut client = Client::new(version, server.now);
        for datagram in client.take() {
            for answer in server.take(CLIENT, &datagram) {
                client.dtls.handle_packet(&answer).unwrap();
            }
        }
        server.now += Duration::from_secs(2);
        server.serve(&mut client, CLIENT, |_, _| {});
        assert!(client.connected, "{version:?}");
    }
}

/// The keys of a handshake are made anew each time, also for the same two ClientHellos.
#[test]
fn a_replayed_cookie_gives_other_keys() {
    for version in VERSIONS {
        let mut server = Server::new();
        let mut client = Client::new(version, server.now);
        let second = server.second_hello_of(&mut client, CLIENT);
        let flights = [0, 1].map(|_| {
            let flight = server.take(CLIENT, &second);
            server.act(|peers, now, effects| peers.close(now, CLIENT, effects));
            flight
        });
        // The ServerHello: its random, and in DTLS 1.3 the key share.
        let [one, other] = flights.each_ref().map(|flight| &flight[0][27..59]);
        assert_ne!(one, other, "{version:?}");
        assert_ne!(flights[0][0][60..], flights[1][0][60..], "{version:?}");
    }
}

/// The client retransmits its second ClientHello, because the answer is lost: that begins nothing, and brings the
/// answer again.
#[test]
fn a_retransmitted_second_hello_belongs_to_its_handshake() {
    for version in VERSIONS {
        let mut server = Server::new();
        let mut client = Client::new(version, server.now);
        let second = server.second_hello_of(&mut client, CLIENT);
        assert!(!server.take(CLIENT, &second).is_empty());
        let again = server.take(CLIENT, &second);
        assert_eq!(server.peers.handshakes(), 1);
        for datagram in again {
            client.dtls.handle_packet(&datagram).unwrap();
        }
        server.serve(&mut client, CLIENT, |_, _| {});
        assert!(client.connected, "{version:?}");
        assert!(server.ended.is_empty(), "{:?}", server.ended);
    }
}

/// A client that restarted in the middle of its handshake is served at once.
#[test]
fn a_new_handshake_takes_the_place_of_an_unfinished_one() {
    for version in VERSIONS {
        let mut server = Server::new();
        server.begin(version, CLIENT);
        assert_eq!(server.peers.handshakes(), 1);
        server.connect(version, CLIENT);
        assert_eq!((server.peers.handshakes(), server.peers.connections()), (0, 1));
    }
}

/// Handshakes and connections that ended leave no timer behind.
#[test]
fn what_ended_leaves_no_timer() {
    let mut server = Server::with(|config| config.max_handshakes(8));
    server.connect(Version::Both, CLIENT);
    server.act(|peers, now, effects| peers.close(now, CLIENT, effects));
    assert_eq!(server.peers.timeout(), None);
    for stranger in 10_000..10_040 {
        server.begin(Version::Both, stranger);
    }
    server.act(|peers, now, effects| peers.close_all(now, effects));
    assert_eq!((server.peers.handshakes(), server.peers.timeout()), (0, None));
    assert_eq!(server.ended.len(), 41);
    // Those that end by themselves.
    for stranger in 10_000..10_008 {
        server.begin(Version::Both, stranger);
    }
    server.pass(Duration::from_secs(50));
    assert_eq!((server.peers.handshakes(), server.peers.timeout()), (0, None));
}

/// Clients that prove their addresses and go no further: the oldest handshake goes first, and complete connections stay.
#[test]
fn handshakes_are_bounded() {
    let mut server = Server::with(|config| config.max_handshakes(16));
    server.connect(Version::Both, CLIENT);
    for stranger in 10_000..10_100 {
        server.begin(Version::Both, stranger);
        assert!(server.peers.handshakes() <= 16);
        if stranger >= 10_016 {
            assert_eq!(server.ended.pop(), Some((stranger - 16, DtlsError::Dropped)));
        }
    }
    assert_eq!(server.peers.connections(), 1);
}

/// If there are too many handshakes, a host with more than a quarter of them drops its own, and keeps no other host out. Here it has the
/// addresses of one IPv6 network.
#[test]
fn a_host_has_a_share_of_the_handshakes() {
    let now = Timestamp::ZERO;
    let config = DtlsConfig::new(Certificate::generate().unwrap());
    let peers: Peers<SocketAddr> = Peers::new(config.max_handshakes(16));
    let begin = |key: SocketAddr| {
        let mut client = Client::new(Version::Dtls12, now);
        let mut effects = Effects::default();
        peers.handle_datagram(now, key, &client.take()[0], &mut effects);
        let (_, answer) = effects.datagrams().next().expect("an answer");
        client.dtls.handle_packet(answer).unwrap();
        peers.handle_datagram(now, key, &client.take()[0], &mut effects);
        (effects.ended, peers.handshakes())
    };
    let other = "[2001:db8:2::1]:5".parse().unwrap();
    begin(other);
    for number in 0..40_u16 {
        let key = SocketAddr::from(([0x2001, 0xdb8, 0, 1, 0, 0, 0, number], 5));
        let (ended, handshakes) = begin(key);
        assert!(ended.iter().all(|(key, _)| *key != other));
        assert_eq!(handshakes, 16.min(2 + usize::from(number)));
    }
}

/// This endpoint's own handshakes take no places.
#[test]
fn strangers_do_not_drop_a_client_handshake() {
    let mut server = Server::with(|config| config.max_handshakes(4));
    for peer in 1..=8 {
        server.act(|peers, now, effects| peers.connect(now, peer, effects));
    }
    for stranger in 10_000..10_010 {
        server.begin(Version::Dtls12, stranger);
    }
    assert_eq!(server.peers.handshakes(), 12);
    assert!(
        server.ended.iter().all(|(key, _)| *key >= 10_000),
        "{:?}",
        server.ended
    );
}

/// A connection without an association is closed after 30 s, whatever its peer sends.
#[test]
fn an_unused_connection_is_closed() {
    let mut server = Server::new();
    let mut client = Client::new(Version::Both, server.now);
    server.serve(&mut client, CLIENT, |_, _| {});
    server.connect(Version::Both, CLIENT + 1);
    server.act(|peers, now, _| peers.hold(now, CLIENT + 1));
    for _ in 0..4 {
        server.pass(Duration::from_secs(7));
        client.dtls.send_application_data(b"not SCTP").unwrap();
        for datagram in client.take() {
            server.take(CLIENT, &datagram);
        }
    }
    assert_eq!(server.peers.connections(), 2);
    server.pass(Duration::from_secs(7));
    assert_eq!(server.ended, [(CLIENT, DtlsError::Unused)]);
    assert_eq!(server.peers.connections(), 1);
    // The last association ends.
    server.act(|peers, now, effects| peers.release(now, CLIENT + 1, effects));
    server.pass(Duration::from_secs(29));
    assert_eq!(server.peers.connections(), 1);
    server.pass(Duration::from_secs(2));
    assert_eq!((server.peers.connections(), server.peers.timeout()), (0, None));
}

/// If there are too many connections, the oldest one without an association makes room. Those with one stay.
#[test]
fn complete_connections_are_bounded() {
    let mut server = Server::with(|config| config.max_connections(2));
    server.connect(Version::Both, CLIENT);
    server.act(|peers, now, _| peers.hold(now, CLIENT));
    server.connect(Version::Both, CLIENT + 1);
    server.connect(Version::Both, CLIENT + 2);
    assert_eq!(server.ended, [(CLIENT + 1, DtlsError::Unused)]);
    server.act(|peers, now, _| peers.hold(now, CLIENT + 2));
    server.begin(Version::Both, CLIENT + 3);
    assert_eq!((server.peers.connections(), server.peers.handshakes()), (2, 0));
}

/// A host has a share of the connections without an association.
#[test]
fn a_host_has_a_share_of_the_unused_connections() {
    let now = Timestamp::ZERO;
    let config = DtlsConfig::new(Certificate::generate().unwrap());
    let peers: Peers<SocketAddr> = Peers::new(config.max_connections(100));
    let mut ended = Vec::new();
    for port in 1..=14 {
        let key = SocketAddr::from(([192, 0, 2, 1], port));
        let mut client = Client::new(Version::Dtls12, now);
        loop {
            let flight = client.take();
            if flight.is_empty() {
                break;
            }
            for datagram in flight {
                let mut effects = Effects::default();
                peers.handle_datagram(now, key, &datagram, &mut effects);
                for (_, answer) in effects.datagrams().filter(|(to, _)| *to == key) {
                    client.dtls.handle_packet(answer).unwrap();
                }
                ended.extend(
                    effects
                        .ended
                        .into_iter()
                        .map(|(key, reason)| (key.port(), reason)),
                );
            }
        }
        assert_eq!(peers.connections(), usize::from(port).min(8));
    }
    assert_eq!(
        ended,
        (1..=6).map(|port| (port, DtlsError::Unused)).collect::<Vec<_>>()
    );
}

/// A client that offers nothing that the server can use learns so at once: from one alert, shorter than its ClientHello.
#[test]
fn what_cannot_be_served_is_refused_at_once() {
    for version in [Version::Dtls12, Version::Dtls13] {
        let mut server = Server::new();
        let mut client = Client::new(version, server.now);
        let hello = without_suites(client.take().remove(0));
        let [alert] = &server.take(CLIENT, &hello)[..] else {
            panic!("{version:?}: one answer")
        };
        assert_eq!((alert[0], &alert[13..]), (21, HANDSHAKE_FAILURE), "{version:?}");
        assert_eq!((server.peers.handshakes(), server.peers.timeout()), (0, None));
    }
}

/// The library finds what is missing only after the cookie.
#[test]
fn a_proved_client_that_cannot_be_served_is_refused_at_once() {
    let mut server = Server::new();
    let mut hello = Client::new(Version::Dtls12, server.now).take().remove(0);
    let extended_master_secret = hello.windows(4).position(|part| part == [0, 23, 0, 0]);
    // An extension that nobody knows in its place.
    hello[extended_master_secret.expect("the library wants it")] = 0x5A;
    let answers = server.take(CLIENT, &hello);
    let cookie = &answers[0][answers[0].len() - 32..];
    let answers = server.take(CLIENT, &with_legacy_cookie(&hello, cookie));
    let [alert] = &answers[..] else {
        panic!("one answer")
    };
    assert_eq!((alert[0], &alert[13..]), (21, HANDSHAKE_FAILURE));
    assert_eq!((server.peers.handshakes(), server.peers.timeout()), (0, None));
}

/// A ClientHello of a client with no known cipher suite.
fn without_suites(mut hello: Vec<u8>) -> Vec<u8> {
    let list = 13 + 12 + 2 + 32 + 1 + 1;
    let len = usize::from(hello[list + 1]);
    for suite in hello[list + 2..list + 2 + len].chunks_mut(2) {
        suite.copy_from_slice(&[0xC0, 0x99]);
    }
    hello
}

/// The second ClientHello of a client of DTLS 1.2.
fn with_legacy_cookie(hello: &[u8], cookie: &[u8]) -> Vec<u8> {
    let place = 13 + 12 + 2 + 32 + 1;
    let mut second = hello[..place].to_vec();
    second.push(32);
    second.extend_from_slice(cookie);
    second.extend_from_slice(&hello[place + 1..]);
    let len = (second.len() - 13) as u16;
    second[11..13].copy_from_slice(&len.to_be_bytes());
    for place in [15, 23] {
        second[place..place + 2].copy_from_slice(&(len - 12).to_be_bytes());
    }
    // The number of the record, and of the message.
    second[10] = 1;
    second[18] = 1;
    second
}
