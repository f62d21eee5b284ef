//! The random number generator of the core (RFC 9260 §5.3.1 tags, §6.3 and §8.3 jitter). The core has no other source of randomness.

use rand_chacha::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};

/// A cryptographic random number generator with an explicit seed. In production the seed comes from the operating system; in a
/// simulation the same seed gives the same run.
#[derive(Clone, Debug)]
pub(crate) struct Random(ChaCha12Rng);

impl Random {
    /// A generator that yields the same numbers for the same seed.
    #[must_use]
    pub(crate) fn from_seed(seed: [u8; 32]) -> Self {
        Self(ChaCha12Rng::from_seed(seed))
    }

    /// Another generator for a part of the core, seeded from this one.
    #[must_use]
    pub(crate) fn fork(&mut self) -> Self {
        Self::from_seed(self.bytes())
    }

    /// A random number of 32 bits.
    pub(crate) fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// A random number of 64 bits.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A random number that is not 0, for verification tags (RFC 9260 §5.3.1).
    pub(crate) fn nonzero_u32(&mut self) -> u32 {
        loop {
            let number = self.next_u32();
            if number != 0 {
                return number;
            }
        }
    }

    /// A number between -0.5 and 0.5, for the jitter of heartbeats (RFC 9260 §8.3).
    pub(crate) fn jitter(&mut self) -> f64 {
        f64::from(self.next_u32()) / f64::from(u32::MAX) - 0.5
    }

    /// 32 random bytes, for keys.
    pub(crate) fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}
