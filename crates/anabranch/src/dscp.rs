//! Sending datagrams with a Differentiated Services codepoint (RFC 2474). quinn-udp gives each packet a Traffic Class of its own with the ECN
//! bits alone, which overrides that of the socket, so such packets are sent here. Linux only.

use anabranch_proto::{ConfigError, Dscp};

/// Whether this system can send packets with this codepoint.
pub(crate) fn check(dscp: Dscp) -> Result<(), ConfigError> {
    if cfg!(any(target_os = "android", target_os = "linux")) || dscp == Dscp::default() {
        return Ok(());
    }
    Err(ConfigError {
        setting: "dscp",
        problem: "works on Linux only: leave it out on this system",
    })
}

#[cfg(any(target_os = "android", target_os = "linux"))]
pub(crate) use linux::send;

#[cfg(any(target_os = "android", target_os = "linux"))]
mod linux {
    use std::io::{self, IoSlice};
    use std::net::IpAddr;
    use std::os::fd::AsRawFd;

    use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
    use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};

    /// Sends the datagrams of `transmit` from the socket as quinn-udp would, but with this Traffic Class (in IPv4 Type of Service) octet.
    pub(crate) fn send(
        socket: &impl AsRawFd,
        transmit: &quinn_udp::Transmit<'_>,
        traffic_class: u8,
    ) -> io::Result<()> {
        let destination = transmit.destination;
        let wide = i32::from(traffic_class);
        let mut control = vec![if destination.ip().to_canonical().is_ipv4() {
            ControlMessage::Ipv4Tos(&traffic_class)
        } else {
            ControlMessage::Ipv6TClass(&wide)
        }];
        let segment = transmit.segment_size.map(u16::try_from);
        let segment = segment.transpose().map_err(io::Error::other)?;
        if let Some(segment) = &segment {
            control.push(ControlMessage::UdpGsoSegments(segment));
        }
        let (from_v4, from_v6);
        match transmit.src_ip {
            Some(IpAddr::V4(source)) => {
                from_v4 = in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: in_addr {
                        s_addr: u32::from_ne_bytes(source.octets()),
                    },
                    ipi_addr: in_addr { s_addr: 0 },
                };
                control.push(ControlMessage::Ipv4PacketInfo(&from_v4));
            }
            Some(IpAddr::V6(source)) => {
                from_v6 = in6_pktinfo {
                    ipi6_addr: in6_addr {
                        s6_addr: source.octets(),
                    },
                    ipi6_ifindex: 0,
                };
                control.push(ControlMessage::Ipv6PacketInfo(&from_v6));
            }
            None => {}
        }
        sendmsg(
            socket.as_raw_fd(),
            &[IoSlice::new(transmit.contents)],
            &control,
            MsgFlags::empty(),
            Some(&SockaddrStorage::from(destination)),
        )?;
        Ok(())
    }
}
