//! The network nodes of a connection's sender and receiver.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_proto::{Dscp, Timestamp};

use super::config::TcpConfig;
use super::receiver::{Receiver, TcpSinkStats};
use super::segment::Segment;
use super::sender::{Sender, TcpStats};
use super::traffic::{Source, Traffic};
use crate::ecn::Ecn;
use crate::network::Node;
use crate::packet::{Packet, Payload};
use crate::random::Generator;

/// A node that opens one connection and sends data. [`crate::Dumbbell`] creates pairs of a `TcpSource` and a [`TcpSink`].
#[derive(Debug)]
pub struct TcpSource {
    /// The node's routing fills in the address.
    local: SocketAddr,
    peer: SocketAddr,
    sender: Sender,
    source: Source,
}

impl TcpSource {
    /// A sender from `local_port` to a [`TcpSink`] at `peer`; it connects at `start`. `random` provides the random numbers of its traffic.
    #[must_use]
    pub fn new(
        config: TcpConfig,
        local_port: u16,
        peer: SocketAddr,
        traffic: Traffic,
        start: Timestamp,
        random: Generator,
    ) -> Self {
        let unspecified = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        Self {
            local: SocketAddr::new(unspecified, local_port),
            peer,
            sender: Sender::new(config),
            source: Source::new(traffic, start, random),
        }
    }

    /// The sender's counters so far.
    #[must_use]
    pub fn stats(&self) -> TcpStats {
        self.sender.stats()
    }

    /// Whether all written data has been acknowledged; never true with greedy traffic.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.sender.all_acknowledged()
    }
}

impl Node for TcpSource {
    fn handle_packet(&mut self, now: Timestamp, packet: Packet) {
        if let Some(segment) = intact(&packet, self.local.port()) {
            self.sender.handle_segment(now, segment);
            if self.sender.all_acknowledged() {
                self.source.handle_all_acknowledged(now);
            }
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.source.handle_timeout(now, &mut self.sender);
        self.sender.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Packet> {
        let segment = self.sender.poll_transmit(now)?;
        Some(packet(self.local, self.peer, segment))
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        match (self.source.next, self.sender.poll_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

/// A node that accepts one connection and acknowledges its data.
#[derive(Debug)]
pub struct TcpSink {
    port: u16,
    /// The local and the peer's address, once the connection has begun.
    ends: Option<(SocketAddr, SocketAddr)>,
    receiver: Receiver,
}

impl TcpSink {
    /// A receiver on `port`. It uses the segment size, the receive window and the acknowledgement delay of `config`; the other settings
    /// depend on the peer.
    #[must_use]
    pub fn new(config: TcpConfig, port: u16) -> Self {
        Self {
            port,
            ends: None,
            receiver: Receiver::new(config),
        }
    }

    /// The receiver's counters so far.
    #[must_use]
    pub fn stats(&self) -> TcpSinkStats {
        self.receiver.stats()
    }
}

impl Node for TcpSink {
    fn handle_packet(&mut self, now: Timestamp, packet: Packet) {
        let Some(segment) = intact(&packet, self.port) else {
            return;
        };
        let ends = *self.ends.get_or_insert((packet.destination, packet.source));
        if ends == (packet.destination, packet.source) {
            self.receiver.handle_segment(now, segment);
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.receiver.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Timestamp) -> Option<Packet> {
        let (local, peer) = self.ends?;
        let segment = self.receiver.poll_transmit(now)?;
        Some(packet(local, peer, segment))
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        self.receiver.poll_timeout()
    }
}

/// The packet's TCP segment, if it is undamaged and has this destination port.
fn intact(packet: &Packet, port: u16) -> Option<&Segment> {
    match &packet.payload {
        Payload::Tcp(segment) if !segment.damaged && packet.destination.port() == port => Some(segment),
        _ => None,
    }
}

fn packet(source: SocketAddr, destination: SocketAddr, segment: Segment) -> Packet {
    Packet {
        source,
        destination,
        payload: Payload::Tcp(segment),
        may_fragment: false,
        ecn: Ecn::NotEct,
        dscp: Dscp::default(),
    }
}
