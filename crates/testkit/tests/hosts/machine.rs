//! A host with interfaces, as Linux has them: the route to a destination chooses the source address of a packet that has
//! none; a packet from an address that the host lacks is refused; a packet to any of its addresses is taken on any interface.
//! It looks associations up by the peer's address, as RFC 9260 §8.4 has it, and answers with an ABORT from what is not there.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use anabranch_netsim::{Ecn, Host, Node, Packet, Payload};
use anabranch_proto::{Config, Timestamp};
use anabranch_testkit::host_matrix::address;
use anabranch_wire::cause::Causes;
use anabranch_wire::chunk::{Abort, Chunk};
use anabranch_wire::packet::{CommonHeader, Packet as SctpPacket, PacketWriter};
use anabranch_wire::parameter::{Parameter, Parameters};

pub(crate) struct Machine {
    /// The endpoint that runs here; a machine without one answers everything with an ABORT, or nothing.
    pub(crate) host: Option<Host>,
    pub(crate) is_silent: bool,
    addresses: Vec<IpAddr>,
    /// The number in its addresses, and how many interfaces it has.
    number: u8,
    interfaces: usize,
    /// The only address of its socket.
    bound: Option<IpAddr>,
    /// The addresses of the peer, from its INIT or INIT ACK.
    known: BTreeSet<IpAddr>,
    aborts: VecDeque<Packet>,
    /// Sources of packets that were answered with an ABORT.
    pub(crate) unknown: Vec<IpAddr>,
    /// Packets that the system refused to send.
    pub(crate) refused: Vec<SocketAddr>,
}

impl Machine {
    pub(crate) fn new(host: Option<Host>, number: u8, interfaces: usize, addresses: Vec<IpAddr>) -> Self {
        Self {
            host,
            is_silent: false,
            addresses,
            number,
            interfaces,
            bound: None,
            known: BTreeSet::new(),
            aborts: VecDeque::new(),
            unknown: Vec::new(),
            refused: Vec::new(),
        }
    }

    pub(crate) fn bind(mut self, bound: Option<IpAddr>) -> Self {
        self.bound = bound;
        self
    }

    /// The interface to a network: the host's own, else its first.
    pub(crate) fn route(&self, network: usize) -> usize {
        if network < self.interfaces { network } else { 0 }
    }

    /// The source address that the route to a destination has.
    pub(crate) fn source_towards(&self, destination: IpAddr) -> IpAddr {
        let network = match destination {
            IpAddr::V4(ip) => usize::from(ip.octets()[2]),
            IpAddr::V6(ip) => usize::from(ip.segments()[3]),
        };
        address(self.route(network), self.number, destination.is_ipv6())
    }

    pub(crate) fn endpoint(&mut self) -> &mut Host {
        self.host.as_mut().expect("an endpoint runs here")
    }

    /// Loses all that it knew, as by a reboot, but for its settings.
    pub(crate) fn reboot(&mut self, config: Config, seed: [u8; 32]) {
        self.known.clear();
        let host = self.endpoint();
        host.reboot(config, seed).expect("the settings are in range");
    }

    /// Answers what the lookup by the peer's address does not find (§8.4 rules 2 and 8). A COOKIE ECHO proves itself.
    fn is_out_of_the_blue(&mut self, packet: &Packet) -> bool {
        let sctp = SctpPacket::parse(packet.payload.clone().into_sctp()).expect("an SCTP packet");
        let chunks: Vec<_> = sctp
            .chunks()
            .map(|raw| Chunk::decode(raw.expect("a chunk")).expect("it can be read"))
            .collect();
        let source = packet.source.ip();
        match chunks.first() {
            Some(Chunk::Init(init)) => self.learn(source, &init.parameters),
            Some(Chunk::InitAck(init_ack)) => self.learn(source, &init_ack.parameters),
            _ => {}
        }
        let is_set_up = matches!(chunks.first(), Some(Chunk::CookieEcho(_)));
        // What it sends to itself, its endpoint is to answer.
        let is_known = self.known.contains(&source) || self.addresses.contains(&source);
        if self.host.is_some() && (is_set_up || is_known) {
            return false;
        }
        // A machine that has just been started has lost nothing by what comes before its INIT ACK.
        if self.host.is_some() && self.known.is_empty() {
            return true;
        }
        self.unknown.push(source);
        if !self.is_silent && !chunks.iter().any(|chunk| matches!(chunk, Chunk::Abort(_))) {
            self.aborts.push_back(Packet {
                source: packet.destination,
                destination: packet.source,
                payload: abort(&sctp.header).into(),
                may_fragment: false,
                ecn: Ecn::NotEct,
            });
        }
        true
    }

    fn learn(&mut self, source: IpAddr, parameters: &Parameters) {
        self.known.insert(source);
        for raw in parameters.iter() {
            self.known
                .extend(match Parameter::decode(raw.expect("a parameter")) {
                    Ok(Parameter::Ipv4(ip)) => Some(IpAddr::V4(ip)),
                    Ok(Parameter::Ipv6(ip)) => Some(IpAddr::V6(ip)),
                    _ => None,
                });
        }
    }

    /// Gives the packet a source address as the system does; `None` if the system refuses it.
    fn routed(&mut self, mut packet: Packet) -> Option<Packet> {
        if packet.source.ip().is_unspecified() {
            let source = self.bound.unwrap_or(self.source_towards(packet.destination.ip()));
            packet.source.set_ip(source);
        }
        let source = packet.source.ip();
        if self.addresses.contains(&source) && source.is_ipv4() == packet.destination.is_ipv4() {
            return Some(packet);
        }
        self.refused.push(packet.destination);
        None
    }
}

/// An ABORT that reflects the tag (§8.5.1 B).
fn abort(to: &CommonHeader) -> Vec<u8> {
    let header = CommonHeader {
        source_port: to.destination_port,
        destination_port: to.source_port,
        verification_tag: to.verification_tag,
    };
    let mut buffer = Vec::new();
    let mut writer = PacketWriter::new(&mut buffer, header, 100);
    writer.push(&Chunk::Abort(Abort {
        reflected_tag: true,
        causes: Causes::empty(),
    }));
    let _ = writer.finish();
    buffer
}

impl Node for Machine {
    fn handle_packet(&mut self, now: Timestamp, packet: Packet) {
        assert!(matches!(packet.payload, Payload::Sctp(_)));
        if !self.is_out_of_the_blue(&packet) {
            self.endpoint().handle_packet(now, packet);
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.endpoint().handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Packet> {
        loop {
            if let Some(packet) = self.aborts.pop_front() {
                return Some(packet);
            }
            let packet = self.host.as_mut()?.poll_transmit(now)?;
            let Some(packet) = self.routed(packet) else {
                continue;
            };
            if !self.addresses.contains(&packet.destination.ip()) {
                return Some(packet);
            }
            self.handle_packet(now, packet);
        }
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.host.as_ref()?.poll_timeout()
    }
}
