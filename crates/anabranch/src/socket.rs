//! The sockets below an endpoint: those of the system, and those that the application gives.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_proto::{AddressTypes, EcnCodepoint, IcmpMessage};
use quinn_udp::RecvMeta;

use crate::datagram::{Datagram, Outgoing, RECEIVE_BUFFER_LEN, ReceiveBuffers, Transport};
use crate::datagram_socket::DatagramSocket;
use crate::system_socket::SystemSocket;

/// A socket of an endpoint.
#[derive(Debug)]
pub(crate) enum Socket {
    System(SystemSocket),
    Given(GivenSocket),
}

/// A socket that the application gives, and its address, which stays.
#[derive(Debug)]
pub(crate) struct GivenSocket {
    socket: Box<dyn DatagramSocket>,
    local: SocketAddr,
}

impl GivenSocket {
    pub(crate) fn new(socket: impl DatagramSocket) -> io::Result<Self> {
        let local = socket.local_addr()?;
        Ok(Self {
            socket: Box::new(socket),
            local,
        })
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    fn try_send(&self, outgoing: &mut Outgoing, bytes: &[u8]) -> io::Result<()> {
        let most = self.socket.max_segments();
        while outgoing.sent < outgoing.len {
            let end = outgoing.next_end(most);
            self.socket.try_send(&outgoing.transmit(bytes, end))?;
            outgoing.sent = end;
        }
        Ok(())
    }

    fn try_recv(&self, buffers: &mut ReceiveBuffers) -> io::Result<()> {
        let received = self.socket.try_recv(&mut buffers.bytes[..RECEIVE_BUFFER_LEN])?;
        let meta = &mut buffers.meta[0];
        *meta = RecvMeta::default();
        meta.addr = received.source;
        meta.len = received.len.min(RECEIVE_BUFFER_LEN);
        meta.stride = received.segment;
        meta.ecn = quinn_udp::EcnCodepoint::from_bits(received.ecn.bits());
        meta.dst_ip = received.destination;
        buffers.count = 1;
        Ok(())
    }
}

impl Socket {
    pub(crate) fn local(&self) -> SocketAddr {
        match self {
            Self::System(socket) => socket.local(),
            Self::Given(socket) => socket.local,
        }
    }

    pub(crate) fn system(&self) -> Option<&SystemSocket> {
        match self {
            Self::System(socket) => Some(socket),
            Self::Given(_) => None,
        }
    }

    /// The number of datagrams that one call can send.
    pub(crate) fn max_segments(&self) -> usize {
        match self {
            Self::System(socket) => socket.max_segments(),
            Self::Given(socket) => socket.socket.max_segments().max(1),
        }
    }

    /// Whether the socket can send to this address. A given socket knows itself which addresses it reaches.
    pub(crate) fn reaches(&self, destination: IpAddr) -> bool {
        match self {
            Self::System(socket) => socket.reaches(destination),
            Self::Given(_) => true,
        }
    }

    /// Sends the rest of a batch. After `WouldBlock` the caller can call again for the rest in `outgoing`; any other error
    /// loses the batch.
    pub(crate) fn try_send(&self, outgoing: &mut Outgoing, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::System(socket) => socket.try_send(outgoing, bytes),
            Self::Given(socket) => socket.try_send(outgoing, bytes),
        }
    }

    /// The number of ICMP messages for this socket so far.
    pub(crate) fn icmp_count(&self) -> u64 {
        match self {
            Self::System(socket) => socket.icmp_count(),
            Self::Given(_) => 0,
        }
    }

    /// The ICMP messages since the last call, and whether the queue may have more.
    pub(crate) fn take_icmp(&self) -> (Vec<IcmpMessage>, bool) {
        match self {
            Self::System(socket) => socket.take_icmp(),
            Self::Given(_) => (Vec::new(), false),
        }
    }

    /// Waits until the socket may accept more datagrams.
    pub(crate) async fn writable(&self) {
        match self {
            Self::System(socket) => socket.writable().await,
            // The next attempt to send reports an error.
            Self::Given(socket) => drop(socket.socket.writable().await),
        }
    }

    /// Waits until a datagram or an ICMP message may have arrived.
    pub(crate) async fn readable(&self) {
        match self {
            Self::System(socket) => socket.readable().await,
            // The next attempt to receive reports an error.
            Self::Given(socket) => drop(socket.socket.readable().await),
        }
    }

    /// Receives the datagrams of one call.
    pub(crate) fn try_recv(&self, buffers: &mut ReceiveBuffers) -> io::Result<()> {
        buffers.count = 0;
        match self {
            Self::System(socket) => socket.try_recv(buffers),
            Self::Given(socket) => socket.try_recv(buffers),
        }
    }

    /// The datagrams of one of the buffers.
    pub(crate) fn datagrams<'a>(
        &self,
        buffers: &'a ReceiveBuffers,
        index: usize,
    ) -> impl Iterator<Item = Datagram<&'a [u8]>> + use<'a> {
        let meta = buffers.meta[index];
        // Receive offload does not join datagrams with different codepoints.
        let ecn = EcnCodepoint::from_bits(meta.ecn.map_or(0, |ecn| ecn as u8));
        let bytes = &buffers.bytes[index * RECEIVE_BUFFER_LEN..][..meta.len];
        let mut remote = meta.addr;
        remote.set_ip(remote.ip().to_canonical());
        let (header, raw) = match self {
            Self::System(socket) => (
                socket.delivers_ip_header(),
                socket.transport() == Transport::RawIp,
            ),
            Self::Given(_) => (false, false),
        };
        if raw {
            remote.set_port(0);
        }
        // If the system does not report the destination address, it is the address to which the socket is bound.
        let bound = Some(self.local().ip()).filter(|address| !address.is_unspecified());
        let local = meta.dst_ip.or(bound).map(|address| address.to_canonical());
        bytes.chunks(meta.stride.max(1)).filter_map(move |packet| {
            let payload = if header {
                without_ip_header(packet)?
            } else {
                packet
            };
            Some(Datagram {
                local,
                remote,
                ecn,
                payload,
            })
        })
    }
}

/// The IP versions with which one of these sockets can send.
pub(crate) fn reachable_types<'a>(sockets: impl Iterator<Item = &'a Socket> + Clone) -> AddressTypes {
    let reach = |address: IpAddr| sockets.clone().any(|socket| socket.reaches(address));
    AddressTypes {
        ipv4: reach(Ipv4Addr::UNSPECIFIED.into()),
        ipv6: reach(Ipv6Addr::UNSPECIFIED.into()),
    }
}

/// The payload after an IPv4 header (RFC 791); `None` if the header is truncated.
fn without_ip_header(packet: &[u8]) -> Option<&[u8]> {
    let length = usize::from(packet.first()? & 0x0f) * 4;
    if length < 20 { None } else { packet.get(length..) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_types_of_addresses_that_sockets_reach() {
        let open = |address: &str, only_v6| {
            let address = address.parse().expect("an address");
            Socket::System(
                SystemSocket::open(address, Transport::Udp, only_v6, None).expect("a socket on loopback"),
            )
        };
        let reach = |sockets: &[Socket]| {
            let types = reachable_types(sockets.iter());
            (types.ipv4, types.ipv6)
        };
        let (v4, v6, both) = (
            open("127.0.0.1:0", false),
            open("[::]:0", true),
            open("[::]:0", false),
        );
        assert_eq!(reach(&[v4]), (true, false));
        assert_eq!(reach(&[v6]), (false, true));
        assert_eq!(reach(&[both]), (true, true));
    }

    #[test]
    fn the_ip_header_is_removed() {
        let mut packet = vec![0x45; 20];
        packet.extend_from_slice(b"sctp");
        assert_eq!(without_ip_header(&packet), Some(&b"sctp"[..]));
        packet[0] = 0x46;
        assert_eq!(without_ip_header(&packet), Some(&b""[..]));
        packet[0] = 0x47;
        assert_eq!(without_ip_header(&packet), None, "cut off");
        packet[0] = 0x44;
        assert_eq!(without_ip_header(&packet), None, "shorter than an IP header");
        assert_eq!(without_ip_header(&[]), None);
    }
}
