//! What left a host and what came to it, packet by packet: for what is judged from outside, whatever the protocol within.

use std::net::IpAddr;

use anabranch_netsim::{Host, Packet, Payload};
use anabranch_proto::Timestamp;
use anabranch_proto::wire::chunk::{Chunk, Data};
use anabranch_proto::wire::packet::Packet as SctpPacket;
use bytes::Bytes;

use crate::traffic::message_of;

/// Something seen at a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) at: Timestamp,
    pub(crate) what: What,
}

/// What was seen. Messages are of one chunk each; a path is named by the address that its packets with data go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A message left.
    Sent { number: u32, path: IpAddr },
    /// A message came.
    Came { number: u32, path: IpAddr },
    /// An acknowledgement left, with so many gap blocks in all.
    Acknowledged { gap_blocks: usize },
    /// T3-rtx expired on a path.
    TimedOut { path: IpAddr },
}

/// Everything seen at a host, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketLog {
    seen: Vec<Seen>,
    /// T3-rtx expirations of each path so far.
    timeouts: Vec<u64>,
}

impl PacketLog {
    pub(crate) fn seen(&self) -> &[Seen] {
        &self.seen
    }

    fn note(&mut self, at: Timestamp, what: What) {
        self.seen.push(Seen { at, what });
    }

    /// A packet leaves.
    pub(crate) fn on_sent(&mut self, now: Timestamp, packet: &Packet) {
        let path = packet.destination.ip();
        each_chunk(packet, |chunk| {
            if let Some(data) = data(&chunk) {
                let number = message_of(data.ppid);
                self.note(now, What::Sent { number, path });
            } else if let Some(gap_blocks) = gap_blocks(&chunk) {
                self.note(now, What::Acknowledged { gap_blocks });
            }
        });
    }

    /// A packet came.
    pub(crate) fn on_received(&mut self, now: Timestamp, packet: &Packet) {
        let path = packet.destination.ip();
        each_chunk(packet, |chunk| {
            if let Some(data) = data(&chunk) {
                let number = message_of(data.ppid);
                self.note(now, What::Came { number, path });
            }
        });
    }

    /// Timers of the host's first association expired.
    pub(crate) fn on_timers(&mut self, now: Timestamp, host: &Host) {
        let id = host.association_ids().next();
        let Some(association) = id.and_then(|id| host.association(id)) else {
            return;
        };
        if association.counters().timeouts == self.timeouts.iter().sum::<u64>() {
            return;
        }
        let paths = association.stats().paths;
        self.timeouts.resize(paths.len(), 0);
        for (place, path) in paths.iter().enumerate() {
            if path.timeouts > self.timeouts[place] {
                self.timeouts[place] = path.timeouts;
                let path = path.remote.ip();
                self.note(now, What::TimedOut { path });
            }
        }
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

/// Calls `note` with the number of each message of which an SCTP packet has a chunk with data.
pub fn messages_in(packet: Bytes, mut note: impl FnMut(u32)) {
    each_chunk_of(packet, |chunk| {
        if let Some(data) = data(&chunk) {
            note(message_of(data.ppid));
        }
    });
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
        Chunk::NrSack(sack) => Some(sack.revocable.len() + sack.nonrenegable.len()),
        Chunk::CoopSack(sack) => {
            let blocks = sack.paths.iter().map(|report| report.gap_ack_blocks.len());
            Some(blocks.sum())
        }
        _ => None,
    }
}
