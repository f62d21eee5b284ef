//! Where the packets of a path leave and go: the pair of addresses, and the encapsulation port of the peer (RFC 6951 §5.4).

use std::net::{IpAddr, SocketAddr};

use crate::time::Timestamp;

/// The addresses of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// The local address from which packets leave; `None` leaves the choice to routing, before the peer knows any local address.
    pub(crate) local: Option<IpAddr>,
    /// The remote address and its encapsulation port, which may change (RFC 6951 §5.4).
    pub(crate) remote: SocketAddr,
    ports: Ports,
    /// The Correlation ID of the request that added the pair; 0 if set-up used it (experimental).
    pub(crate) name: Option<u32>,
    /// The peer does not have the address any more (RFC 5061): nothing is sent here.
    pub(crate) removed: bool,
    /// When DATA last arrived on this path, if that is recorded.
    pub(crate) data_arrived: Option<Timestamp>,
}

/// Encapsulation ports of a peer's address (RFC 6951 §5.4). A packet that an attacker replays from another port moves the port in use. If
/// both endpoints are misled in this way, no packet would arrive any more that moves the ports back.
#[derive(Clone, Copy, Debug)]
struct Ports {
    /// The source port of the last packet.
    arrived: u16,
    /// The source port of the last packet that answered this endpoint.
    answered: u16,
    /// The port to which the packet went that the running T3-rtx or the pending heartbeat is about.
    asked: u16,
}

impl Route {
    pub(super) fn new(local: Option<IpAddr>, remote: SocketAddr) -> Self {
        Self {
            local,
            remote,
            ports: Ports {
                arrived: remote.port(),
                answered: remote.port(),
                asked: remote.port(),
            },
            name: None,
            removed: false,
            data_arrived: None,
        }
    }

    /// The same peer from another local address.
    pub(super) fn moved_to(self, local: Option<IpAddr>) -> Self {
        Self {
            ports: self.ports,
            name: self.name,
            ..Self::new(local, self.remote)
        }
    }

    /// A packet with a valid tag came from this port: later packets go there (RFC 6951 §5.4).
    pub(super) fn on_arrival(&mut self, udp_port: u16) {
        self.ports.arrived = udp_port;
        self.remote.set_port(udp_port);
    }

    /// This is the port now, and no former one is tried again.
    pub(super) fn move_to_port(&mut self, udp_port: u16) {
        self.remote.set_port(udp_port);
        self.ports = Ports {
            arrived: udp_port,
            answered: udp_port,
            asked: udp_port,
        };
    }

    /// The last packet received on this path answered this endpoint. Its port is the peer's only if the question went there: an attacker
    /// that has read the answer may be faster than the peer.
    pub(super) fn on_answer(&mut self) {
        if self.ports.arrived == self.ports.asked {
            self.ports.answered = self.ports.arrived;
        }
    }

    /// No answer arrived: uses the port of the last answer and the port of the last packet alternately. A port to which nothing has gone that
    /// wants an answer stays in use: it is that of a packet which has arrived since.
    pub(crate) fn try_other_port(&mut self) {
        let Ports {
            arrived,
            answered,
            asked,
        } = self.ports;
        let arrived_failed = self.remote.port() == arrived;
        if self.remote.port() == asked {
            self.remote
                .set_port(if arrived_failed { answered } else { arrived });
        }
        self.on_asked();
    }

    /// A packet that wants an answer goes to the present port.
    pub(crate) fn on_asked(&mut self) {
        self.ports.asked = self.remote.port();
    }
}
