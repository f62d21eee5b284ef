//! Reads the fields of a message, and nothing beyond its end.

use std::ops::RangeInclusive;

use bytes::Bytes;

use super::WireError;

/// The unread rest of a message.
#[derive(Debug)]
pub(super) struct Reader(Bytes);

impl Reader {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    pub(super) fn bytes(&mut self, len: usize) -> Result<Bytes, WireError> {
        if self.0.len() < len {
            return Err(WireError::Truncated);
        }
        Ok(self.0.split_to(len))
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let bytes = self.bytes(N)?;
        bytes[..].try_into().map_err(|_| WireError::Truncated)
    }

    pub(super) fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length and as many bytes of UTF-8.
    pub(super) fn text(&mut self) -> Result<String, WireError> {
        let len = self.u16()?.into();
        let bytes = self.bytes(len)?;
        String::from_utf8(bytes.into()).map_err(|_| WireError::Text)
    }

    /// Everything up to the end, whose length must lie in the range.
    pub(super) fn rest(&mut self, allowed: RangeInclusive<usize>) -> Result<Bytes, WireError> {
        if !allowed.contains(&self.0.len()) {
            return Err(WireError::OutOfRange("length"));
        }
        Ok(std::mem::take(&mut self.0))
    }

    pub(super) fn end(&self) -> Result<(), WireError> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(WireError::Trailing)
    }
}
