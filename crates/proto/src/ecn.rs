//! The ECN codepoint of an IP packet (RFC 3168 §5), which the driver and the core hand to each other, and the state of ECN on a path.

/// The two ECN bits of the IP header: the sender says whether the packet is ECN-capable, and queues mark congestion (RFC 3168 §5,
/// RFC 8311).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum EcnCodepoint {
    /// 00: not ECN-capable. Queues can only drop the packet. The default.
    #[default]
    NotEct = 0,
    /// 01: ECN-capable, for low latency, low loss traffic (L4S, RFC 9331). This crate never sends it.
    Ect1 = 1,
    /// 10: ECN-capable, set by a sender that follows RFC 3168.
    Ect0 = 2,
    /// 11: congestion experienced; a queue marked the packet.
    Ce = 3,
}

impl EcnCodepoint {
    /// All codepoints, in the order of their bits.
    pub const ALL: [Self; 4] = [Self::NotEct, Self::Ect1, Self::Ect0, Self::Ce];

    /// The codepoint of the two low bits of the Traffic Class or (in IPv4) Type of Service octet.
    #[must_use]
    pub fn from_bits(octet: u8) -> Self {
        Self::ALL[usize::from(octet & 3)]
    }

    /// The two bits, as a number from 0 to 3.
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

/// Whether data packets leave a path as ECN-capable, ECT(0). Similar to RFC 9000 §13.4.2 and appendix A.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum EcnState {
    /// ECN was not negotiated.
    #[default]
    Off,
    /// At most ten packets leave as ECT(0), until one of them is acknowledged or all are lost. The initial state of a path, to which
    /// T3-rtx returns it.
    Testing,
    /// A packet that left as ECT(0) was acknowledged: new data leaves as ECT(0).
    Capable,
    /// No packet leaves as ECT(0) any more. Either ten of them were lost and none arrived, or T3-rtx expired three times before one
    /// arrived, or the peer reported more marks than packets were sent.
    Failed,
}
