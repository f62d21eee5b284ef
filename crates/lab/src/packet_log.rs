//! What passed by a host, packet by packet: for what is judged from outside, whatever the protocol within.

use std::net::IpAddr;

use anabranch_netsim::{Packet, Payload};
use anabranch_proto::wire::chunk::{Chunk, Data};
use anabranch_proto::wire::packet::Packet as SctpPacket;
use anabranch_proto::{PathStats, Timestamp};
use bytes::Bytes;

use crate::traffic::message_of;

/// Something seen at a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: What,
}

/// What was seen. A message is seen with each of its chunks; a path is its place among those of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A message, on its way to the receiver.
    Message {
        /// Which.
        number: u32,
        /// By which path.
        path: usize,
    },
    /// An acknowledgement on its way to the sender, with so many gap blocks in all.
    Acknowledged {
        /// Its gap blocks.
        gap_blocks: usize,
    },
    /// T3-rtx expired on a path.
    TimedOut {
        /// Which.
        path: usize,
    },
}

/// Everything seen at a host, in order.
#[derive(Clone, Debug, Default)]
pub struct PacketLog {
    /// The receiver's addresses, one for each path.
    receiver: Vec<IpAddr>,
    seen: Vec<Seen>,
    /// T3-rtx expirations of each path so far.
    timeouts: Vec<u64>,
}

impl PacketLog {
    /// A log of what passes by the sender or the receiver, whose addresses these are, one for each path.
    #[must_use]
    pub fn new(receiver: Vec<IpAddr>) -> Self {
        Self {
            timeouts: vec![0; receiver.len()],
            receiver,
            seen: Vec::new(),
        }
    }

    /// What was seen.
    #[must_use]
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    /// The same, of a log that is not needed any more.
    #[must_use]
    pub fn into_seen(self) -> Vec<Seen> {
        self.seen
    }

    /// The path of this address, if the receiver has it.
    pub(crate) fn path_to(&self, address: IpAddr) -> Option<usize> {
        self.receiver.iter().position(|known| *known == address)
    }

    /// An SCTP packet passes by.
    pub fn on_packet(&mut self, at: Timestamp, destination: IpAddr, packet: Bytes) {
        let path = self.path_to(destination);
        each_chunk_of(packet, |chunk| {
            let what = match path {
                Some(path) => data(&chunk).map(|data| What::Message {
                    number: message_of(data.ppid),
                    path,
                }),
                None => gap_blocks(&chunk).map(|gap_blocks| What::Acknowledged { gap_blocks }),
            };
            self.seen.extend(what.map(|what| Seen { at, what }));
        });
    }

    /// What the sender's paths say now: did T3-rtx expire?
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

    /// How often it was seen that T3-rtx expired, at least.
    pub(crate) fn timeouts(&self) -> u64 {
        self.timeouts.iter().sum()
    }
}

/// Calls `see` with each chunk of a packet that can be read.
pub(crate) fn each_chunk(packet: &Packet, see: impl FnMut(Chunk)) {
    if let Payload::Sctp(bytes) = &packet.payload {
        each_chunk_of(bytes.clone(), see);
    }
}

/// Calls `see` with each chunk that can be read of an SCTP packet.
fn each_chunk_of(bytes: Bytes, mut see: impl FnMut(Chunk)) {
    let Ok(packet) = SctpPacket::parse_unchecked(bytes) else {
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

/// The chunk as DATA, if it is that with or without what goes in front of it.
pub(crate) fn data(chunk: &Chunk) -> Option<&Data> {
    match chunk {
        Chunk::Data(data) => Some(data),
        Chunk::EData(chunk) => Some(&chunk.data),
        _ => None,
    }
}

/// The gap blocks of an acknowledgement of any kind.
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
