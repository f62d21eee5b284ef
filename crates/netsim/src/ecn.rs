//! The ECN codepoint of an IP packet (RFC 3168 §5).

/// The two bits of the IP header by which sender and queues tell each other of congestion (RFC 3168 §5, RFC 8311).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Ecn {
    /// 00: the transport does not take part. Queues can only drop the packet. The default.
    #[default]
    NotEct = 0,
    /// 01: ECN-capable; RFC 9331 gives it to low latency, low loss traffic (L4S). Queues here treat it as ECT(0).
    Ect1 = 1,
    /// 10: ECN-capable: what a sender by RFC 3168 sets.
    Ect0 = 2,
    /// 11: congestion experienced: a queue marked the packet.
    Ce = 3,
}

impl Ecn {
    /// All codepoints, in the order of their bits.
    pub const ALL: [Self; 4] = [Self::NotEct, Self::Ect1, Self::Ect0, Self::Ce];

    /// The codepoint of the two low bits of the Traffic Class or (in IPv4) Type of Service octet.
    #[must_use]
    pub fn from_bits(octet: u8) -> Self {
        Self::ALL[usize::from(octet & 3)]
    }

    /// Its two bits, from 0 to 3.
    #[must_use]
    pub fn bits(self) -> u8 {
        self as u8
    }

    /// Whether a queue may mark the packet: true for ECT(0), ECT(1) and CE.
    #[must_use]
    pub fn is_capable(self) -> bool {
        self != Self::NotEct
    }
}

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
