//! What an acknowledgement says, whatever chunk it came in (RFC 9260 §6.2.1).

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{GapAckBlock, GapAckBlocks};

/// Gap ack blocks that every receiver lists if it has them. How many more is not known: as many as a packet holds (RFC 9260 §6.2),
/// sixteen in Linux.
const LISTED_BY_ALL: usize = 16;

/// How much of what has arrived above the cumulative TSN ack an acknowledgement lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    /// All of it.
    All,
    /// The lowest TSNs, as many as there was room for.
    Lowest,
    /// What was not acknowledged before, where sendings are named (ECA-SCTP).
    News,
    /// Nothing: a SHUTDOWN.
    Nothing,
}

impl Listing {
    /// Of a SACK or an NR-SACK with so many gap ack blocks.
    pub(crate) fn of_blocks(count: usize) -> Self {
        if count < LISTED_BY_ALL {
            Self::All
        } else {
            Self::Lowest
        }
    }
}

/// One acknowledgement. A SACK leaves `nonrenegable` empty; an extension adds fields of its own here.
#[derive(Debug)]
pub(crate) struct AckReport<'a> {
    /// Everything up to here has arrived.
    pub(crate) cumulative: Tsn,
    /// Arrived too, but the receiver may still take it back; offsets from `cumulative`, in order, apart from each
    /// other.
    pub(crate) renegable: &'a [GapAckBlock],
    /// Arrived too, and the receiver promises not to take it back; as `renegable`.
    pub(crate) nonrenegable: &'a [GapAckBlock],
    /// Chunks that arrived more than once: how many TSNs were listed.
    pub(crate) duplicates: usize,
    /// Packets that it answers, as far as it says; at least 1 (delayed acknowledgements of the multipath draft, §3.3).
    pub(crate) packets: u8,
    /// The receiver's window in bytes; `None` of a SHUTDOWN, which says nothing of it.
    pub(crate) a_rwnd: Option<u32>,
    /// Whether a newer one was handled before: what it does not list is not missing.
    pub(crate) overtaken: bool,
    /// How much the blocks list. A chunk that they would list and do not has not arrived, or was reneged.
    pub(crate) listing: Listing,
}

impl AckReport<'_> {
    /// Offset from `cumulative` of the highest chunk that is listed; 0 if none is.
    pub(crate) fn highest_listed(&self) -> u64 {
        let end = |blocks: &[GapAckBlock]| blocks.last().map_or(0, |block| u64::from(block.end));
        end(self.renegable).max(end(self.nonrenegable))
    }
}

/// Gap ack blocks as an acknowledgement lists them, put in order and joined where they touch, into `blocks`: a receiver lists them
/// in order, but nothing obliges it. Blocks that make no sense (start 0, or start beyond the end) are left out.
pub(crate) fn normalise(listed: &GapAckBlocks, blocks: &mut Vec<GapAckBlock>) {
    blocks.clear();
    let sound = |block: &GapAckBlock| block.start > 0 && block.start <= block.end;
    blocks.extend(listed.iter().filter(sound));
    if !blocks.is_sorted_by_key(|block| block.start) {
        blocks.sort_unstable_by_key(|block| block.start);
    }
    blocks.dedup_by(|next, block| {
        let touches = u32::from(next.start) <= u32::from(block.end) + 1;
        if touches {
            block.end = block.end.max(next.end);
        }
        touches
    });
}
