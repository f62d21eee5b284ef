//! The seam below an endpoint: anything that moves datagrams.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;

use anabranch_proto::EcnCodepoint;
use tokio::net::UdpSocket;

/// The future of [`DatagramSocket::readable`] and [`DatagramSocket::writable`].
pub type Readiness<'a> = Pin<Box<dyn Future<Output = io::Result<()>> + Send + 'a>>;

/// Moves datagrams: a UDP socket, or a layer in front of one, such as a tunnel, a relay or an emulated link. tokio's [`UdpSocket`] is one,
/// with one datagram for each call and without ECN.
///
/// Datagrams may be lost, duplicated and reordered. They have at most 65,535 bytes.
pub trait DatagramSocket: fmt::Debug + Send + Sync + 'static {
    /// The local address and port.
    ///
    /// # Errors
    /// Those of the system.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// The most datagrams in one call of [`DatagramSocket::try_send`] (segmentation offload), at least 1.
    fn max_segments(&self) -> usize {
        1
    }

    /// Sends all datagrams of `transmit`, or none.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is no room: the caller waits for [`DatagramSocket::writable`] and calls again. With any other
    /// error the datagrams are lost.
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()>;

    /// Receives one datagram, or several of one length from one peer (receive offload), into `buffer`, which has at least 65,535 bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if no datagram has arrived: the caller waits for [`DatagramSocket::readable`] and calls again. Any
    /// other error is about earlier datagrams.
    fn try_recv(&self, buffer: &mut [u8]) -> io::Result<Received>;

    /// Waits until [`DatagramSocket::try_recv`] may succeed. Cancel safe.
    fn readable(&self) -> Readiness<'_>;

    /// Waits until [`DatagramSocket::try_send`] may succeed. Cancel safe; several tasks may wait.
    fn writable(&self) -> Readiness<'_>;
}

/// Datagrams to one destination.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Transmit<'a> {
    /// The peer's address and port.
    pub destination: SocketAddr,
    /// The local address that the datagrams leave from; `None` leaves the choice to the socket.
    pub source: Option<IpAddr>,
    /// The codepoint of all datagrams; a socket that cannot set it ignores it.
    pub ecn: EcnCodepoint,
    /// The bytes of all datagrams.
    pub contents: &'a [u8],
    /// The length of each datagram but the last, which may be shorter.
    pub segment: usize,
}

impl<'a> Transmit<'a> {
    /// One datagram, without a source and an ECN codepoint.
    #[must_use]
    pub fn new(destination: SocketAddr, contents: &'a [u8]) -> Self {
        Self {
            destination,
            source: None,
            ecn: EcnCodepoint::NotEct,
            contents,
            segment: contents.len(),
        }
    }

    /// The same datagrams for quinn-udp. A socket that is bound to an IPv6 address reaches IPv4 by mapped addresses.
    pub(crate) fn for_socket(&self, is_v6: bool) -> quinn_udp::Transmit<'a> {
        let mut destination = self.destination;
        if let (IpAddr::V4(address), true) = (destination.ip(), is_v6) {
            destination.set_ip(address.to_ipv6_mapped().into());
        }
        quinn_udp::Transmit {
            destination,
            ecn: quinn_udp::EcnCodepoint::from_bits(self.ecn.bits()),
            contents: self.contents,
            segment_size: (self.contents.len() > self.segment).then_some(self.segment),
            src_ip: self.source,
        }
    }

    /// The datagrams one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.contents.chunks(self.segment.max(1))
    }
}

/// Received datagrams of one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// The peer's address and port.
    pub source: SocketAddr,
    /// The local address at which they arrived, if it is known.
    pub destination: Option<IpAddr>,
    /// The codepoint of all datagrams.
    pub ecn: EcnCodepoint,
    /// The bytes of all datagrams.
    pub len: usize,
    /// The length of each datagram but the last, which may be shorter.
    pub segment: usize,
}

impl Received {
    /// One datagram, without a destination and an ECN codepoint.
    #[must_use]
    pub fn new(source: SocketAddr, len: usize) -> Self {
        Self {
            source,
            destination: None,
            ecn: EcnCodepoint::NotEct,
            len,
            segment: len,
        }
    }
}

impl DatagramSocket for UdpSocket {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.local_addr()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        for datagram in transmit.datagrams() {
            self.try_send_to(datagram, transmit.destination)?;
        }
        Ok(())
    }

    fn try_recv(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let (len, source) = self.try_recv_from(buffer)?;
        Ok(Received::new(source, len))
    }

    fn readable(&self) -> Readiness<'_> {
        Box::pin(self.readable())
    }

    fn writable(&self) -> Readiness<'_> {
        Box::pin(self.writable())
    }
}

impl<S: DatagramSocket + ?Sized> DatagramSocket for Arc<S> {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        (**self).local_addr()
    }

    fn max_segments(&self) -> usize {
        (**self).max_segments()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        (**self).try_send(transmit)
    }

    fn try_recv(&self, buffer: &mut [u8]) -> io::Result<Received> {
        (**self).try_recv(buffer)
    }

    fn readable(&self) -> Readiness<'_> {
        (**self).readable()
    }

    fn writable(&self) -> Readiness<'_> {
        (**self).writable()
    }
}
