//! Sequence numbers that do not wrap, and sets of them (TSNs, RFC 9260 §1.6; PSNs, ECA-SCTP).
//!
//! TSNs have 32 bits on the wire and PSNs (ECA-SCTP) 24. Inside the core both have 64 bits, whose low bits are the number on the wire:
//! an *extended TSN* does not wrap, so it is compared, subtracted and kept in sets like any other number.

mod runs;
mod walk;

use anabranch_wire::{Psn, Tsn};

pub(crate) use runs::{Run, Runs, difference, union};
pub(crate) use walk::Walk;

/// A TSN counted without wrapping: its low 32 bits are the TSN.
pub(crate) type ExtendedTsn = u64;

/// The extended TSN of an Initial TSN. It is 2³² above zero, so that a number before the first is still positive.
pub(crate) fn first_extended_tsn(initial: Tsn) -> ExtendedTsn {
    (1 << u32::BITS) | u64::from(initial.0)
}

/// The extended TSN with these low bits that is nearest to `near`.
pub(crate) fn extend_tsn(tsn: Tsn, near: ExtendedTsn) -> ExtendedTsn {
    // Nothing is more than 2³¹ below the first extended TSN, which is 2³² or more.
    nearest(tsn.0, u32::BITS, near).unwrap_or_default()
}

/// The number of a transmission, from its PSN: the one nearest to `near`; `None` if it would be negative.
pub(crate) fn extend_psn(psn: Psn, near: u64) -> Option<u64> {
    nearest(psn.get(), Psn::BITS, near)
}

/// The number nearest to `near` whose low `bits` bits are `low`.
fn nearest(low: u32, bits: u32, near: u64) -> Option<u64> {
    let turn = 1_u64 << bits;
    let ahead = u64::from(low).wrapping_sub(near) & (turn - 1);
    if ahead < turn / 2 {
        Some(near + ahead)
    } else {
        near.checked_sub(turn - ahead)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_number_has_room_below() {
        let first = first_extended_tsn(Tsn(0));
        assert_eq!(extend_tsn(Tsn(u32::MAX), first), first - 1);
        assert_eq!(extend_tsn(Tsn(1 << 31), first), first - (1 << 31));
        assert_eq!(extend_psn(Psn::new(u32::MAX), 0), None);
    }

    proptest! {
        #[test]
        fn numbers_come_back(near in 1_u64 << 32..1 << 40, tsn in any::<u32>(), psn in any::<u32>()) {
            let extended = extend_tsn(Tsn(tsn), near);
            prop_assert_eq!(extended as u32, tsn);
            prop_assert!(extended.abs_diff(near) <= 1 << 31);
            let psn = Psn::new(psn);
            let number = extend_psn(psn, near).expect("far from zero");
            prop_assert_eq!(Psn::new(number as u32), psn);
            prop_assert!(number.abs_diff(near) <= 1 << 23);
        }
    }
}
