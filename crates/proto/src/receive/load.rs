//! Owns the memory that received data costs, beside its bytes of user data: a chunk with one byte costs much more than a byte. As in
//! FreeBSD's stack, each chunk counts 256 bytes more than it keeps.

use core::ops::{AddAssign, SubAssign};

use super::fragment::Fragment;

/// Bytes that a chunk counts beyond the memory of its user data, and an incomplete message beyond its chunks: allocations, entries of trees
/// that are half full or of queues that have just grown, and the run of its TSN. `the_overhead_covers_the_structures` compares the number with
/// the structures.
pub(super) const OVERHEAD: usize = 256;

/// Bytes that a run of TSNs above a gap counts. A peer can make a receiver record TSNs and hold no data for them.
pub(super) const GAP: usize = 48;

/// Bytes that the number of an abandoned message counts while its turn has not come.
pub(super) const SKIPPED: usize = 24;

/// Bytes that a renegable chunk counts in addition, for its entries in the sets of renegable data.
pub(super) const RENEGABLE: usize = 96;

/// Received data that is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Bytes of user data.
    pub(super) bytes: usize,
    /// Bytes that stay in memory for the user data: those of the whole datagram if a payload is a slice of it.
    pub(super) kept: usize,
    pub(super) chunks: usize,
}

impl Load {
    /// A chunk.
    pub(super) fn of(fragment: &Fragment) -> Self {
        Self {
            bytes: fragment.payload.len(),
            kept: fragment.datagram.max(fragment.payload.len()),
            chunks: 1,
        }
    }

    /// The memory that the data costs, in bytes.
    pub(super) fn memory(self) -> usize {
        self.kept + OVERHEAD * self.chunks
    }
}

impl AddAssign for Load {
    fn add_assign(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.kept += more.kept;
        self.chunks += more.chunks;
    }
}

impl SubAssign for Load {
    fn sub_assign(&mut self, less: Self) {
        self.bytes -= less.bytes;
        self.kept -= less.kept;
        self.chunks -= less.chunks;
    }
}

#[cfg(test)]
pub(super) mod tests {
    /// Bytes of an allocation of this size with the allocator's own data.
    pub(in super::super) const fn allocation(size: usize) -> usize {
        let size = (size + 8).next_multiple_of(16);
        if size < 32 { 32 } else { size }
    }

    /// Bytes of an entry with this size in a large B-tree whose nodes have the fewest entries: 5 of 11, and 6 edges.
    pub(in super::super) const fn tree_entry(size: usize) -> usize {
        let leaf = allocation(11 * size + 12);
        let node = allocation(11 * size + 12 + 12 * 8);
        (6 * leaf + node).div_ceil(35)
    }

    /// A payload of one byte, and the run of its TSN.
    pub(in super::super) const LEAST: usize = allocation(1) + tree_entry(16);
}
