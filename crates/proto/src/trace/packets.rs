//! Events that are read from packets: each packet, its user data and its acknowledgements.

use anabranch_wire::chunk::{Chunk, Data, GapAckBlocks, IData};
use anabranch_wire::packet::Packet;
use anabranch_wire::{StreamId, Tsn};
use bytes::Bytes;

use super::messages::Transmission;
use super::{Observed, TraceLog};
use crate::inbound::Inbound;
use crate::message::MessageId;
use crate::path::PathId;
use crate::seq::extend_tsn;
use crate::trace_event::{LossRule, TraceChunk, TraceKind, TraceLevel, TsnRange};
use crate::transmit::Transmit;

/// The user data of a chunk, whatever its type.
enum UserData<'a> {
    Data(&'a Data),
    IData(&'a IData),
}

fn user_data(chunk: &Chunk) -> Option<UserData<'_>> {
    Some(match chunk {
        Chunk::Data(data) => UserData::Data(data),
        Chunk::IData(data) => UserData::IData(data),
        Chunk::EData(chunk) => UserData::Data(&chunk.data),
        Chunk::EIData(chunk) => UserData::IData(&chunk.data),
        _ => return None,
    })
}

/// The cumulative TSN ack, the receive window, the gap ack blocks and the number of duplicates of an acknowledgement.
fn acknowledgement(chunk: &Chunk) -> Option<(Tsn, u32, Vec<TsnRange>, usize)> {
    let ranges = |from: Tsn, lists: &[&GapAckBlocks]| -> Vec<TsnRange> {
        let blocks = lists.iter().flat_map(|list| list.iter());
        let at = |offset: u16| Tsn(from.0.wrapping_add(offset.into()));
        blocks.map(|block| (at(block.start), at(block.end))).collect()
    };
    Some(match chunk {
        Chunk::Sack(sack) => {
            let from = sack.cumulative_tsn_ack;
            let blocks = ranges(from, &[&sack.gap_ack_blocks]);
            (from, sack.a_rwnd, blocks, sack.duplicate_tsns.len())
        }
        Chunk::NrSack(sack) => {
            let from = sack.cumulative_tsn_ack;
            let blocks = ranges(from, &[&sack.renegable, &sack.nonrenegable]);
            (from, sack.a_rwnd, blocks, sack.duplicate_tsns.len())
        }
        Chunk::CoopSack(sack) => {
            let from = sack.cumulative_tsn_ack;
            (from, sack.a_rwnd, Vec::new(), sack.duplicates.len())
        }
        _ => return None,
    })
}

fn forwarded(chunk: &Chunk) -> Option<Tsn> {
    match chunk {
        Chunk::ForwardTsn(forward) => Some(forward.new_cumulative_tsn),
        Chunk::IForwardTsn(forward) => Some(forward.new_cumulative_tsn),
        _ => None,
    }
}

/// The chunks of a packet: as they are in it, and decoded. A malformed chunk is left out.
fn chunks(packet: &Packet, seen: &Observed<'_>) -> Vec<(TraceChunk, Chunk)> {
    let raw = packet.chunks().map_while(Result::ok);
    let read = raw.filter_map(|raw| {
        let chunk = Chunk::decode(raw.under(seen.types)).ok()?;
        let tsn = match user_data(&chunk) {
            Some(UserData::Data(data)) => Some(data.tsn),
            Some(UserData::IData(data)) => Some(data.tsn),
            None => acknowledgement(&chunk)
                .map(|(tsn, ..)| tsn)
                .or_else(|| forwarded(&chunk)),
        };
        let shown = TraceChunk {
            kind: raw.kind,
            flags: raw.flags,
            bytes: raw.as_slice().len(),
            tsn,
        };
        Some((shown, chunk))
    });
    read.collect()
}

impl TraceLog {
    /// A packet of this association arrived. Called before it is handled.
    pub(crate) fn on_arrival(&mut self, seen: &mut Observed<'_>, inbound: &Inbound) {
        let path = seen.paths.find(inbound.local, inbound.remote);
        let chunks = chunks(&inbound.packet, seen);
        if self.level == TraceLevel::Packets {
            let kind = TraceKind::PacketReceived {
                path,
                bytes: inbound.len(),
                chunks: chunks.iter().map(|(shown, _)| *shown).collect(),
            };
            self.push(seen.now, kind);
        }
        for (_, chunk) in &chunks {
            self.arriving.extend(arrived(seen, path, chunk));
        }
    }

    /// A packet was handled: adds the events of its chunks.
    pub(super) fn push_arrived(&mut self, seen: &Observed<'_>) {
        for mut event in core::mem::take(&mut self.arriving) {
            if let TraceKind::DataReceived { tsn, missing, .. } = &mut event {
                *missing = seen.receiver.missing_below(*tsn);
            }
            self.push(seen.now, event);
        }
    }

    /// A batch of packets was built: `bytes` are its bytes, and `plain` its packets before their encryption, if they are encrypted.
    pub(crate) fn on_sent(
        &mut self,
        seen: &mut Observed<'_>,
        transmit: &Transmit,
        bytes: &[u8],
        plain: &[Vec<u8>],
    ) {
        let segment = transmit.segment_size.unwrap_or(bytes.len()).max(1);
        for (index, datagram) in bytes.chunks(segment).enumerate() {
            let readable = plain.get(index).map_or(datagram, Vec::as_slice);
            let Ok(packet) = Packet::parse_unchecked(Bytes::copy_from_slice(readable)) else {
                continue;
            };
            let chunks = chunks(&packet, seen);
            if self.level == TraceLevel::Packets {
                let kind = TraceKind::PacketSent {
                    path: transmit.path,
                    bytes: datagram.len(),
                    chunks: chunks.iter().map(|(shown, _)| *shown).collect(),
                };
                self.push(seen.now, kind);
            }
            for (shown, chunk) in &chunks {
                let event = match (user_data(chunk), shown.tsn) {
                    (Some(_), Some(tsn)) => self.data_sent(seen, transmit.path, tsn, chunk),
                    _ => left(transmit.path, chunk),
                };
                event.into_iter().for_each(|kind| self.push(seen.now, kind));
            }
        }
    }

    fn data_sent(&mut self, seen: &Observed<'_>, path: PathId, tsn: Tsn, chunk: &Chunk) -> Option<TraceKind> {
        let outstanding = &seen.sender.outstanding;
        let index = extend_tsn(tsn, outstanding.base());
        if !(outstanding.base()..outstanding.next_index()).contains(&index) {
            return None;
        }
        let of_it = outstanding.chunk(index);
        let fragment = &of_it.fragment;
        let is_copy = of_it.transmissions == 1 && of_it.is_copied();
        let sent = Transmission {
            index,
            message: fragment.message,
            first: of_it.transmissions == 1,
            ending: fragment.ending,
        };
        let lost_by = self.lost.remove(&index);
        let (cause, waited, copy) = if is_copy {
            (Some(LossRule::EarlyCopy), None, self.messages.on_copied(index))
        } else {
            (lost_by, self.messages.on_sent(seen.now, &sent), None)
        };
        Some(TraceKind::DataSent {
            tsn,
            message: fragment.message,
            stream: fragment.stream,
            path,
            bytes: match user_data(chunk)? {
                UserData::Data(data) => data.payload.len(),
                UserData::IData(data) => data.payload.len(),
            },
            beginning: fragment.beginning,
            ending: fragment.ending,
            transmission: of_it.transmissions,
            cause,
            waited,
            copy,
        })
    }

    /// The application gave a message, or a part of it, to `send`.
    pub(crate) fn on_queued(
        &mut self,
        seen: &Observed<'_>,
        message: MessageId,
        stream: StreamId,
        (bytes, end): (usize, bool),
    ) {
        self.messages.on_queued(seen.now, message, stream);
        let kind = TraceKind::MessageQueued {
            message,
            stream,
            bytes,
            end,
            queued_bytes: seen.sender.queue.bytes(),
        };
        self.push(seen.now, kind);
    }
}

fn left(path: PathId, chunk: &Chunk) -> Option<TraceKind> {
    if let Some((cumulative_tsn_ack, a_rwnd, gap_ack_blocks, _)) = acknowledgement(chunk) {
        return Some(TraceKind::AckSent {
            path,
            cumulative_tsn_ack,
            a_rwnd,
            gap_ack_blocks,
        });
    }
    let new_cumulative_tsn = forwarded(chunk)?;
    Some(TraceKind::ForwardSent { new_cumulative_tsn })
}

fn arrived(seen: &Observed<'_>, path: Option<PathId>, chunk: &Chunk) -> Option<TraceKind> {
    if let Some((cumulative_tsn_ack, a_rwnd, gap_ack_blocks, duplicates)) = acknowledgement(chunk) {
        return Some(TraceKind::AckReceived {
            path,
            cumulative_tsn_ack,
            a_rwnd,
            gap_ack_blocks,
            duplicates,
        });
    }
    if let Some(new_cumulative_tsn) = forwarded(chunk) {
        return Some(TraceKind::ForwardReceived { new_cumulative_tsn });
    }
    let received = |tsn, stream, sequence, unordered, (beginning, ending), bytes| TraceKind::DataReceived {
        tsn,
        stream,
        sequence,
        unordered,
        path,
        bytes,
        beginning,
        ending,
        new: seen.receiver.is_new(tsn),
        missing: None,
    };
    Some(match user_data(chunk)? {
        UserData::Data(data) => received(
            data.tsn,
            data.stream,
            data.ssn.0.into(),
            data.unordered,
            (data.beginning, data.ending),
            data.payload.len(),
        ),
        UserData::IData(data) => received(
            data.tsn,
            data.stream,
            data.mid.0,
            data.unordered,
            (data.beginning, data.ending),
            data.payload.len(),
        ),
    })
}
