//! CRC32c by multiplication without carries, on processors with AVX-512: 256 bytes in each round. The sum of bytes with n zeros behind them
//! is their polynomial times x^8n, modulo CRC32c's. A round thus moves the vectors past the next bytes, and adds those.

use core::arch::x86_64::{
    __m128i, __m512i, _mm_crc32_u64, _mm_cvtsi128_si64, _mm_extract_epi64, _mm_xor_si128,
    _mm512_clmulepi64_epi128, _mm512_extracti64x2_epi64, _mm512_set_epi64, _mm512_ternarylogic_epi64,
    _mm512_xor_si512,
};

use fearless_simd::prelude::*;
use fearless_simd::{Avx512, u8x64};

use super::lanes::{POLYNOMIAL, in_one_lane};

/// Bytes of a vector.
const VECTOR: usize = 64;
/// Vectors of a round.
const VECTORS: usize = 4;
/// With fewer bytes, the lanes are faster.
pub(super) const LEAST: usize = 2 * VECTOR;

/// x^`exponent` modulo the polynomial.
const fn power(exponent: usize) -> i64 {
    let mut sum = 1_u32 << 31;
    let mut step = 0;
    while step < exponent {
        sum = (sum >> 1) ^ (POLYNOMIAL & (sum & 1).wrapping_neg());
        step += 1;
    }
    sum as i64
}

/// The factors for the first and for the last eight of 16 bytes, which move them past so many bytes. The last eight are 64 places lower.
/// Registers hold the highest power in bit 0: a factor of 32 bits is read 32 places too high, and a product one place too high.
const fn past(bytes: usize) -> [i64; 2] {
    [power(8 * bytes + 64 - 33), power(8 * bytes - 33)]
}

/// Past one to four vectors.
const PAST_VECTORS: [[i64; 2]; VECTORS] =
    [past(VECTOR), past(2 * VECTOR), past(3 * VECTOR), past(4 * VECTOR)];
/// Past the next 16 bytes, and past twice and three times as many.
const PAST_QUARTERS: [[i64; 2]; 3] = [past(16), past(2 * 16), past(3 * 16)];

fearless_simd::kernel!(
    /// The checksum of a header and the chunks after it, of at least `LEAST` bytes.
    pub(super) fn crc32c(avx512: Avx512, header: &[u8; 12], chunks: &[u8]) -> u32 {
        let (vectors, rest) = chunks.as_chunks();
        let sum = in_one_lane(u64::from(u32::MAX), header);
        !(in_one_lane(in_vectors(avx512, sum, vectors), rest) as u32)
    }
);

#[target_feature(enable = "avx512f,avx512dq,vpclmulqdq,sse4.2")]
#[inline]
fn in_vectors(avx512: Avx512, sum: u64, bytes: &[[u8; VECTOR]]) -> u64 {
    let read = |vector: &[u8; VECTOR]| -> __m512i { u8x64::from_slice(avx512, vector).into() };
    let Some((first, others)) = bytes.split_first() else {
        return sum;
    };
    let first = _mm512_xor_si512(read(first), _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, sum as i64));
    let (past_one, past_two) = (everywhere(PAST_VECTORS[0]), everywhere(PAST_VECTORS[1]));
    let (past_three, past_round) = (everywhere(PAST_VECTORS[2]), everywhere(PAST_VECTORS[3]));
    let (mut last, mut rest) = (first, others);
    if let Some(([second, third, fourth], others)) = others.split_first_chunk() {
        let (rounds, others) = others.as_chunks::<VECTORS>();
        let mut round = [first, read(second), read(third), read(fourth)];
        for next in rounds {
            let [a, b, c, d] = round;
            let [next_a, next_b, next_c, next_d] = next;
            round = [
                fold(a, past_round, read(next_a)),
                fold(b, past_round, read(next_b)),
                fold(c, past_round, read(next_c)),
                fold(d, past_round, read(next_d)),
            ];
        }
        let [a, b, c, d] = round;
        last = fold(a, past_three, fold(b, past_two, fold(c, past_one, d)));
        rest = others;
    }
    for next in rest {
        last = fold(last, past_one, read(next));
    }
    of_vector(last)
}

/// The sum of 64 bytes.
#[target_feature(enable = "avx512f,avx512dq,vpclmulqdq,sse4.2")]
#[inline]
fn of_vector(vector: __m512i) -> u64 {
    let [one, two, three] = PAST_QUARTERS;
    let factors = _mm512_set_epi64(0, 0, one[1], one[0], two[1], two[0], three[1], three[0]);
    let none = _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, 0);
    let moved = fold(vector, factors, none);
    let quarters = [
        _mm512_extracti64x2_epi64::<0>(moved),
        _mm512_extracti64x2_epi64::<1>(moved),
        _mm512_extracti64x2_epi64::<2>(moved),
        _mm512_extracti64x2_epi64::<3>(vector),
    ];
    let add = |x: __m128i, y: __m128i| _mm_xor_si128(x, y);
    let [first, second, third, fourth] = quarters;
    let all = add(add(first, second), add(third, fourth));
    let sum = _mm_crc32_u64(0, _mm_cvtsi128_si64(all) as u64);
    _mm_crc32_u64(sum, _mm_extract_epi64::<1>(all) as u64)
}

/// Moves the 16-byte quarters of a vector by their factors, and adds `next`.
#[target_feature(enable = "avx512f,vpclmulqdq")]
#[inline]
fn fold(vector: __m512i, factors: __m512i, next: __m512i) -> __m512i {
    /// The truth table of x ^ y ^ z.
    const XOR: i32 = 0x96;
    let first = _mm512_clmulepi64_epi128::<0x00>(vector, factors);
    let last = _mm512_clmulepi64_epi128::<0x11>(vector, factors);
    _mm512_ternarylogic_epi64::<XOR>(first, last, next)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn everywhere([first, last]: [i64; 2]) -> __m512i {
    _mm512_set_epi64(last, first, last, first, last, first, last, first)
}
