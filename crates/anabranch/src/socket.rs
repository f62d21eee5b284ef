//! A socket that carries SCTP packets: in UDP (RFC 6951), or directly in IP (protocol 132). It uses generic segmentation
//! offload and generic receive offload if the system supports them.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anabranch_proto::{AddressTypes, Dscp, EcnCodepoint, IcmpMessage};
use bytes::Bytes;
use quinn_udp::{RecvMeta, UdpSocketState};
use socket2::{Domain, Protocol, SockRef, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::error_queue::ErrorQueue;
use crate::pool::Pool;

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

/// Requested size of the kernel buffers in bytes, for each direction; the system may give less (`net.core.rmem_max`).
const KERNEL_BUFFER: usize = 4 << 20;
/// Receive buffers per system call, each large enough for a batch of generic receive offload.
const RECEIVE_BUFFERS: usize = 8;
const RECEIVE_BUFFER_LEN: usize = 1 << 16;
/// Pause before the next attempt on a full socket, if the task cannot wait for the socket.
#[cfg(target_os = "linux")]
const RETRY: std::time::Duration = std::time::Duration::from_millis(1);
/// Limit of failed attempts of one call, while new ICMP messages arrive.
const ATTEMPTS: usize = 8;
/// The largest UDP datagram, and the largest batch for segmentation offload, in bytes (65,535 less the IPv6 and UDP headers).
#[cfg(feature = "link")]
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

/// A received SCTP packet without the headers below SCTP.
#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub(crate) local: Option<IpAddr>,
    pub(crate) remote: SocketAddr,
    pub(crate) ecn: EcnCodepoint,
    pub(crate) payload: Bytes,
}

#[derive(Debug)]
pub(crate) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    transport: Transport,
    only_v6: bool,
    errors: ErrorQueue,
}

impl Socket {
    /// Opens and binds a socket. With `only_v6`, `[::]` does not carry IPv4; with `interface`, the socket uses this network
    /// interface only. Must be called within a tokio runtime.
    pub(crate) fn open(
        address: SocketAddr,
        transport: Transport,
        only_v6: bool,
        interface: Option<&str>,
    ) -> io::Result<Self> {
        let domain = Domain::for_address(address);
        let (kind, protocol, bound) = match transport {
            Transport::Udp => (Type::DGRAM, Protocol::UDP, address),
            Transport::RawIp => (Type::RAW, Protocol::from(132), SocketAddr::new(address.ip(), 0)),
        };
        let socket = socket2::Socket::new(domain, kind, Some(protocol))?;
        if address.is_ipv6() && address.ip().is_unspecified() {
            // One socket for both IP versions. If the system refuses, the socket carries IPv6 only, which is acceptable.
            let _ = socket.set_only_v6(only_v6);
        }
        if let Some(name) = interface {
            bind_device(&socket, name)?;
        }
        socket.bind(&bound.into())?;
        socket.set_nonblocking(true)?;
        // A raw socket is not a UDP socket, but its send and receive calls are the same.
        let socket: std::net::UdpSocket = socket.into();
        let reference = SockRef::from(&socket);
        let _ = reference.set_recv_buffer_size(KERNEL_BUFFER);
        let _ = reference.set_send_buffer_size(KERNEL_BUFFER);
        let state = UdpSocketState::new((&socket).into())?;
        let errors = ErrorQueue::enable(&socket);
        let mut local = reference.local_addr()?.as_socket().unwrap_or(bound);
        if transport == Transport::RawIp {
            local.set_port(0);
        }
        Ok(Self {
            io: UdpSocket::from_std(socket)?,
            state,
            local,
            transport,
            only_v6,
            errors,
        })
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// The number of datagrams that one system call can send.
    pub(crate) fn max_segments(&self) -> usize {
        self.state.max_gso_segments().max(1)
    }

    /// Whether the socket can send to this address.
    pub(crate) fn reaches(&self, destination: IpAddr) -> bool {
        match (self.local.ip(), destination) {
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => true,
            // A UDP socket on `[::]` also carries IPv4; a raw socket does not.
            (IpAddr::V6(own), IpAddr::V4(_)) => {
                own.is_unspecified() && !self.only_v6 && self.transport == Transport::Udp
            }
            (IpAddr::V4(_), IpAddr::V6(_)) => false,
        }
    }

    /// Sends the rest of a batch. After `WouldBlock` the caller can call again for the rest in `outgoing`; any other error
    /// loses the batch.
    pub(crate) fn try_send(&self, outgoing: &mut Outgoing, bytes: &[u8]) -> io::Result<()> {
        if !outgoing.may_fragment {
            return self.send_unfragmented(outgoing, bytes);
        }
        // Rare: the path MTU has become smaller than a chunk that already has its TSN. Packets that other tasks send meanwhile
        // may be fragmented too, which does no harm.
        self.allow_fragments(true);
        let result = self.send_unfragmented(outgoing, bytes);
        self.allow_fragments(false);
        result
    }

    /// Clears or sets "don't fragment"; quinn-udp has set it.
    #[cfg(target_os = "linux")]
    fn allow_fragments(&self, allow: bool) {
        use rustix::net::sockopt::{
            Ipv4PathMtuDiscovery as V4, Ipv6PathMtuDiscovery as V6, set_ip_mtu_discover,
            set_ipv6_mtu_discover,
        };
        // If the system refuses, the packet is lost, and its retransmission timer reports the loss.
        let _ = set_ip_mtu_discover(&self.io, if allow { V4::DONT } else { V4::PROBE });
        if self.local.is_ipv6() {
            let _ = set_ipv6_mtu_discover(&self.io, if allow { V6::DONT } else { V6::PROBE });
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn allow_fragments(&self, _allow: bool) {}

    fn send_unfragmented(&self, outgoing: &mut Outgoing, bytes: &[u8]) -> io::Result<()> {
        let mut destination = outgoing.destination;
        if let (IpAddr::V4(address), true) = (destination.ip(), self.local.is_ipv6()) {
            destination.set_ip(address.to_ipv6_mapped().into());
        }
        let mut failures = Failures::default();
        // Segmentation offload failed for a packet that quinn-udp does not send.
        let mut singly = false;
        while outgoing.sent < outgoing.len {
            let segments = if singly { 1 } else { self.max_segments() };
            let end = outgoing.len.min(outgoing.sent + segments * outgoing.segment);
            let contents = &bytes[outgoing.sent..end];
            let transmit = quinn_udp::Transmit {
                destination,
                ecn: quinn_udp::EcnCodepoint::from_bits(outgoing.ecn.bits()),
                contents,
                segment_size: (contents.len() > outgoing.segment).then_some(outgoing.segment),
                src_ip: outgoing.source,
            };
            let sent = self
                .io
                .try_io(Interest::WRITABLE, || self.send_once(&transmit, outgoing.dscp));
            match sent {
                Ok(()) => outgoing.sent = end,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                // The interface cannot do segmentation offload. quinn-udp has noted it: the next attempt sends one datagram.
                Err(_) if transmit.segment_size.is_some() && self.max_segments() < segments => {}
                Err(_) if transmit.segment_size.is_some() && outgoing.dscp != Dscp::default() => {
                    singly = true
                }
                Err(error) => match failures.judge(self.icmp_count()) {
                    Failure::MayBePending => {}
                    Failure::Own => return Err(error),
                    Failure::Unknown => return Err(io::Error::other("ICMP messages about other packets")),
                },
            }
        }
        Ok(())
    }

    /// One system call.
    fn send_once(&self, transmit: &quinn_udp::Transmit<'_>, dscp: Dscp) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if dscp != Dscp::default() {
            let bits = transmit.ecn.map_or(0, |ecn| ecn as u8);
            let octet = dscp.octet(EcnCodepoint::from_bits(bits));
            return crate::dscp::send(&self.io, transmit, octet);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = dscp;
        self.state.try_send((&self.io).into(), transmit)
    }

    /// The number of ICMP messages for this socket so far.
    pub(crate) fn icmp_count(&self) -> u64 {
        self.errors.count(&self.io, self.transport)
    }

    /// The ICMP messages since the last call, and whether the queue may have more.
    pub(crate) fn take_icmp(&self) -> (Vec<IcmpMessage>, bool) {
        // Clears tokio's error readiness, so that tokio wakes the task at the next error.
        let _ = self.io.try_io(Interest::ERROR, || -> io::Result<()> {
            Err(io::ErrorKind::WouldBlock.into())
        });
        self.errors.take(&self.io, self.transport)
    }

    /// Waits until the socket may accept more datagrams.
    ///
    /// If a writable socket has a pending error, tokio concludes that its write side is closed, and reports the socket as
    /// writable from then on. Each wait therefore uses a new registration.
    #[cfg(target_os = "linux")]
    pub(crate) async fn writable(&self) {
        let duplicate = SockRef::from(&self.io).try_clone();
        match duplicate.and_then(|duplicate| UdpSocket::from_std(duplicate.into())) {
            // The next attempt to send reports an error.
            Ok(registered) => drop(registered.writable().await),
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }

    /// Waits until the socket may accept more datagrams.
    #[cfg(not(target_os = "linux"))]
    pub(crate) async fn writable(&self) {
        // The next attempt to send reports an error.
        let _ = self.io.writable().await;
    }

    /// Waits until a datagram or an ICMP message may have arrived.
    pub(crate) async fn readable(&self) {
        // The next attempt to receive reports an error.
        let _ = self.io.ready(Interest::READABLE | Interest::ERROR).await;
    }

    /// Receives the datagrams of one system call.
    pub(crate) fn try_recv(&self, buffers: &mut ReceiveBuffers) -> io::Result<()> {
        buffers.count = 0;
        let mut chunks = buffers.bytes.chunks_exact_mut(RECEIVE_BUFFER_LEN);
        let mut slices: [IoSliceMut<'_>; RECEIVE_BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let meta = &mut buffers.meta;
        buffers.count = self.io.try_io(Interest::READABLE, || {
            self.state
                .recv((&self.io).into(), &mut slices, meta.as_mut_slice())
        })?;
        Ok(())
    }

    /// The datagrams of one of the buffers.
    pub(crate) fn datagrams<'a>(
        &self,
        buffers: &'a ReceiveBuffers,
        index: usize,
    ) -> impl Iterator<Item = Datagram> + use<'a> {
        let meta = buffers.meta[index];
        // Receive offload does not join datagrams with different codepoints.
        let ecn = EcnCodepoint::from_bits(meta.ecn.map_or(0, |ecn| ecn as u8));
        let bytes = &buffers.bytes[index * RECEIVE_BUFFER_LEN..][..meta.len];
        let mut remote = meta.addr;
        remote.set_ip(remote.ip().to_canonical());
        let raw = self.transport == Transport::RawIp;
        if raw {
            remote.set_port(0);
        }
        // If the system does not report the destination address, it is the address to which the socket is bound.
        let bound = Some(self.local.ip()).filter(|address| !address.is_unspecified());
        let local = meta.dst_ip.or(bound).map(|address| address.to_canonical());
        // IPv4 raw sockets deliver the IP header too; IPv6 raw sockets do not.
        let header = raw && self.local.is_ipv4();
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
                payload: buffers.pool.copy(payload),
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

/// The likely cause of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Possibly an ICMP message about an earlier packet: the caller tries the call again.
    MayBePending,
    /// The call itself: it failed three times in a row, and no ICMP message arrived in between.
    Own,
    /// Not known: too many ICMP messages arrive.
    Unknown,
}

/// The failures of one call in a row. The system reports a pending error once. If the call fails again and no ICMP message
/// arrived in between, the call itself has the error. The system may report the pending error a little later than the ICMP
/// message, so the third failure decides. An ICMP message is thus never mistaken for a local error of the path.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    attempts: usize,
    /// Failures in a row with the same count of ICMP messages.
    alike: usize,
    icmp_count: Option<u64>,
}

impl Failures {
    /// Judges one more failure. `icmp_count` must have been read after the failure.
    pub(crate) fn judge(&mut self, icmp_count: u64) -> Failure {
        self.attempts += 1;
        self.alike = match self.icmp_count.replace(icmp_count) {
            Some(before) if before == icmp_count => self.alike + 1,
            _ => 1,
        };
        match (self.alike, self.attempts) {
            (3.., _) => Failure::Own,
            (_, ATTEMPTS..) => Failure::Unknown,
            _ => Failure::MayBePending,
        }
    }
}

#[cfg(any(target_os = "android", target_os = "linux"))]
fn bind_device(socket: &socket2::Socket, name: &str) -> io::Result<()> {
    socket.bind_device(Some(name.as_bytes()))
}

#[cfg(not(any(target_os = "android", target_os = "linux")))]
fn bind_device(_socket: &socket2::Socket, _name: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The payload after an IPv4 header (RFC 791); `None` if the header is truncated.
fn without_ip_header(packet: &[u8]) -> Option<&[u8]> {
    let length = usize::from(packet.first()? & 0x0f) * 4;
    if length < 20 { None } else { packet.get(length..) }
}

/// The receive buffers of a socket, reused by every call.
#[derive(Debug)]
pub(crate) struct ReceiveBuffers {
    bytes: Vec<u8>,
    meta: [RecvMeta; RECEIVE_BUFFERS],
    count: usize,
    pool: Pool,
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

    #[test]
    fn errors_of_earlier_packets_and_of_the_call_are_distinguished() {
        let judged = |counts: &[u64]| {
            let mut failures = Failures::default();
            counts.iter().map(|count| failures.judge(*count)).last().unwrap()
        };
        assert_eq!(judged(&[3]), Failure::MayBePending, "left by an earlier packet");
        assert_eq!(judged(&[3, 3]), Failure::MayBePending);
        assert_eq!(judged(&[3, 3, 3]), Failure::Own);
        assert_eq!(
            judged(&[3, 3, 4]),
            Failure::MayBePending,
            "an ICMP message came between"
        );
        assert_eq!(judged(&[3, 3, 4, 4, 4]), Failure::Own);
        assert_eq!(judged(&[1, 2, 3, 4, 5, 6, 7, 8]), Failure::Unknown);
    }

    #[tokio::test]
    async fn the_types_of_addresses_that_sockets_reach() {
        let open = |address: &str, only_v6| {
            let address = address.parse().expect("an address");
            Socket::open(address, Transport::Udp, only_v6, None).expect("a socket on loopback")
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
