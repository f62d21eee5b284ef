//! The error queue of a socket, where Linux puts ICMP messages about packets that the socket sent, with the beginning of
//! each packet (`IP_RECVERR`, `IPV6_RECVERR`; ip(7)). Other systems have no such queue, and ICMP messages have no effect there.
//!
//! With the queue enabled, Linux also sets a *pending error*: the next call on the socket fails with the error of the ICMP
//! message, even if the call concerns another packet. [`ErrorQueue::count`] lets a caller distinguish such an error from an
//! error of its own call.

use std::sync::Mutex;

use anabranch_proto::IcmpMessage;
use tokio::net::UdpSocket;

use crate::datagram::Transport;
use crate::lock::lock;

/// Limit of messages that wait for the receiving task. Further messages are dropped: ICMP is unreliable anyway.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct ErrorQueue {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// All ICMP messages taken from the system's queue so far.
    count: u64,
    waiting: Vec<IcmpMessage>,
}

impl ErrorQueue {
    /// Enables the error queue, if the system has one.
    pub(crate) fn enable(socket: &std::net::UdpSocket) -> Self {
        system::enable(socket);
        Self::default()
    }

    /// Reads the system's queue, and returns the number of ICMP messages so far.
    pub(crate) fn count(&self, io: &UdpSocket, transport: Transport) -> u64 {
        let mut inner = lock(&self.inner);
        inner.fill(io, transport);
        inner.count
    }

    /// The ICMP messages since the last call, and whether the queue may have more.
    pub(crate) fn take(&self, io: &UdpSocket, transport: Transport) -> (Vec<IcmpMessage>, bool) {
        let mut inner = lock(&self.inner);
        let more = inner.fill(io, transport);
        (std::mem::take(&mut inner.waiting), more)
    }
}

impl Inner {
    /// Reads at most `MOST` entries of the system's queue; returns whether it may have more.
    fn fill(&mut self, io: &UdpSocket, transport: Transport) -> bool {
        // The limit keeps a flood of ICMP messages from holding the caller here.
        for _ in 0..MOST {
            match system::next(io, transport) {
                Entry::None => return false,
                Entry::Other => {}
                Entry::Icmp(message) => {
                    self.count += 1;
                    if let Some(message) = message
                        && self.waiting.len() < MOST
                    {
                        self.waiting.push(message);
                    }
                }
            }
        }
        true
    }
}

/// An entry of the queue.
#[cfg_attr(
    not(any(target_os = "android", target_os = "linux")),
    allow(dead_code, reason = "other systems have no such queue")
)]
enum Entry {
    None,
    /// An error of this host, not an ICMP message. The call that caused it has returned the same error.
    Other,
    /// An ICMP message; `None` if its type is one that the core does not handle.
    Icmp(Option<IcmpMessage>),
}

#[cfg(any(target_os = "android", target_os = "linux"))]
mod system {
    use std::io::IoSliceMut;
    use std::net::{IpAddr, SocketAddr};
    use std::os::fd::AsRawFd;

    use anabranch_proto::{IcmpKind, IcmpMessage};
    use nix::errno::Errno;
    use nix::sys::socket::{
        ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt::Ipv4RecvErr,
        sockopt::Ipv6RecvErr,
    };
    use tokio::net::UdpSocket;

    use super::Entry;
    use crate::datagram::Transport;

    /// Bytes of a quoted packet to read: more than the core needs.
    const QUOTE: usize = 64;
    /// Room for control messages: the error with its sender's address, and the local address.
    const CONTROL: usize = 512;
    /// `ee_origin` (linux/errqueue.h).
    const ICMP: u8 = 2;
    const ICMPV6: u8 = 3;

    pub(super) fn enable(socket: &std::net::UdpSocket) {
        // An IPv6 socket that also carries IPv4 needs both options. An IPv4 socket refuses the second.
        let _ = setsockopt(socket, Ipv4RecvErr, &true);
        let _ = setsockopt(socket, Ipv6RecvErr, &true);
    }

    pub(super) fn next(io: &UdpSocket, transport: Transport) -> Entry {
        let (mut quote, mut control) = ([0; QUOTE], [0; CONTROL]);
        let mut slices = [IoSliceMut::new(&mut quote)];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let received = loop {
            match recvmsg::<SockaddrStorage>(io.as_raw_fd(), &mut slices, Some(&mut control), flags) {
                Err(Errno::EINTR) => {}
                other => break other,
            }
        };
        let Ok(received) = received else {
            return Entry::None;
        };
        let (len, destination) = (received.bytes, received.address.as_ref().and_then(address));
        let (mut error, mut source) = (None, None);
        for message in received.cmsgs().into_iter().flatten() {
            match message {
                ControlMessageOwned::Ipv4RecvErr(one, _) | ControlMessageOwned::Ipv6RecvErr(one, _) => {
                    error = Some(one);
                }
                // The address to which the ICMP message came: the source of the packet that it quotes.
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    source = Some(IpAddr::from(info.ipi_addr.s_addr.to_ne_bytes()));
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    source = Some(IpAddr::from(info.ipi6_addr.s6_addr).to_canonical());
                }
                _ => {}
            }
        }
        // An entry without this control message may be an ICMP message, and is counted as one.
        let Some(error) = error else {
            return Entry::Icmp(None);
        };
        if error.ee_origin != ICMP && error.ee_origin != ICMPV6 {
            return Entry::Other;
        }
        let kind = match (error.ee_origin, error.ee_type, error.ee_code) {
            (ICMP, 3, 3) | (ICMPV6, 1, 4) => Some(IcmpKind::PortUnreachable),
            (ICMP, 3, 2) | (ICMPV6, 4, 1) => Some(IcmpKind::ProtocolUnreachable),
            (ICMP, 3, 4) | (ICMPV6, 2, _) => {
                let mtu = u16::try_from(error.ee_info).ok();
                Some(IcmpKind::TooLarge(mtu.filter(|mtu| *mtu > 0)))
            }
            _ => None,
        };
        Entry::Icmp(kind.zip(destination).map(|(kind, mut destination)| {
            if transport == Transport::RawIp {
                destination.set_port(0);
            }
            IcmpMessage {
                kind,
                source: source.filter(|source| !source.is_unspecified()),
                destination,
                quote: quote[..len.min(QUOTE)].to_vec().into(),
            }
        }))
    }

    /// The address in the core's form: an IPv4-mapped IPv6 address becomes IPv4.
    fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
        let v4 = storage.as_sockaddr_in();
        let v4 = v4.map(|address| SocketAddr::new(IpAddr::V4(address.ip()), address.port()));
        let v6 = || storage.as_sockaddr_in6();
        let v6 = || v6().map(|address| SocketAddr::new(address.ip().to_canonical(), address.port()));
        v4.or_else(v6)
    }
}

#[cfg(not(any(target_os = "android", target_os = "linux")))]
mod system {
    use tokio::net::UdpSocket;

    use super::Entry;
    use crate::datagram::Transport;

    pub(super) fn enable(_socket: &std::net::UdpSocket) {}

    pub(super) fn next(_io: &UdpSocket, _transport: Transport) -> Entry {
        Entry::None
    }
}
