//! Taking back what was acknowledged by gap blocks (RFC 9260 §6.2), for receivers that keep the right to it: so the buffer
//! never grows beyond its limit for a gap's sake, and an NR-SACK tells the two kinds apart (draft-tuexen-tsvwg-sctp-multipath
//! §4).

use anabranch_wire::chunk::GapAckBlock;

use super::Receiver;
use super::tsn_tracker::Index;

impl Receiver {
    /// Drops messages that wait, the highest first, until `len` bytes that come next in order have room.
    pub(super) fn renege_for(&mut self, len: usize) {
        while !self.window.has_room(len, false, true, true) {
            let Some((first, last)) = self.revocable().max() else {
                return;
            };
            let Some((bytes, chunks)) = self.drop_from(first) else {
                return;
            };
            self.tracker.take_back(first, last);
            self.window.release(bytes, chunks);
            self.reneged += chunks as u64;
            self.urgent = true;
        }
    }

    /// Drops what waits with its first TSN at `first`: a run of fragments, a message, or where messages interleave a single
    /// fragment. Answers bytes and chunks.
    fn drop_from(&mut self, first: Index) -> Option<(usize, usize)> {
        if let Some(interleaved) = &mut self.interleaved {
            return Some((interleaved.take_back(first)?, 1));
        }
        if let Some(run) = self.reassembly.remove(first) {
            return Some((run.bytes, run.pieces.len()));
        }
        let held = self.streams.take_waiting(first)?;
        Some((held.part.payload.len(), held.chunks))
    }

    /// Chunks dropped so far.
    pub(crate) fn reneged(&self) -> u64 {
        self.reneged
    }

    /// First and last index of what may be taken back: what lies above the cumulative point and was not delivered.
    fn revocable(&self) -> impl Iterator<Item = (Index, Index)> + '_ {
        let cumulative = self.tracker.cumulative();
        let waiting = self.streams.waiting();
        let waiting = waiting.map(|(first, chunks)| (first, first + chunks as Index - 1));
        let runs = self.reassembly.runs();
        let partial = self.partial;
        let interleaved = self.interleaved.iter().flat_map(|all| all.revocable());
        runs.filter(move |(first, _)| Some(*first) != partial)
            .chain(waiting)
            .chain(interleaved.map(|index| (index, index)))
            .filter(move |(first, _)| *first > cumulative)
    }

    /// Sorts the gap blocks of an acknowledgement into those that may be taken back, which come first, and the others;
    /// answers how many the first are. Together they are at most `most`.
    pub(super) fn sort_revocable(&mut self, most: usize) -> usize {
        let cumulative = self.tracker.cumulative();
        let offset = |index: Index| (index - cumulative) as u16;
        let mut revocable: Vec<_> = self.revocable().collect();
        revocable.sort_unstable();
        let (mut first_kind, mut second_kind) = (Vec::new(), Vec::new());
        let mut next = revocable.into_iter().peekable();
        for block in self.blocks.drain(..) {
            let mut from = block.start;
            while let Some((first, last)) = next.next_if(|(first, _)| offset(*first) <= block.end) {
                let (start, end) = (offset(first), offset(last).min(block.end));
                if from < start {
                    push(&mut second_kind, from, start - 1);
                }
                push(&mut first_kind, start, end);
                from = end + 1;
            }
            if from <= block.end {
                push(&mut second_kind, from, block.end);
            }
        }
        first_kind.truncate(most);
        second_kind.truncate(most - first_kind.len());
        let count = first_kind.len();
        self.blocks.append(&mut first_kind);
        self.blocks.append(&mut second_kind);
        count
    }
}

/// Appends a block, or makes the last one longer.
fn push(blocks: &mut Vec<GapAckBlock>, start: u16, end: u16) {
    match blocks.last_mut() {
        Some(block) if block.end + 1 == start => block.end = end,
        _ => blocks.push(GapAckBlock { start, end }),
    }
}
