//! The interfaces and addresses of this host, and notices of their changes: rtnetlink(7). Linux and Android only; other systems report nothing.
//! Android permits rtnetlink(7) to programs of the system alone: others get an error.

use std::io;
use std::net::IpAddr;

#[cfg(any(target_os = "android", target_os = "linux"))]
pub(crate) use linux::{Interfaces, addresses, default_routes, index, names, preferred_source};
#[cfg(not(any(target_os = "android", target_os = "linux")))]
pub(crate) use other::{Interfaces, addresses, default_routes, index, names, preferred_source};

/// An address of an interface that is up and has a link.
#[cfg_attr(
    not(any(target_os = "android", target_os = "linux")),
    allow(dead_code, reason = "other systems list none")
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostAddress {
    pub(crate) interface: String,
    pub(crate) address: IpAddr,
}

/// An interface: its name, and the number that the system gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) index: u32,
}

/// The addresses of all interfaces of this host that are up, without loopback and IPv6 link-local addresses. Linux only.
///
/// # Errors
/// Those of the system; [`io::ErrorKind::Unsupported`] on systems other than Linux.
pub fn host_addresses() -> io::Result<Vec<IpAddr>> {
    #[cfg(any(target_os = "android", target_os = "linux"))]
    return linux::host_addresses();
    #[cfg(not(any(target_os = "android", target_os = "linux")))]
    return Err(io::ErrorKind::Unsupported.into());
}

#[cfg(any(target_os = "android", target_os = "linux"))]
mod linux {
    use std::io;
    use std::net::{IpAddr, SocketAddr};
    use std::os::fd::{AsRawFd, OwnedFd};

    use nix::ifaddrs::getifaddrs;
    use nix::net::if_::{InterfaceFlags, if_nametoindex};
    use nix::sys::socket::{
        AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
    };
    use socket2::{Domain, Socket, Type};
    use tokio::net::UdpSocket;

    use super::HostAddress;
    use crate::routes;

    /// Links, and the addresses and routes of IPv4 and IPv6: `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV4_ROUTE`,
    /// `RTMGRP_IPV6_IFADDR`, `RTMGRP_IPV6_ROUTE` (linux/rtnetlink.h).
    const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;
    /// Room for one message of the system; the rest of a longer one is not needed.
    const MESSAGE: usize = 4096;
    /// Room for one part of a list of routes: the system sends at most 32 KiB.
    const ROUTES: usize = 32 << 10;
    /// Addresses for documentation (RFC 5737, RFC 3849): the system looks up a route to them, and nothing is sent.
    const ELSEWHERE: [&str; 2] = ["192.0.2.1:9", "[2001:db8::1]:9"];

    /// Reports changes of interfaces, addresses and routes.
    #[derive(Debug)]
    pub(crate) struct Interfaces(UdpSocket);

    impl Interfaces {
        /// Must be called within a tokio runtime.
        pub(crate) fn open() -> io::Result<Self> {
            let fd = netlink(SockFlag::SOCK_NONBLOCK)?;
            bind(fd.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
            // A netlink socket is not a UDP socket, but waiting and receiving are the same.
            UdpSocket::from_std(fd.into()).map(Self)
        }

        /// Waits for a change. The addresses are then read from the system: a message may be lost if many things change at once.
        pub(crate) async fn changed(&self) {
            if self.0.readable().await.is_err() {
                return std::future::pending().await;
            }
            let mut message = [0; MESSAGE];
            let wait = |error: io::Error| error.kind() == io::ErrorKind::WouldBlock;
            // An error tells that messages were lost, and is reported once.
            while !self.0.try_recv(&mut message).is_err_and(wait) {}
        }
    }

    /// A socket that asks the system for its routes and interfaces.
    fn netlink(flags: SockFlag) -> nix::Result<OwnedFd> {
        socket(
            AddressFamily::Netlink,
            SockType::Raw,
            flags | SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )
    }

    pub(super) fn host_addresses() -> io::Result<Vec<IpAddr>> {
        let wanted = |flags: InterfaceFlags| {
            flags.contains(InterfaceFlags::IFF_UP) && !flags.contains(InterfaceFlags::IFF_LOOPBACK)
        };
        Ok(listed(wanted)?.map(|one| one.address).collect())
    }

    /// The addresses of interfaces that are up and have a link, without IPv6 link-local addresses.
    pub(crate) fn addresses() -> io::Result<Vec<HostAddress>> {
        let both = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
        Ok(listed(move |flags| flags.contains(both))?.collect())
    }

    fn listed(wanted: impl Fn(InterfaceFlags) -> bool) -> io::Result<impl Iterator<Item = HostAddress>> {
        let all = getifaddrs()?.filter(move |one| wanted(one.flags));
        let addresses = all.filter_map(|one| {
            let address = one.address?;
            let v4 = address.as_sockaddr_in().map(|one| IpAddr::from(one.ip()));
            let address = v4.or_else(|| address.as_sockaddr_in6().map(|one| IpAddr::from(one.ip())))?;
            Some(HostAddress {
                interface: one.interface_name,
                address,
            })
        });
        let link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        Ok(addresses.filter(move |one| !link_local(&one.address)))
    }

    /// The names of all interfaces.
    pub(crate) fn names() -> io::Result<Vec<String>> {
        let mut names: Vec<String> = Vec::new();
        for one in getifaddrs()? {
            names.extend(Some(one.interface_name).filter(|name| !names.contains(name)));
        }
        Ok(names)
    }

    /// The number that the system gave an interface: another one if the interface is removed and added again.
    pub(crate) fn index(name: &str) -> Option<u32> {
        if_nametoindex(name).ok()
    }

    /// The source address that the system chooses for packets that leave by this interface.
    pub(crate) fn preferred_source(name: &str, is_ipv4: bool) -> Option<IpAddr> {
        let [v4, v6] = ELSEWHERE;
        let to: SocketAddr = if is_ipv4 { v4 } else { v6 }.parse().ok()?;
        let socket = Socket::new(Domain::for_address(to), Type::DGRAM, None).ok()?;
        socket.bind_device(Some(name.as_bytes())).ok()?;
        socket.connect(&to.into()).ok()?;
        Some(socket.local_addr().ok()?.as_socket()?.ip())
    }

    /// The names of the interfaces with a default route in any table, the one with the lowest metric first.
    pub(crate) fn default_routes() -> io::Result<Vec<String>> {
        let fd = netlink(SockFlag::empty())?;
        send(fd.as_raw_fd(), &routes::request(), MsgFlags::empty())?;
        let (mut found, mut buffer) = (Vec::new(), vec![0; ROUTES]);
        loop {
            let len = recv(fd.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            if routes::read(&buffer[..len], &mut found) {
                break;
            }
        }
        found.sort_by_key(|(metric, _)| *metric);
        let mut names: Vec<String> = Vec::new();
        for (_, index) in found {
            let name = nix::net::if_::if_indextoname(index);
            let name = name.ok().and_then(|name| name.into_string().ok());
            names.extend(name.filter(|name| !names.contains(name)));
        }
        Ok(names)
    }
}

#[cfg(not(any(target_os = "android", target_os = "linux")))]
mod other {
    use std::io;
    use std::net::IpAddr;

    use super::HostAddress;

    #[derive(Debug)]
    pub(crate) struct Interfaces(());

    impl Interfaces {
        pub(crate) fn open() -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(crate) async fn changed(&self) {
            std::future::pending().await
        }
    }

    pub(crate) fn addresses() -> io::Result<Vec<HostAddress>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn names() -> io::Result<Vec<String>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn index(_name: &str) -> Option<u32> {
        None
    }

    pub(crate) fn preferred_source(_name: &str, _is_ipv4: bool) -> Option<IpAddr> {
        None
    }

    pub(crate) fn default_routes() -> io::Result<Vec<String>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
