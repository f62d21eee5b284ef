//! Who looks at what leaves the sender's host: when each message first did, as its chunks tell.

use std::io::{self, ErrorKind, Read};
use std::time::Duration;

use anabranch_lab::traffic::{FirstTimes, messages_in};
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

/// Looks until the run is over, on the side that this thread is on. What comes there has no messages in it.
pub(crate) fn watch(clock: &Clock<'_>, ready: impl FnOnce()) -> Result<FirstTimes, FieldError> {
    let mut socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(EVERYTHING)))?;
    // As much as it gives.
    let _ = socket.set_recv_buffer_size(KERNEL_BUFFER);
    socket.set_read_timeout(Some(NOTICE))?;
    ready();
    let mut sent = FirstTimes::default();
    let mut buffer = vec![0; LONGEST];
    while !clock.is_over() {
        match read(&mut socket, &mut buffer)? {
            None => {}
            Some(len) => {
                let now = clock.now();
                if let Some(packet) = sctp(&buffer[..len]) {
                    messages_in(packet, |number| sent.note(number, now));
                }
            }
        }
    }
    Ok(sent)
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

/// What an IPv4 packet carries, if that is SCTP.
fn sctp(packet: &[u8]) -> Option<Bytes> {
    let first = *packet.first()?;
    let header = usize::from(first & 0x0f) * 4;
    let is_sctp = first >> 4 == 4 && *packet.get(9)? == SCTP;
    is_sctp.then(|| Some(Bytes::copy_from_slice(packet.get(header..)?)))?
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
        assert_eq!(sctp(&packet).as_deref(), Some(&b"sctp"[..]));
        packet[9] = 17;
        assert_eq!(sctp(&packet), None);
        assert_eq!(sctp(&[0x46, 0, 0]), None);
        assert_eq!(sctp(&[]), None);
        packet[9] = SCTP;
        assert_eq!(sctp(&packet[..20]), None, "cut short");
    }
}
