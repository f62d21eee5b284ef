//! The packet checksum, CRC32c (RFC 9260 §6.8, Appendix A), in hardware where the processor supports it. On x86-64 `lanes` computes it.
//! Elsewhere the `crc32c` crate does: with the ARM CRC instructions if it detects them at run time, otherwise with tables.
//!
//! Measured on x86-64, this is faster than `crc32c` and `crc-fast` for packets of every size: 60 against 85 and 110 ns for 1,052 bytes, 10
//! against 18 and 23 ns for a SACK. The two crates are made for files: about half of a packet falls to their slow code for the last bytes.

#[cfg(target_arch = "x86_64")]
mod lanes;

/// The checksum of a packet, computed as if its checksum field (bytes 8 to 12) were zero. If the packet is shorter than the common header,
/// all its bytes count.
#[must_use]
pub fn crc32c(packet: &[u8]) -> u32 {
    let Some((header, chunks)) = packet.split_first_chunk::<12>() else {
        return crc32c::crc32c(packet);
    };
    let mut zeroed = *header;
    zeroed[8..].fill(0);
    #[cfg(target_arch = "x86_64")]
    if let Some(sse) = fearless_simd::Level::new().as_sse4_2() {
        return lanes::crc32c(sse, &zeroed, chunks);
    }
    crc32c::crc32c_append(crc32c::crc32c(&zeroed), chunks)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

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

    #[test]
    fn is_the_same_for_every_length_and_alignment() {
        let mut bytes: Vec<u8> = (0..5000_u32)
            .map(|n| (n.wrapping_mul(0x9E37_79B1) >> 24) as u8)
            .collect();
        for start in 0..9 {
            bytes[start + 8..start + 12].fill(0);
            for len in (12..2200).chain([4999 - start]) {
                let packet = &bytes[start..start + len];
                assert_eq!(crc32c(packet), crc32c::crc32c(packet), "{len} bytes from {start}");
            }
        }
    }
}
