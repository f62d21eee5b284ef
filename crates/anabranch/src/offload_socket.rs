//! A UDP socket with segmentation and receive offload, for layers that move datagrams without an endpoint.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

use anabranch_proto::EcnCodepoint;
use quinn_udp::{RecvMeta, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::datagram_socket::{DatagramSocket, Readiness, Received, Transmit};

/// A UDP socket that sends several datagrams of one length with one system call, and receives them so, where the system can (generic
/// segmentation offload and generic receive offload on Linux). It also sends and receives ECN codepoints. A [`UdpSocket`] needs a system call for
/// each datagram.
///
/// Endpoints open such sockets themselves. It is for `PeerConnection` of the crate `anabranch-datachannel`, and for
/// [`EndpointBuilder::bind_socket`](crate::EndpointBuilder::bind_socket) behind another layer.
#[derive(Debug)]
pub struct OffloadSocket {
    io: UdpSocket,
    state: UdpSocketState,
    is_v6: bool,
}

impl OffloadSocket {
    /// Binds a socket to this address. Must be called within a runtime.
    ///
    /// # Errors
    /// Those of the system.
    pub async fn bind(address: impl tokio::net::ToSocketAddrs) -> io::Result<Self> {
        Self::new(UdpSocket::bind(address).await?)
    }

    /// Uses the offload of a socket that is already bound.
    ///
    /// # Errors
    /// The system refuses an option of the socket.
    pub fn new(io: UdpSocket) -> io::Result<Self> {
        let state = UdpSocketState::new((&io).into())?;
        let is_v6 = io.local_addr()?.is_ipv6();
        Ok(Self { io, state, is_v6 })
    }

    fn send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let transmit = transmit.for_socket(self.is_v6);
        self.io.try_io(Interest::WRITABLE, || {
            self.state.try_send((&self.io).into(), &transmit)
        })
    }
}

impl DatagramSocket for OffloadSocket {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    fn max_segments(&self) -> usize {
        self.state.max_gso_segments().max(1)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let is_batch = transmit.contents.len() > transmit.segment;
        match self.send(transmit) {
            // The interface cannot do segmentation offload, which quinn-udp has noted.
            Err(error)
                if is_batch && error.kind() != io::ErrorKind::WouldBlock && self.max_segments() == 1 =>
            {
                let mut datagrams = transmit.datagrams();
                datagrams.try_for_each(|contents| {
                    self.send(&Transmit {
                        contents,
                        ..*transmit
                    })
                })
            }
            sent => sent,
        }
    }

    fn try_recv(&self, buffer: &mut [u8]) -> io::Result<Received> {
        let mut meta = [RecvMeta::default()];
        self.io.try_io(Interest::READABLE, || {
            self.state
                .recv((&self.io).into(), &mut [IoSliceMut::new(buffer)], &mut meta)
        })?;
        let [meta] = meta;
        let mut received = Received::new(meta.addr, meta.len);
        received.destination = meta.dst_ip;
        received.ecn = EcnCodepoint::from_bits(meta.ecn.map_or(0, |ecn| ecn as u8));
        received.segment = meta.stride;
        Ok(received)
    }

    fn readable(&self) -> Readiness<'_> {
        Box::pin(self.io.readable())
    }

    fn writable(&self) -> Readiness<'_> {
        Box::pin(self.io.writable())
    }
}
