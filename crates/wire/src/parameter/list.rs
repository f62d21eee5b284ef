//! Lists of 16-bit numbers: Supported Address Types (RFC 9260 §3.3.2.1.5), Requested HMAC Algorithms (RFC 4895 §3.3).
//!
//! ```text
//! |  Type = 12, 0x8004            |      Length = 4 + 2 * N       |
//! |        Number 1               |         Number 2 ...          |
//! ```

use alloc::vec::Vec;

use crate::reader::Reader;

/// Reads numbers to the end; an odd byte is an error.
pub(super) fn read_u16s(reader: &mut Reader) -> Option<Vec<u16>> {
    let bytes = reader.bytes(reader.len())?;
    let pairs = bytes.chunks_exact(2);
    pairs
        .remainder()
        .is_empty()
        .then(|| pairs.map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect())
}

/// Appends the numbers.
pub(super) fn put_u16s(out: &mut Vec<u8>, numbers: &[u16]) {
    numbers
        .iter()
        .for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
}

#[cfg(test)]
mod tests {
    use super::super::Parameter;
    use super::super::tests::{check, check_refused};

    #[test]
    fn lists_round_trip() {
        check(
            &[0, 12, 0, 8, 0, 5, 0, 6],
            &Parameter::SupportedAddressTypes([5, 6].into()),
        );
        check(&[0x80, 4, 0, 6, 0, 1], &Parameter::RequestedHmacs([1].into()));
        check(&[0, 12, 0, 4], &Parameter::SupportedAddressTypes([].into()));
        check_refused(&[0, 12, 0, 7, 0, 5, 0]);
    }
}
