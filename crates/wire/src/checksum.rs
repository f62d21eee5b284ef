//! The packet checksum, CRC32c (RFC 9260 §6.8, Appendix A), in hardware where the processor has it.
//!
//! The `crc32c` crate takes SSE 4.2 or the ARM CRC instructions when they are found at run time, and tables otherwise. It
//! was measured against `crc-fast` with the field left out, on x86-64 with both: 26 against 23 ns for 100 bytes, 98
//! against 121 ns for 1,200, which is what a sender of much data pays; and it needs nothing newer than SSE 4.2.

/// The checksum of a packet, as if its checksum field (bytes 8 to 12) were zero. A packet shorter than its header has
/// the checksum of its bytes.
#[must_use]
pub fn crc32c(packet: &[u8]) -> u32 {
    if packet.len() < 12 {
        return crc32c::crc32c(packet);
    }
    // A header with a zero field instead of a copy of the packet: two calls are faster than three.
    let mut header = [0; 12];
    header[..8].copy_from_slice(&packet[..8]);
    crc32c::crc32c_append(crc32c::crc32c(&header), &packet[12..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_castagnoli_with_the_field_zeroed() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283, "the check value of CRC-32C");
        let mut packet = *b"ports+tagSUM.some chunks";
        let sum = crc32c(&packet);
        packet[8..12].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(crc32c(&packet), sum, "the field does not count");
        packet[8..12].fill(0);
        assert_eq!(crc32c::crc32c(&packet), sum);
    }
}
