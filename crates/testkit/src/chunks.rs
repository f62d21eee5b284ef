//! Chunks that most scripts build by hand.

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{Chunk, GapAckBlocks, Sack, Shutdown, TsnList};

/// A SACK of all chunks up to a TSN, with an a_rwnd of 100,000 bytes.
#[must_use]
pub fn sack(cumulative_tsn_ack: Tsn) -> Chunk {
    Chunk::Sack(Sack {
        cumulative_tsn_ack,
        a_rwnd: 100_000,
        gap_ack_blocks: GapAckBlocks::default(),
        duplicate_tsns: TsnList::default(),
    })
}

/// A SHUTDOWN of a peer that has received all chunks up to a TSN.
#[must_use]
pub fn shutdown_chunk(cumulative_tsn_ack: Tsn) -> Chunk {
    Chunk::Shutdown(Shutdown { cumulative_tsn_ack })
}
