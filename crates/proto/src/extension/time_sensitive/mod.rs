//! Selective forward TSN (Basto and Freitas, *SCTP extensions for time sensitive traffic*): a later packet tells the receiver that the
//! sender will not retransmit a message. If the message was lost, the receiver then delivers the following messages of the stream.
//!
//! The chunk moves only the *delivery* point. The TSN stays missing in acknowledgements until a FORWARD-TSN passes it, so the sender's
//! congestion control sees the loss. Early discard, the other extension by the same authors, is in `recovery/outstanding/abandoned.rs`. A
//! message's settings for both are its `Haste` (`message/persistence.rs`).
//!
//! A notice is about one transmission of one chunk. The sender sends the notice after the chunk on the same path, so the notice never
//! overtakes the chunk. If packets stay in order on each path, a chunk that is missing when its notice arrives was lost.

use std::collections::VecDeque;

use anabranch_wire::Tsn;
use anabranch_wire::chunk::SelectiveForwardTsn;

use crate::config::DiscardNotice;
use crate::path::PathId;
use crate::recovery::{Chunk, Outstanding};
use crate::send::DataFormat;

/// A chunk that was sent and will not be retransmitted.
#[derive(Clone, Copy, Debug)]
struct Sent {
    index: u64,
    /// Number of the chunk's transmissions when the notice was created.
    transmissions: u32,
    /// Number of the chunk's packet on its path.
    packet: u64,
    /// Whether the notice justifies a packet of its own.
    alone: bool,
    notice: SelectiveForwardTsn,
}

impl Sent {
    /// Whether the notice is no longer needed: the chunk was acknowledged or transmitted again.
    fn is_settled(&self, outstanding: &Outstanding) -> bool {
        if self.index < outstanding.base() {
            return true;
        }
        let chunk = outstanding.chunk(self.index);
        chunk.state.is_acked() || chunk.transmissions != self.transmissions
    }
}

/// The pending notices of one path.
#[derive(Debug, Default)]
struct PathNotices {
    packets: u64,
    /// Whether a pending notice may justify a packet of its own.
    asks: bool,
    /// Chunks whose notice is pending, in the order of sending.
    waiting: VecDeque<Sent>,
}

/// The pending notices of all paths.
#[derive(Debug, Default)]
pub(crate) struct SelectiveNotices {
    /// Number of packets after which a notice follows its chunk; 0 disables notices.
    distance: u32,
    format: DataFormat,
    /// By path number, as far as paths were used.
    paths: Vec<PathNotices>,
}

impl SelectiveNotices {
    /// Enables notices.
    pub(crate) fn enable(&mut self, distance: u32, format: DataFormat) {
        self.distance = distance;
        self.format = format;
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.distance > 0
    }

    /// Bytes of a packet that must stay free of data.
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

    /// A chunk of an ordered message is transmitted for the last time; its extended TSN is `index`.
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

    /// Everything in flight on this path is withdrawn: its notices have no use.
    pub(crate) fn forget_path(&mut self, id: PathId) {
        if let Some(path) = self.paths.get_mut(id.index()) {
            path.waiting.clear();
            path.asks = false;
        }
    }

    /// Whether to send a packet only for the notices of this path.
    pub(crate) fn wants_packet(&mut self, id: PathId, outstanding: &Outstanding) -> bool {
        let path = self.path_mut(id);
        if path.asks {
            path.waiting.retain(|sent| !sent.is_settled(outstanding));
            path.asks = path.waiting.iter().any(|sent| sent.alone);
        }
        path.asks
    }

    /// The notices of a packet on this path are complete: the data that follows belongs to this packet.
    pub(crate) fn on_packet(&mut self, id: PathId) {
        self.path_mut(id).packets += 1;
    }

    /// Whether the next packet on this path has to carry a notice. `window` is the congestion window in packets: a notice must follow its
    /// chunk within half of it. If the window closes with this packet, the notice must not wait for a later one.
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
