//! Two hosts, A and Z, over one to three paths in virtual time.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use anabranch_netsim::{Host, LinkConfig, LinkId, Network, NodeId};
use anabranch_proto::{
    Association, AssociationId, AssociationState, CloseReason, Config, ConnectOptions, Event, MessageId,
    SendOptions, StreamId, Timestamp,
};
use bytes::Bytes;

use crate::arrows;
use crate::capture::capture_file;
use crate::ledger::{Ledger, Parcel};
use crate::talker::{Message, Talker};

/// The SCTP port on which Z listens.
pub const PORT: u16 = 5000;
/// The UDP port of RFC 6951.
const UDP_PORT: u16 = 9899;
/// Packets that are kept and drawn when a test fails.
const RECORDS: usize = 120;
/// The maximum duration of a set-up, losses included.
const SET_UP_LIMIT: Duration = Duration::from_secs(600);

/// One of the hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The host that connects.
    A,
    /// The host that listens.
    Z,
}

impl Side {
    /// Both hosts.
    pub const BOTH: [Self; 2] = [Self::A, Self::Z];

    /// The other host.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::Z,
            Self::Z => Self::A,
        }
    }
}

/// The parts of a pair: settings and links.
#[derive(Clone, Debug)]
pub struct Setup {
    seed: u64,
    /// The links from A to Z and from Z to A, for each path.
    paths: Vec<(LinkConfig, LinkConfig)>,
    configs: [Config; 2],
    ipv6: bool,
    captured: bool,
}

impl Setup {
    /// Default settings on both hosts and no path yet.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            paths: Vec::new(),
            configs: [Config::default(), Config::default()],
            ipv6: false,
            captured: true,
        }
    }

    /// Adds a path with the same link in both directions.
    #[must_use]
    pub fn path(self, link: LinkConfig) -> Self {
        self.path_of(link.clone(), link)
    }

    /// Adds a path with these links from A to Z and from Z to A.
    #[must_use]
    pub fn path_of(mut self, there: LinkConfig, back: LinkConfig) -> Self {
        self.paths.push((there, back));
        self
    }

    /// Gives both hosts these settings.
    #[must_use]
    pub fn config(self, config: Config) -> Self {
        self.configs(config.clone(), config)
    }

    /// Gives each host its settings.
    #[must_use]
    pub fn configs(mut self, a: Config, z: Config) -> Self {
        self.configs = [a, z];
        self
    }

    /// Changes one host's settings.
    #[must_use]
    pub fn adjust(mut self, side: Side, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.configs[side as usize]);
        self
    }

    /// Changes both hosts' settings.
    #[must_use]
    pub fn adjust_both(self, change: impl Fn(&mut Config)) -> Self {
        self.adjust(Side::A, &change).adjust(Side::Z, &change)
    }

    /// Whether a capture is written if the environment asks for captures. Of many similar runs only the first few are worth a
    /// capture.
    #[must_use]
    pub fn captured(mut self, captured: bool) -> Self {
        self.captured = captured;
        self
    }

    /// Uses IPv6 addresses.
    #[must_use]
    pub fn ipv6(mut self) -> Self {
        self.ipv6 = true;
        self
    }

    /// The hosts, not connected yet. Z listens. With several paths each host lists all its addresses, unless its settings list
    /// some. Without a path, `build` adds one with a delay of 10 ms in each direction and no losses.
    #[must_use]
    pub fn build(mut self) -> Pair {
        if self.paths.is_empty() {
            self = self.path(LinkConfig::default().with_delay(Duration::from_millis(10)));
        }
        let addresses = Side::BOTH.map(|side| {
            let addresses = 0..self.paths.len();
            addresses
                .map(|path| address(self.ipv6, path, side))
                .collect::<Vec<_>>()
        });
        for side in Side::BOTH {
            let config = &mut self.configs[side as usize];
            if self.paths.len() > 1 && config.local_addresses.is_empty() {
                config.local_addresses = addresses[side as usize].clone();
            }
        }
        let mut network = Network::new(self.seed);
        network.keep_records(RECORDS);
        if self.captured
            && let Some(file) = capture_file(self.seed)
        {
            network.capture(file).expect("a capture can be written");
        }
        let hosts = Side::BOTH.map(|side| {
            let seed = network.generator(&format!("host {side:?}")).bytes();
            let host = new_host(&self.configs[side as usize], seed);
            network.add_node(&format!("{side:?}"), &addresses[side as usize], host)
        });
        let mut links = Vec::new();
        for (path, (there, back)) in self.paths.into_iter().enumerate() {
            let (a, z) = ((hosts[0], addresses[0][path]), (hosts[1], addresses[1][path]));
            links.push(network.connect(a, z, there, back));
        }
        let mut pair = Pair {
            network,
            hosts,
            addresses,
            links,
            configs: self.configs,
            associations: [None, None],
            reboots: 0,
        };
        pair.listen(Side::Z);
        pair
    }

    /// The hosts after set-up of an association between them.
    ///
    /// # Panics
    /// If set-up fails.
    #[must_use]
    pub fn connect(self) -> Pair {
        let mut pair = self.build();
        pair.establish();
        pair
    }
}

/// The address of a side on a path.
fn address(ipv6: bool, path: usize, side: Side) -> IpAddr {
    let last = side as u8 + 1;
    if ipv6 {
        IpAddr::from([0xfd00, 0, 0, path as u16, 0, 0, 0, u16::from(last)])
    } else {
        IpAddr::from([10, path as u8, 0, last])
    }
}

fn new_host(config: &Config, seed: [u8; 32]) -> Host {
    let udp_port = if config.lower_layer.is_over_udp() {
        UDP_PORT
    } else {
        0
    };
    let mut host = Host::new(config.clone(), udp_port, seed).expect("the settings are in range");
    host.run(Talker::default(), None);
    host
}

/// Two hosts and their network. If a test panics, the last packets are drawn.
pub struct Pair {
    /// The network; the hosts are in it.
    pub network: Network,
    hosts: [NodeId; 2],
    addresses: [Vec<IpAddr>; 2],
    links: Vec<(LinkId, LinkId)>,
    configs: [Config; 2],
    /// The association that each host uses: the newest one, unless the test chose another.
    associations: [Option<AssociationId>; 2],
    reboots: u64,
}

/// Set-up, and access to the hosts.
impl Pair {
    /// Starts an association from A to Z's first address.
    pub fn begin(&mut self) -> AssociationId {
        self.begin_from(Side::A, ConnectOptions::default())
    }

    /// Starts an association from one host to the other's first address and [`PORT`].
    ///
    /// # Panics
    /// If the endpoint refuses.
    pub fn begin_from(&mut self, side: Side, options: ConnectOptions) -> AssociationId {
        self.begin_to(side, PORT, options)
    }

    /// Starts an association from one host to the other's first address and this SCTP port.
    ///
    /// # Panics
    /// If the endpoint refuses.
    pub fn begin_to(&mut self, side: Side, port: u16, options: ConnectOptions) -> AssociationId {
        let (now, remote) = (self.now(), self.remote(side, 0));
        let id = self
            .host_mut(side)
            .connect(now, remote, port, options)
            .expect("connect");
        self.associations[side as usize] = Some(id);
        id
    }

    /// Starts an association from A to Z and runs until both hosts are in ESTABLISHED.
    ///
    /// # Panics
    /// If set-up takes longer than ten minutes.
    pub fn establish(&mut self) {
        self.begin();
        let limit = self.now() + SET_UP_LIMIT;
        let both = |pair: &mut Self| {
            Side::BOTH
                .into_iter()
                .all(|side| pair.state(side) == Some(AssociationState::Established))
        };
        assert!(self.run_to(limit, both), "set-up was not completed");
    }

    /// Makes a host accept associations on [`PORT`].
    ///
    /// # Panics
    /// Never: the port is not 0.
    pub fn listen(&mut self, side: Side) {
        self.host_mut(side)
            .endpoint_mut()
            .listen(PORT)
            .expect("not port 0");
    }

    /// Makes a host lose all state, as a reboot does, and listen again.
    ///
    /// # Panics
    /// Never: the same settings were in range before.
    pub fn reboot(&mut self, side: Side) {
        self.reboots += 1;
        let seed = self
            .network
            .generator(&format!("host {side:?}, reboot {}", self.reboots))
            .bytes();
        let config = self.configs[side as usize].clone();
        let host = self.host_mut(side);
        host.reboot(config, seed).expect("the settings are in range");
        host.run(Talker::default(), None);
        self.associations[side as usize] = None;
        self.listen(side);
    }

    /// A host.
    #[must_use]
    pub fn host(&self, side: Side) -> &Host {
        self.network.host(self.hosts[side as usize])
    }

    /// A host, mutable.
    pub fn host_mut(&mut self, side: Side) -> &mut Host {
        self.network.host_mut(self.hosts[side as usize])
    }

    /// The host's node in the network.
    #[must_use]
    pub fn node(&self, side: Side) -> NodeId {
        self.hosts[side as usize]
    }

    /// The host's application.
    ///
    /// # Panics
    /// If the test gave the host another application.
    pub fn talker(&mut self, side: Side) -> &mut Talker {
        self.host_mut(side)
            .application_mut()
            .expect("the host runs a talker")
    }

    /// The host's addresses, one for each path.
    #[must_use]
    pub fn addresses(&self, side: Side) -> &[IpAddr] {
        &self.addresses[side as usize]
    }

    /// The host's settings.
    #[must_use]
    pub fn config(&self, side: Side) -> &Config {
        &self.configs[side as usize]
    }

    /// The address of the other host on a path.
    #[must_use]
    pub fn remote(&self, side: Side, path: usize) -> SocketAddr {
        let port = if self.configs[side as usize].lower_layer.is_over_udp() {
            UDP_PORT
        } else {
            0
        };
        SocketAddr::new(self.addresses[side.other() as usize][path], port)
    }

    /// The id of a host's association: the one that it started, or else its newest one.
    #[must_use]
    pub fn id(&self, side: Side) -> Option<AssociationId> {
        self.associations[side as usize].or_else(|| self.host(side).association_ids().last())
    }

    /// Makes a host use this association.
    pub fn use_association(&mut self, side: Side, id: AssociationId) {
        self.associations[side as usize] = Some(id);
    }

    /// The association that a host uses.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn association(&self, side: Side) -> &Association {
        let id = self
            .id(side)
            .unwrap_or_else(|| panic!("{side:?} has no association"));
        self.host(side).association(id).expect("it is not forgotten")
    }

    /// The association that a host uses, mutable. Its packets leave at the next run.
    ///
    /// # Panics
    /// If there is none.
    pub fn association_mut(&mut self, side: Side) -> &mut Association {
        let id = self
            .id(side)
            .unwrap_or_else(|| panic!("{side:?} has no association"));
        self.host_mut(side)
            .association_mut(id)
            .expect("it is not forgotten")
    }

    /// The state of the association that a host uses, if there is one.
    #[must_use]
    pub fn state(&self, side: Side) -> Option<AssociationState> {
        let id = self.id(side)?;
        self.host(side).association(id).map(Association::state)
    }

    /// The links of a path: from A to Z, and from Z to A.
    #[must_use]
    pub fn links(&self, path: usize) -> (LinkId, LinkId) {
        self.links[path]
    }

    /// Takes a path down in both directions, or brings it up again.
    pub fn cut(&mut self, path: usize, down: bool) {
        let (there, back) = self.links[path];
        self.network.cut(there, down);
        self.network.cut(back, down);
    }

    /// Cuts the link of a path from A to Z alone, or joins it again.
    pub fn cut_there(&mut self, path: usize, down: bool) {
        self.network.cut(self.links[path].0, down);
    }

    /// Changes both links of a path.
    pub fn set_path(&mut self, path: usize, link: &LinkConfig) {
        let (there, back) = self.links[path];
        self.network.set_link_config(there, link.clone());
        self.network.set_link_config(back, link.clone());
    }
}

/// Virtual time.
impl Pair {
    /// The current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.network.now()
    }

    /// Runs for this time.
    pub fn run_for(&mut self, duration: Duration) {
        self.network.run_for(duration);
    }

    /// Runs for this many milliseconds.
    pub fn run_ms(&mut self, millis: u64) {
        self.run_for(Duration::from_millis(millis));
    }

    /// Runs until `reached` returns true, which is called before each event; returns false if the time limit comes first.
    pub fn run_to(&mut self, limit: Timestamp, mut reached: impl FnMut(&mut Self) -> bool) -> bool {
        loop {
            if reached(self) {
                return true;
            }
            if !self.network.run_one(limit) {
                self.network.run_until(limit.max(self.network.now()));
                return reached(self);
            }
        }
    }
}

/// Messages and events.
impl Pair {
    /// Sends an ordered message without payload protocol identifier.
    ///
    /// # Panics
    /// If the association refuses the message.
    pub fn send(&mut self, side: Side, stream: u16, message: impl Into<Bytes>) -> MessageId {
        self.send_with(side, stream, message, SendOptions::default())
    }

    /// Sends a message.
    ///
    /// # Panics
    /// If the association refuses the message.
    pub fn send_with(
        &mut self,
        side: Side,
        stream: u16,
        message: impl Into<Bytes>,
        options: SendOptions,
    ) -> MessageId {
        let now = self.now();
        self.association_mut(side)
            .send(now, StreamId(stream), message.into(), options)
            .expect("send")
    }

    /// Sends these messages as the send buffer allows: now, or later during the run.
    pub fn post(&mut self, side: Side, parcels: impl IntoIterator<Item = Parcel>) {
        self.talker(side).backlog.extend(parcels);
        self.with_talker(side, |talker, now, _, association| {
            talker.send_backlog(now, association)
        });
    }

    /// Reads all received data now. If `reading`, later data is read as soon as it arrives.
    pub fn set_reading(&mut self, side: Side, reading: bool) {
        self.talker(side).reading = reading;
        if reading && self.id(side).is_some() {
            self.read(side);
        }
    }

    /// Reads all received data now.
    pub fn read(&mut self, side: Side) {
        self.with_talker(side, |talker, now, id, association| {
            talker.read(now, id, association)
        });
    }

    /// Calls `act` with the talker and its association.
    fn with_talker(
        &mut self,
        side: Side,
        act: impl FnOnce(&mut Talker, Timestamp, AssociationId, &mut Association),
    ) {
        let now = self.now();
        let Some(id) = self.id(side) else { return };
        let mut talker = core::mem::take(self.talker(side));
        act(&mut talker, now, id, self.association_mut(side));
        *self.talker(side) = talker;
    }

    /// The complete messages that arrived since the last call.
    pub fn messages(&mut self, side: Side) -> Vec<Message> {
        self.talker(side).inbox.drain(..).collect()
    }

    /// The events since the last call, without `Readable` and `Writable`.
    pub fn events(&mut self, side: Side) -> Vec<Event> {
        self.talker(side)
            .events
            .drain(..)
            .map(|(_, _, event)| event)
            .collect()
    }

    /// Checks that all messages of A's and Z's ledgers have arrived, and that the association ended with a graceful shutdown on
    /// both hosts.
    ///
    /// # Panics
    /// If a message is missing, or an association ended differently.
    pub fn expect_orderly_end(&mut self, ledgers: &mut [Ledger; 2]) {
        for (side, ledger) in Side::BOTH.into_iter().zip(ledgers) {
            for message in self.messages(side.other()) {
                ledger.check(&message).expect("as it was sent");
            }
            ledger.check_complete().expect("all of it");
            let events = self.events(side);
            assert_eq!(
                events.last(),
                Some(&Event::Closed(CloseReason::Shutdown)),
                "{side:?}"
            );
        }
    }

    /// Starts a graceful shutdown.
    pub fn shutdown(&mut self, side: Side) {
        let now = self.now();
        self.association_mut(side).shutdown(now);
    }

    /// The last packets, one per line.
    #[must_use]
    pub fn draw(&self) -> String {
        arrows::draw(&self.network)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let captured = self.network.finish_capture();
        if std::thread::panicking() {
            eprintln!("the last packets:\n{}", self.draw());
        } else {
            captured.expect("the capture was written");
        }
    }
}

#[cfg(test)]
mod tests;
