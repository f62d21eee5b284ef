//! A socket that carries SCTP packets: in UDP (RFC 6951), or directly in IP (protocol 132). It uses generic segmentation
//! offload and generic receive offload if the system supports them.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use anabranch_proto::{EcnCodepoint, IcmpMessage};
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
/// Pause before the next attempt on a full socket, if the system gives no way to wait for it.
#[cfg(target_os = "linux")]
const RETRY: std::time::Duration = std::time::Duration::from_millis(1);
/// Calls in a row that may fail because of an ICMP message about an earlier packet.
const ATTEMPTS: usize = 8;
/// No UDP datagram, and no batch for segmentation offload, is longer (65,535 less IPv6 and UDP headers).
pub(crate) const MAX_BATCH: usize = 65_535 - 48;

/// A batch to send; the caller keeps its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    pub(crate) source: Option<IpAddr>,
    pub(crate) destination: SocketAddr,
    pub(crate) len: usize,
    /// The length of each datagram but the last; equal to `len` if there is one.
    pub(crate) segment: usize,
    /// Whether IP may fragment the packet; allowed only for batches of one datagram.
    pub(crate) may_fragment: bool,
    /// Of all datagrams of the batch.
    pub(crate) ecn: EcnCodepoint,
    /// Bytes the socket has taken: a full socket may take a part of a batch.
    pub(crate) sent: usize,
}

/// A received SCTP packet without the headers below SCTP.
#[derive(Debug)]
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
    /// Opens and binds a socket; `only_v6` keeps `[::]` from carrying IPv4, and `interface` is the only one it uses. Must be
    /// called within a tokio runtime.
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
            // One socket for both versions of IP. Where the system does not want that, IPv6 alone is still right.
            let _ = socket.set_only_v6(only_v6);
        }
        if let Some(name) = interface {
            bind_device(&socket, name)?;
        }
        socket.bind(&bound.into())?;
        socket.set_nonblocking(true)?;
        // A raw socket is no UDP socket, but bind, send and receive are the same calls for both.
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

    /// Datagrams that one system call can send.
    pub(crate) fn max_segments(&self) -> usize {
        self.state.max_gso_segments().max(1)
    }

    /// Whether packets to this address can leave here.
    pub(crate) fn reaches(&self, destination: IpAddr) -> bool {
        match (self.local.ip(), destination) {
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => true,
            // An IPv6 socket on every address carries IPv4 as well; raw sockets do not.
            (IpAddr::V6(own), IpAddr::V4(_)) => {
                own.is_unspecified() && !self.only_v6 && self.transport == Transport::Udp
            }
            (IpAddr::V4(_), IpAddr::V6(_)) => false,
        }
    }

    /// Sends what is left of a batch. `WouldBlock` leaves the rest in `outgoing`; after any other error the batch is
    /// spent.
    pub(crate) fn try_send(&self, outgoing: &mut Outgoing, bytes: &[u8]) -> io::Result<()> {
        if !outgoing.may_fragment {
            return self.send_unfragmented(outgoing, bytes);
        }
        // Rare: the path MTU has become smaller than chunks that have their TSNs already. Packets of other tasks meanwhile may
        // be cut up too, which does no harm.
        self.allow_fragments(true);
        let result = self.send_unfragmented(outgoing, bytes);
        self.allow_fragments(false);
        result
    }

    /// Whether packets leave without "don't fragment", which quinn-udp has set.
    #[cfg(target_os = "linux")]
    fn allow_fragments(&self, allow: bool) {
        use rustix::net::sockopt::{
            Ipv4PathMtuDiscovery as V4, Ipv6PathMtuDiscovery as V6, set_ip_mtu_discover,
            set_ipv6_mtu_discover,
        };
        // Where the system refuses, the packet is lost, and its timeout tells the path.
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
        while outgoing.sent < outgoing.len {
            let segments = self.max_segments();
            let end = outgoing.len.min(outgoing.sent + segments * outgoing.segment);
            let contents = &bytes[outgoing.sent..end];
            let transmit = quinn_udp::Transmit {
                destination,
                ecn: quinn_udp::EcnCodepoint::from_bits(outgoing.ecn.bits()),
                contents,
                segment_size: (contents.len() > outgoing.segment).then_some(outgoing.segment),
                src_ip: outgoing.source,
            };
            let sent = self.io.try_io(Interest::WRITABLE, || {
                self.state.try_send((&self.io).into(), &transmit)
            });
            match sent {
                Ok(()) => outgoing.sent = end,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                // The interface cannot do segmentation offload, which quinn-udp has noted: one by one then.
                Err(_) if transmit.segment_size.is_some() && self.max_segments() < segments => {}
                Err(error) => match failures.judge(self.icmp_count()) {
                    Failure::MayBePending => {}
                    Failure::Own => return Err(error),
                    Failure::Unknown => return Err(io::Error::other("ICMP messages about other packets")),
                },
            }
        }
        Ok(())
    }

    /// ICMP messages that came for this socket, ever.
    pub(crate) fn icmp_count(&self) -> u64 {
        self.errors.count(&self.io, self.transport)
    }

    /// ICMP messages that came since the last call, and whether there may be more.
    pub(crate) fn take_icmp(&self) -> (Vec<IcmpMessage>, bool) {
        // Tells tokio that errors were looked at; it wakes the task at the next one.
        let _ = self.io.try_io(Interest::ERROR, || -> io::Result<()> {
            Err(io::ErrorKind::WouldBlock.into())
        });
        self.errors.take(&self.io, self.transport)
    }

    /// Waits until the socket may take more.
    ///
    /// Tokio takes a pending error of a socket that could be written to for the end of writing, and calls the socket writable
    /// for ever after: so each wait has a registration of its own.
    #[cfg(target_os = "linux")]
    pub(crate) async fn writable(&self) {
        let again = SockRef::from(&self.io).try_clone();
        match again.and_then(|again| UdpSocket::from_std(again.into())) {
            // An error is told by the next attempt to send.
            Ok(registered) => drop(registered.writable().await),
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }

    /// Waits until the socket may take more.
    #[cfg(not(target_os = "linux"))]
    pub(crate) async fn writable(&self) {
        // An error is told by the next attempt to send.
        let _ = self.io.writable().await;
    }

    /// Waits until a datagram or an ICMP message may have come.
    pub(crate) async fn readable(&self) {
        // An error is told by the call that receives.
        let _ = self.io.ready(Interest::READABLE | Interest::ERROR).await;
    }

    /// Receives what one system call gives.
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
        // Receive offload joins no datagrams of different codepoints.
        let ecn = EcnCodepoint::from_bits(meta.ecn.map_or(0, |ecn| ecn as u8));
        let bytes = &buffers.bytes[index * RECEIVE_BUFFER_LEN..][..meta.len];
        let mut remote = meta.addr;
        remote.set_ip(remote.ip().to_canonical());
        let raw = self.transport == Transport::RawIp;
        if raw {
            remote.set_port(0);
        }
        // Where the system does not say it, a socket on one address receives to no other.
        let bound = Some(self.local.ip()).filter(|address| !address.is_unspecified());
        let local = meta.dst_ip.or(bound).map(|address| address.to_canonical());
        // IPv4 raw sockets give the IP header too, IPv6 ones do not.
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

/// Whose fault it is that a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Perhaps an ICMP message about an earlier packet: try the call again.
    MayBePending,
    /// The call's own: it failed three times in a row, and no ICMP message came between.
    Own,
    /// There are too many ICMP messages to tell.
    Unknown,
}

/// The failures of one call in a row. A pending error is told once, so a failure that comes again without an ICMP message in
/// between is the call's own; the system may be a little later with the error than with the message, hence the third.
/// An ICMP message from the network is never taken for a local error of the path.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    attempts: usize,
    /// In a row, with the same count of ICMP messages.
    alike: usize,
    icmp_count: Option<u64>,
}

impl Failures {
    /// Judges one more failure; `icmp_count` is read after it.
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

/// Where a socket receives to: used again for every call.
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

    /// Buffers filled by the last call.
    pub(crate) fn filled(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_belongs_to_an_earlier_packet_is_told_from_the_calls_own() {
        let judged = |counts: &[u64]| {
            let mut failures = Failures::default();
            counts.iter().map(|count| failures.judge(*count)).last().unwrap()
        };
        assert_eq!(judged(&[3]), Failure::MayBePending, "left by an earlier packet");
        assert_eq!(judged(&[3, 3]), Failure::MayBePending);
        assert_eq!(judged(&[3, 3, 3]), Failure::Own);
        assert_eq!(judged(&[3, 3, 4]), Failure::MayBePending, "one came between");
        assert_eq!(judged(&[3, 3, 4, 4, 4]), Failure::Own);
        assert_eq!(judged(&[1, 2, 3, 4, 5, 6, 7, 8]), Failure::Unknown);
    }

    #[test]
    fn the_ip_header_is_taken_off() {
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
