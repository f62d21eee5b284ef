//! The addresses of this host, and notices of their changes: rtnetlink(7). Linux only; other systems report nothing.

use std::io;
use std::net::IpAddr;

#[cfg(target_os = "linux")]
pub(crate) use linux::Interfaces;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::Interfaces;

/// The addresses of all interfaces of this host that are up, without loopback and IPv6 link-local addresses. Linux only.
///
/// # Errors
/// Those of the system; [`io::ErrorKind::Unsupported`] on systems other than Linux.
pub fn host_addresses() -> io::Result<Vec<IpAddr>> {
    #[cfg(target_os = "linux")]
    return linux::host_addresses();
    #[cfg(not(target_os = "linux"))]
    return Err(io::ErrorKind::Unsupported.into());
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::net::IpAddr;
    use std::os::fd::AsRawFd;

    use nix::ifaddrs::getifaddrs;
    use nix::net::if_::InterfaceFlags;
    use nix::sys::socket::{AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, socket};
    use tokio::net::UdpSocket;

    /// Links, and the addresses and routes of IPv4 and IPv6: `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV4_ROUTE`,
    /// `RTMGRP_IPV6_IFADDR`, `RTMGRP_IPV6_ROUTE` (linux/rtnetlink.h).
    const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;
    /// Room for one message of the system; the rest of a longer one is not needed.
    const MESSAGE: usize = 4096;

    /// Reports changes of interfaces, addresses and routes.
    #[derive(Debug)]
    pub(crate) struct Interfaces(UdpSocket);

    impl Interfaces {
        /// Must be called within a tokio runtime.
        pub(crate) fn open() -> io::Result<Self> {
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let fd = socket(
                AddressFamily::Netlink,
                SockType::Raw,
                flags,
                SockProtocol::NetlinkRoute,
            )?;
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

    pub(super) fn host_addresses() -> io::Result<Vec<IpAddr>> {
        let up = |flags: InterfaceFlags| {
            flags.contains(InterfaceFlags::IFF_UP) && !flags.contains(InterfaceFlags::IFF_LOOPBACK)
        };
        let all = getifaddrs()?.filter(|one| up(one.flags));
        let addresses = all.filter_map(|one| {
            let address = one.address?;
            let v4 = address.as_sockaddr_in().map(|one| IpAddr::from(one.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|one| IpAddr::from(one.ip())))
        });
        let link_local = |ip: &IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        Ok(addresses.filter(|ip| !link_local(ip)).collect())
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::io;

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
}
