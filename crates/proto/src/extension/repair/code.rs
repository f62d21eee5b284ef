//! The code: Reed-Solomon over bytes (the field of 256 elements with the polynomial x⁸ + x⁴ + x³ + x² + 1), with a Cauchy matrix (Blömer et al.,
//! *An XOR-Based Erasure-Resilient Coding Scheme*). Any square part of such a matrix can be inverted, so that any repair chunks replace any
//! fragments. A row does not depend on the number of rows.

use super::{MOST_FRAGMENTS, MOST_REPAIRS};

const POLYNOMIAL: u16 = 0x11D;
/// The logarithm of 0: beyond the sums of all others.
const OF_ZERO: u16 = 512;

/// The powers of the generator, for sums of two logarithms, and 0 for sums with [`OF_ZERO`].
const POWERS: [u8; 1025] = powers();
const LOGARITHMS: [u16; 256] = logarithms();

const fn powers() -> [u8; 1025] {
    let mut powers = [0; 1025];
    let (mut at, mut value) = (0, 1_u16);
    while at < OF_ZERO as usize - 1 {
        powers[at] = value as u8;
        value <<= 1;
        if value > 255 {
            value ^= POLYNOMIAL;
        }
        at += 1;
    }
    powers
}

const fn logarithms() -> [u16; 256] {
    let powers = powers();
    let mut logarithms = [OF_ZERO; 256];
    let mut at = 0;
    while at < 255 {
        logarithms[powers[at] as usize] = at as u16;
        at += 1;
    }
    logarithms
}

fn times(one: u8, other: u8) -> u8 {
    POWERS[usize::from(LOGARITHMS[usize::from(one)] + LOGARITHMS[usize::from(other)])]
}

/// The inverse of a number other than 0.
fn inverse(number: u8) -> u8 {
    POWERS[usize::from(255 - LOGARITHMS[usize::from(number)])]
}

/// The factor of a fragment in a repair chunk, by their numbers.
fn factor(repair: usize, fragment: usize) -> u8 {
    debug_assert!(
        repair < MOST_REPAIRS && fragment < MOST_FRAGMENTS,
        "the rows and columns differ"
    );
    inverse((128 + repair as u8) ^ fragment as u8)
}

/// Adds `data`, times a factor, to the beginning of `sum`.
fn add(sum: &mut [u8], factor: u8, data: &[u8]) {
    let factor = usize::from(LOGARITHMS[usize::from(factor)]);
    for (sum, byte) in sum.iter_mut().zip(data) {
        *sum ^= POWERS[usize::from(LOGARITHMS[usize::from(*byte)]) + factor];
    }
}

/// The repair chunk with this number, of `len` bytes. Each fragment is given in pieces that follow each other; a shorter one is as if zeros
/// followed it.
pub(super) fn encode<'a>(
    repair: usize,
    len: usize,
    fragments: impl Iterator<Item = [&'a [u8]; 2]>,
) -> Vec<u8> {
    let mut sum = vec![0; len];
    for (number, fragment) in fragments.enumerate() {
        subtract(&mut sum, repair, number, fragment);
    }
    sum
}

/// Removes what a fragment contributes to a repair chunk; or adds it, which is the same in this field.
fn subtract(repair_chunk: &mut [u8], repair: usize, number: usize, fragment: [&[u8]; 2]) {
    let factor = factor(repair, number);
    let (first, rest) = repair_chunk.split_at_mut(fragment[0].len());
    add(first, factor, fragment[0]);
    add(rest, factor, fragment[1]);
}

/// The missing fragments, as long as the repair chunks. There is a repair chunk for each, with its number; `present` has the others, as for [`encode`].
pub(crate) fn decode<'a>(
    missing: &[usize],
    repairs: &[(usize, &[u8])],
    present: impl Iterator<Item = (usize, [&'a [u8]; 2])>,
) -> Vec<Vec<u8>> {
    let mut sums: Vec<Vec<u8>> = repairs.iter().map(|(_, chunk)| chunk.to_vec()).collect();
    for (number, fragment) in present {
        for ((repair, _), sum) in repairs.iter().zip(&mut sums) {
            subtract(sum, *repair, number, fragment);
        }
    }
    let row = |(repair, _): &(usize, &[u8])| missing.iter().map(|number| factor(*repair, *number)).collect();
    let matrix = repairs.iter().map(row).collect();
    solve(matrix, sums)
}

/// Solves the equations by elimination. No pivot is 0, because each square part of the matrix can be inverted.
fn solve(mut matrix: Vec<Vec<u8>>, mut sums: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    for column in 0..matrix.len() {
        let scale = inverse(matrix[column][column]);
        matrix[column]
            .iter_mut()
            .for_each(|one| *one = times(*one, scale));
        sums[column].iter_mut().for_each(|one| *one = times(*one, scale));
        for row in (0..matrix.len()).filter(|row| *row != column) {
            let factor = matrix[row][column];
            let [row_of, pivot] = pair(&mut matrix, row, column);
            add(row_of, factor, pivot);
            let [sum, pivot] = pair(&mut sums, row, column);
            add(sum, factor, pivot);
        }
    }
    sums
}

/// Two different entries.
fn pair(list: &mut [Vec<u8>], one: usize, other: usize) -> [&mut Vec<u8>; 2] {
    let (low, high) = list.split_at_mut(one.max(other));
    let (low, high) = (&mut low[one.min(other)], &mut high[0]);
    if one < other { [low, high] } else { [high, low] }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_field_is_a_field() {
        for one in 1..=255 {
            assert_eq!(times(one, inverse(one)), 1);
            assert_eq!(times(one, 0), 0);
            for other in 1..=255 {
                let slowly = (0..8).fold(0_u16, |sum, bit| {
                    if other >> bit & 1 == 1 {
                        sum ^ u16::from(one) << bit
                    } else {
                        sum
                    }
                });
                let reduced = (8..16).rev().fold(slowly, |sum, bit| {
                    if sum >> bit & 1 == 1 {
                        sum ^ POLYNOMIAL << (bit - 8)
                    } else {
                        sum
                    }
                });
                assert_eq!(u16::from(times(one, other)), reduced, "{one} times {other}");
            }
        }
    }

    /// A message in fragments of up to `len` bytes, the repair chunks, and which fragments and repair chunks arrive.
    fn blocks() -> impl Strategy<Value = (Vec<Vec<u8>>, usize, Vec<bool>)> {
        (1..=MOST_FRAGMENTS, 1..=MOST_REPAIRS, 1..40_usize).prop_flat_map(|(fragments, repairs, len)| {
            let payload = prop::collection::vec(any::<u8>(), 1..=len);
            let arrive = prop::collection::vec(prop::bool::weighted(0.8), fragments + repairs);
            (prop::collection::vec(payload, fragments), Just(repairs), arrive)
        })
    }

    proptest! {
        #[test]
        fn any_repair_chunks_replace_any_fragments((fragments, repairs, arrive) in blocks()) {
            let len = fragments.iter().map(Vec::len).max().unwrap();
            let pieces = |fragment: &'_ Vec<u8>| {
                let fragment: &[u8] = Box::leak(fragment.clone().into_boxed_slice());
                let (one, other) = fragment.split_at(fragment.len() / 2);
                [one, other]
            };
            let encoded: Vec<_> = (0..repairs).map(|repair| encode(repair, len, fragments.iter().map(pieces))).collect();
            let (missing, present): (Vec<usize>, Vec<usize>) = (0..fragments.len()).partition(|at| !arrive[*at]);
            let arrived = (0..repairs).filter(|repair| arrive[fragments.len() + repair]);
            let used: Vec<_> = arrived.map(|repair| (repair, &encoded[repair][..])).take(missing.len()).collect();
            if used.len() == missing.len() {
                let present = present.iter().map(|at| (*at, pieces(&fragments[*at])));
                let decoded = decode(&missing, &used, present);
                for (at, mut decoded) in missing.into_iter().zip(decoded) {
                    let zeros = decoded.split_off(fragments[at].len());
                    prop_assert_eq!(&decoded, &fragments[at]);
                    prop_assert!(zeros.iter().all(|byte| *byte == 0));
                }
            }
        }
    }
}
