//! Endpoints that exchange DTLS datagrams in memory.

use std::collections::VecDeque;
use std::time::Duration;

use anabranch_dtls::{Certificate, DtlsConfig, DtlsError, Effects, Fingerprint, OVERHEAD, Peers, Trust};
use anabranch_proto::Timestamp;
use client::{Client, Version};

mod client;

/// A client and a server whose datagrams may be lost or changed by the network.
struct Pair {
    now: Timestamp,
    sides: [Peers<u32>; 2],
    /// Datagrams in transit: the receiver, its key of the sender, the bytes.
    wire: VecDeque<(usize, u32, Vec<u8>)>,
    packets: [Vec<Vec<u8>>; 2],
    established: [Vec<Fingerprint>; 2],
    ended: [Vec<DtlsError>; 2],
    /// Datagrams sent so far.
    sent: usize,
    longest: usize,
}

const CLIENT: usize = 0;
const SERVER: usize = 1;
/// The server's address as the client knows it, and the client's as the server knows it.
const KEYS: [u32; 2] = [80, 5000];

fn config() -> DtlsConfig {
    DtlsConfig::new(Certificate::generate().unwrap())
}

impl Pair {
    fn new(client: DtlsConfig, server: DtlsConfig) -> Self {
        Self {
            now: Timestamp::ZERO,
            sides: [Peers::new(client), Peers::new(server)],
            wire: VecDeque::new(),
            packets: Default::default(),
            established: Default::default(),
            ended: Default::default(),
            sent: 0,
            longest: 0,
        }
    }

    fn act(&mut self, side: usize, call: impl FnOnce(&Peers<u32>, Timestamp, &mut Effects<u32>)) {
        let mut effects = Effects::default();
        call(&self.sides[side], self.now, &mut effects);
        for (key, datagram) in effects.datagrams() {
            assert_eq!(key, KEYS[side]);
            self.sent += 1;
            self.longest = self.longest.max(datagram.len());
            self.wire.push_back((1 - side, KEYS[1 - side], datagram.to_vec()));
        }
        self.packets[side].extend(effects.packets().map(|(_, packet)| packet.to_vec()));
        self.established[side].extend(effects.established.into_iter().map(|(_, peer)| peer));
        self.ended[side].extend(effects.ended.into_iter().map(|(_, reason)| reason));
    }

    fn connect(&mut self) {
        self.act(CLIENT, |peers, now, effects| {
            peers.connect(now, KEYS[CLIENT], effects)
        });
    }

    fn send(&mut self, side: usize, packet: &[u8]) {
        self.act(side, |peers, now, effects| {
            peers.send(now, KEYS[side], packet, effects)
        });
    }

    /// Delivers all datagrams that `keep` keeps; it may change them.
    fn deliver(&mut self, mut keep: impl FnMut(usize, &mut Vec<u8>) -> bool) {
        while let Some((side, key, mut datagram)) = self.wire.pop_front() {
            if keep(side, &mut datagram) {
                self.act(side, |peers, now, effects| {
                    peers.handle_datagram(now, key, &datagram, effects);
                });
            }
        }
    }

    /// Runs for this time.
    fn run(&mut self, time: Duration, mut keep: impl FnMut(usize, &mut Vec<u8>) -> bool) {
        let end = self.now + time;
        loop {
            self.deliver(&mut keep);
            let next = self.sides.iter().filter_map(Peers::timeout).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            for side in [CLIENT, SERVER] {
                self.act(side, Peers::handle_timeout);
            }
        }
        self.now = end;
    }

    fn settle(&mut self) {
        self.deliver(|_, _| true);
    }
}

fn connected() -> Pair {
    let mut pair = Pair::new(config(), config());
    pair.connect();
    pair.settle();
    assert_eq!(pair.established.each_ref().map(Vec::len), [1, 1]);
    pair
}

#[test]
fn peers_exchange_packets_and_know_each_others_certificates() {
    let (client, server) = (config(), config());
    let prints = [&client, &server].map(|config| config.certificate.fingerprint());
    let mut pair = Pair::new(client, server);
    pair.connect();
    // An INIT waits for the end of the handshake.
    pair.send(CLIENT, b"INIT");
    pair.settle();
    assert_eq!(pair.established, [vec![prints[SERVER]], vec![prints[CLIENT]]]);
    assert_eq!(pair.sides[SERVER].peer(KEYS[SERVER]), Some(prints[CLIENT]));
    assert_eq!(pair.packets[SERVER], [b"INIT".to_vec()]);
    pair.longest = 0;
    let packet = vec![7; 1200];
    pair.send(SERVER, &packet);
    assert!(
        !pair.wire[0].2.windows(50).any(|part| part == &packet[..50]),
        "it is encrypted"
    );
    pair.settle();
    assert_eq!(pair.packets[CLIENT], [packet]);
    assert!(
        pair.longest <= 1200 + usize::from(OVERHEAD),
        "{} bytes",
        pair.longest
    );
    pair.send(SERVER, &vec![1; 1 << 14]);
    pair.settle();
    assert_eq!(pair.packets[CLIENT][1].len(), 1 << 14);
}

#[test]
fn a_peer_with_another_fingerprint_is_refused() {
    for refusing in [CLIENT, SERVER] {
        let mut configs = [config(), config()];
        let other = Certificate::generate().unwrap().fingerprint();
        configs[refusing].trust = Trust::from(other);
        let own = configs[1 - refusing].certificate.fingerprint();
        let [client, server] = configs;
        let mut pair = Pair::new(client, server);
        pair.connect();
        pair.send(CLIENT, b"INIT");
        pair.settle();
        assert_eq!(pair.ended[refusing], [DtlsError::Refused(own)]);
        assert!(pair.established[refusing].is_empty());
        assert!(pair.packets.iter().all(Vec::is_empty), "no packet passes");
        assert_eq!(pair.ended[1 - refusing], [DtlsError::ClosedByPeer]);
        assert_eq!(pair.sides.each_ref().map(Peers::connections), [0, 0]);
    }
}

#[test]
fn trusted_fingerprints_are_accepted() {
    let [client, server] = [config(), config()];
    let prints = [&client, &server].map(|config| config.certificate.fingerprint());
    let check = Trust::Check(std::sync::Arc::new(move |der| {
        Fingerprint::of(der) == prints[CLIENT]
    }));
    let mut pair = Pair::new(client.trust(prints[SERVER]), server.trust(check));
    pair.connect();
    pair.settle();
    assert_eq!(pair.established.each_ref().map(Vec::len), [1, 1]);
}

#[test]
fn handshakes_survive_losses() {
    for lost in 0..8 {
        let mut pair = Pair::new(config(), config());
        pair.connect();
        pair.send(CLIENT, b"INIT");
        let mut number = 0;
        pair.run(Duration::from_secs(20), |_, _| {
            number += 1;
            number != lost + 1
        });
        // The last flight, with the INIT, may be the one that is lost: SCTP sends the INIT again.
        pair.send(CLIENT, b"INIT again");
        pair.run(Duration::from_secs(20), |_, _| true);
        assert_eq!(
            pair.established.each_ref().map(Vec::len),
            [1, 1],
            "datagram {lost} lost"
        );
        assert_eq!(pair.packets[SERVER].last().unwrap(), b"INIT again");
    }
}

/// The library wants to acknowledge a flight with a gap again and again, without a wait between. Found by the fuzz target `session`.
#[test]
fn a_gap_in_a_flight_draws_few_datagrams() {
    let (client, server) = (config(), config());
    for (changed, place) in (0..6).flat_map(|changed| (0..30).map(move |part| (changed, part * 40))) {
        let mut pair = Pair::new(client.clone(), server.clone());
        pair.connect();
        let mut number = 0;
        pair.deliver(|_, datagram| {
            number += 1;
            // A record of a datagram is lost.
            if let Some(byte) = datagram.get_mut(place).filter(|_| number == changed + 1) {
                *byte ^= 1;
            }
            true
        });
        // From now on nothing arrives.
        pair.sent = 0;
        pair.run(Duration::from_secs(10), |_, _| false);
        assert!(
            pair.sent <= 250,
            "{changed}, {place}: {} datagrams in 10 s",
            pair.sent
        );
    }
}

#[test]
fn nobody_answers() {
    let mut pair = Pair::new(config(), config());
    pair.connect();
    pair.run(Duration::from_secs(120), |_, _| false);
    assert!(
        matches!(pair.ended[CLIENT][..], [DtlsError::Timeout]),
        "{:?}",
        pair.ended
    );
    assert_eq!(pair.sides[CLIENT].handshakes(), 0);
    assert!(pair.sent < 20, "{} datagrams", pair.sent);
}

#[test]
fn a_close_is_told_to_the_peer() {
    for closing in [CLIENT, SERVER] {
        let mut pair = connected();
        pair.act(closing, |peers, now, effects| peers.close_all(now, effects));
        pair.settle();
        assert_eq!(pair.ended[closing], [DtlsError::Closed]);
        assert_eq!(pair.ended[1 - closing], [DtlsError::ClosedByPeer]);
        assert_eq!(pair.sides.each_ref().map(Peers::connections), [0, 0]);
        pair.send(closing, b"too late");
        assert!(pair.wire.is_empty());
    }
}

#[test]
fn an_idle_connection_is_closed_and_a_used_one_is_not() {
    let [client, server] = [config(), config()].map(|config| config.idle_timeout(Duration::from_secs(60)));
    let mut pair = Pair::new(client, server);
    pair.connect();
    pair.settle();
    for side in [CLIENT, SERVER] {
        pair.act(side, |peers, now, _| peers.hold(now, KEYS[side]));
    }
    for _ in 0..4 {
        pair.send(CLIENT, b"HEARTBEAT");
        pair.send(SERVER, b"HEARTBEAT");
        pair.run(Duration::from_secs(40), |_, _| true);
    }
    assert_eq!(pair.sides.each_ref().map(Peers::connections), [1, 1]);
    pair.run(Duration::from_secs(100), |_, _| true);
    assert_eq!(pair.sides.each_ref().map(Peers::connections), [0, 0]);
    assert!(
        pair.ended
            .iter()
            .flatten()
            .any(|reason| *reason == DtlsError::Idle)
    );
}

/// RFC 6347 §4.2.8: the old connection stays until the new handshake is complete.
#[test]
fn a_peer_that_restarted_gets_a_new_connection() {
    let client = config();
    let mut pair = Pair::new(client.clone(), config());
    pair.connect();
    pair.settle();
    let former = std::mem::replace(&mut pair.sides[CLIENT], Peers::new(client));
    pair.connect();
    // After the cookie, the server's answers are lost: the old connection is still there. It does not answer itself: its records are
    // encrypted.
    let mut cookies = 0;
    pair.deliver(|side, datagram| {
        assert_eq!(datagram[0], 22, "a handshake record");
        cookies += usize::from(side == CLIENT);
        side == SERVER || cookies == 1
    });
    assert_eq!(
        (pair.sides[SERVER].connections(), pair.sides[SERVER].handshakes()),
        (1, 1)
    );
    let restarted = std::mem::replace(&mut pair.sides[CLIENT], former);
    pair.send(CLIENT, b"of the old one");
    pair.settle();
    assert_eq!(pair.packets[SERVER], [b"of the old one".to_vec()]);
    pair.sides[CLIENT] = restarted;
    pair.run(Duration::from_secs(20), |_, _| true);
    pair.send(CLIENT, b"of the new one");
    pair.settle();
    assert_eq!(pair.packets[SERVER].last().unwrap(), b"of the new one");
    assert_eq!(
        (pair.sides[SERVER].connections(), pair.sides[SERVER].handshakes()),
        (1, 0)
    );
}

/// Records of an earlier connection arrive before the first answer.
#[test]
fn a_client_waits_for_a_handshake_record() {
    let mut pair = Pair::new(config(), config());
    pair.connect();
    for early in [&[47, 1, 2, 0, 1, 9][..], &[23, 254, 253, 0, 1], &[21; 15], &[]] {
        pair.act(CLIENT, |peers, now, effects| {
            peers.handle_datagram(now, KEYS[CLIENT], early, effects);
        });
    }
    pair.settle();
    assert_eq!(pair.established.each_ref().map(Vec::len), [1, 1]);
}

/// A server that cannot serve a client sends an alert. A client that gets two of them, for two ClientHellos, waits no longer; one may be
/// forged.
#[test]
fn a_refused_client_ends_after_its_second_hello() {
    const ALERT: &[u8] = &[21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 40];
    let mut pair = Pair::new(config(), config());
    pair.connect();
    let refuse = |pair: &mut Pair| {
        pair.act(CLIENT, |peers, now, effects| {
            peers.handle_datagram(now, KEYS[CLIENT], ALERT, effects);
        });
    };
    refuse(&mut pair);
    refuse(&mut pair);
    assert_eq!(pair.sides[CLIENT].handshakes(), 1);
    pair.run(Duration::from_secs(2), |_, _| false);
    refuse(&mut pair);
    assert_eq!(pair.sides[CLIENT].handshakes(), 0);
    assert!(
        matches!(pair.ended[CLIENT][..], [DtlsError::Alert(40)]),
        "{:?}",
        pair.ended
    );
    // Forged ones, which the server's answer follows.
    let mut pair = Pair::new(config(), config());
    pair.connect();
    refuse(&mut pair);
    pair.settle();
    assert_eq!(pair.established.each_ref().map(Vec::len), [1, 1]);
}

/// Datagrams of strangers do not disturb a connection: plain records, garbage, and replays of all that was sent.
#[test]
fn strangers_do_not_disturb_a_connection() {
    let mut pair = Pair::new(config(), config());
    let mut seen: Vec<(usize, Vec<u8>)> = Vec::new();
    pair.connect();
    pair.send(CLIENT, b"INIT");
    pair.deliver(|side, datagram| {
        seen.push((side, datagram.clone()));
        true
    });
    for side in [CLIENT, SERVER] {
        pair.send(side, b"secret");
    }
    pair.deliver(|side, datagram| {
        seen.push((side, datagram.clone()));
        true
    });
    let before = pair.packets.clone();
    // Alerts without encryption: fatal handshake_failure and close_notify.
    for code in [[2, 40], [1, 0]] {
        let mut alert = vec![21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2];
        alert.extend_from_slice(&code);
        seen.push((CLIENT, alert.clone()));
        seen.push((SERVER, alert));
    }
    for (side, datagram) in seen.clone() {
        for end in [datagram.len(), datagram.len() / 2] {
            pair.act(side, |peers, now, effects| {
                peers.handle_datagram(now, KEYS[side], &datagram[..end], effects);
            });
        }
        for place in (0..datagram.len()).step_by(7) {
            let mut changed = datagram.clone();
            changed[place] ^= 0x55;
            pair.act(side, |peers, now, effects| {
                peers.handle_datagram(now, KEYS[side], &changed, effects);
            });
        }
        pair.wire.clear();
    }
    assert_eq!(pair.packets, before, "no packet twice");
    assert_eq!(pair.sides.each_ref().map(Peers::connections), [1, 1]);
    for side in [CLIENT, SERVER] {
        pair.send(side, b"still here");
    }
    pair.settle();
    assert!(
        pair.packets
            .iter()
            .all(|packets| packets.last().unwrap() == b"still here")
    );
}

#[test]
fn a_peer_of_dtls_1_2_is_served_and_cannot_be_disturbed() {
    let mut now = Timestamp::ZERO;
    let server: Peers<u32> = Peers::new(config());
    let mut client = Client::new(Version::Dtls12, now);
    let mut hellos = Vec::new();
    for _ in 0..10 {
        now += Duration::from_millis(10);
        for datagram in client.take() {
            hellos.push(datagram.clone());
            let mut effects = Effects::default();
            server.handle_datagram(now, 1, &datagram, &mut effects);
            for (_, answer) in effects.datagrams() {
                client.dtls.handle_packet(answer).unwrap();
            }
        }
    }
    assert_eq!(server.connections(), 1);
    // Alerts without encryption: fatal handshake_failure and close_notify.
    for code in [[2, 40], [1, 0]] {
        let mut alert = vec![21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2];
        alert.extend_from_slice(&code);
        hellos.push(alert);
    }
    for hello in &hellos {
        server.handle_datagram(now, 1, hello, &mut Effects::default());
    }
    assert_eq!(server.connections(), 1);
    let mut effects = Effects::default();
    let packet = vec![7; 1200];
    server.send(now, 1, &packet, &mut effects);
    let [(_, datagram)] = effects.datagrams().collect::<Vec<_>>()[..] else {
        panic!("one datagram")
    };
    assert_eq!(datagram.len(), 1200 + usize::from(OVERHEAD));
    client.dtls.handle_packet(datagram).unwrap();
    client.take();
    assert_eq!(client.packets, [packet]);
    client.dtls.send_application_data(b"from the client").unwrap();
    let mut effects = Effects::default();
    for datagram in client.take() {
        server.handle_datagram(now, 1, &datagram, &mut effects);
    }
    assert_eq!(
        effects.packets().collect::<Vec<_>>(),
        [(1, &b"from the client"[..])]
    );
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { rng_seed: proptest::test_runner::RngSeed::Fixed(1), cases: 48, ..Default::default() })]

    /// Garbage, changed datagrams and replays at every state of the handshake: no panic leaves the crate, no packet arrives that was not
    /// sent, and a later connection works.
    #[test]
    fn garbage_and_replays_at_every_state(
        attacks in proptest::collection::vec((0_usize..12, proptest::bool::ANY, 0_u8..4, proptest::collection::vec(proptest::num::u8::ANY, 1..80)), 1..12),
    ) {
        let mut pair = Pair::new(config(), config());
        pair.connect();
        pair.send(CLIENT, b"INIT");
        let mut seen: Vec<Vec<u8>> = Vec::new();
        let mut step = 0;
        while let Some((side, key, datagram)) = pair.wire.pop_front() {
            for (at, to_server, kind, bytes) in &attacks {
                if *at != step {
                    continue;
                }
                let mut forged = match kind {
                    0 => bytes.clone(),
                    1 => seen.get(usize::from(bytes[0]) % seen.len().max(1)).cloned().unwrap_or_default(),
                    _ => datagram.clone(),
                };
                if *kind == 2 {
                    for (place, byte) in bytes.iter().enumerate() {
                        let place = (place * 37 + usize::from(*byte)) % forged.len().max(1);
                        forged[place] ^= byte;
                    }
                } else if *kind == 3 {
                    forged.truncate(usize::from(bytes[0]) % (forged.len() + 1));
                }
                let side = usize::from(*to_server);
                pair.act(side, |peers, now, effects| peers.handle_datagram(now, KEYS[side], &forged, effects));
            }
            seen.push(datagram.clone());
            pair.act(side, |peers, now, effects| peers.handle_datagram(now, key, &datagram, effects));
            step += 1;
            if step > 200 {
                break;
            }
        }
        for packets in &pair.packets {
            proptest::prop_assert!(packets.iter().all(|packet| packet == b"INIT"), "{:?}", packets);
        }
        proptest::prop_assert!(pair.sides.iter().all(|side| side.handshakes() <= 1));
        // Both forget each other, and begin again.
        for side in [CLIENT, SERVER] {
            pair.act(side, |peers, now, effects| peers.close_all(now, effects));
        }
        pair.wire.clear();
        pair.connect();
        pair.send(CLIENT, b"INIT");
        pair.run(Duration::from_secs(20), |_, _| true);
        proptest::prop_assert_eq!(pair.sides.each_ref().map(Peers::connections), [1, 1]);
    }
}
