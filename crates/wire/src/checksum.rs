//! The packet checksum, CRC32c (RFC 9260 §6.8, Appendix A), in hardware where the processor has it.
//!
//! The `crc32c` crate chooses SSE 4.2 or the ARM CRC instructions when it starts and has tables for the rest.

/// The checksum of a packet, as if its checksum field (bytes 8 to 12) were zero. A packet shorter than its header has
/// the checksum of its bytes.
#[must_use]
pub fn crc32c(packet: &[u8]) -> u32 {
    if packet.len() < 12 {
        return crc32c::crc32c(packet);
    }
    let ports_and_tag = crc32c::crc32c_append(0, &packet[..8]);
    let field = crc32c::crc32c_append(ports_and_tag, &[0; 4]);
    crc32c::crc32c_append(field, &packet[12..])
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
