//! The contents of an acknowledgement, whatever chunk type it came in (RFC 9260 §6.2.1; NR-SACK; SHUTDOWN, §3.3.8).

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{GapAckBlock, GapAckBlocks};

/// Every receiver lists at least this many gap ack blocks if it has them. How many more is unknown: as many as fit a packet (RFC 9260
/// §6.2), sixteen in Linux.
const LISTED_BY_ALL: usize = 16;

/// Which of the chunks received above the cumulative TSN ack an acknowledgement lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    /// All chunks.
    All,
    /// The chunks with the lowest TSNs, as many as fitted.
    Lowest,
    /// Chunks that were not acknowledged before, if acknowledgements name transmissions (ECA-SCTP).
    News,
    /// None: a SHUTDOWN.
    Nothing,
}

impl Listing {
    /// The listing of a SACK or an NR-SACK with this number of gap ack blocks.
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
    /// The cumulative TSN ack.
    pub(crate) cumulative: Tsn,
    /// Renegable chunks: received, but the receiver may still renege on them. Offsets from `cumulative`, in ascending order, not
    /// touching each other.
    pub(crate) renegable: &'a [GapAckBlock],
    /// Non-renegable chunks: received, and the receiver promises not to renege on them. Same format as `renegable`.
    pub(crate) nonrenegable: &'a [GapAckBlock],
    /// Number of duplicate TSNs listed.
    pub(crate) duplicates: usize,
    /// Number of packets that the acknowledgement answers, as it states; at least 1 (delayed acknowledgements, multipath draft §3.3).
    pub(crate) packets: u8,
    /// The advertised receiver window in bytes; `None` in a SHUTDOWN, which has none.
    pub(crate) a_rwnd: Option<u32>,
    /// Whether a newer acknowledgement was handled before this one: chunks that this one does not list are then not missing.
    pub(crate) overtaken: bool,
    /// Which chunks the blocks list. A chunk that they would list and do not has not arrived, or the receiver reneged on it.
    pub(crate) listing: Listing,
}

impl AckReport<'_> {
    /// Offset from `cumulative` of the highest chunk that is listed; 0 if none is.
    pub(crate) fn highest_listed(&self) -> u64 {
        let end = |blocks: &[GapAckBlock]| blocks.last().map_or(0, |block| u64::from(block.end));
        end(self.renegable).max(end(self.nonrenegable))
    }
}

/// Sorts the gap ack blocks of an acknowledgement and joins those that touch, into `blocks`. Receivers list them in order, but need
/// not. Invalid blocks (start 0, or start beyond the end) are left out.
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
