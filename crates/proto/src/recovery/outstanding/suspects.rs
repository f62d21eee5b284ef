//! Owns the chunks declared lost whose loss may prove spurious.

use std::collections::BTreeMap;

use crate::path::{PathId, SendNo};

/// For each of these chunks, the path and the transmission on it.
pub(super) type Suspects = BTreeMap<u64, (PathId, SendNo)>;

/// The most chunks declared lost that are remembered, in case the loss proves spurious.
const MOST_SUSPECTS: usize = 256;

/// Remembers the loss of a transmission of the chunk `index`.
pub(super) fn suspect(suspects: &mut Suspects, index: u64, sending: (PathId, SendNo)) {
    suspects.insert(index, sending);
    if suspects.len() > MOST_SUSPECTS {
        suspects.pop_first();
    }
}
