//! Selective forward TSN (Basto and Freitas, *SCTP extensions for time sensitive traffic*): of a message that will not be
//! repeated a following packet says so, so that the receiver does not hold back what comes after it on the stream.
//!
//! It moves a *delivery* point only. The TSN stays missing in acknowledgements until a FORWARD-TSN passes it, so that the
//! sender's congestion control sees the loss. Early discard, the same authors' other extension, is in
//! `recovery/outstanding/abandoned.rs`. A message's settings for both are its `Haste` (`message/persistence.rs`).
//!
//! A notice is of one transmission of one chunk. It leaves on that transmission's path, behind it, so that the notice never
//! overtakes the chunk: where packets stay in order on each path, a chunk that is missing when its notice arrives was lost.

use std::collections::VecDeque;

use anabranch_wire::Tsn;
use anabranch_wire::chunk::SelectiveForwardTsn;

use crate::config::DiscardNotice;
use crate::path::PathId;
use crate::recovery::{Chunk, Outstanding};
use crate::send::DataFormat;

/// A chunk that was sent and will not be again.
#[derive(Clone, Copy, Debug)]
struct Sent {
    index: u64,
    /// Which of its transmissions this is.
    transmissions: u32,
    /// The packet that it left in, counted on its path.
    packet: u64,
    /// Whether it is worth a packet of its own.
    alone: bool,
    notice: SelectiveForwardTsn,
}

impl Sent {
    /// Whether nothing is to be said: the chunk is known to have arrived, or it was sent once more.
    fn is_settled(&self, outstanding: &Outstanding) -> bool {
        if self.index < outstanding.base() {
            return true;
        }
        let chunk = outstanding.chunk(self.index);
        chunk.state.is_acked() || chunk.transmissions != self.transmissions
    }
}

/// What left on one path.
#[derive(Debug, Default)]
struct PathNotices {
    packets: u64,
    /// Whether one of those that wait may be worth a packet of its own.
    asks: bool,
    /// The chunks that a later packet is to speak of, in the order in which they left.
    waiting: VecDeque<Sent>,
}

/// The chunks that later packets are to speak of.
#[derive(Debug, Default)]
pub(crate) struct SelectiveNotices {
    /// Packets after which a chunk is spoken of; 0 if none ever is.
    distance: u32,
    format: DataFormat,
    /// By path, as far as they were used.
    paths: Vec<PathNotices>,
}

impl SelectiveNotices {
    /// Begins to note chunks.
    pub(crate) fn enable(&mut self, distance: u32, format: DataFormat) {
        self.distance = distance;
        self.format = format;
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.distance > 0
    }

    /// Bytes that a packet must leave free of data.
    pub(crate) fn reserve(&self) -> usize {
        if self.is_enabled() {
            self.format.message_number(0).notice_len()
        } else {
            0
        }
    }

    fn path_mut(&mut self, id: PathId) -> &mut PathNotices {
        if self.paths.len() <= id.index() {
            self.paths.resize_with(id.index() + 1, PathNotices::default);
        }
        &mut self.paths[id.index()]
    }

    /// A chunk of an ordered message leaves for the last time, as `index`.
    pub(crate) fn on_last_sent(&mut self, index: u64, chunk: &Chunk) {
        let notice = SelectiveForwardTsn {
            tsn: Tsn(index as u32),
            stream: chunk.fragment.stream,
            number: self.format.message_number(chunk.fragment.sequence),
        };
        let alone = chunk.fragment.haste.notice == DiscardNotice::Alone;
        let path = self.path_mut(chunk.path);
        path.waiting.push_back(Sent {
            index,
            transmissions: chunk.transmissions,
            packet: path.packets,
            alone,
            notice,
        });
        path.asks |= alone;
    }

    /// Whether a packet for the notices of a path alone is asked for.
    pub(crate) fn wants_packet(&mut self, id: PathId, outstanding: &Outstanding) -> bool {
        let path = self.path_mut(id);
        if path.asks {
            path.waiting.retain(|sent| !sent.is_settled(outstanding));
            path.asks = path.waiting.iter().any(|sent| sent.alone);
        }
        path.asks
    }

    /// A packet for a path has the notices that it takes: what data follows in it is of this packet.
    pub(crate) fn on_packet(&mut self, id: PathId) {
        self.path_mut(id).packets += 1;
    }

    /// Whether a notice is to leave with the next packet for a path. `window` is the congestion window in packets: a notice
    /// must not wait for more than half of it, and if the window closes with this packet, for no later one.
    pub(crate) fn is_due(
        &mut self,
        id: PathId,
        outstanding: &Outstanding,
        window: usize,
        closes: bool,
    ) -> bool {
        let half = (window / 2).max(1) as u64;
        let distance = if closes { 1 } else { half.min(self.distance.into()) };
        let path = self.path_mut(id);
        while let Some(sent) = path.waiting.front()
            && sent.is_settled(outstanding)
        {
            path.waiting.pop_front();
        }
        let first = path.waiting.front();
        first.is_some_and(|sent| sent.packet + distance <= path.packets + 1)
    }

    /// The notice that is due.
    pub(crate) fn take(&mut self, id: PathId) -> Option<SelectiveForwardTsn> {
        let sent = self.path_mut(id).waiting.pop_front()?;
        Some(sent.notice)
    }
}
