//! Owns one fragment of a message with interleaving.

use bytes::Bytes;

use super::super::load::Load;
use crate::seq::ExtendedTsn;

/// The user data of one fragment.
#[derive(Debug)]
pub(super) struct HeldFragment {
    /// Its TSN.
    pub(super) tsn: ExtendedTsn,
    pub(super) payload: Bytes,
    /// As in [`Load`].
    pub(super) kept: u32,
}

impl HeldFragment {
    pub(super) fn load(&self) -> Load {
        Load {
            bytes: self.payload.len(),
            kept: self.kept as usize,
            chunks: 1,
        }
    }
}
