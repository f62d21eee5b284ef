//! Reads integers and slices from the front of bytes, without panics.

use bytes::{Buf, Bytes};

/// Bytes that are being read.
pub(crate) struct Reader {
    rest: Bytes,
}

impl Reader {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self { rest: bytes }
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let array = self.rest.get(..N)?.try_into().ok()?;
        self.rest.advance(N);
        Some(array)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Option<Bytes> {
        (len <= self.rest.len()).then(|| self.rest.split_to(len))
    }

    pub(crate) fn rest(self) -> Bytes {
        self.rest
    }

    pub(crate) fn remaining(&self) -> &Bytes {
        &self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}
