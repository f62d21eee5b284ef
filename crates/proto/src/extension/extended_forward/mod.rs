//! Extended FORWARD-TSN: lists abandoned chunks that a FORWARD-TSN cannot pass yet, because the receiver waits for a chunk below them.
//!
//! Rajiullah and Brunstrom (*Optimizing PR-SCTP Performance using NR-SACKs*, §IV) name such a chunk as the alternative to their use of
//! NR-SACK, without its format. Here it is a list of TSNs in the format of gap ack blocks. The receiver treats them as received. A lost
//! packet with a mix of reliable and abandoned messages then needs one round trip, as without partial reliability.
//!
//! The chunk lists only unordered messages of one chunk, so that no stream and no reassembly waits for them. It does not replace
//! FORWARD-TSN: an abandoned message that is not listed, or whose listing was lost, is passed by FORWARD-TSN later. The list of chunks is
//! in `recovery/outstanding/skippable.rs`, and `receive/forward.rs` is the receiver's part.

use core::time::Duration;

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{ExtendedForwardTsn, GapAckBlock};

use crate::recovery::Outstanding;
use crate::seq::Run;
use crate::time::Timestamp;

/// The most blocks of a chunk: 136 bytes leave room for data in the same packet.
const MOST_BLOCKS: usize = 32;

/// After this many acknowledgements that leave listed chunks out, the sender lists them again, as with FORWARD-TSN.
const REPEAT_AFTER: u8 = 3;

/// Decides when to send an extended FORWARD-TSN.
#[derive(Debug, Default)]
pub(crate) struct ExtendedForward {
    is_enabled: bool,
    sent_at: Timestamp,
    /// Acknowledgements since the last chunk, without those within one round trip.
    short: u8,
}

impl ExtendedForward {
    pub(crate) fn enable(&mut self) {
        self.is_enabled = true;
    }

    /// An acknowledgement came. Acknowledgements within `wait` after the last chunk do not count.
    pub(crate) fn on_ack(&mut self, now: Timestamp, wait: Duration) {
        if self.is_enabled && now.saturating_duration_since(self.sent_at) >= wait {
            self.short = self.short.saturating_add(1);
        }
    }

    /// Whether to send a chunk. `point` is the `Advanced.Peer.Ack.Point`, up to which FORWARD-TSN passes.
    #[inline]
    pub(crate) fn is_due(&self, outstanding: &Outstanding, point: u64) -> bool {
        self.is_enabled
            && (self.short >= REPEAT_AFTER || outstanding.has_new_skippable())
            && outstanding.skippable_above(point).next().is_some()
    }

    /// The chunk, at most `room` bytes long, with the lowest blocks. `None` if not even one block fits.
    pub(crate) fn build(
        &mut self,
        now: Timestamp,
        outstanding: &mut Outstanding,
        point: u64,
        room: usize,
    ) -> Option<ExtendedForwardTsn> {
        let blocks = room.checked_sub(ExtendedForwardTsn::len_with(0))? / size_of::<[u16; 2]>();
        let base = outstanding.base() - 1;
        let is_near = |run: &Run| run.last - base <= u64::from(u16::MAX);
        let runs = outstanding.skippable_above(point).take_while(is_near);
        let runs: Vec<Run> = runs.take(blocks.min(MOST_BLOCKS)).collect();
        if blocks == 0 {
            return None;
        }
        outstanding.on_skippable_listed(&runs);
        self.sent_at = now;
        self.short = 0;
        let blocks = runs.iter().map(|run| GapAckBlock {
            start: (run.first - base) as u16,
            end: (run.last - base) as u16,
        });
        Some(ExtendedForwardTsn::new(Tsn(base as u32), blocks)).filter(|_| !runs.is_empty())
    }
}
