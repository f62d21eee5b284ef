//! A host with interfaces, with the behaviour of Linux. If a packet has no source address, the route to its destination chooses
//! one. A packet with a source address that the host lacks is refused. A packet to any of the host's addresses is accepted on
//! any interface. The host looks associations up by the peer's address (RFC 9260 §8.4), and sends an ABORT if it finds none.

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use anabranch_netsim::{Ecn, Host, Node, Packet, Payload};
use anabranch_proto::{Config, Dscp, Timestamp};
use anabranch_testkit::host_matrix::address;
use anabranch_wire::cause::Causes;
use anabranch_wire::chunk::{Abort, Chunk};
use anabranch_wire::packet::{CommonHeader, Packet as SctpPacket, PacketWriter};
use anabranch_wire::parameter::{Parameter, Parameters};

pub(crate) struct Machine {
    /// The endpoint on this host. A host without an endpoint answers every packet with an ABORT, or none.
    pub(crate) host: Option<Host>,
    pub(crate) is_silent: bool,
    addresses: Vec<IpAddr>,
    /// The number in its addresses, and the number of its interfaces.
    number: u8,
    interfaces: usize,
    /// The only address that its socket is bound to.
    bound: Option<IpAddr>,
    /// The addresses of the peer, from its INIT or INIT ACK.
    known: BTreeSet<IpAddr>,
    aborts: VecDeque<Packet>,
    /// Source addresses of packets that were answered with an ABORT.
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

    /// The host's interface to a network, or else its first interface.
    pub(crate) fn route(&self, network: usize) -> usize {
        if network < self.interfaces { network } else { 0 }
    }

    /// The source address of the route to a destination.
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

    /// Loses all state except its settings, as by a reboot.
    pub(crate) fn reboot(&mut self, config: Config, seed: [u8; 32]) {
        self.known.clear();
        let host = self.endpoint();
        host.reboot(config, seed).expect("the settings are in range");
    }

    /// Answers a packet for which the lookup by the peer's address finds no association (§8.4 rules 2 and 8). A COOKIE ECHO is
    /// exempt, since its cookie proves it.
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
        // The endpoint answers packets that the host sends to itself.
        let is_known = self.known.contains(&source) || self.addresses.contains(&source);
        if self.host.is_some() && (is_set_up || is_known) {
            return false;
        }
        // A host that has just started has no association to miss before its INIT ACK arrives.
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
                dscp: Dscp::default(),
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

    /// Gives the packet a source address as the system does; `None` if the system refuses the packet.
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
