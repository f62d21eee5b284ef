//! Counts packets by their ECN codepoint (RFC 3168 §5).

pub use anabranch_proto::EcnCodepoint as Ecn;

/// Packets by their ECN codepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EcnCounts([u64; 4]);

impl EcnCounts {
    /// Counts a packet.
    pub fn add(&mut self, ecn: Ecn) {
        self.0[usize::from(ecn.bits())] += 1;
    }

    /// Packets with this codepoint.
    #[must_use]
    pub fn of(&self, ecn: Ecn) -> u64 {
        self.0[usize::from(ecn.bits())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_have_the_bits_of_rfc_3168() {
        for (ecn, bits) in [(Ecn::NotEct, 0), (Ecn::Ect1, 1), (Ecn::Ect0, 2), (Ecn::Ce, 3)] {
            assert_eq!(ecn.bits(), bits);
            assert_eq!(
                Ecn::from_bits(0b1011_1000 | bits),
                ecn,
                "the other bits are the DSCP"
            );
            assert_eq!(ecn.is_capable(), bits != 0);
        }
    }
}
