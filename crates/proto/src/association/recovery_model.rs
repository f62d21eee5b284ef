//! Property test of loss recovery with RACK: a real association over a network that the input controls. After each step the rules of
//! `judge.rs` must hold, and everything must arrive once the network works again.

mod judge;
mod network;

use core::time::Duration;

use bytes::Bytes;

use self::judge::Judge;
use self::network::{Fate, Network};
use super::Association;
use crate::config::{Config, CoupledControl, Failover, MultipathMode, RecoveryRules};
use crate::congestion::checked::checked;
use crate::controller::{BbrConfig, CongestionControl};
use crate::ecn::EcnCodepoint;
use crate::endpoint::{ConnectOptions, Endpoint, Handling};
use crate::fuzzing::Commands;
use crate::message::SendOptions;
use crate::path::PathId;
use crate::time::Timestamp;
use anabranch_wire::{StreamId, Tsn};

/// The most bytes and messages of an input.
const MOST_BYTES: usize = 200_000;
const MOST_MESSAGES: usize = 150;

/// The time within which everything must arrive after the network works again. It covers a few timeouts with back-off, BBR's minimum of
/// one packet a second, and pacing by a round-trip time of many seconds from before.
const HEALED_LIMIT: Duration = Duration::from_secs(900);

/// The most timers that may expire in a row without a packet.
const MOST_IDLE_TIMERS: u32 = 60;

/// The two endpoints: `A` sends data to `Z`.
const A: usize = 0;
const Z: usize = 1;

struct Side {
    endpoint: Endpoint,
    association: Option<Box<Association>>,
}

struct World {
    sides: [Side; 2],
    network: Network,
    now: Timestamp,
    judge: Judge,
    messages: usize,
    bytes: usize,
    received: usize,
    /// Timers that expired since the last packet.
    idle_timers: u32,
    buffer: Vec<u8>,
}

fn config(commands: &mut Commands<'_>, paths: u8) -> Config {
    let bits = commands.u8();
    let mut config = Config {
        recovery: RecoveryRules::RACK,
        no_delay: bits & 0x80 == 0,
        initial_window: (bits & 0x40 != 0).then_some(10),
        initial_tsn: (bits & 0x20 != 0).then_some(Tsn(u32::MAX - 20)),
        path_mtu: [1280, 1000][usize::from(bits >> 4 & 1)],
        path_mtu_limit: 1500,
        congestion_control: match bits & 3 {
            0 => CongestionControl::Rfc9260,
            1 => CongestionControl::Cubic,
            other => CongestionControl::Bbr(BbrConfig {
                tolerate_random_loss: other == 3,
            }),
        },
        ..Config::default().without_extensions()
    };
    config.rto.max = Duration::from_secs([60, 5][usize::from(bits >> 2 & 1)]);
    config.retransmissions.association_max_retrans = 10_000;
    config.retransmissions.path_max_retrans = 10_000;
    config.retransmissions.failover = Failover::Rfc9260;
    config.buffers.send = 2 * MOST_BYTES;
    if paths > 1 {
        config.multipath.mode = MultipathMode::Cmt;
        if bits & 3 != 0 {
            config.multipath.congestion = CoupledControl::Uncoupled;
        }
    }
    config
}

impl World {
    fn new(commands: &mut Commands<'_>) -> Self {
        let bits = commands.u8();
        let paths = 1 + u8::from(bits & 7 == 7);
        let mut network = Network::new(bits >> 3);
        let config = config(commands, paths);
        let (control, log) = checked(&config);
        let side = |side: usize| {
            let mut config = config.clone();
            if side == A {
                config.congestion_control = control.clone();
            }
            if paths > 1 {
                config.local_addresses = (0..paths)
                    .map(|path| Network::address(side, path.into()))
                    .collect();
            }
            let mut endpoint = Endpoint::new(config, [side as u8; 32]).expect("the settings are in range");
            endpoint.listen(network::PORT).expect("not port 0");
            Side {
                endpoint,
                association: None,
            }
        };
        let sides = [side(A), side(Z)];
        network.paths = paths;
        let mut world = Self {
            sides,
            judge: Judge::new(log, network.round_trip()),
            network,
            now: Timestamp::from_millis(1000),
            messages: 0,
            bytes: 0,
            received: 0,
            idle_timers: 0,
            buffer: Vec::new(),
        };
        let remote = Network::remote(Z, 0);
        let connected =
            world.sides[A]
                .endpoint
                .connect(world.now, remote, network::PORT, ConnectOptions::default());
        world.sides[A].association = Some(connected.expect("it can be begun").1);
        world.drain(A);
        // Set-up, and the heartbeats that confirm addresses.
        world.run_for(Duration::from_secs(5));
        world
    }

    fn sender(&mut self) -> &mut Association {
        self.sides[A].association.as_mut().expect("it was made")
    }

    /// Passes on all output of an endpoint.
    fn drain(&mut self, from: usize) {
        let Some(mut association) = self.sides[from].association.take() else {
            return;
        };
        loop {
            self.buffer.clear();
            let before = (from == A).then(|| self.judge.before_sending(&association));
            let Some(transmit) = association.poll_transmit(self.now, &mut self.buffer, 1) else {
                break;
            };
            self.idle_timers = 0;
            let datagram = Bytes::copy_from_slice(&self.buffer);
            let arrives = self.network.carry(self.now, from, &transmit, datagram.clone());
            if let Some(before) = before {
                let path = transmit.path;
                self.judge
                    .on_sent(self.now, &association, &before, path, datagram, arrives);
            }
        }
        while let Some(event) = association.poll_endpoint_event() {
            // Its endpoint has no other association.
            self.sides[from]
                .endpoint
                .handle_event(self.now, crate::endpoint::AssociationId(0), event);
        }
        while association.poll_event().is_some() {}
        while let Some(part) = association.recv(self.now) {
            self.received += usize::from(part.ending && from == Z);
        }
        assert!(!association.state.is_closed(), "the association lives");
        self.sides[from].association = Some(association);
    }

    /// A step of the sender that may declare losses.
    fn judged(&mut self, step: impl FnOnce(&mut Association)) {
        let now = self.now;
        let mut association = self.sides[A].association.take().expect("it was made");
        let before = self.judge.before(&association);
        step(&mut association);
        self.judge.after(now, &association, &before);
        self.sides[A].association = Some(association);
    }

    fn deliver(&mut self, to: usize, from: std::net::SocketAddr, local: std::net::IpAddr, datagram: Bytes) {
        self.idle_timers = 0;
        let side = &mut self.sides[to];
        match side
            .endpoint
            .handle_datagram(self.now, Some(local), from, datagram, EcnCodepoint::NotEct)
        {
            Handling::Done => {}
            Handling::Reply(reply) => self.network.reply(self.now, to, &reply),
            Handling::Accept(_, association) => side.association = Some(association),
            Handling::Deliver(_, inbound) => {
                let now = self.now;
                if to == A {
                    self.judged(|association| association.handle_packet(now, inbound));
                } else if let Some(association) = &mut side.association {
                    association.handle_packet(now, inbound);
                }
            }
        }
        self.drain(to);
    }

    /// Handles the next datagram that arrives or timer that expires, if that is before `limit`.
    fn step(&mut self, limit: Timestamp) -> bool {
        let timers = self.sides.iter().map(|side| {
            let association = side.association.as_ref();
            association.and_then(|association| association.poll_timeout())
        });
        let timers: Vec<_> = timers.collect();
        let timer = timers.iter().flatten().min().copied();
        let next = timer.into_iter().chain(self.network.next()).min();
        let Some(next) = next.filter(|next| *next <= limit) else {
            self.now = self.now.max(limit);
            return false;
        };
        self.now = self.now.max(next);
        if let Some((to, from, local, datagram)) = self.network.take(self.now) {
            self.deliver(to, from, local, datagram);
            return true;
        }
        let now = self.now;
        let due = |timer: Option<Timestamp>| timer.is_some_and(|due| due <= now);
        self.idle_timers += 1;
        assert!(
            self.idle_timers <= MOST_IDLE_TIMERS,
            "timers expire for nothing at {now}"
        );
        for side in [A, Z].into_iter().filter(|side| due(timers[*side])) {
            if side == A {
                self.judged(|association| association.handle_timeout(now));
            } else if let Some(association) = &mut self.sides[side].association {
                association.handle_timeout(now);
            }
            self.drain(side);
            let next = self.sides[side]
                .association
                .as_ref()
                .and_then(|one| one.poll_timeout());
            assert!(
                next.is_none_or(|next| next > now),
                "handled at {now}, due at {next:?}"
            );
        }
        true
    }

    fn run_for(&mut self, duration: Duration) {
        let limit = self.now + duration;
        while self.step(limit) {}
    }

    /// Sends messages, which may name the path of their first transmission.
    fn send(&mut self, count: usize, len: usize, path: Option<PathId>) {
        let now = self.now;
        let len = len.max(1);
        for _ in 0..count {
            if self.messages == MOST_MESSAGES || self.bytes + len > MOST_BYTES {
                break;
            }
            let stream = StreamId((self.messages & 3) as u16);
            let message = Bytes::from(vec![7; len]);
            let sender = self.sender();
            let options = SendOptions {
                path: path.filter(|path| sender.paths.has(*path)),
                ..SendOptions::default()
            };
            let taken = sender.send(now, stream, message, options);
            taken.expect("there is room");
            self.messages += 1;
            self.bytes += len;
        }
        self.drain(A);
    }

    fn command(&mut self, command: u8, commands: &mut Commands<'_>) {
        let ms = Duration::from_millis;
        match command {
            0..3 => {
                let bits = commands.u8();
                let len = [10, 200, 1000, 1400, 5000, 20_000, 60, 1440][usize::from(bits & 7)];
                let path = (bits & 0x20 != 0).then_some(PathId(bits >> 6 & 1));
                self.send([1, 2, 5, 30][usize::from(bits >> 3 & 3)], len, path);
            }
            // One bit for each of the next eight packets of a direction.
            3..6 => self.network.rule(A, commands.u8(), Fate::Lost),
            6 => self.network.rule(Z, commands.u8(), Fate::Lost),
            7 => {
                let (mask, late) = (commands.u8(), commands.u8());
                self.network.rule(A, mask, Fate::Late(ms(u64::from(late) * 2)));
                self.judge.expects_reordering();
            }
            8 => {
                let (mask, late) = (commands.u8(), commands.u8());
                self.network.rule(Z, mask, Fate::Late(ms(u64::from(late) * 2)));
                self.judge.expects_reordering();
            }
            9 => {
                let bits = commands.u8();
                self.network.rule(usize::from(bits & 1), bits | 1, Fate::Twice);
                self.judge.expects_reordering();
            }
            10 => {
                self.network.extra = ms(u64::from(commands.u8()) * 20);
                self.judge.expects_reordering();
            }
            11 => self.network.mtu = [1500, 1280, 576, 1000][usize::from(commands.u8() & 3)],
            12 => self.network.cut = commands.u8() & 3,
            13 => self.run_for(ms(u64::from(commands.u8()) * 100)),
            _ => self.run_for(ms(u64::from(commands.u8()))),
        }
    }

    fn heal(&mut self) {
        self.network.heal();
        let begin = self.now;
        let limit = begin + HEALED_LIMIT;
        let mut steps = 0_u64;
        while self.received < self.messages || !self.sender().sender.outstanding.is_empty() {
            steps += 1;
            let took = self.now.saturating_duration_since(begin);
            let sent = self.sender().counters.packets_sent;
            let goes_on = steps <= 5000 + 20 * sent && self.step(limit);
            let stats = self.sender().stats();
            assert!(
                goes_on,
                "healed since {took:?}, {steps} steps, {} of {} messages: {:?}",
                self.received, self.messages, stats
            );
        }
    }
}

/// Runs one input.
pub(crate) fn run(mut commands: Commands<'_>) {
    let mut world = World::new(&mut commands);
    while let Some(command) = commands.next(18) {
        world.command(command, &mut commands);
    }
    world.heal();
}

#[cfg(test)]
mod tests {
    /// Two paths: T3-rtx of one path expires shortly after a chunk with a lower TSN was retransmitted there.
    #[test]
    fn a_fresh_retransmission_does_not_time_out() {
        let mut input = vec![
            23, 0, 6, 0, 21, 2, 8, 0, 0, 3, 0, 21, 0, 3, 0, 3, 0, 13, 0, 0, 25, 18, 0, 64, 25, 0, 0, 49, 0,
            31, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 229, 12,
        ];
        input.resize(400, 0);
        crate::fuzzing::recovery(&input);
    }

    /// T3-rtx would expire soon after new data left: the probe that takes its place retransmits an older chunk.
    #[test]
    fn a_probe_in_place_of_t3_retransmits_no_fresh_chunk() {
        crate::fuzzing::recovery(&[
            152, 2, 0, 0, 0, 0, 99, 0, 11, 0, 241, 0, 0, 9, 0, 49, 0, 12, 8, 0, 62, 47, 0, 119, 0, 0, 0, 18,
            0, 0, 0, 0, 0, 0, 0, 29, 0, 0, 0, 0, 22, 63, 0, 0, 0, 90, 149, 193, 13, 121, 1, 48, 55, 21, 0, 3,
            0, 27, 0, 32, 0, 122, 0, 68, 0, 0, 126, 122, 141, 111, 0, 0, 0, 27, 0, 27, 0, 0, 0, 50, 222, 14,
            0, 14, 122, 14, 87, 39, 13, 146, 39, 165, 207, 104, 96, 111, 239, 127, 118, 222, 108, 119, 81,
            209, 229, 208, 148, 106, 210, 246, 94, 240, 220, 238, 232, 110, 217,
        ]);
    }
}
