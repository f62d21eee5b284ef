//! The inbox of an association: received packets, and ICMP messages about packets of the association.
//!
//! All input waits here: the receiving task never does an association's work while it holds the endpoint's lock, and never waits
//! for a task that does such work. The association reports changes that affect routing (a new verification tag, addresses of the
//! peer, its end) to the endpoint before it sends packets whose answers need them.

use anabranch_proto::{IcmpMessage, Inbound};

/// Limit in bytes; further input is dropped, as the kernel does when its buffer is full.
const MOST: usize = 2 << 20;
/// Above this many bytes the association is behind: the receiving task yields to other tasks.
const BEHIND: usize = MOST / 4;
/// Approximate memory of a packet without its payload, in bytes.
const EACH: usize = 128;
/// Capacity that stays for the next packets, in packets.
const KEPT: usize = 16;
/// The most packets for which room is made before they arrive: those that one call of the kernel joins.
const BATCH: usize = 64;

/// A received packet or ICMP message.
#[derive(Debug)]
pub(super) enum Input {
    Packet(Inbound),
    Icmp(IcmpMessage),
    /// A packet on the first path was larger than the path MTU, which is this one if it is known.
    TooLarge(Option<u16>),
}

impl Input {
    /// Bytes of a packet; other inputs have none.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Packet(inbound) => inbound.len(),
            Self::Icmp(_) | Self::TooLarge(_) => 0,
        }
    }
}

/// The result of an insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The inbox was empty: the association must be woken.
    First,
    /// The inbox was not empty: the association has been woken, or will be.
    More,
    /// Like `More`, and the inbox holds more than [`BEHIND`] bytes.
    Behind,
    /// The inbox is full.
    Dropped,
}

#[derive(Debug, Default)]
pub(super) struct Inbox {
    inputs: Vec<Input>,
    weight: usize,
    /// The inputs that were taken last: about as many may follow.
    taken: usize,
}

impl Inbox {
    /// Adds an input of `len` bytes.
    pub(super) fn push(&mut self, input: Input, len: usize) -> Taken {
        let weight = self.weight + len + EACH;
        if weight > MOST {
            return Taken::Dropped;
        }
        let first = self.inputs.is_empty();
        if first {
            self.inputs.reserve(self.taken.min(BATCH));
        }
        self.inputs.push(input);
        self.weight = weight;
        match (first, weight > BEHIND) {
            (true, _) => Taken::First,
            (false, false) => Taken::More,
            (false, true) => Taken::Behind,
        }
    }

    /// Moves the whole content into `inputs`, which must be empty.
    pub(super) fn take(&mut self, inputs: &mut Vec<Input>) {
        if inputs.capacity() > KEPT {
            *inputs = Vec::new();
        }
        std::mem::swap(&mut self.inputs, inputs);
        self.taken = inputs.len();
        self.weight = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use anabranch_proto::{ConnectOptions, EcnCodepoint, Endpoint, Handling, Timestamp};
    use bytes::Bytes;

    use super::*;

    const DATA: u8 = 0;

    /// Packets, with their lengths, that the core routes to an association that waits for an INIT ACK.
    fn packets(first_chunk: u8, len: usize) -> impl Iterator<Item = (Inbound, usize)> {
        let now = Timestamp::from_millis(1);
        let remote = SocketAddr::from(([10, 0, 0, 2], 9899));
        let mut endpoint = Endpoint::new(Default::default(), [1; 32]).unwrap();
        let options = ConnectOptions::default().local_port(Some(7000));
        let _association = endpoint.connect(now, remote, 7, options).unwrap();
        std::iter::repeat_with(move || {
            let mut packet = [
                &[0, 7, 0x1b, 0x58, 0, 0, 0, 1, 0, 0, 0, 0, first_chunk, 0, 0, 4][..],
                &vec![0; len],
            ]
            .concat();
            let checksum = anabranch_proto::wire::crc32c(&packet);
            packet[8..12].copy_from_slice(&checksum.to_le_bytes());
            let len = packet.len();
            match endpoint.handle_datagram(now, None, remote, Bytes::from(packet), EcnCodepoint::NotEct) {
                Handling::Deliver(_, inbound) => (inbound, len),
                other => panic!("a packet of the association, not {other:?}"),
            }
        })
    }

    #[test]
    fn packets_of_every_chunk_type_wait() {
        let mut inbox = Inbox::default();
        let mut first = true;
        // Among them INIT, INIT ACK, ABORT, SHUTDOWN COMPLETE, COOKIE ECHO and FORWARD-TSN.
        for kind in 0..=255 {
            let (inbound, len) = packets(kind, 0).next().unwrap();
            let taken = inbox.push(Input::Packet(inbound), len);
            assert_eq!(
                taken,
                if first { Taken::First } else { Taken::More },
                "type {kind}"
            );
            first = false;
        }
        let mut inputs = Vec::new();
        inbox.take(&mut inputs);
        assert_eq!((inputs.len(), inbox.weight), (256, 0));
    }

    #[test]
    fn what_waits_is_bounded() {
        for (len, most) in [(0, 18_000), (60_000, 40)] {
            let mut inbox = Inbox::default();
            let taken = packets(DATA, len).map(|(inbound, len)| inbox.push(Input::Packet(inbound), len));
            let taken: Vec<_> = taken.take_while(|taken| *taken != Taken::Dropped).collect();
            let count = taken.len();
            assert!(
                count > most / 2 && count <= most,
                "{count} packets of {len} bytes"
            );
            let behind = taken.iter().filter(|taken| **taken == Taken::Behind).count();
            assert!(behind > count / 2, "{behind} of {count} while much waits");
            assert!(inbox.weight <= MOST);
        }
    }
}
