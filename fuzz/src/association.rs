//! A regular association is set up. Then the input decides: packets of any bytes that pass the checks of tag and checksum, chunks with
//! right and wrong numbers, passing of time, and calls of the application.

use core::time::Duration;
use std::net::IpAddr;

use anabranch_proto::{
    Association, AssociationId, AssociationState, AuthenticationConfig, Config, DynamicAddressConfig,
    MultipathMode, PathError, PathId, ResetDirection, SchedulerKind, SendOptions, StreamId, StreamSelection,
    Timestamp, Tsn,
};
use anabranch_wire::chunk::kind;
use bytes::Bytes;

use crate::input::{Input, extend, reliability};
use crate::memory::ALLOCATED;
use crate::node::Node;
use crate::peer::{ADDRESSES, PORT, Peer, address, as_nr_sack, chunk};

/// Bytes of memory that an endpoint and its associations may use in addition to their buffers.
const MOST_MEMORY: usize = 2 << 20;
/// The most associations that an input may start.
const MOST_ASSOCIATIONS: usize = 8;
/// The endpoint's address.
const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
/// The most timeouts until an association with a silent peer must have ended.
const MOST_TIMEOUTS: u32 = 4000;

struct World {
    node: Node,
    peer: Peer,
    now: Timestamp,
    /// Chunks for the next packet.
    bundle: Vec<u8>,
    /// The verification tag of the next packet, if it is not the right one.
    tag: Option<u32>,
    memory_before: usize,
    /// Settings of the extensions.
    choice: u8,
}

fn config(input: &mut Input<'_>) -> Config {
    let mut config = Config::default();
    extend(&mut config, input.last());
    if input.last() & 0x40 != 0 {
        config.multipath.mode = MultipathMode::Eca;
    }
    let (first, second) = (input.u8(), input.u8());
    config.buffers.receive = [1500, 4000, 16_000, 60_000][usize::from(first & 3)];
    config.buffers.send = [1, 4000, 10_000, 10_000][usize::from(first >> 2 & 3)];
    config.buffers.growth = 1;
    config.buffers.max_message = 30_000;
    config.buffers.partial_delivery_point = [700, 50_000][usize::from(first >> 5 & 1)];
    config.path_mtu = [576, 1280][usize::from(first >> 6 & 1)];
    config.no_delay = first & 0x80 == 0;
    config.max_paths = [16, 2][usize::from(second & 1)];
    config.sack.frequency = [2, 1][usize::from(second >> 1 & 1)];
    config.initial_tsn = (second & 4 != 0).then_some(Tsn(u32::MAX - 2));
    if second & 0x10 != 0 {
        config.dynamic_addresses = Some(DynamicAddressConfig::default());
        let mut authentication = AuthenticationConfig::default();
authentication.chunks = [&[][..], &[kind::HEARTBEAT, kind::SACK, kind::RE_CONFIG]][usize::from(second >> 5 & 1)]
                .to_vec();
authentication.required = second & 0x40 != 0;
config.authentication = Some(authentication);
    }
    config.streams.outbound = 4;
    config.streams.max_inbound = 100;
    config.scheduler =
        [SchedulerKind::FirstComeFirstServed, SchedulerKind::RoundRobin][usize::from(second >> 3 & 1)];
    config
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let memory_before = ALLOCATED.current_usage();
        ALLOCATED.reset_peak_usage();
        let choice = input.last();
        let config = config(input);
        let tsn = input.pick(&[Tsn(1000), Tsn(u32::MAX), Tsn(0x7fff_fffe), Tsn(0)]);
        let interleaves = config.interleaving.offer;
        let cooperates = config.multipath.mode == MultipathMode::Eca;
        let signs = config.authentication.is_some();
        let mut node = Node::new(config, 7, PORT);
        node.talker.reading = true;
        let mut peer = Peer::new(7000, tsn);
        peer.interleaves = interleaves;
        peer.cooperates = cooperates;
        peer.family.signs = signs;
        Self {
            node,
            peer,
            now: Timestamp::from_millis(1000),
            bundle: Vec::new(),
            tag: None,
            memory_before,
            choice,
        }
    }

    fn deliver(&mut self, datagram: Bytes) {
        let remote = self.peer.remote;
        self.node.handle_datagram(self.now, LOCAL, remote, datagram);
        self.observe();
    }

    fn observe(&mut self) {
        for sent in self.node.sent.drain(..) {
            self.peer.observe(sent);
        }
    }

    /// Sends the bundle under its tag, signed if the peer signs.
    fn flush(&mut self, signed: bool) {
        let mut chunks = core::mem::take(&mut self.bundle);
        if signed {
            chunks = self.peer.family.sign(chunks);
        }
        let tag = self.tag.take().unwrap_or(self.peer.endpoint_tag);
        self.deliver(self.peer.packet(tag, &chunks));
    }

    /// The four packets of an association setup that the peer starts (RFC 9260 §5.1).
    fn accept(&mut self, addresses: u8) {
        let init = self.peer.init(kind::INIT, addresses, 10, 50_000, &[]);
        self.deliver(self.peer.packet(0, &init));
        let echo = chunk(kind::COOKIE_ECHO, 0, &self.peer.cookie);
        self.deliver(self.peer.packet(self.peer.endpoint_tag, &echo));
    }

    /// The four packets of an association setup that the endpoint starts.
    fn connect(&mut self, addresses: u8) {
        self.node.connect(self.now, self.peer.remote, self.peer.port);
        self.observe();
        let init_ack = self.peer.init(kind::INIT_ACK, addresses, 10, 50_000, &[]);
        self.deliver(self.peer.packet(self.peer.endpoint_tag, &init_ack));
        self.deliver(
            self.peer
                .packet(self.peer.endpoint_tag, &chunk(kind::COOKIE_ACK, 0, &[])),
        );
    }

    fn assert_established(&self) -> AssociationId {
        let id = self.node.newest().expect("a genuine peer is accepted");
        assert_eq!(self.node.associations[&id].state(), AssociationState::Established);
        id
    }

    /// Advances time and handles the timeouts until then.
    fn advance(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(due) = self.node.poll_timeout().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            self.node.handle_timeout(self.now);
            self.observe();
        }
        self.now = end;
    }
}

/// Commands.
impl World {
    fn command(&mut self, input: &mut Input<'_>) {
        let command = input.u8();
        let chunk = match command & 0x1f {
            0..6 => self.peer.data(input),
            acknowledgement @ 6..=8 => {
                let sack = if acknowledgement < 8 {
                    self.peer.sack(input)
                } else {
                    self.peer.gap_sack(input)
                };
                if self.peer.cooperates {
                    self.peer.cooperative(sack, input)
                } else {
                    as_nr_sack(sack, self.choice)
                }
            }
            9 => self.peer.heartbeat_ack(input),
            10..12 => {
                let kind = [
                    kind::SHUTDOWN,
                    kind::SHUTDOWN_ACK,
                    kind::SHUTDOWN_COMPLETE,
                    kind::ABORT,
                    kind::COOKIE_ACK,
                    kind::HEARTBEAT,
                    kind::ERROR,
                    kind::SHUTDOWN,
                ];
                let bits = input.u8();
                let kind = kind[usize::from(bits & 7)];
                let value: &[u8] = match kind {
                    kind::SHUTDOWN if bits & 8 == 0 => &self.peer.highest.0.to_be_bytes(),
                    kind::SHUTDOWN => &self.peer.acked.plus(input.u8().into()).0.to_be_bytes(),
                    _ => input.take(usize::from(bits >> 4)),
                };
                chunk(kind, bits >> 3 & 1, value)
            }
            // A chunk of any type with any value.
            12..14 => {
                let (kind, flags, len) = (input.u8(), input.u8(), input.u8());
                chunk(kind, flags, input.take(len.into()))
            }
            14 => self.cookie_echo(input),
            15 => return self.init(input),
            16 => {
                let len = input.u8().into();
                input.take(len).to_vec()
            }
            17 => return self.flood(input),
            18..22 => return self.pass_time(input),
            22 => return self.forge_header(input),
            26 => self.peer.forward(input),
            31 if input.first() & 3 == 1 => {
                input.u8();
                let last = self.peer.tsn.minus(1);
                self.peer.family.reconfig(last, input)
            }
            31 if input.first() & 3 == 2 => {
                input.u8();
                self.peer.family.asconf(input)
            }
            _ => return self.act(command, input),
        };
        self.bundle.extend_from_slice(&chunk);
        if command & 0x80 == 0 || self.bundle.len() > 4000 {
            self.flush(command & 0x20 == 0);
        }
    }

    fn cookie_echo(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let mut cookie = self.peer.cookie.to_vec();
        let (at, mask) = (usize::from(input.u8()), input.u8());
        if let Some(byte) = cookie.get_mut(at) {
            *byte ^= mask;
        }
        chunk(kind::COOKIE_ECHO, 0, &cookie)
    }

    /// An INIT or INIT ACK: for a new peer, a restart or a collision.
    fn init(&mut self, input: &mut Input<'_>) {
        let bits = input.u8();
        let before = self.peer.tag;
        if bits & 1 != 0 {
            self.peer.tag = input.u32();
            self.peer.tsn = self.peer.tsn.plus(1000);
        }
        let kind = if bits & 2 == 0 { kind::INIT } else { kind::INIT_ACK };
        let streams = input.pick(&[10, 1, 0, u16::MAX]);
        let a_rwnd = input.pick(&[50_000, 1500, 0, u32::MAX]);
        let len = input.u8() & 63;
        let init = self
            .peer
            .init(kind, bits >> 2 & 3, streams, a_rwnd, input.take(len.into()));
        let tag = if kind == kind::INIT {
            0
        } else {
            self.peer.endpoint_tag
        };
        let tag = self.tag.take().unwrap_or(tag);
        self.deliver(self.peer.packet(tag, &init));
        // The regular peer continues with its own tag.
        if bits & 0x10 != 0 {
            self.peer.tag = before;
        }
    }

    /// Many packets of the same kind, each with one chunk that the endpoint may store, and much other data.
    fn flood(&mut self, input: &mut Input<'_>) {
        let (bits, count, step) = (input.u8(), input.u8(), input.u8());
        let padding = [0, 0, 1400, 60_000][usize::from(bits & 3)];
        let len = [1, 20, 257, 1200][usize::from(bits >> 2 & 3)];
        let stream = u16::from(input.u8());
        // Large packets take time, and fewer of them have the same effect.
        let count = if padding > 10_000 { count.min(60) } else { count };
        for number in 0..count {
            let tsn = self.peer.tsn.plus(u32::from(bits >> 4 & 1));
            self.peer.tsn = self.peer.tsn.plus(1 + u32::from(step & 3));
            let mut value = tsn.0.to_be_bytes().to_vec();
            value.extend_from_slice(&(stream.wrapping_add(u16::from(number & step >> 2))).to_be_bytes());
            let ssn = self.peer.ssns[0].wrapping_add(u16::from(number));
            let kind = if self.peer.interleaves {
                value.extend_from_slice(&[0; 4]);
                value.extend_from_slice(&ssn.to_be_bytes());
                kind::I_DATA
            } else {
                value.extend_from_slice(&ssn.to_be_bytes());
                kind::DATA
            };
            value.extend_from_slice(&[0; 4]);
            value.resize(value.len() + len, number);
            let mut chunks = self.peer.carried(kind, bits >> 5, &value, step);
            if padding > 0 {
                chunks.extend_from_slice(&chunk(kind::PAD, 0, &vec![0; padding]));
            }
            self.deliver(self.peer.packet(self.peer.endpoint_tag, &chunks));
        }
    }

    fn pass_time(&mut self, input: &mut Input<'_>) {
        let amount = input.u8();
        match amount >> 6 {
            0 => self.advance(Duration::from_millis(u64::from(amount))),
            1 => self.advance(Duration::from_millis(u64::from(amount & 63) * 50)),
            2 => self.advance(Duration::from_secs(u64::from(amount & 63))),
            _ => {
                if let Some(due) = self.node.poll_timeout() {
                    self.advance(due.saturating_duration_since(self.now));
                }
            }
        }
    }

    /// The next packets come from another address, or the next packet has another tag.
    fn forge_header(&mut self, input: &mut Input<'_>) {
        let bits = input.u8();
        match bits >> 5 {
            0 => self.tag = Some(0),
            1 => self.tag = Some(self.peer.tag),
            2 => self.tag = Some(input.u32()),
            3 => self.peer.port = 7000 + u16::from(bits & 1),
            4 => self.peer.remote.set_port(9899 + u16::from(bits & 1)),
            5 => self.peer.endpoint_tag = input.u32(),
            _ => self.peer.remote.set_ip(address(bits & (ADDRESSES - 1))),
        }
    }

    /// Calls of the application.
    fn act(&mut self, command: u8, input: &mut Input<'_>) {
        let Some(id) = self.node.newest() else {
            if command & 0x40 != 0 && self.node.associations.len() < MOST_ASSOCIATIONS {
                self.connect(1);
            }
            return;
        };
        let now = self.now;
        match command & 0x1f {
            23..27 => {
                let bits = input.u8();
                let len = [1, 100, 2000, 9000][usize::from(bits & 3)] + usize::from(input.u8());
                let options = SendOptions::default()
                    .unordered(bits & 4 != 0)
                    .immediate(bits & 8 != 0)
                    .reliability(reliability(if self.choice & 0xc0 == 0xc0 {
                        bits >> 1
                    } else {
                        0
                    }));
                let stream = StreamId(u16::from(bits >> 4 & 3));
                let part = (bits & 0x80 != 0).then_some(bits & 0x40 != 0);
                let len = if part == Some(true) && len % 3 == 0 {
                    0
                } else {
                    len
                };
                self.node
                    .send(now, id, (stream, vec![1; len].into(), options), part);
            }
            27 => self.node.talker.reading ^= true,
            28 => self.node.read_part(now, id),
            29 => {
                let bits = input.u8();
                self.node.act(now, id, |association| match bits >> 5 {
                    0 => association.shutdown(now),
                    1 => association.abort(now, Bytes::from(vec![0; usize::from(bits)])),
                    _ => association.shutdown(now),
                });
            }
            30 => {
                let bits = input.u8();
                let path = PathId(bits & 7);
                let mtu = input.u16();
                self.node.act(now, id, |association| match bits >> 5 {
                    0 | 1 => association.handle_path_error(now, path, PathError::TooLarge(Some(mtu))),
                    2 => association.handle_path_error(now, path, PathError::TooLarge(None)),
                    3 => association.handle_path_error(now, path, PathError::Unreachable),
                    4 | 5 => drop(association.set_primary_path(path)),
                    _ => drop(association.request_heartbeat(now, path)),
                });
            }
            _ => {
                let bits = input.u8();
                if bits & 3 == 3 {
                    self.node
                        .act(now, id, |association| change(association, now, bits));
                }
                if bits & 3 == 0 && self.node.associations.len() < MOST_ASSOCIATIONS {
                    self.peer.port = 7001;
                    if self
                        .node
                        .associations
                        .values()
                        .all(|association| association.ports().1 != 7001)
                    {
                        self.node.connect(now, self.peer.remote, 7001);
                    }
                }
            }
        }
        self.observe();
    }
}

/// The application changes streams or addresses; it may be too early for it, or not negotiated.
fn change(association: &mut Association, now: Timestamp, bits: u8) {
    let streams = match bits >> 5 & 3 {
        3 => StreamSelection::All,
        stream => StreamSelection::Listed(vec![StreamId(stream.into())]),
    };
    let address = IpAddr::from([10, 0, 0, 1 + (bits >> 5 & 1)]);
    match bits >> 2 & 7 {
        0 => drop(
            association
                .reconfigure(now)
                .reset_streams(streams, ResetDirection::Outgoing),
        ),
        1 => drop(
            association
                .reconfigure(now)
                .reset_streams(streams, ResetDirection::Incoming),
        ),
        2 => drop(association.reconfigure(now).add_streams(1, 1)),
        3 => drop(association.reconfigure(now).reset_association()),
        4 => drop(association.local_addresses().add(now, address)),
        5 => drop(association.local_addresses().remove(now, address)),
        6 => drop(association.local_addresses().ask_primary(now, address)),
        _ => drop(association.local_addresses().move_to(now, address)),
    }
}

/// Checks at the end.
impl World {
    fn check(&self) {
        self.node.check();
        let taken = ALLOCATED.peak_usage().saturating_sub(self.memory_before);
        assert!(taken <= MOST_MEMORY, "{taken} bytes of memory");
    }

    /// The peer becomes silent: every association must end.
    fn silence(&mut self) {
        let mut left = MOST_TIMEOUTS;
        while let Some(due) = self.node.poll_timeout() {
            left -= 1;
            assert!(left > 0, "an association with a silent peer does not end");
            self.advance(due.saturating_duration_since(self.now));
        }
        let states: Vec<_> = self
            .node
            .associations
            .values()
            .map(|association| association.state())
            .collect();
        assert!(states.is_empty(), "no timer runs, but {states:?}");
    }

    /// The endpoint must still serve another regular peer.
    fn serve_another(&mut self) {
        self.now += Duration::from_secs(1);
        self.node.talker = anabranch_testkit::Talker::default();
        let (interleaves, cooperates) = (self.peer.interleaves, self.peer.cooperates);
        let signs = self.peer.family.signs;
        self.peer = Peer::new(7002, Tsn(1));
        self.peer.family.signs = signs;
        self.peer.cooperates = cooperates;
        self.accept(1);
        self.assert_established();
        let (kind, header) = if interleaves {
            (kind::I_DATA, 16)
        } else {
            (kind::DATA, 12)
        };
        let mut value = vec![0, 0, 0, 1];
        value.resize(header, 0);
        value.extend_from_slice(b"a message");
        let data = self.peer.carried(kind, 3, &value, 0);
        self.deliver(self.peer.packet(self.peer.endpoint_tag, &data));
        let messages: Vec<_> = self.node.messages().map(|message| message.bytes).collect();
        assert_eq!(messages, ["a message"]);
    }
}

/// Runs one input.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut world = World::new(&mut input);
    let bits = input.u8();
    let addresses = bits >> 1 & 3;
    match bits & 1 {
        0 => world.accept(addresses),
        _ => world.connect(addresses),
    }
    let id = world.assert_established();
    if bits & 0x80 != 0 {
        let len = [9000, 30_000][usize::from(bits >> 6 & 1)];
        let message = (StreamId(0), Bytes::from(vec![1; len]), SendOptions::default());
        world.node.send(world.now, id, message, None);
        world.observe();
    }
    while !input.is_empty() {
        world.command(&mut input);
        world.check();
        if world.node.associations.len() > MOST_ASSOCIATIONS {
            break;
        }
    }
    world.silence();
    world.serve_another();
    world.check();
}
