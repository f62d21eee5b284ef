//! Path sequence numbers (ECA-SCTP): every transmission on a path, including a retransmission, gets the next number. An acknowledgement
//! therefore identifies one transmission.
//!
//! ```text
//! |      PID      |                      PSN                      |
//! ```

use alloc::vec::Vec;

use bytes::Bytes;

use crate::types::Psn;

/// One transmission: the path on which it was sent and its number on that path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathSequence {
    /// PID: the path. The sender chooses a number for each pair of addresses and never uses it again for another pair.
    pub path: u8,
    /// PSN: the number of the transmission.
    pub number: Psn,
}

impl PathSequence {
    /// Length in bytes.
    pub const LEN: usize = 4;

    pub(super) fn from_word(word: u32) -> Self {
        Self {
            path: (word >> Psn::BITS) as u8,
            number: Psn::new(word),
        }
    }

    pub(super) fn to_word(self) -> u32 {
        u32::from(self.path) << Psn::BITS | self.number.get()
    }
}

/// A list of transmissions, as encoded in a chunk.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PathSequences(Bytes);

impl PathSequences {
    pub(super) fn from_bytes(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// Encodes a list of these transmissions.
    pub fn from_list(list: impl IntoIterator<Item = PathSequence>) -> Self {
        let mut bytes = Vec::new();
        for one in list {
            bytes.extend_from_slice(&one.to_word().to_be_bytes());
        }
        Self(bytes.into())
    }

    /// The transmissions, in the order of the chunk.
    pub fn iter(&self) -> impl Iterator<Item = PathSequence> + '_ {
        let words = self.0.chunks_exact(PathSequence::LEN);
        words.map(|word| PathSequence::from_word(u32::from_be_bytes([word[0], word[1], word[2], word[3]])))
    }

    /// Number of transmissions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / PathSequence::LEN
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn as_bytes(&self) -> &Bytes {
        &self.0
    }
}
