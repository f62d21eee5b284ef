//! The addresses that a peer's STUN messages show. The library for ICE keeps a candidate for each of them as long as the session lasts.

use std::collections::BTreeSet;
use std::net::SocketAddr;

/// The most addresses. A peer that moves, or whose address translator does, needs a few.
const MOST: usize = 64;

/// The sources of the messages, and the addresses that they map this side's to.
#[derive(Debug, Default)]
pub(super) struct Learned(BTreeSet<SocketAddr>);

impl Learned {
    /// Whether a message with these addresses may be used: they are known, or few are.
    pub(super) fn admits(&mut self, source: SocketAddr, mapped: Option<SocketAddr>) -> bool {
        let addresses = [Some(source), mapped];
        let mut addresses = addresses.into_iter().flatten();
        addresses.all(|address| {
            let has_room = self.0.len() < MOST;
            self.0.contains(&address) || has_room && self.0.insert(address)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_addresses_stay_and_others_are_few() {
        let address = |number: u8| SocketAddr::from(([10, 0, 0, number], 9));
        let mut learned = Learned::default();
        for number in 0..200 {
            let is_admitted = learned.admits(address(number / 2), Some(address(number)));
            assert_eq!(is_admitted, usize::from(number) < MOST, "{number}");
        }
        assert!(learned.admits(address(0), None) && !learned.admits(address(199), None));
    }
}
