//! Claims: results that a paper reported, as inequalities that measured numbers can confirm or refute.
//!
//! A claim is judged by the 95 % interval over seeds. The claim holds if the whole interval lies within the bound, and fails if the whole
//! interval lies outside. Otherwise the claim is open.

use std::fmt;

use crate::results::Results;
use crate::statistics::Estimate;

/// The number for each seed; `None` if the results lack the cells.
type Measure = Box<dyn Fn(&Results) -> Option<Vec<f64>> + Send + Sync>;

/// A statement about results.
pub struct Claim {
    /// The claim in words, with the bound.
    pub says: &'static str,
    /// The paper's own numbers or words; empty if no paper has a number.
    pub paper: &'static str,
    /// Whether the results are wrong if the claim does not hold.
    pub must: bool,
    /// Where the number must lie.
    pub bound: Bound,
    /// For a claim that is known to fail: the reason, with the ablation that shows the cause.
    pub because: Option<&'static str>,
    is_ratio: bool,
    measure: Measure,
}

/// Where a number must lie, ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The number is not above this.
    AtMost(f64),
    /// The number is not below this.
    AtLeast(f64),
    /// The number is not below the first and not above the second.
    Within(f64, f64),
}

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval lies within the bound.
    Holds,
    /// The bound lies inside the interval: more seeds may decide.
    Open,
    /// The whole interval lies outside the bound.
    Fails,
    /// The cells that the claim needs were not run.
    NotRun,
}

/// A claim and the number measured for it.
#[derive(Clone, Copy, Debug)]
pub struct Judgement<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// The measured number, if there is one.
    pub measured: Option<Estimate>,
    /// The outcome.
    pub verdict: Verdict,
}

impl Claim {
    /// A claim about a number that `measure` takes from the results for each seed. Results may be right without the claim, unless
    /// [`Claim::must`] is called.
    pub fn new(
        says: &'static str,
        paper: &'static str,
        bound: Bound,
        measure: impl Fn(&Results) -> Option<Vec<f64>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            says,
            paper,
            must: false,
            bound,
            because: None,
            is_ratio: false,
            measure: Box::new(measure),
        }
    }

    /// A claim about a ratio; the mean over seeds is the geometric mean.
    pub fn of_ratio(
        says: &'static str,
        paper: &'static str,
        bound: Bound,
        measure: impl Fn(&Results) -> Option<Vec<f64>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            is_ratio: true,
            ..Self::new(says, paper, bound, measure)
        }
    }

    /// Marks the results as wrong if the claim does not hold.
    #[must_use]
    pub fn must(mut self) -> Self {
        self.must = true;
        self
    }

    /// Marks the claim as known to fail, with the reason.
    #[must_use]
    pub fn fails_because(mut self, reason: &'static str) -> Self {
        self.because = Some(reason);
        self
    }

    /// Judges the claim by these results.
    #[must_use]
    pub fn judge(&self, results: &Results) -> Judgement<'_> {
        let sample = (self.measure)(results);
        let estimate = if self.is_ratio {
            Estimate::of_ratios
        } else {
            Estimate::of
        };
        let measured = sample.as_deref().and_then(estimate);
        let verdict = match (&sample, &measured) {
            (None, _) => Verdict::NotRun,
            // Values that are not numbers confirm nothing.
            (Some(_), None) => Verdict::Fails,
            (Some(_), Some(measured)) => self.bound.judge(measured),
        };
        Judgement {
            claim: self,
            measured,
            verdict,
        }
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("says", &self.says)
            .field("must", &self.must)
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

impl Bound {
    fn judge(self, measured: &Estimate) -> Verdict {
        let (least, most) = match self {
            Self::AtMost(most) => (f64::NEG_INFINITY, most),
            Self::AtLeast(least) => (least, f64::INFINITY),
            Self::Within(least, most) => (least, most),
        };
        if least <= measured.low && measured.high <= most {
            Verdict::Holds
        } else if measured.high < least || most < measured.low {
            Verdict::Fails
        } else {
            Verdict::Open
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "≤ {most}"),
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::Within(least, most) if least == most => write!(f, "= {least}"),
            Self::Within(least, most) => write!(f, "{least} to {most}"),
        }
    }
}

impl Verdict {
    /// The verdict in one or two words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Open => "open",
            Self::Fails => "fails",
            Self::NotRun => "not run",
        }
    }
}

impl Judgement<'_> {
    /// Whether the results are as they should be. A claim that must hold has to hold. Any other claim may also be open, or fail for a known
    /// reason.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        match self.verdict {
            Verdict::Holds | Verdict::NotRun => true,
            Verdict::Open => !self.claim.must,
            Verdict::Fails => !self.claim.must && self.claim.because.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(bound: Bound, sample: &[f64]) -> Verdict {
        bound.judge(&Estimate::of(sample).unwrap())
    }

    #[test]
    fn the_whole_interval_decides() {
        // 3 ± 1.96
        let sample = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(verdict(Bound::AtMost(5.0), &sample), Verdict::Holds);
        assert_eq!(verdict(Bound::AtMost(4.0), &sample), Verdict::Open);
        assert_eq!(verdict(Bound::AtMost(1.0), &sample), Verdict::Fails);
        assert_eq!(verdict(Bound::AtLeast(1.0), &sample), Verdict::Holds);
        assert_eq!(verdict(Bound::AtLeast(2.0), &sample), Verdict::Open);
        assert_eq!(verdict(Bound::AtLeast(5.0), &sample), Verdict::Fails);
        assert_eq!(verdict(Bound::Within(1.0, 5.0), &sample), Verdict::Holds);
        assert_eq!(verdict(Bound::Within(2.0, 4.0), &sample), Verdict::Open);
        assert_eq!(verdict(Bound::Within(5.0, 6.0), &sample), Verdict::Fails);
    }

    #[test]
    fn one_seed_decides_nothing_and_equal_seeds_do() {
        assert_eq!(verdict(Bound::AtMost(9.0), &[1.0]), Verdict::Open);
        assert_eq!(verdict(Bound::Within(0.0, 0.0), &[0.0, 0.0]), Verdict::Holds);
        assert_eq!(verdict(Bound::Within(0.0, 0.0), &[1.0, 1.0]), Verdict::Fails);
    }
}
