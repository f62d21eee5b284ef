//! A connection belongs to the certificate of the peer, not to its address. Hosts exchange datagrams in memory.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use anabranch_dtls::{Certificate, DtlsConfig, DtlsError, Effects, Fingerprint, Peers};
use anabranch_proto::Timestamp;

/// The server's address.
const SERVER: u32 = 80;

/// A server, and hosts that the network maps to addresses.
struct Net {
    now: Timestamp,
    server: Peers<u32>,
    hosts: Vec<Peers<u32>>,
    prints: Vec<Fingerprint>,
    /// The address at which the server sees a host, and the host that gets the datagrams to an address.
    mapped: Vec<u32>,
    reached: BTreeMap<u32, usize>,
    /// Datagrams in transit: `None` is the server, with the source's address; or a host.
    wire: VecDeque<(Option<usize>, u32, Vec<u8>)>,
    /// The packets of the server: address, certificate, bytes.
    arrived: Vec<(u32, Fingerprint, Vec<u8>)>,
    /// The packets of the hosts.
    got: Vec<Vec<Vec<u8>>>,
    ended: Vec<(Option<usize>, DtlsError)>,
}

fn config() -> DtlsConfig {
    DtlsConfig::new(Certificate::generate().unwrap())
}

impl Net {
    /// Hosts with these certificates, all at the same address.
    fn new(count: usize, address: u32) -> Self {
        let configs: Vec<_> = (0..count).map(|_| config()).collect();
        Self {
            now: Timestamp::ZERO,
            server: Peers::new(config()),
            prints: configs.iter().map(|own| own.certificate.fingerprint()).collect(),
            hosts: configs.into_iter().map(Peers::new).collect(),
            mapped: vec![address; count],
            reached: BTreeMap::new(),
            wire: VecDeque::new(),
            arrived: Vec::new(),
            got: vec![Vec::new(); count],
            ended: Vec::new(),
        }
    }

    /// Calls the server, or a host.
    fn act(&mut self, who: Option<usize>, call: impl FnOnce(&Peers<u32>, Timestamp, &mut Effects<u32>)) {
        let mut effects = Effects::default();
        let side = who.map_or(&self.server, |host| &self.hosts[host]);
        call(side, self.now, &mut effects);
        for (key, datagram) in effects.datagrams() {
            let to = match who {
                None => self.reached.get(&key).map(|host| (Some(*host), SERVER)),
                Some(host) => {
                    self.reached.insert(self.mapped[host], host);
                    Some((None, self.mapped[host]))
                }
            };
            if let Some((to, from)) = to {
                self.wire.push_back((to, from, datagram.to_vec()));
            }
        }
        for ((key, packet), (certificate, _)) in effects.packets().zip(effects.certified_packets()) {
            match who {
                None => self.arrived.push((key, certificate, packet.to_vec())),
                Some(host) => self.got[host].push(packet.to_vec()),
            }
        }
        self.ended
            .extend(effects.ended.into_iter().map(|(_, reason)| (who, reason)));
    }

    fn settle(&mut self) {
        while let Some((to, from, datagram)) = self.wire.pop_front() {
            self.act(to, |peers, now, effects| {
                peers.handle_datagram(now, from, &datagram, effects)
            });
        }
    }

    fn connect(&mut self, host: usize) {
        self.act(Some(host), |peers, now, effects| {
            peers.connect(now, SERVER, effects)
        });
        self.settle();
        assert!(
            self.hosts[host].peer(SERVER).is_some(),
            "host {host} is connected"
        );
    }

    fn send(&mut self, host: usize, packet: &[u8]) {
        self.act(Some(host), |peers, now, effects| {
            peers.send(now, SERVER, packet, effects)
        });
        self.settle();
    }

    /// The server sends to a certificate at an address.
    fn answer(&mut self, address: u32, certificate: Fingerprint, packet: &[u8]) {
        self.act(None, |peers, now, effects| {
            peers.send_to(now, address, Some(certificate), packet, effects);
        });
        self.settle();
    }
}

/// A - Z: connected
/// B - Z: connected, from A's address
/// C - Z: connected, from the same address
/// A's connection stays; nothing for A goes to B or C, and nothing of theirs counts as A's
#[test]
fn another_certificate_neither_takes_nor_ends_a_connection() {
    let mut net = Net::new(3, 7);
    let prints = net.prints.clone();
    net.connect(0);
    net.connect(1);
    assert_eq!(net.server.connections(), 2);
    for (host, packet) in [(0, b"of A"), (1, b"of B")] {
        net.send(host, packet);
        assert_eq!(net.arrived.pop(), Some((7, prints[host], packet.to_vec())));
    }
    // Everything to the address now reaches B.
    net.answer(7, prints[0], b"for A");
    assert_eq!(net.got, vec![Vec::<Vec<u8>>::new(); 3]);
    net.answer(7, prints[1], b"for B");
    assert_eq!(net.got[1], [b"for B".to_vec()]);
    // C takes the place of B, not that of A.
    net.connect(2);
    assert_eq!(net.ended, [(None, DtlsError::Replaced)]);
    assert_eq!(net.server.connections(), 2);
    assert!(net.server.has(7, prints[0]) && !net.server.has(7, prints[1]));
    net.send(0, b"still A");
    assert_eq!(net.arrived.pop(), Some((7, prints[0], b"still A".to_vec())));
    net.answer(7, prints[0], b"still for A");
    assert_eq!(net.got[0], [b"still for A".to_vec()]);
    net.answer(7, prints[1], b"lost");
    assert!(net.got[1].len() == 1 && net.got[2].is_empty(), "{:?}", net.got);
}

/// Packets that wait for the end of a handshake are for one certificate: those for A do not reach B.
#[test]
fn waiting_packets_are_for_one_certificate() {
    let mut net = Net::new(2, 7);
    let prints = net.prints.clone();
    net.connect(0);
    net.send(0, b"of A");
    net.act(None, |peers, now, effects| peers.close(now, 7, effects));
    net.settle();
    // B begins a handshake while the server has something for A.
    net.act(Some(1), |peers, now, effects| peers.connect(now, SERVER, effects));
    for _ in 0..40 {
        let Some((to, from, datagram)) = net.wire.pop_front() else {
            break;
        };
        net.act(to, |peers, now, effects| {
            peers.handle_datagram(now, from, &datagram, effects)
        });
        net.act(None, |peers, now, effects| {
            peers.send_to(now, 7, Some(prints[0]), b"for A", effects);
        });
    }
    assert!(net.server.has(7, prints[1]));
    assert!(net.got[1].is_empty(), "{:?}", net.got[1]);
}

/// A - Z: connected
/// the translator gives A another port: the server does not know it
/// A - Z: connected again, beside the former connection; the packet that was not answered arrives
#[test]
fn a_connection_is_renewed_from_another_port() {
    let mut net = Net::new(1, 7);
    let own = net.prints[0];
    net.connect(0);
    // The server's association with A uses the connection of each port.
    net.act(None, |peers, now, _| {
        [7, 8].into_iter().for_each(|key| peers.hold(now, key))
    });
    net.mapped[0] = 8;
    net.reached.clear();
    net.send(0, b"lost");
    assert!(net.arrived.is_empty());
    let theirs = net.hosts[0].peer(SERVER);
    // The connection is new: its handshake may still go on at the server.
    net.now += Duration::from_millis(3900);
    net.act(Some(0), |peers, now, effects| {
        peers.renew(now, SERVER, theirs, effects);
        peers.renew(now, SERVER, None, effects);
    });
    assert!(net.wire.is_empty(), "a ClientHello");
    net.now += Duration::from_millis(100);
    net.act(Some(0), |peers, now, effects| {
        peers.renew(now, SERVER, theirs, effects);
        // One handshake at a time.
        peers.renew(now, SERVER, theirs, effects);
    });
    assert_eq!(net.wire.len(), 1, "one ClientHello");
    net.send(0, b"sent meanwhile");
    assert_eq!(net.arrived, [(8, own, b"sent meanwhile".to_vec())]);
    assert_eq!(net.hosts[0].connections(), 1);
    net.answer(8, own, b"an answer");
    assert_eq!(net.got[0], [b"an answer".to_vec()]);
    assert!(net.ended.is_empty(), "{:?}", net.ended);
    // The former one ends after a while.
    net.now += Duration::from_secs(299);
    net.send(0, b"in use");
    net.now += Duration::from_secs(2);
    net.act(None, Peers::handle_timeout);
    assert_eq!(net.ended, [(None, DtlsError::Idle)]);
    assert!(net.server.has(8, own) && !net.server.has(7, own));
}

/// The endpoint that was the server of the connection begins no other one: two handshakes could meet.
#[test]
fn only_the_client_renews_a_connection() {
    let mut net = Net::new(1, 7);
    net.connect(0);
    net.now += Duration::from_secs(10);
    let own = net.prints[0];
    net.act(None, |peers, now, effects| {
        peers.renew(now, 7, Some(own), effects)
    });
    assert_eq!((net.wire.len(), net.server.handshakes()), (0, 0));
    // Nor without a connection of this certificate.
    let other = Certificate::generate().unwrap().fingerprint();
    net.act(Some(0), |peers, now, effects| {
        peers.renew(now, SERVER, Some(other), effects);
    });
    assert_eq!((net.wire.len(), net.hosts[0].handshakes()), (0, 0));
}

/// ICMP port unreachable ends a handshake only if it quotes the ClientHello, and nothing has arrived.
#[test]
fn forged_icmp_ends_no_handshake() {
    let begin = || {
        let mut net = Net::new(1, 7);
        net.act(Some(0), |peers, now, effects| peers.connect(now, SERVER, effects));
        let hello = net.wire[0].2.clone();
        (net, hello)
    };
    let icmp = |net: &mut Net, quote: &[u8]| {
        net.act(Some(0), |peers, now, effects| {
            peers.handle_port_unreachable(now, SERVER, quote, effects);
        });
        net.hosts[0].handshakes() == 0
    };
    let (mut net, hello) = begin();
    let mut guessed = hello.clone();
    guessed[30] ^= 1;
    let (_, other) = begin();
    // RFC 792 asks for 8 bytes only: the UDP header.
    for quote in [&[][..], &hello[..20], &hello[..58], &guessed, &other, &[0; 64]] {
        assert!(!icmp(&mut net, quote), "{quote:?}");
    }
    assert!(icmp(&mut net, &hello[..64]));
    assert_eq!(net.ended, [(Some(0), DtlsError::NothingThere)]);
    // The server has answered.
    let (mut net, hello) = begin();
    for _ in 0..2 {
        let (to, from, datagram) = net.wire.pop_front().unwrap();
        net.act(to, |peers, now, effects| {
            peers.handle_datagram(now, from, &datagram, effects)
        });
    }
    assert!(!icmp(&mut net, &hello[..64]));
    net.settle();
    assert_eq!(net.hosts[0].connections(), 1);
}

/// Z's datagrams, or A's, and between them alerts of somebody else.
#[test]
fn forged_alerts_and_garbage_end_no_handshake() {
    let forged = |code: [u8; 2]| [&[21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2][..], &code].concat();
    let alone = [[2, 40], [2, 20], [1, 0], [1, 47]].map(forged);
    let mut attacks = alone.to_vec();
    // Behind a ChangeCipherSpec, which DTLS 1.3 discards.
    attacks.push([&[20, 254, 253, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 1][..], &alone[0]].concat());
    for attack in attacks.iter().chain([&vec![22; 30], &vec![22]]) {
        let mut net = Net::new(1, 7);
        net.act(Some(0), |peers, now, effects| peers.connect(now, SERVER, effects));
        while let Some((to, from, datagram)) = net.wire.pop_front() {
            for bytes in [attack, &datagram, attack] {
                net.act(to, |peers, now, effects| {
                    peers.handle_datagram(now, from, bytes, effects)
                });
            }
        }
        assert!(net.ended.is_empty(), "{attack:?}: {:?}", net.ended);
        assert_eq!((net.hosts[0].connections(), net.server.connections()), (1, 1));
    }
}

/// A genuine alert ends the handshake when nothing else comes until the next retransmission.
#[test]
fn an_alert_without_an_answer_ends_the_handshake() {
    let mut net = Net::new(1, 7);
    net.act(Some(0), |peers, now, effects| peers.connect(now, SERVER, effects));
    // The first answer is a HelloRetryRequest or a HelloVerifyRequest.
    for _ in 0..2 {
        let (to, from, datagram) = net.wire.pop_front().unwrap();
        net.act(to, |peers, now, effects| {
            peers.handle_datagram(now, from, &datagram, effects)
        });
    }
    net.wire.clear();
    let alert = [21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 2, 40];
    net.act(Some(0), |peers, now, effects| {
        peers.handle_datagram(now, SERVER, &alert, effects);
    });
    assert!(net.ended.is_empty(), "not at once");
    while net.ended.is_empty() {
        net.now = net.hosts[0].timeout().expect("a retransmission").max(net.now);
        net.act(Some(0), Peers::handle_timeout);
    }
    assert_eq!(net.ended, [(Some(0), DtlsError::Alert(40))]);
    assert_eq!(net.wire.len(), 1, "one retransmission");
}
