//! DTLS handshakes between two endpoints while somebody drops, duplicates, changes and forges datagrams.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::time::Duration;

use anabranch_dtls::{Certificate, DtlsConfig, Effects, Peers};
use anabranch_proto::Timestamp;

use crate::input::Input;

const CLIENT: usize = 0;
const SERVER: usize = 1;
/// The server's address as the client knows it, and the client's as the server knows it. Strangers have addresses from 100 on.
const KEYS: [u32; 2] = [80, 81];
const MOST_HANDSHAKES: usize = 3;
const MOST_CONNECTIONS: usize = 2;
/// The most datagrams that wait on the wire; later ones are lost.
const WIRE: usize = 64;
/// A datagram in transit: the side that it is for, its source, and its bytes.
type Sent = (usize, u32, Vec<u8>);

struct Pair {
    now: Timestamp,
    sides: [Peers<u32>; 2],
    wire: VecDeque<Sent>,
    /// Datagrams that were sent once, for replays.
    seen: Vec<Vec<u8>>,
    packets: [Vec<Vec<u8>>; 2],
}

/// The certificates are made once: making them takes longer than a handshake.
fn config(side: usize) -> DtlsConfig {
    static CERTIFICATES: OnceLock<[Certificate; 2]> = OnceLock::new();
    let made = CERTIFICATES.get_or_init(|| [0, 1].map(|_| Certificate::generate().expect("a certificate")));
    let config = DtlsConfig::new(made[side].clone()).trust(made[1 - side].fingerprint());
    config
        .max_handshakes(MOST_HANDSHAKES)
        .max_connections(MOST_CONNECTIONS)
}

impl Pair {
    fn new() -> Self {
        Self {
            now: Timestamp::ZERO,
            sides: [CLIENT, SERVER].map(|side| Peers::new(config(side))),
            wire: VecDeque::new(),
            seen: Vec::new(),
            packets: Default::default(),
        }
    }

    /// Calls a side, and returns the bytes of its datagrams to strangers.
    fn act(&mut self, side: usize, call: impl FnOnce(&Peers<u32>, Timestamp, &mut Effects<u32>)) -> usize {
        let mut effects = Effects::default();
        call(&self.sides[side], self.now, &mut effects);
        let mut to_strangers = 0;
        for (key, datagram) in effects.datagrams() {
            if key != KEYS[side] {
                to_strangers += datagram.len();
            } else if self.wire.len() < WIRE {
                self.wire.push_back((1 - side, KEYS[1 - side], datagram.to_vec()));
            }
            if self.seen.len() < WIRE {
                self.seen.push(datagram.to_vec());
            }
        }
        self.packets[side].extend(effects.packets().map(|(_, packet)| packet.to_vec()));
        for peers in &self.sides {
            assert!(peers.handshakes() <= 1 + MOST_HANDSHAKES, "too many handshakes");
            assert!(peers.connections() <= MOST_CONNECTIONS, "too many connections");
        }
        to_strangers
    }

    fn arrive(&mut self, (side, key, datagram): Sent) {
        let answered = self.act(side, |peers, now, effects| {
            peers.handle_datagram(now, key, &datagram, effects);
        });
        assert!(
            // Before the cookie (RFC 9147 §5.1). Our clients pad their ClientHellos, so that the first flight after it is shorter, too.
            answered <= datagram.len(),
            "{answered} bytes for {} of a stranger",
            datagram.len()
        );
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

    fn pass(&mut self, time: Duration) {
        self.now += time;
        for side in [CLIENT, SERVER] {
            self.act(side, Peers::handle_timeout);
        }
    }

    fn step(&mut self, input: &mut Input) {
        match input.u8() % 12 {
            0 => self.connect(),
            1..=4 => {
                if let Some(sent) = self.wire.pop_front() {
                    self.arrive(sent);
                }
            }
            5 => drop(self.wire.pop_front()),
            6 => {
                if let Some(sent) = self.wire.front().cloned() {
                    self.arrive(sent);
                }
            }
            7 => {
                if let Some((side, key, mut datagram)) = self.wire.front().cloned() {
                    for _ in 0..=input.u8() % 4 {
                        let place = usize::from(input.u16()) % datagram.len().max(1);
                        if let Some(byte) = datagram.get_mut(place) {
                            *byte ^= input.u8() | 1;
                        }
                    }
                    self.arrive((side, key, datagram));
                }
            }
            8 => {
                let side = usize::from(input.u8() & 1);
                let len = usize::from(input.u8());
                let garbage = input.take(len).to_vec();
                self.arrive((side, KEYS[side], garbage));
            }
            9 if !self.seen.is_empty() => {
                // A replay, perhaps from a stranger.
                let side = usize::from(input.u8() & 1);
                let datagram = self.seen[usize::from(input.u8()) % self.seen.len()].clone();
                let key = match input.u8() {
                    stranger @ 100.. => u32::from(stranger),
                    _ => KEYS[side],
                };
                self.arrive((side, key, datagram));
            }
            10 => self.pass(Duration::from_millis(u64::from(input.u16()))),
            _ => self.send(usize::from(input.u8() & 1), b"packet"),
        }
    }
}

/// Runs the input's steps. Afterwards the network works, and both sides begin again.
pub(crate) fn run(input: &[u8]) {
    crate::print_panics();
    let mut input = Input(input);
    let mut pair = Pair::new();
    pair.connect();
    while !input.is_empty() {
        pair.step(&mut input);
    }
    for packets in &pair.packets {
        assert!(
            packets.iter().all(|packet| packet == b"packet"),
            "a packet that was not sent"
        );
    }
    for side in [CLIENT, SERVER] {
        pair.act(side, |peers, now, effects| peers.close_all(now, effects));
    }
    pair.wire.clear();
    pair.connect();
    for _ in 0..400 {
        while let Some(sent) = pair.wire.pop_front() {
            pair.arrive(sent);
        }
        if pair.sides.iter().all(|side| side.connections() == 1) {
            break;
        }
        pair.pass(Duration::from_millis(100));
    }
    pair.send(CLIENT, b"later");
    while let Some(sent) = pair.wire.pop_front() {
        pair.arrive(sent);
    }
    assert!(
        pair.packets[SERVER].contains(&b"later".to_vec()),
        "no connection once the network works"
    );
}
