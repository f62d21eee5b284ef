//! Type, length, value: the form that parameters and error causes share (RFC 9260 §3.2.1, §3.3.10).
//!
//! ```text
//! |            Type               |            Length             |
//! |                            Value                              |
//! ```

use alloc::vec::Vec;

use bytes::Bytes;

use crate::chunk::padded;

/// Bytes of type and length.
pub(crate) const HEADER_LEN: usize = 4;

/// Takes one entry and its padding off the front: its type and its bytes with the header, without padding. `None` when
/// the length it claims is impossible. The padding of the last entry may be missing.
pub(crate) fn split_first(rest: &mut Bytes) -> Option<(u16, Bytes)> {
    let kind = u16::from_be_bytes([*rest.first()?, *rest.get(1)?]);
    let claimed = usize::from(u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]));
    if claimed < HEADER_LEN || claimed > rest.len() {
        return None;
    }
    let mut whole = rest.split_to(padded(claimed).min(rest.len()));
    whole.truncate(claimed);
    Some((kind, whole))
}

/// Appends one entry: `value` appends the content, the length is filled in. No padding.
pub(crate) fn put(out: &mut Vec<u8>, kind: u16, value: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&[0; 2]);
    value(out);
    let len = out.len() - start;
    debug_assert!(len <= usize::from(u16::MAX), "an entry fits a packet");
    out[start + 2..start + 4].copy_from_slice(&(len as u16).to_be_bytes());
}
