//! CRC32c with the SSE 4.2 instruction. The instruction has a latency of three cycles, but a new one can start in every cycle. The bytes
//! therefore go through it in three parallel lanes. The lane lengths leave few bytes of a packet over. A table moves a lane's sum past the
//! bytes of the next lane, as if zeros followed.

use core::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};

/// CRC32c's polynomial, its bits in the order of the register.
pub(super) const POLYNOMIAL: u32 = 0x82F6_3B78;

/// Bytes of each of the three lanes. A full packet of 1,200 bytes takes one round of `FULL`; a packet with a message of 1 KiB takes one of
/// `LONG`; `SHORT` is for the bytes that are left.
const FULL: usize = 392;
const LONG: usize = 336;
const SHORT: usize = 56;

static PAST_FULL: Shift = Shift::past(FULL);
static PAST_LONG: Shift = Shift::past(LONG);
static PAST_SHORT: Shift = Shift::past(SHORT);

/// The effect of a fixed number of following zero bytes on a sum: for each of the sum's four bytes, the contribution of that byte alone.
struct Shift([[u32; 256]; 4]);

impl Shift {
    const fn past(zeros: usize) -> Self {
        let mut table = [[0; 256]; 4];
        let mut bit = 0;
        while bit < 32 {
            let mut sum = 1_u32 << bit;
            let mut step = 0;
            while step < 8 * zeros {
                sum = (sum >> 1) ^ (POLYNOMIAL & (sum & 1).wrapping_neg());
                step += 1;
            }
            // CRC sums are linear: this bit contributes to every byte value that has the bit.
            let mut byte = 0;
            while byte < 256 {
                if byte >> (bit % 8) & 1 == 1 {
                    table[bit / 8][byte] ^= sum;
                }
                byte += 1;
            }
            bit += 1;
        }
        Self(table)
    }

    #[inline]
    fn of(&self, sum: u64) -> u64 {
        let [a, b, c, d] = (sum as u32).to_le_bytes().map(usize::from);
        u64::from(self.0[0][a] ^ self.0[1][b] ^ self.0[2][c] ^ self.0[3][d])
    }
}

fearless_simd::kernel!(
    /// The checksum of a header and the chunks after it.
    pub(super) fn crc32c(sse: Sse4_2, header: &[u8; 12], chunks: &[u8]) -> u32 {
        let sum = in_one_lane(u64::from(u32::MAX), header);
        let (sum, rest) = in_lanes::<FULL>(sum, chunks, &PAST_FULL);
        let (sum, rest) = in_lanes::<LONG>(sum, rest, &PAST_LONG);
        let (sum, rest) = in_lanes::<SHORT>(sum, rest, &PAST_SHORT);
        !(in_one_lane(sum, rest) as u32)
    }
);

/// Processes rounds of three lanes of `LANE` bytes while enough bytes are left; returns the sum and the bytes left over.
#[target_feature(enable = "sse4.2")]
#[inline]
fn in_lanes<'a, const LANE: usize>(mut sum: u64, bytes: &'a [u8], past_lane: &Shift) -> (u64, &'a [u8]) {
    let rounds = bytes.chunks_exact(3 * LANE);
    let rest = rounds.remainder();
    for round in rounds {
        let (first, others) = round.split_at(LANE);
        let (second, third) = others.split_at(LANE);
        let (mut second_sum, mut third_sum) = (0, 0);
        let words = words(first).iter().zip(words(second)).zip(words(third));
        for ((first, second), third) in words {
            sum = _mm_crc32_u64(sum, u64::from_le_bytes(*first));
            second_sum = _mm_crc32_u64(second_sum, u64::from_le_bytes(*second));
            third_sum = _mm_crc32_u64(third_sum, u64::from_le_bytes(*third));
        }
        sum = past_lane.of(past_lane.of(sum) ^ second_sum) ^ third_sum;
    }
    (sum, rest)
}

#[target_feature(enable = "sse4.2")]
#[inline]
pub(super) fn in_one_lane(mut sum: u64, bytes: &[u8]) -> u64 {
    let (words, mut rest) = bytes.as_chunks();
    for word in words {
        sum = _mm_crc32_u64(sum, u64::from_le_bytes(*word));
    }
    // Half of all packets end here, because their length is a multiple of four.
    if let Some((half, last)) = rest.split_first_chunk() {
        sum = _mm_crc32_u32(sum as u32, u32::from_le_bytes(*half)).into();
        rest = last;
    }
    rest.iter()
        .fold(sum, |sum, byte| _mm_crc32_u8(sum as u32, *byte).into())
}

fn words(lane: &[u8]) -> &[[u8; 8]] {
    lane.as_chunks().0
}
