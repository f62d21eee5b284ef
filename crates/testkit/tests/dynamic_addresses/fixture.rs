//! A client that changes its network, a server, and the network between them: each packet takes 20 ms. A packet from an address that the
//! client does not have, or to one, is lost. An address translator may stand before the client.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use anabranch_netsim::{Generator, Host, Node, Packet};
use anabranch_proto::{
    AddressEvent, Association, AssociationId, Config, ConnectOptions, DynamicAddressConfig, Event,
    SendOptions, StreamId, Timestamp,
};
use anabranch_testkit::{PORT, Talker, arrows, packet_of, with};
use anabranch_wire::chunk::{Chunk, kind};
use anabranch_wire::packet::{CommonHeader, Packet as SctpPacket};
use bytes::Bytes;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const DELAY: Duration = Duration::from_millis(20);
const UDP_PORT: u16 = 9899;

/// The client's addresses, in the order in which it gets them.
pub(crate) const WIFI: IpAddr = ip([10, 0, 0, 1]);
pub(crate) const MOBILE: IpAddr = ip([10, 1, 0, 1]);
pub(crate) const CABLE: IpAddr = ip([10, 2, 0, 1]);
pub(crate) const SIX: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd62, 0, 0, 0, 0, 0, 0, 1));
/// The server's addresses.
pub(crate) const SERVER: IpAddr = ip([10, 9, 0, 2]);
pub(crate) const SERVER_2: IpAddr = ip([10, 8, 0, 2]);
pub(crate) const SERVER_SIX: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd69, 0, 0, 0, 0, 0, 0, 2));

pub(crate) const fn ip([a, b, c, d]: [u8; 4]) -> IpAddr {
    IpAddr::V4(std::net::Ipv4Addr::new(a, b, c, d))
}

/// Settings with dynamic addresses.
pub(crate) fn dynamic() -> Config {
    with(Config::default(), |config| {
        config.dynamic_addresses = Some(DynamicAddressConfig::default());
        // The tests look for DATA in packets.
        config.interleaving.offer = false;
    })
}

/// A packet to an end with its peer's ports and the right tag.
pub(crate) fn to_end(roaming: &mut Roaming, end: End, chunks: &[Chunk]) -> Bytes {
    let association = roaming.association(end);
    let (destination_port, source_port) = association.ports();
    let (verification_tag, _) = association.tags();
    let header = CommonHeader {
        source_port,
        destination_port,
        verification_tag,
    };
    packet_of(header, chunks).into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Client,
    Server,
}

/// An address translator: it maps each private address and port to a public one.
#[derive(Debug, Default)]
struct Translator {
    /// The public address of each private one, and when a packet last left there.
    public: BTreeMap<SocketAddr, (SocketAddr, Timestamp)>,
    /// It forgets a mapping after a silence of this length.
    forgets_after: Option<Duration>,
    /// Whether all networks have one public address, as those of one operator may.
    shares: bool,
    ports: u16,
    /// Every mapping so far: the public address, and the network.
    history: Vec<(SocketAddr, IpAddr)>,
}

impl Translator {
    /// The public address of a private one: that of its network, with a port of its own.
    fn public(&mut self, private: SocketAddr, now: Timestamp) -> SocketAddr {
        self.forget(now);
        let public = match private.ip() {
            IpAddr::V4(_) if self.shares => ip([192, 0, 2, 7]),
            IpAddr::V4(address) => ip([192, 0, 2, address.octets()[1]]),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7)),
        };
        let next = SocketAddr::new(public, 40_000 + self.ports);
        let mapping = self.public.entry(private).or_insert((next, now));
        if mapping.0 == next {
            self.ports += 1;
            self.history.push((next, private.ip()));
        }
        mapping.1 = now;
        mapping.0
    }

    fn private(&mut self, public: SocketAddr, now: Timestamp) -> Option<SocketAddr> {
        self.forget(now);
        let found = self.public.iter().find(|(_, (one, _))| *one == public);
        found.map(|(private, _)| *private)
    }

    fn forget(&mut self, now: Timestamp) {
        if let Some(after) = self.forgets_after {
            self.public
                .retain(|_, (_, last)| now.saturating_duration_since(*last) < after);
        }
    }
}

/// Sees every packet before it is delivered, and may change or drop it.
type Observer = Box<dyn FnMut(End, &mut Packet) -> bool>;

pub(crate) struct Roaming {
    pub(crate) now: Timestamp,
    pub(crate) client: Host,
    pub(crate) server: Host,
    /// The addresses that the client has.
    pub(crate) has: Vec<IpAddr>,
    /// The addresses that the server has.
    pub(crate) server_has: Vec<IpAddr>,
    translator: Option<Translator>,
    wire: VecDeque<(Timestamp, End, Packet)>,
    pub(crate) observer: Option<Observer>,
    /// An address of the client that reaches nobody until a time.
    dead: Option<(IpAddr, Timestamp)>,
    ids: [Option<AssociationId>; 2],
    /// The events of both ends.
    pub(crate) events: [Vec<Event>; 2],
    /// When a message arrived at either end, and its number.
    pub(crate) arrivals: [Vec<(Timestamp, u64)>; 2],
    next: [u64; 2],
    /// Every packet that left, with its sender and its real addresses.
    pub(crate) sent: Vec<(Timestamp, End, Packet)>,
    /// Every packet that reached the server from its client.
    pub(crate) delivered: Vec<Packet>,
    log: String,
}

/// The chunk types of a packet, without AUTH.
pub(crate) fn kinds(packet: &Packet) -> Vec<u8> {
    let sctp = SctpPacket::parse(packet.payload.clone().into_sctp()).expect("an SCTP packet");
    let kinds = sctp.chunks().map(|raw| raw.expect("a chunk").kind);
    kinds.filter(|kind| *kind != kind::AUTH).collect()
}

impl Roaming {
    pub(crate) fn new(configs: [Config; 2], seed: u64) -> Self {
        let [client, server] = [0, 1].map(|side| {
            let random = Generator::of_process(seed, ["client", "server"][side]).bytes();
            let config = configs[side].clone();
            let port = if config.lower_layer.is_over_udp() {
                UDP_PORT
            } else {
                0
            };
            let mut host = Host::new(config, port, random).expect("the settings are in range");
            host.run(Talker::default(), None);
            host
        });
        let mut roaming = Self {
            now: Timestamp::from_millis(1),
            client,
            server,
            has: vec![WIFI],
            server_has: vec![SERVER],
            translator: None,
            wire: VecDeque::new(),
            observer: None,
            dead: None,
            ids: [None, None],
            events: [Vec::new(), Vec::new()],
            arrivals: [Vec::new(), Vec::new()],
            next: [0, 0],
            sent: Vec::new(),
            delivered: Vec::new(),
            log: String::new(),
        };
        let listened = roaming.server.endpoint_mut().listen(PORT);
        listened.expect("not port 0");
        roaming
    }

    pub(crate) fn behind_translator(mut self) -> Self {
        self.translator = Some(Translator::default());
        self
    }

    /// The translator forgets a mapping after this time without a packet from the client.
    pub(crate) fn that_forgets_after(mut self, time: Duration) -> Self {
        let translator = self.translator.as_mut();
        translator.expect("a translator").forgets_after = Some(time);
        self
    }

    /// All networks of the client have one public address and differ by their ports.
    pub(crate) fn at_one_address(mut self) -> Self {
        let translator = self.translator.as_mut();
        translator.expect("a translator").shares = true;
        self
    }

    /// The routers of these networks restart: the next packet from there gets another port.
    pub(crate) fn restart_routers(&mut self, networks: &[IpAddr]) {
        let translator = self.translator.as_mut().expect("a translator");
        translator
            .public
            .retain(|private, _| !networks.contains(&private.ip()));
    }

    /// Each of two networks has the public port of the other one from now on.
    pub(crate) fn swap_ports(&mut self, one: IpAddr, other: IpAddr) {
        let translator = self.translator.as_mut().expect("a translator");
        let key = |network| {
            let mut private = translator.public.keys().copied();
            private
                .find(|private| private.ip() == network)
                .expect("a mapping")
        };
        let (one, other) = (key(one), key(other));
        let mappings = [one, other].map(|key| translator.public[&key]);
        translator.public.insert(one, mappings[1]);
        translator.public.insert(other, mappings[0]);
    }

    /// The public address and port of one of the client's networks now.
    pub(crate) fn public(&self, network: IpAddr) -> Option<SocketAddr> {
        let translator = self.translator.as_ref().expect("a translator");
        let mapping = translator
            .public
            .iter()
            .find(|(private, _)| private.ip() == network);
        mapping.map(|(_, (public, _))| *public)
    }

    /// The network of the client that has or had this public address.
    pub(crate) fn network_of(&self, public: SocketAddr) -> Option<IpAddr> {
        let translator = self.translator.as_ref().expect("a translator");
        let mapping = translator.history.iter().find(|(one, _)| *one == public);
        mapping.map(|(_, network)| *network)
    }

    /// How many mappings the translator has made.
    pub(crate) fn mappings(&self) -> u16 {
        self.translator.as_ref().map_or(0, |translator| translator.ports)
    }

    /// Begins the association.
    pub(crate) fn begin(self) -> Self {
        self.begin_at(ConnectOptions::default())
    }

    /// Begins the set-up at this address.
    pub(crate) fn begin_from(self, local: IpAddr) -> Self {
        let mut options = ConnectOptions::default();
        options.local_address = Some(local);
        self.begin_at(options)
    }

    fn begin_at(mut self, options: ConnectOptions) -> Self {
        let port = self.udp_port();
        let remote = SocketAddr::new(SERVER, port);
        let id = self.client.connect(self.now, remote, PORT, options);
        self.ids[0] = Some(id.expect("it connects"));
        self
    }

    /// Sets up the association, beginning at this address.
    pub(crate) fn connect_from(self, local: IpAddr) -> Self {
        let mut roaming = self.begin_from(local);
        roaming.run(1500 * MS);
        roaming.finish_set_up();
        roaming
    }

    /// Sets up the association.
    pub(crate) fn connect(self) -> Self {
        let mut roaming = self.begin();
        roaming.finish_set_up();
        roaming
    }

    fn finish_set_up(&mut self) {
        self.run(500 * MS);
        self.ids[1] = self.server.association_ids().last();
        assert!(self.ids[1].is_some(), "set up\n{}", self.tail());
    }

    fn udp_port(&mut self) -> u16 {
        if self.client.endpoint_mut().config().lower_layer.is_over_udp() {
            UDP_PORT
        } else {
            0
        }
    }

    pub(crate) fn host(&mut self, end: End) -> &mut Host {
        match end {
            End::Client => &mut self.client,
            End::Server => &mut self.server,
        }
    }

    pub(crate) fn association(&mut self, end: End) -> &mut Association {
        let id = self.ids[end as usize].expect("set up");
        self.host(end).association_mut(id).expect("there is one")
    }

    /// The client has these addresses from now on; if `tells`, its association too.
    pub(crate) fn move_to(&mut self, addresses: &[IpAddr], tells: bool) {
        self.has = addresses.to_vec();
        if tells {
            let now = self.now;
            let set = self
                .association(End::Client)
                .local_addresses()
                .set(now, addresses);
            set.expect("dynamic addresses");
        }
    }

    /// The same for the server.
    pub(crate) fn move_server_to(&mut self, addresses: &[IpAddr]) {
        self.server_has = addresses.to_vec();
        let now = self.now;
        let set = self
            .association(End::Server)
            .local_addresses()
            .set(now, addresses);
        set.expect("dynamic addresses");
    }

    /// Loses the first `count` packets from now on that have a chunk of this type.
    pub(crate) fn lose(&mut self, kind: u8, count: usize) {
        let mut left = count;
        self.observer = Some(Box::new(move |_, packet| {
            let lost = left > 0 && kinds(packet).contains(&kind);
            left -= usize::from(lost);
            !lost
        }));
    }

    /// Loses all packets from an address of the client until this time, and those to it.
    pub(crate) fn lose_from(&mut self, address: IpAddr, until: Timestamp) {
        self.dead = Some((address, until));
    }

    /// Sends a numbered message of this many bytes.
    pub(crate) fn send(&mut self, end: End, size: usize) {
        let number = self.next[end as usize];
        self.next[end as usize] += 1;
        let mut message = number.to_be_bytes().to_vec();
        message.resize(size.max(8), 7);
        let now = self.now;
        let sent = self
            .association(end)
            .send(now, StreamId(0), Bytes::from(message), SendOptions::default());
        sent.expect("there is room");
    }

    /// Runs for this time.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.drain();
            let arrival = self.wire.front().map(|(at, ..)| *at);
            let timers = [End::Client, End::Server].map(|end| self.host(end).poll_timeout());
            let next = [arrival, timers[0], timers[1]].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            while self.wire.front().is_some_and(|(at, ..)| *at <= self.now)
                && let Some((_, to, packet)) = self.wire.pop_front()
            {
                self.deliver(to, packet);
            }
            for end in [End::Client, End::Server] {
                let now = self.now;
                let host = self.host(end);
                if host.poll_timeout().is_some_and(|due| due <= now) {
                    host.handle_timeout(now);
                }
            }
        }
        self.now = end;
        self.drain();
    }

    fn deliver(&mut self, to: End, packet: Packet) {
        if to == End::Server {
            self.delivered.push(packet.clone());
        }
        self.hand_over(to, packet);
    }

    fn hand_over(&mut self, to: End, packet: Packet) {
        if to == End::Client && !self.has.contains(&packet.destination.ip())
            || to == End::Server && !self.server_has.contains(&packet.destination.ip())
        {
            return;
        }
        let now = self.now;
        self.host(to).handle_packet(now, packet);
    }

    fn drain(&mut self) {
        for end in [End::Client, End::Server] {
            let now = self.now;
            while let Some(packet) = self.host(end).poll_transmit(now) {
                self.forward(end, packet);
            }
            let talker: &mut Talker = self.host(end).application_mut().expect("a talker");
            let events: Vec<_> = talker.events.drain(..).map(|(_, _, event)| event).collect();
            let inbox: Vec<_> = talker.inbox.drain(..).collect();
            self.events[end as usize].extend(events);
            for message in inbox {
                let number = message.bytes[..8].try_into().map(u64::from_be_bytes);
                self.arrivals[end as usize].push((now, number.expect("8 bytes")));
            }
        }
    }

    /// A packet leaves: it is lost if the client does not have its source, translated, and delivered after the delay.
    fn forward(&mut self, from: End, mut packet: Packet) {
        if from == End::Client {
            if packet.source.ip().is_unspecified() {
                packet.source.set_ip(self.has[0]);
            }
            let has = self.has.contains(&packet.source.ip());
            self.note(from, &packet, if has { "" } else { "   ✗ no such address" });
            self.sent.push((self.now, from, packet.clone()));
            let is_dead = |(address, until)| packet.source.ip() == address && self.now < until;
            if !has || self.dead.is_some_and(is_dead) {
                return;
            }
            if let Some(translator) = &mut self.translator {
                packet.source = translator.public(packet.source, self.now);
            }
        } else {
            if packet.source.ip().is_unspecified() {
                packet.source.set_ip(self.server_has[0]);
            }
            self.note(from, &packet, "");
            self.sent.push((self.now, from, packet.clone()));
            if let Some(translator) = &mut self.translator {
                let Some(private) = translator.private(packet.destination, self.now) else {
                    return;
                };
                packet.destination = private;
            }
        }
        let keep = self
            .observer
            .as_mut()
            .is_none_or(|observer| observer(from, &mut packet));
        if keep {
            let to = if from == End::Client {
                End::Server
            } else {
                End::Client
            };
            self.wire.push_back((self.now + DELAY, to, packet));
        }
    }

    fn note(&mut self, from: End, packet: &Packet, fate: &str) {
        let text = arrows::describe_packet(&packet.payload.clone().into_sctp());
        let (source, destination) = (packet.source, packet.destination);
        let _ = writeln!(
            self.log,
            "{} {from:?} {source} → {destination}  {text}{fate}",
            self.now
        );
    }

    /// The last packets, drawn.
    pub(crate) fn tail(&self) -> String {
        let lines: Vec<_> = self.log.lines().rev().take(60).collect();
        let cut = |line: &&str| line.chars().take(150).collect::<String>();
        lines.iter().rev().map(cut).collect::<Vec<_>>().join("\n")
    }

    /// Delivers a packet that an attacker made.
    pub(crate) fn inject(&mut self, to: End, packet: Packet) {
        self.hand_over(to, packet);
        self.drain();
    }

    /// The address events of one end.
    pub(crate) fn address_events(&self, end: End) -> Vec<AddressEvent> {
        let events = self.events[end as usize].iter();
        let events = events.filter_map(|event| match event {
            Event::Addresses(change) => Some(change.clone()),
            _ => None,
        });
        events.collect()
    }

    /// The addresses of the peer and of this end, for each path.
    pub(crate) fn paths(&mut self, end: End) -> Vec<(Option<IpAddr>, IpAddr)> {
        let stats = self.association(end).stats();
        let paths = stats.paths.iter().map(|path| (path.local, path.remote.ip()));
        paths.collect()
    }

    /// The longest time between two messages that arrived at an end.
    pub(crate) fn longest_pause(&self, end: End) -> Duration {
        let arrivals = &self.arrivals[end as usize];
        let pauses = arrivals
            .windows(2)
            .map(|pair| pair[1].0.saturating_duration_since(pair[0].0));
        pauses.max().unwrap_or_default()
    }

    /// Fails unless an end has received all messages of the other end after another second, once and in order.
    pub(crate) fn expect_complete(&mut self, end: End) {
        self.run(1000 * MS);
        let numbers: Vec<_> = self.arrivals[end as usize]
            .iter()
            .map(|(_, number)| *number)
            .collect();
        let sender = 1 - end as usize;
        let all: Vec<_> = (0..self.next[sender]).collect();
        assert_eq!(numbers.len(), all.len(), "{}", self.tail());
        assert!(numbers == all, "once and in order");
    }
}
