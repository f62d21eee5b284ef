//! The sockets below an endpoint: those of the system, and those that the application gives.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_proto::{AddressTypes, Dscp, EcnCodepoint, IcmpMessage};
use bytes::Bytes;
use quinn_udp::RecvMeta;

use crate::datagram_socket::{DatagramSocket, Transmit};
use crate::pool::Pool;
use crate::system_socket::SystemSocket;

/// The layer below SCTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Transport {
    /// UDP datagrams (RFC 6951): need no privilege and pass network address translators.
    #[default]
    Udp,
    /// Directly over IP, as protocol 132. Opening the socket needs root or `CAP_NET_RAW`. If the kernel's SCTP module is
    /// loaded, it receives the same packets and aborts associations that it does not know: unload the module. Programs on
    /// one machine share its addresses, but not SCTP ports: an endpoint ignores packets for ports that are not its own.
    /// Connecting to a port without a listener therefore times out instead of being refused.
    RawIp,
}

/// Receive buffers of one call, each large enough for a batch of generic receive offload.
pub(crate) const RECEIVE_BUFFERS: usize = 8;
pub(crate) const RECEIVE_BUFFER_LEN: usize = 1 << 16;
/// The largest UDP datagram, and the largest batch for segmentation offload, in bytes (65,535 less the IPv6 and UDP headers).
pub(crate) const MAX_BATCH: usize = 65_535 - 48;

/// A batch of datagrams to one destination; the caller holds their bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) source: Option<IpAddr>,
    pub(crate) destination: SocketAddr,
    pub(crate) len: usize,
    /// The length of each datagram but the last; equal to `len` for a single datagram.
    pub(crate) segment: usize,
    /// Whether IP may fragment the packet; allowed only for batches of one datagram.
    pub(crate) may_fragment: bool,
    /// The codepoint of all datagrams of the batch.
    pub(crate) ecn: EcnCodepoint,
    pub(crate) dscp: Dscp,
    /// Bytes that the socket has accepted: a socket with little free buffer can accept a part of a batch.
    pub(crate) sent: usize,
}

impl Outgoing {
    /// The end of the next call's datagrams, of which one call takes at most `most` and no more than [`MAX_BATCH`] bytes. An encrypted batch
    /// is longer than the batch that the core made.
    pub(crate) fn next_end(&self, most: usize) -> usize {
        let fit = (MAX_BATCH / self.segment.max(1)).max(1);
        self.len.min(self.sent + most.clamp(1, fit) * self.segment)
    }

    /// The datagrams up to `end` that have not been sent yet; `bytes` are those of the whole batch.
    pub(crate) fn transmit<'a>(&self, bytes: &'a [u8], end: usize) -> Transmit<'a> {
        let mut transmit = Transmit::new(self.destination, &bytes[self.sent..end]);
        transmit.source = self.source;
        transmit.ecn = self.ecn;
        transmit.segment = self.segment;
        transmit
    }
}

/// A received datagram without the headers below SCTP or DTLS. `P` holds its bytes: a slice of the receive buffer until they are kept.
#[derive(Clone, Debug)]
pub(crate) struct Datagram<P = Bytes> {
    pub(crate) local: Option<IpAddr>,
    pub(crate) remote: SocketAddr,
    pub(crate) ecn: EcnCodepoint,
    pub(crate) payload: P,
}

impl<P> Datagram<P> {
    /// The same datagram, its bytes kept.
    pub(crate) fn keep(self, keep: impl FnOnce(P) -> Bytes) -> Datagram {
        Datagram {
            local: self.local,
            remote: self.remote,
            ecn: self.ecn,
            payload: keep(self.payload),
        }
    }
}

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

/// Those of `types` to which one of these sockets can send.
pub(crate) fn reachable_types(sockets: &[Socket], types: AddressTypes) -> AddressTypes {
    let reach = |address: IpAddr| sockets.iter().any(|socket| socket.reaches(address));
    AddressTypes {
        ipv4: types.ipv4 && reach(Ipv4Addr::UNSPECIFIED.into()),
        ipv6: types.ipv6 && reach(Ipv6Addr::UNSPECIFIED.into()),
    }
}

/// The payload after an IPv4 header (RFC 791); `None` if the header is truncated.
fn without_ip_header(packet: &[u8]) -> Option<&[u8]> {
    let length = usize::from(packet.first()? & 0x0f) * 4;
    if length < 20 { None } else { packet.get(length..) }
}

/// The receive buffers of a socket, reused by every call.
#[derive(Debug)]
pub(crate) struct ReceiveBuffers {
    pub(crate) bytes: Vec<u8>,
    pub(crate) meta: [RecvMeta; RECEIVE_BUFFERS],
    pub(crate) count: usize,
    /// The memory of packets that are kept.
    pub(crate) pool: Pool,
}

impl ReceiveBuffers {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; RECEIVE_BUFFERS * RECEIVE_BUFFER_LEN],
            meta: [RecvMeta::default(); RECEIVE_BUFFERS],
            count: 0,
            pool: Pool::default(),
        }
    }

    /// The number of buffers that the last call filled.
    pub(crate) fn filled(&self) -> usize {
        self.count
    }
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
            let types = reachable_types(sockets, AddressTypes::BOTH);
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

    /// 64 encrypted packets of 1,080 bytes are more than one system call takes: with all of them, it would report that a packet is larger than
    /// the path MTU.
    #[test]
    fn one_call_sends_no_more_than_a_udp_socket_takes() {
        let of = |segment, len, sent| Outgoing {
            source: None,
            destination: "127.0.0.1:1".parse().expect("an address"),
            len,
            segment,
            may_fragment: false,
            ecn: EcnCodepoint::NotEct,
            dscp: Dscp::default(),
            sent,
        };
        assert_eq!(of(1080, 64 * 1080, 0).next_end(64), 60 * 1080);
        assert_eq!(of(1080, 64 * 1080, 60 * 1080).next_end(64), 64 * 1080);
        assert_eq!(of(1080, 64 * 1080, 0).next_end(4), 4 * 1080);
        assert_eq!(of(65_535, 65_535, 0).next_end(64), 65_535, "a single datagram");
        assert_eq!(of(100, 250, 200).next_end(0), 250, "at least one");
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
