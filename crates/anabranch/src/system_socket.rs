//! A socket of the system that carries SCTP packets: in UDP (RFC 6951), or directly in IP (protocol 132). It uses generic segmentation
//! offload and generic receive offload if the system supports them.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use anabranch_proto::{Dscp, IcmpMessage};
use quinn_udp::UdpSocketState;
use socket2::{Domain, Protocol, SockRef, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::datagram::{Outgoing, RECEIVE_BUFFER_LEN, RECEIVE_BUFFERS, ReceiveBuffers, Transport};
use crate::error_queue::ErrorQueue;

/// Requested size of the kernel buffers in bytes, for each direction; the system may give less (`net.core.rmem_max`).
const KERNEL_BUFFER: usize = 4 << 20;
/// Pause before the next attempt on a full socket, if the task cannot wait for the socket.
#[cfg(any(target_os = "android", target_os = "linux"))]
const RETRY: std::time::Duration = std::time::Duration::from_millis(1);
/// Limit of failed attempts of one call, while new ICMP messages arrive.
const ATTEMPTS: usize = 8;

#[derive(Debug)]
pub(crate) struct SystemSocket {
    io: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    transport: Transport,
    only_v6: bool,
    errors: ErrorQueue,
}

impl SystemSocket {
    /// Opens and binds a socket. With `only_v6`, `[::]` does not carry IPv4; with `interface`, the socket uses this network
    /// interface only. Must be called within a tokio runtime.
    pub(crate) fn open(
        address: SocketAddr,
        transport: Transport,
        only_v6: bool,
        interface: Option<&str>,
    ) -> io::Result<Self> {
        Self::open_with(address, transport, only_v6, interface, false)
    }

    /// Opens a socket on one address while other sockets have the same port, possibly on all addresses. The system gives a packet to the
    /// socket that fits best.
    pub(crate) fn open_beside(
        others: &[&Self],
        address: SocketAddr,
        transport: Transport,
        interface: Option<&str>,
    ) -> io::Result<Self> {
        // Only during this call: another program could share the port too.
        others
            .iter()
            .for_each(|socket| share_port(&SockRef::from(&socket.io), true));
        let opened = Self::open_with(address, transport, true, interface, true);
        let all = others.iter().copied().chain(opened.as_ref().ok());
        all.for_each(|socket| share_port(&SockRef::from(&socket.io), false));
        opened
    }

    fn open_with(
        address: SocketAddr,
        transport: Transport,
        only_v6: bool,
        interface: Option<&str>,
        shares_port: bool,
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
        if shares_port {
            share_port(&socket, true);
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
    #[cfg(any(target_os = "android", target_os = "linux"))]
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

    #[cfg(not(any(target_os = "android", target_os = "linux")))]
    fn allow_fragments(&self, _allow: bool) {}

    fn send_unfragmented(&self, outgoing: &mut Outgoing, bytes: &[u8]) -> io::Result<()> {
        let mut failures = Failures::default();
        // Segmentation offload failed for a packet that quinn-udp does not send.
        let mut singly = false;
        while outgoing.sent < outgoing.len {
            let segments = if singly { 1 } else { self.max_segments() };
            let end = outgoing.next_end(segments);
            let transmit = outgoing.transmit(bytes, end).for_socket(self.local.is_ipv6());
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
        #[cfg(any(target_os = "android", target_os = "linux"))]
        if dscp != Dscp::default() {
            let bits = transmit.ecn.map_or(0, |ecn| ecn as u8);
            let octet = dscp.octet(anabranch_proto::EcnCodepoint::from_bits(bits));
            return crate::dscp::send(&self.io, transmit, octet);
        }
        #[cfg(not(any(target_os = "android", target_os = "linux")))]
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
    #[cfg(any(target_os = "android", target_os = "linux"))]
    pub(crate) async fn writable(&self) {
        let duplicate = SockRef::from(&self.io).try_clone();
        match duplicate.and_then(|duplicate| UdpSocket::from_std(duplicate.into())) {
            // The next attempt to send reports an error.
            Ok(registered) => drop(registered.writable().await),
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }

    /// Waits until the socket may accept more datagrams.
    #[cfg(not(any(target_os = "android", target_os = "linux")))]
    pub(crate) async fn writable(&self) {
        // The next attempt to send reports an error.
        let _ = self.io.writable().await;
    }

    /// Waits until a datagram or an ICMP message may have arrived.
    pub(crate) async fn readable(&self) {
        // The next attempt to receive reports an error.
        let _ = self.io.ready(Interest::READABLE | Interest::ERROR).await;
    }

    /// Whether received packets begin with the IP header: IPv4 raw sockets deliver it, IPv6 raw sockets do not.
    pub(crate) fn delivers_ip_header(&self) -> bool {
        self.transport == Transport::RawIp && self.local.is_ipv4()
    }

    pub(crate) fn transport(&self) -> Transport {
        self.transport
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

/// Lets sockets of this program have the same port. If the system refuses, `bind` reports it.
#[cfg(unix)]
fn share_port(socket: &socket2::Socket, shares: bool) {
    let _ = socket.set_reuse_port(shares);
}

#[cfg(not(unix))]
fn share_port(_socket: &socket2::Socket, _shares: bool) {}

#[cfg(any(target_os = "android", target_os = "linux"))]
fn bind_device(socket: &socket2::Socket, name: &str) -> io::Result<()> {
    socket.bind_device(Some(name.as_bytes()))
}

#[cfg(not(any(target_os = "android", target_os = "linux")))]
fn bind_device(_socket: &socket2::Socket, _name: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
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
}
