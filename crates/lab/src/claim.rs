//! Claims: what a paper reported, as an inequality that measured numbers can confirm or refute.
//!
//! A claim is judged by the 95 % interval over seeds, never by digits: it holds if the whole interval lies within the
//! bound, fails if the whole interval lies outside, and is open between.

use std::fmt;

use crate::results::Results;
use crate::statistics::Estimate;

/// The number for each seed; `None` where the results do not have the cells for it.
type Measure = Box<dyn Fn(&Results) -> Option<Vec<f64>> + Send + Sync>;

/// A statement about results.
pub struct Claim {
    /// What is claimed, in words, the bound included.
    pub says: &'static str,
    /// What the paper has, in its own numbers or words; empty if no paper speaks of it.
    pub paper: &'static str,
    /// Whether results in which it does not hold are wrong.
    pub must: bool,
    /// Where the number must lie.
    pub bound: Bound,
    /// Why it does not hold, naming the ablation that shows the cause; for claims that are known not to.
    pub because: Option<&'static str>,
    is_ratio: bool,
    measure: Measure,
}

/// Where a number must lie, ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Not above.
    AtMost(f64),
    /// Not below.
    AtLeast(f64),
    /// Neither below the first nor above the second.
    Within(f64, f64),
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval lies within the bound.
    Holds,
    /// The interval has an end on either side: more seeds would tell.
    Open,
    /// The whole interval lies outside.
    Fails,
    /// The cells that it speaks of were not run.
    NotRun,
}

/// A claim beside what was measured.
#[derive(Clone, Copy, Debug)]
pub struct Judgement<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// What was measured.
    pub measured: Option<Estimate>,
    /// What follows.
    pub verdict: Verdict,
}

impl Claim {
    /// A claim about a number that `measure` takes from the results for each seed. It need not hold for the results to
    /// be right until [`Claim::must`] says so.
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

    /// A claim about a ratio, whose mean over seeds is the geometric one.
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

    /// The same, and results in which it does not hold are wrong.
    #[must_use]
    pub fn must(mut self) -> Self {
        self.must = true;
        self
    }

    /// The same, known not to hold, with the reason.
    #[must_use]
    pub fn fails_because(mut self, reason: &'static str) -> Self {
        self.because = Some(reason);
        self
    }

    /// Judges it.
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
            // Numbers that are none confirm nothing.
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
    /// In a word or two.
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
    /// Whether the results are as they should be: a claim that must hold does; any other does, or its reason for not
    /// holding is known, or too few seeds were run to say.
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
