//! Captures the packets of a host outside the stack that is measured, with the kernel's time stamps.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use anabranch_proto::Timestamp;
use bytes::Bytes;
use nix::errno::Errno;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use socket2::{Domain, Protocol, Socket, Type};

use super::clock::Clock;
use super::error::TestbedError;

/// All of Ethernet's protocols, in network byte order as the kernel expects.
const EVERYTHING: i32 = (3_u16.to_be()) as i32;
/// The longest IP packet.
const LONGEST: usize = 65_535;
/// Room for the control message with the time stamp.
const CONTROL: usize = 128;
/// The IP protocol number of SCTP.
const SCTP: u8 = 132;
/// The kernel keeps packets here while this thread does not run.
const KERNEL_BUFFER: usize = 8 << 20;
/// How often the thread checks whether the run is over.
const NOTICE: Duration = Duration::from_millis(50);

/// Captures until the run is over, in the network namespace of this thread. `see` gets each SCTP packet that leaves or arrives, the time,
/// and the destination address. The time is the kernel's: when it gave a packet to the device, or took a packet from the device.
pub(crate) fn watch(
    clock: &Clock<'_>,
    ready: impl FnOnce(),
    mut see: impl FnMut(Timestamp, IpAddr, Bytes),
) -> Result<(), TestbedError> {
    let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(EVERYTHING)))?;
    // A process with CAP_NET_ADMIN may exceed the system's limit, and only such a process can make a bed. Otherwise the system's limit
    // applies.
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, KERNEL_BUFFER).is_err() {
        let _ = socket.set_recv_buffer_size(KERNEL_BUFFER);
    }
    setsockopt(&socket, ReceiveTimestampns, &true).map_err(io::Error::from)?;
    socket.set_read_timeout(Some(NOTICE))?;
    ready();
    let mut buffer = vec![0; LONGEST];
    let mut last = None;
    loop {
        let came = read(&socket, &mut buffer)?;
        let now = clock.now();
        if let Some((len, stamp)) = came
            && let Some((destination, packet)) = sctp(&buffer[..len])
        {
            see(stamp.map_or(now, |real| clock.at(real)), destination, packet);
        }
        // Packets that are still in the buffer when the run ends belong to the run.
        if clock.is_over() && (came.is_none() || now > *last.get_or_insert(now + NOTICE)) {
            return Ok(());
        }
    }
}

/// The length of a packet and the kernel's time stamp, since 1970; `None` if no packet came within [`NOTICE`].
fn read(socket: &Socket, buffer: &mut [u8]) -> io::Result<Option<(usize, Option<Duration>)>> {
    let mut control = [0; CONTROL];
    let mut slices = [IoSliceMut::new(buffer)];
    let received = recvmsg::<()>(
        socket.as_raw_fd(),
        &mut slices,
        Some(&mut control),
        MsgFlags::empty(),
    );
    match received {
        Ok(received) => {
            let stamp = received.cmsgs()?.find_map(|message| match message {
                ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp.into()),
                _ => None,
            });
            Ok(Some((received.bytes, stamp)))
        }
        Err(Errno::EAGAIN | Errno::ETIMEDOUT | Errno::EINTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The destination and the payload of an IPv4 packet, if the payload is SCTP.
fn sctp(packet: &[u8]) -> Option<(IpAddr, Bytes)> {
    let first = *packet.first()?;
    let header = usize::from(first & 0x0f) * 4;
    let is_sctp = first >> 4 == 4 && *packet.get(9)? == SCTP;
    let destination: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    let carried = packet.get(header..).filter(|_| is_sctp)?;
    Some((
        Ipv4Addr::from(destination).into(),
        Bytes::copy_from_slice(carried),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sctp_is_what_follows_the_ip_header() {
        let mut packet = vec![0_u8; 24];
        packet.extend(b"sctp");
        packet[0] = 0x46;
        packet[9] = SCTP;
        packet[16..20].copy_from_slice(&[10, 77, 1, 2]);
        let carried = (IpAddr::from([10, 77, 1, 2]), Bytes::from_static(b"sctp"));
        assert_eq!(sctp(&packet), Some(carried));
        packet[9] = 17;
        assert_eq!(sctp(&packet), None);
        assert_eq!(sctp(&[0x46, 0, 0]), None);
        assert_eq!(sctp(&[]), None);
        packet[9] = SCTP;
        assert_eq!(sctp(&packet[..20]), None, "truncated");
    }
}
