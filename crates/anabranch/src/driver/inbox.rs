//! Packets on their way from the task that receives to an association.

use anabranch_proto::Inbound;
use anabranch_proto::wire::chunk::OwnChunkTypes;

/// More bytes than this are handled at once: the kernel's buffer then fills up, and not this one.
const MOST: usize = 1 << 20;
/// About what a packet takes by itself.
const EACH: usize = 128;
/// Capacity that stays for the next packets, in packets.
const KEPT: usize = 16;
/// Where a chunk's type stands in a packet: behind the common header (RFC 9260 §3).
const FIRST_CHUNK: usize = 12;
const DATA: u8 = 0;
const SACK: u8 = 3;
const NR_SACK: u8 = 16;
const I_DATA: u8 = 64;

/// What a packet looks like before the core reads it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrived {
    len: usize,
    /// It begins with data or an acknowledgement: such change nothing about who gets the packets behind it.
    may_wait: bool,
}

impl Arrived {
    pub(super) fn new(packet: &[u8], own: &OwnChunkTypes) -> Self {
        let waits = |kind: u8| {
            [
                DATA,
                SACK,
                NR_SACK,
                I_DATA,
                own.e_data,
                own.e_i_data,
                own.coop_sack,
            ]
            .contains(&kind)
        };
        Self {
            len: packet.len(),
            may_wait: packet.get(FIRST_CHUNK).is_some_and(|kind| waits(*kind)),
        }
    }
}

/// What is to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is the first: the association is to be woken.
    First,
    /// It waits with others, of which the association knows or will.
    More,
    /// The inbox is to be emptied before another packet is routed.
    AtOnce,
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    packets: Vec<Inbound>,
    weight: usize,
}

impl Inbox {
    pub(super) fn push(&mut self, inbound: Inbound, arrived: Arrived) -> Taken {
        let first = self.packets.is_empty();
        self.packets.push(inbound);
        self.weight += arrived.len + EACH;
        match (arrived.may_wait && self.weight <= MOST, first) {
            (false, _) => Taken::AtOnce,
            (true, true) => Taken::First,
            (true, false) => Taken::More,
        }
    }

    /// All of it, into an empty list.
    pub(super) fn take(&mut self, packets: &mut Vec<Inbound>) {
        if packets.capacity() > KEPT {
            *packets = Vec::new();
        }
        std::mem::swap(&mut self.packets, packets);
        self.weight = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use anabranch_proto::{ConnectOptions, Endpoint, Handling, Timestamp};
    use bytes::Bytes;

    use super::*;

    /// Packets for an association that waits for an INIT ACK: the core says to deliver them.
    fn packets(first_chunk: u8, len: usize) -> impl Iterator<Item = (Inbound, Arrived)> {
        let now = Timestamp::from_millis(1);
        let remote = SocketAddr::from(([10, 0, 0, 2], 9899));
        let mut endpoint = Endpoint::new(Default::default(), [1; 32]).unwrap();
        let options = ConnectOptions {
            local_port: Some(7000),
            ..ConnectOptions::default()
        };
        let _association = endpoint.connect(now, remote, 7, options).unwrap();
        std::iter::repeat_with(move || {
            let mut packet = [
                &[0, 7, 0x1b, 0x58, 0, 0, 0, 1, 0, 0, 0, 0, first_chunk, 0, 0, 4][..],
                &vec![0; len],
            ]
            .concat();
            let checksum = anabranch_proto::wire::crc32c(&packet);
            packet[8..12].copy_from_slice(&checksum.to_le_bytes());
            let arrived = Arrived::new(&packet, &OwnChunkTypes::default());
            match endpoint.handle_datagram(now, None, remote, Bytes::from(packet)) {
                Handling::Deliver(_, inbound) => (inbound, arrived),
                other => panic!("a packet of the association, not {other:?}"),
            }
        })
    }

    #[test]
    fn only_what_changes_nothing_waits() {
        let mut inbox = Inbox::default();
        let mut push = |kind| {
            let (inbound, arrived) = packets(kind, 0).next().unwrap();
            inbox.push(inbound, arrived)
        };
        assert_eq!(push(DATA), Taken::First);
        assert_eq!(push(SACK), Taken::More);
        let own = OwnChunkTypes::default();
        assert_eq!([own.e_data, own.coop_sack].map(&mut push), [Taken::More; 2]);
        let cookie_echo = 10;
        assert_eq!(push(cookie_echo), Taken::AtOnce);
        let mut packets = Vec::new();
        inbox.take(&mut packets);
        assert_eq!((packets.len(), inbox.weight), (5, 0));
    }

    #[test]
    fn what_waits_is_bounded() {
        for (len, most) in [(0, 9000), (60_000, 20)] {
            let mut inbox = Inbox::default();
            let count = packets(DATA, len)
                .map(|(inbound, arrived)| inbox.push(inbound, arrived))
                .take_while(|taken| *taken != Taken::AtOnce)
                .count();
            assert!(
                count > most / 2 && count <= most,
                "{count} packets of {len} bytes"
            );
        }
    }
}
