//! The integers of the protocol, each with its own type so that one kind cannot be mistaken for another.
//!
//! Sequence numbers compare by serial number arithmetic (RFC 1982, RFC 9260 §1.6). They do not implement `Ord`, because this relation is
//! not transitive over the whole number space.

use core::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

macro_rules! serial {
    ($name:ident($inner:ty, $signed:ty)) => {
        impl $name {
            /// The number `count` ahead, wrapping around.
            #[must_use]
            pub const fn plus(self, count: $inner) -> Self {
                Self(self.0.wrapping_add(count))
            }

            /// The number `count` behind, wrapping around.
            #[must_use]
            pub const fn minus(self, count: $inner) -> Self {
                Self(self.0.wrapping_sub(count))
            }

            /// The next number.
            #[must_use]
            pub const fn next(self) -> Self {
                self.plus(1)
            }

            /// How far `self` is ahead of `other`, wrapping around: 0 when equal.
            #[must_use]
            pub const fn distance_from(self, other: Self) -> $inner {
                self.0.wrapping_sub(other.0)
            }

            /// Whether `self` comes before `other` in serial number arithmetic.
            #[must_use]
            pub const fn is_before(self, other: Self) -> bool {
                (self.0.wrapping_sub(other.0) as $signed) < 0
            }

            /// Whether `self` comes after `other` in serial number arithmetic.
            #[must_use]
            pub const fn is_after(self, other: Self) -> bool {
                other.is_before(self)
            }
        }
    };
}

number!(
    /// A Transmission Sequence Number: numbers the DATA chunks of one direction (RFC 9260 §1.6).
    Tsn(u32)
);
serial!(Tsn(u32, i32));

number!(
    /// A Stream Sequence Number: numbers the ordered messages of one stream (RFC 9260 §6.5).
    Ssn(u16)
);
serial!(Ssn(u16, i16));

number!(
    /// A Message Identifier: numbers the messages of one stream with message interleaving (RFC 8260 §2.1).
    Mid(u32)
);
serial!(Mid(u32, i32));

number!(
    /// A Fragment Sequence Number: numbers the fragments of one message with message interleaving (RFC 8260 §2.1).
    Fsn(u32)
);
serial!(Fsn(u32, i32));

/// A Path Sequence Number: numbers the transmissions on one path (ECA-SCTP), with 24 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Psn(u32);

impl Psn {
    /// Number of bits.
    pub const BITS: u32 = 24;

    /// The low 24 bits of `number`.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number & ((1 << Self::BITS) - 1))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number `count` ahead, wrapping around.
    #[must_use]
    pub const fn plus(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// How far `self` is ahead of `other`, wrapping around: 0 when equal.
    #[must_use]
    pub const fn distance_from(self, other: Self) -> u32 {
        Self::new(self.0.wrapping_sub(other.0)).0
    }

    /// Whether `self` comes before `other` in serial number arithmetic.
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.distance_from(other) >= 1 << (Self::BITS - 1)
    }
}

number!(
    /// A stream of one direction, from 0 to 65,535 (RFC 9260 §3.3.1).
    #[derive(PartialOrd, Ord)]
    StreamId(u16)
);

impl From<u16> for StreamId {
    fn from(number: u16) -> Self {
        Self(number)
    }
}

number!(
    /// A Payload Protocol Identifier: opaque to SCTP, carried to the peer's application (RFC 9260 §3.3.1).
    Ppid(u32)
);

impl From<u32> for Ppid {
    fn from(number: u32) -> Self {
        Self(number)
    }
}

number!(
    /// A Verification Tag: shows that a packet belongs to an association (RFC 9260 §8.5). Zero only in packets that carry an INIT.
    VerificationTag(u32)
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_compare_across_the_wrap() {
        assert!(Tsn(u32::MAX).is_before(Tsn(0)));
        assert!(Tsn(5).is_after(Tsn(u32::MAX - 5)));
        assert!(!Tsn(7).is_before(Tsn(7)));
        assert_eq!(Tsn(2).distance_from(Tsn(u32::MAX)), 3);
        assert!(Ssn(65_535).is_before(Ssn(0)));
        let last = Psn::new(u32::MAX);
        assert_eq!((last.get(), last.plus(1)), (0x00FF_FFFF, Psn::new(0)));
        assert!(last.is_before(Psn::new(3)) && !Psn::new(3).is_before(last));
        assert_eq!(Psn::new(3).distance_from(last), 4);
    }
}
