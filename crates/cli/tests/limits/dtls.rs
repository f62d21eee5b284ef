//! The memory of DTLS: hostile clients against the connections of an endpoint. A client's memory is freed before the measurement.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_dtls::{Certificate, DtlsConfig, Effects, Peers};
use anabranch_proto::Timestamp;

use crate::Scenario;
use crate::attack::Attack;

pub(crate) const SCENARIOS: &[Scenario] = &[
    (
        "ClientHellos of peers that have not proved their addresses (DTLS)",
        unproved,
    ),
    ("DTLS handshakes after the cookie", handshakes),
    ("DTLS connections without an association", unused),
    ("DTLS connections", connections),
    ("timers of DTLS", timers),
];

const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 9899);

/// A host's address, and a port.
fn client(host: u32, port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4((0x0b00_0000 + host).into()), port)
}

struct Attacked {
    server: Peers<SocketAddr>,
    now: Timestamp,
    /// The settings of all clients.
    of_clients: DtlsConfig,
}

impl Attacked {
    fn new(set: impl FnOnce(DtlsConfig) -> DtlsConfig) -> Self {
        let own = || Certificate::generate().expect("a certificate");
        let mut attacked = Self {
            server: Peers::new(set(DtlsConfig::new(own()))),
            now: Timestamp::ZERO,
            of_clients: DtlsConfig::new(own()),
        };
        // The library for DTLS allocates what it needs once.
        attacked.handshake(client(99_999, 1), usize::MAX, None);
        attacked
    }

    /// A datagram of this client arrives; returns the answers.
    fn hand(&mut self, from: SocketAddr, datagram: &[u8]) -> Vec<Vec<u8>> {
        let mut effects = Effects::default();
        self.server
            .handle_datagram(self.now, from, datagram, &mut effects);
        effects
            .datagrams()
            .map(|(_, datagram)| datagram.to_vec())
            .collect()
    }

    /// A client begins a handshake and sends this many datagrams of it. Returns the number.
    fn handshake(&mut self, from: SocketAddr, most: usize, mut attack: Option<&mut Attack>) -> usize {
        let peers = Peers::new(self.of_clients.clone());
        let mut effects = Effects::default();
        peers.connect(self.now, SERVER, &mut effects);
        let mut sent = 0;
        loop {
            let flight: Vec<_> = effects
                .datagrams()
                .map(|(_, datagram)| datagram.to_vec())
                .collect();
            effects.clear();
            if flight.is_empty() {
                return sent;
            }
            for datagram in flight {
                if sent == most {
                    return sent;
                }
                sent += 1;
                let answers = self.hand(from, &datagram);
                if let Some(attack) = &mut attack {
                    attack.sent(datagram.len());
                }
                for answer in answers {
                    peers.handle_datagram(self.now, SERVER, &answer, &mut effects);
                }
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        let mut effects = Effects::default();
        self.server.handle_timeout(self.now, &mut effects);
    }
}

/// The first ClientHello of a genuine client, and one of 14 bytes, from many addresses.
fn unproved(attack: &mut Attack) {
    let mut attacked = Attacked::new(|config| config);
    let peers = Peers::new(attacked.of_clients.clone());
    let mut effects = Effects::default();
    peers.connect(attacked.now, SERVER, &mut effects);
    let hello = effects.datagrams().next().map(|(_, datagram)| datagram.to_vec());
    let hello = hello.expect("a ClientHello");
    let short = &[22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1][..];
    attack.begins();
    for number in 0..attack.planned() as u32 {
        let datagram = if number % 4 == 0 { short } else { &hello };
        attacked.hand(client(number, 1), datagram);
        attack.sent(datagram.len());
    }
    assert_eq!(attacked.server.handshakes(), 0);
}

/// Handshakes that stop after the cookie: two datagrams each.
fn handshakes(attack: &mut Attack) {
    let mut attacked = Attacked::new(|config| config);
    attack.begins();
    for number in 0..attack.planned() as u32 / 2 {
        attacked.handshake(client(number, 1), 2, Some(attack));
    }
    assert!(attacked.server.handshakes() >= 1000);
    attack.would_take(attack.planned() / 2 * (20 << 10));
}

/// Complete connections from one address, without an association.
fn unused(attack: &mut Attack) {
    let mut attacked = Attacked::new(|config| config);
    complete(attack, &mut attacked, |number| client(1, number as u16));
    assert!(
        attacked.server.connections() <= 257,
        "{}",
        attacked.server.connections()
    );
}

/// Complete connections from many addresses, `DtlsConfig::max_connections` of 200.
fn connections(attack: &mut Attack) {
    let mut attacked = Attacked::new(|config| config.max_connections(200));
    complete(attack, &mut attacked, |number| client(number, 1));
    assert_eq!(attacked.server.connections(), 200);
}

fn complete(attack: &mut Attack, attacked: &mut Attacked, from: impl Fn(u32) -> SocketAddr) {
    attack.begins();
    let mut left = attack.planned() as usize;
    let mut number = 0;
    while left > 0 {
        number += 1;
        left -= attacked.handshake(from(number), left, Some(attack));
    }
    attack.would_take(u64::from(number) * (11 << 10));
}

/// Handshakes that stop after the cookie and whose time is over: two datagrams each.
fn timers(attack: &mut Attack) {
    let mut attacked = Attacked::new(|config| config);
    attack.begins();
    for number in 0..attack.planned() as u32 / 2 {
        attacked.handshake(client(number, 1), 2, Some(attack));
        if number % 50 == 49 {
            for _ in 0..120 {
                attacked.pass(Duration::from_secs(1));
            }
            assert_eq!(attacked.server.handshakes(), 0);
        }
    }
    assert_eq!(attacked.server.timeout(), None);
    attack.would_take(attack.planned() / 2 * (20 << 10));
}
