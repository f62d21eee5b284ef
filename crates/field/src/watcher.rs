//! Who looks at the packets of a host, from outside of the stack that is measured.

use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anabranch_proto::Timestamp;
use bytes::Bytes;
use socket2::{Domain, Protocol, Socket, Type};

use crate::clock::Clock;
use crate::error::FieldError;

/// All of Ethernet's protocols, in the order of bytes that the kernel takes.
const EVERYTHING: i32 = (3_u16.to_be()) as i32;
/// The longest IP packet.
const LONGEST: usize = 65_535;
/// IP's number of SCTP.
const SCTP: u8 = 132;
/// Room for what comes while this thread has no turn.
const KERNEL_BUFFER: usize = 8 << 20;
/// How soon it notices that the run is over.
const NOTICE: Duration = Duration::from_millis(50);

/// Looks until the run is over, on the side that this thread is on: `see` is told of each SCTP packet that leaves or comes, when,
/// and to which address it goes.
pub(crate) fn watch(
    clock: &Clock<'_>,
    ready: impl FnOnce(),
    mut see: impl FnMut(Timestamp, IpAddr, Bytes),
) -> Result<(), FieldError> {
    let mut socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(EVERYTHING)))?;
    // Beyond the limit of the system for those who may, who are all that can make a bed; else as much as it gives.
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, KERNEL_BUFFER).is_err() {
        let _ = socket.set_recv_buffer_size(KERNEL_BUFFER);
    }
    socket.set_read_timeout(Some(NOTICE))?;
    ready();
    let mut buffer = vec![0; LONGEST];
    let mut last = None;
    loop {
        let came = read(&mut socket, &mut buffer)?;
        let now = clock.now();
        if let Some((destination, packet)) = came.and_then(|len| sctp(&buffer[..len])) {
            see(now, destination, packet);
        }
        // What stands in the buffer when the run is over is still of it.
        if clock.is_over() && (came.is_none() || now > *last.get_or_insert(now + NOTICE)) {
            return Ok(());
        }
    }
}

/// The length of a packet; nothing if there was none for a while.
fn read(socket: &mut Socket, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match socket.read(buffer) {
        Ok(len) => Ok(Some(len)),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Where an IPv4 packet goes and what it carries, if that is SCTP.
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
        assert_eq!(sctp(&packet[..20]), None, "cut short");
    }
}
