//! The lists of streams in re-configuration parameters (RFC 6525 §4).

use alloc::vec::Vec;

use bytes::Bytes;

use crate::types::StreamId;

/// A list of stream identifiers, as encoded in a parameter; an empty list stands for all streams.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct StreamList(Bytes);

impl StreamList {
    pub(super) fn from_bytes(bytes: Bytes) -> Option<Self> {
        bytes.len().is_multiple_of(2).then_some(Self(bytes))
    }

    /// Encodes a list of these streams.
    pub fn from_streams(streams: impl IntoIterator<Item = StreamId>) -> Self {
        let bytes: Vec<u8> = streams
            .into_iter()
            .flat_map(|stream| stream.0.to_be_bytes())
            .collect();
        Self(bytes.into())
    }

    /// The streams, in the order of the parameter.
    pub fn iter(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.0
            .chunks_exact(2)
            .map(|entry| StreamId(u16::from_be_bytes([entry[0], entry[1]])))
    }

    /// Whether the list is empty, and so stands for all streams.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of entries.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len() / 2
    }

    /// The same list in memory of its own. A list that was decoded keeps its whole datagram in memory.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    pub(super) fn as_bytes(&self) -> &Bytes {
        &self.0
    }
}
