//! Selective forward TSN (Basto and Freitas, *SCTP extensions for time sensitive traffic*): of a message that will not be
//! repeated a following packet says so, so that the receiver does not hold back what comes after it on the stream.
//!
//! It moves a *delivery* point only. The TSN stays missing in acknowledgements until a FORWARD-TSN passes it, so that the
//! sender's congestion control sees the loss. Early discard, the same authors' other extension, is a moment at the seam
//! `send/abandonment.rs`.

use std::collections::VecDeque;

use anabranch_wire::Tsn;
use anabranch_wire::chunk::SelectiveForwardTsn;

use crate::send::{ChunkState, DataFormat, Fragment, Outstanding};

/// A message that was sent and will not be again.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Its last chunk.
    index: u64,
    /// The packet that it left in.
    packet: u64,
    notice: SelectiveForwardTsn,
}

/// The messages that a later packet is to speak of.
#[derive(Debug, Default)]
pub(crate) struct SelectiveNotices {
    /// Packets after which a message is spoken of; 0 if none ever is.
    distance: u32,
    format: DataFormat,
    packets: u64,
    waiting: VecDeque<Sent>,
}

impl SelectiveNotices {
    /// Begins to note messages.
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

    /// The last chunk of an ordered message leaves for the last time, as `index`.
    pub(crate) fn on_last_sent(&mut self, index: u64, fragment: &Fragment) {
        self.waiting.push_back(Sent {
            index,
            packet: self.packets,
            notice: SelectiveForwardTsn {
                tsn: Tsn(index as u32),
                stream: fragment.stream,
                number: self.format.message_number(fragment.sequence),
            },
        });
    }

    /// A packet with data is begun: the next one.
    pub(crate) fn on_packet(&mut self) {
        self.packets += 1;
    }

    /// The next notice for the packet being built. `window` is the congestion window in packets: a notice must not wait for
    /// more than half of it, and if the window closes with this packet, for no later one.
    pub(crate) fn next(
        &mut self,
        outstanding: &Outstanding,
        window: usize,
        closes: bool,
    ) -> Option<SelectiveForwardTsn> {
        let half = (window / 2).max(1) as u64;
        let distance = if closes { 1 } else { half.min(self.distance.into()) };
        while let Some(sent) = self.waiting.front() {
            if sent.packet + distance > self.packets {
                return None;
            }
            let unknown =
                sent.index >= outstanding.base() && outstanding.chunk(sent.index).state != ChunkState::Acked;
            let sent = self.waiting.pop_front()?;
            if unknown {
                return Some(sent.notice);
            }
        }
        None
    }
}
