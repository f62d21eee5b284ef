//! What an acknowledgement says, whatever chunk it came in (RFC 9260 §6.2.1).

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{GapAckBlock, GapAckBlocks};

/// One acknowledgement. A SACK leaves `nonrenegable` empty; an extension adds fields of its own here.
#[derive(Debug)]
pub(crate) struct AckReport<'a> {
    /// Everything up to here has arrived.
    pub(crate) cumulative: Tsn,
    /// Arrived too, but the receiver may still take it back; offsets from `cumulative`, in order, apart from each
    /// other.
    pub(crate) renegable: &'a [GapAckBlock],
    /// Arrived too, and the receiver promises not to take it back; as `revocable`.
    pub(crate) nonrenegable: &'a [GapAckBlock],
    /// Chunks that arrived more than once: how many TSNs were listed.
    pub(crate) duplicates: usize,
    /// Packets that it answers, as far as it says; at least 1 (delayed acknowledgements of the multipath draft, §3.3).
    pub(crate) packets: u8,
    /// The receiver's window in bytes; `None` of a SHUTDOWN, which says nothing of it.
    pub(crate) a_rwnd: Option<u32>,
    /// Whether a newer one was handled before: what it does not list is not missing.
    pub(crate) overtaken: bool,
    /// Whether all that has arrived above `cumulative` is listed, so that what is not was reneged. A SHUTDOWN lists nothing,
    /// and where transmissions are named only news is listed.
    pub(crate) lists_all: bool,
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
