//! The random numbers of a run. One seed determines them all. Every random process has its own generator: changing one process (a link's
//! loss, for example) leaves the numbers of the others unchanged.

use std::fmt;
use std::str::FromStr;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::units::{Digits, Problem, decimal};

/// The generator of one random process.
#[derive(Clone, Debug)]
pub struct Generator(ChaCha8Rng);

impl Generator {
    /// The generator for the process `label` in the run with `seed`. Equal arguments give equal numbers; different labels give unrelated
    /// numbers.
    #[must_use]
    pub fn of_process(seed: u64, label: &str) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        // Two different hashes of the label: if one hash collides, two processes still get different generators.
        key[8..16].copy_from_slice(&fnv1a(0xcbf2_9ce4_8422_2325, label.bytes()).to_le_bytes());
        key[16..24].copy_from_slice(&fnv1a(0x9e37_79b9_7f4a_7c15, label.bytes().rev()).to_le_bytes());
        key[24..].copy_from_slice(&(label.len() as u64).to_le_bytes());
        Self(ChaCha8Rng::from_seed(key))
    }

    /// A uniformly distributed number of 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// 32 random bytes, as the seed of an endpoint.
    pub fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    /// A number from 0 to `bound` - 1; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The high half of the product. The bias is at most bound / 2^64, far too small to affect a run.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A uniformly distributed number from 0 (included) to 1 (excluded).
    pub fn fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number from the exponential distribution with mean 1, as for the times between events of a Poisson process.
    pub fn exponential(&mut self) -> f64 {
        // The logarithm's argument is above 0.
        -(1.0 - self.fraction()).ln()
    }

    /// True with the given probability. If the probability is 0 or 1, the generator draws no number.
    pub fn chance(&mut self, probability: Probability) -> bool {
        match probability {
            Probability::NEVER => false,
            Probability::ALWAYS => true,
            Probability(billionths) => self.below(u64::from(Probability::ONE)) < u64::from(billionths),
        }
    }
}

fn fnv1a(offset: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(offset, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A probability in billionths, so that a percentage is written and read without rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Probability(u32);

impl Probability {
    const ONE: u32 = 1_000_000_000;
    /// 0.
    pub const NEVER: Self = Self(0);
    /// 1.
    pub const ALWAYS: Self = Self(Self::ONE);

    /// The nearest multiple of a billionth. A value below 0 counts as 0, one above 1 as 1.
    #[must_use]
    pub fn new(probability: f64) -> Self {
        Self((probability.clamp(0.0, 1.0) * f64::from(Self::ONE)).round() as u32)
    }

    /// The probability of this many percent.
    #[must_use]
    pub fn percent(percent: f64) -> Self {
        Self::new(percent / 100.0)
    }

    /// The probability as a number from 0 to 1.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE)
    }
}

impl From<f64> for Probability {
    fn from(probability: f64) -> Self {
        Self::new(probability)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 10_000_000, self.0 % 10_000_000);
        if rest == 0 {
            write!(f, "{whole}%")
        } else {
            write!(f, "{whole}.{}%", format!("{rest:07}").trim_end_matches('0'))
        }
    }
}

impl FromStr for Probability {
    type Err = Problem;

    /// Reads `0.1%` or `0.001`. The bare number 1 is refused: some programs read it as 1 %, others as 100 %.
    fn from_str(text: &str) -> Result<Self, Problem> {
        let percent = text.strip_suffix('%');
        let (number, unit) = match percent {
            Some(number) => (number.trim_end(), 10_000_000),
            None => (text, Self::ONE),
        };
        let billionths = match decimal(number, u64::from(unit), Digits::AllCount) {
            Err(Problem::TooLarge) => Err(Problem::AboveOne),
            billionths => billionths,
        };
        match u32::try_from(billionths?) {
            Ok(Self::ONE) if percent.is_none() => Err(Problem::BareOne),
            Ok(billionths @ 0..=Self::ONE) => Ok(Self(billionths)),
            _ => Err(Problem::AboveOne),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_seeds_give_unrelated_numbers() {
        let first = |seed, label| Generator::of_process(seed, label).next_u64();
        assert_eq!(first(1, "loss"), first(1, "loss"));
        assert_ne!(first(1, "loss"), first(2, "loss"));
        assert_ne!(first(1, "loss"), first(1, "jitter"));
        assert_ne!(first(1, "ab"), first(1, "ba"));
    }

    #[test]
    fn below_stays_below_and_reaches_all() {
        let mut generator = Generator::of_process(7, "below");
        let mut seen = [0_u32; 10];
        for _ in 0..10_000 {
            seen[generator.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (900..1100).contains(&n)), "{seen:?}");
        assert_eq!(generator.below(0), 0);
    }

    #[test]
    fn exponential_numbers_have_their_mean_and_their_tail() {
        let mut generator = Generator::of_process(7, "exponential");
        let numbers: Vec<_> = (0..100_000).map(|_| generator.exponential()).collect();
        let mean = numbers.iter().sum::<f64>() / 1e5;
        assert!((0.99..1.01).contains(&mean), "{mean}");
        let above = numbers.iter().filter(|&&number| number > 2.0).count();
        assert!((13_000..14_100).contains(&above), "{above} of e^-2 = 13,534");
    }

    #[test]
    fn chance_happens_as_often_as_said() {
        let mut generator = Generator::of_process(7, "chance");
        let hits = (0..100_000)
            .filter(|_| generator.chance(Probability::percent(3.0)))
            .count();
        assert!((2_850..3_150).contains(&hits), "{hits}");
        assert!(!generator.chance(Probability::NEVER));
        assert!(generator.chance(Probability::ALWAYS));
    }

    #[test]
    fn probabilities_are_written_and_read_back() {
        for (text, shown) in [
            ("0.1%", "0.1%"),
            ("0.001", "0.1%"),
            ("100%", "100%"),
            ("0.01", "1%"),
            ("1%", "1%"),
            ("0", "0%"),
            ("12.3456789%", "12.3456789%"),
        ] {
            let probability: Probability = text.parse().unwrap();
            assert_eq!(probability.to_string(), shown);
            assert_eq!(shown.parse(), Ok(probability));
        }
        for wrong in ["", "%", "101%", "1.5", "-1%", "x", "0.12345678%1"] {
            assert!(wrong.parse::<Probability>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_bare_one_is_neither_one_percent_nor_all() {
        for bare in ["1", "1.0", "01"] {
            assert_eq!(bare.parse::<Probability>(), Err(Problem::BareOne), "{bare}");
        }
        assert_eq!("100%".parse(), Ok(Probability::ALWAYS));
        assert_eq!("1%".parse(), Ok(Probability::percent(1.0)));
        assert_eq!("5".parse::<Probability>(), Err(Problem::AboveOne));
    }
}
