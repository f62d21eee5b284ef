//! The packets of a host, chunk by chunk. Experiments that measure outside the protocol stack take their numbers from this log.

use std::net::IpAddr;

use anabranch_netsim::{Packet, Payload};
use anabranch_proto::wire::chunk::Chunk;
use anabranch_proto::wire::packet::Packet as SctpPacket;
use anabranch_proto::{PathStats, Timestamp};
use bytes::Bytes;

use crate::message_numbers::MessageNumbers;

/// An event that the log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: What,
}

/// The kind of event. A message appears once for each of its chunks; a path is the number of the path in the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A chunk of a message, sent to the receiver.
    Message {
        /// The number of the message.
        number: u32,
        /// The path.
        path: usize,
    },
    /// An acknowledgement, sent to the sender.
    Acknowledged {
        /// The number of its gap ack blocks of all kinds.
        gap_blocks: usize,
    },
    /// T3-rtx expired on a path.
    TimedOut {
        /// The path.
        path: usize,
    },
}

/// All events at a host, in order.
#[derive(Clone, Debug, Default)]
pub struct PacketLog {
    /// The receiver's addresses, one for each path.
    receiver: Vec<IpAddr>,
    seen: Vec<Seen>,
    /// T3-rtx expirations of each path so far.
    timeouts: Vec<u64>,
    numbers: MessageNumbers,
}

impl PacketLog {
    /// A log for the sender or the receiver. `receiver` has the receiver's addresses, one for each path.
    #[must_use]
    pub fn new(receiver: Vec<IpAddr>) -> Self {
        Self {
            timeouts: vec![0; receiver.len()],
            receiver,
            seen: Vec::new(),
            numbers: MessageNumbers::default(),
        }
    }

    /// The events so far.
    #[must_use]
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    /// The events of a log that is not needed any more.
    #[must_use]
    pub fn into_seen(self) -> Vec<Seen> {
        self.seen
    }

    /// The path of this address, if it is an address of the receiver.
    pub(crate) fn path_to(&self, address: IpAddr) -> Option<usize> {
        self.receiver.iter().position(|known| *known == address)
    }

    /// Adds an SCTP packet that left or reached the host.
    pub fn on_packet(&mut self, at: Timestamp, destination: IpAddr, packet: Bytes) {
        let path = self.path_to(destination);
        let Self { seen, numbers, .. } = self;
        each_chunk_of(packet, |chunk| {
            let what = match path {
                Some(path) => numbers
                    .read(&chunk)
                    .and_then(|data| data.number)
                    .map(|number| What::Message { number, path }),
                None => gap_blocks(&chunk).map(|gap_blocks| What::Acknowledged { gap_blocks }),
            };
            seen.extend(what.map(|what| Seen { at, what }));
        });
    }

    /// Compares the sender's path statistics with the last ones: has T3-rtx expired?
    pub fn on_paths(&mut self, at: Timestamp, paths: &[PathStats]) {
        for stats in paths {
            let Some(path) = self.path_to(stats.remote.ip()) else {
                continue;
            };
            if stats.timeouts > self.timeouts[path] {
                self.timeouts[path] = stats.timeouts;
                let what = What::TimedOut { path };
                self.seen.push(Seen { at, what });
            }
        }
    }

    /// The number of T3-rtx expirations in the log. Two expirations between two looks count as one.
    pub(crate) fn timeouts(&self) -> u64 {
        self.timeouts.iter().sum()
    }
}

/// Calls `see` with each valid chunk of a packet.
pub(crate) fn each_chunk(packet: &Packet, see: impl FnMut(Chunk)) {
    if let Payload::Sctp(bytes) = &packet.payload {
        each_chunk_of(bytes.clone(), see);
    }
}

/// Calls `see` with each valid chunk of an SCTP packet, unless the network has corrupted it.
fn each_chunk_of(bytes: Bytes, mut see: impl FnMut(Chunk)) {
    let Ok(packet) = SctpPacket::parse_or_zero_checksum(bytes) else {
        return;
    };
    for chunk in packet
        .chunks()
        .flatten()
        .filter_map(|raw| Chunk::decode(raw).ok())
    {
        see(chunk);
    }
}

/// The number of gap ack blocks in a SACK, NR-SACK or COOP-SACK.
fn gap_blocks(chunk: &Chunk) -> Option<usize> {
    match chunk {
        Chunk::Sack(sack) => Some(sack.gap_ack_blocks.len()),
        Chunk::NrSack(sack) => Some(sack.renegable.len() + sack.nonrenegable.len()),
        Chunk::CoopSack(sack) => {
            let blocks = sack.paths.iter().map(|report| report.gap_ack_blocks.len());
            Some(blocks.sum())
        }
        _ => None,
    }
}
