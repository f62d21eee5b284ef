//! Claims: results that a paper reported, as inequalities that measured numbers can confirm or refute.
//!
//! A claim is judged by the 95 % interval over seeds. The claim holds if the whole interval lies within the bound, and fails if the whole
//! interval lies outside. Otherwise the claim is open: it is not shown, and more seeds may decide it.

mod halves;

use std::fmt;
use std::sync::Arc;

use crate::results::Results;
use crate::statistics::Estimate;

pub(crate) use halves::Place;
pub use halves::{Half, OnBed};

/// The number for each seed; `None` if the results lack the cells.
type Measure = Arc<dyn Fn(&Results) -> Option<Vec<f64>> + Send + Sync>;

/// A statement about results.
#[derive(Clone)]
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
    /// For a claim that cannot fail while the code does what it says: why. Such a claim tests the code and shows nothing about the paper.
    pub by_construction: Option<&'static str>,
    /// The name of the figure that draws the claim's numbers, if one does.
    pub figure: Option<&'static str>,
    /// The half of the results that the claim is about; `None` if there is one half, or if the claim compares both.
    pub half: Option<Half>,
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
    /// The claim cannot be judged on real packets.
    NotJudged,
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
    /// For a claim about real packets: the number of its runs for which the machine was too busy.
    pub busy_runs: usize,
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
            by_construction: None,
            figure: None,
            half: None,
            is_ratio: false,
            measure: Arc::new(measure),
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

    /// Marks the claim as true by construction, with the reason. Such claims are counted apart.
    #[must_use]
    pub fn by_construction(mut self, reason: &'static str) -> Self {
        self.by_construction = Some(reason);
        self
    }

    /// Names the figure that draws the claim's numbers: one of the experiment's figures or of its figures of single runs.
    #[must_use]
    pub fn drawn_in(mut self, figure: &'static str) -> Self {
        self.figure = Some(figure);
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
            _ if matches!(self.half, Some(Half::Bed(OnBed::Not(_)))) => Verdict::NotJudged,
            (None, _) => Verdict::NotRun,
            // Some numbers can be measured only in the simulator.
            (Some(_), None) if self.is_on_bed() => Verdict::NotJudged,
            // Values that are not numbers confirm nothing.
            (Some(_), None) => Verdict::Fails,
            (Some(_), Some(measured)) => self.bound.judge(measured),
        };
        Judgement {
            claim: self,
            measured,
            verdict,
            busy_runs: self.busy_runs(results),
        }
    }

    /// Whether the claim is about real packets.
    #[must_use]
    pub fn is_on_bed(&self) -> bool {
        matches!(self.half, Some(Half::Bed(_)))
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
    /// The numbers at which the verdict changes.
    fn ends(self) -> Vec<f64> {
        match self {
            Self::AtMost(end) | Self::AtLeast(end) => vec![end],
            Self::Within(least, most) => vec![least, most],
        }
    }

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
            Self::NotJudged => "not judged",
        }
    }
}

impl Judgement<'_> {
    /// For an open claim: the number of seeds that would decide it, if their values spread like those measured. `None` if no number would
    /// do or if there is one seed, and for other verdicts.
    #[must_use]
    pub fn seeds_to_decide(&self) -> Option<u64> {
        let measured = self.measured.filter(|_| self.verdict == Verdict::Open)?;
        measured.seeds_to_decide(&self.claim.bound.ends(), self.claim.is_ratio)
    }

    /// Whether the results are as they should be. A claim that must hold has to hold. Any other claim may also be open, or fail for a known
    /// reason.
    ///
    /// On real packets every claim may be open, because each seed costs real time. A failure does not count if the machine was too busy for
    /// one of the claim's runs.
    #[must_use]
    pub fn is_in_order(&self) -> bool {
        match self.verdict {
            Verdict::Holds | Verdict::NotRun | Verdict::NotJudged => true,
            Verdict::Open => !self.claim.must || self.claim.is_on_bed(),
            Verdict::Fails => (!self.claim.must && self.claim.because.is_some()) || self.busy_runs > 0,
        }
    }

    /// Why the claim cannot be judged on real packets; `None` if it can be.
    #[must_use]
    pub fn why_not_judged(&self) -> Option<&'static str> {
        match (self.verdict, &self.claim.half) {
            (Verdict::NotJudged, Some(Half::Bed(OnBed::Not(reason)))) => Some(reason),
            (Verdict::NotJudged, _) => Some("the testbed does not measure a number of this claim"),
            _ => None,
        }
    }
}

/// How many claims have which verdict. Claims that hold by construction are counted apart, because they show nothing about a paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Claims that hold, those by construction not included.
    pub hold: usize,
    /// Claims that hold by construction.
    pub by_construction: usize,
    /// Claims that fail.
    pub fail: usize,
    /// Open claims: they are not shown.
    pub open: usize,
    /// Claims whose cells were not run.
    pub not_run: usize,
    /// Claims that cannot be judged on real packets.
    pub not_judged: usize,
}

impl Tally {
    /// Counts these judgements.
    #[must_use]
    pub fn of<'a>(judgements: impl IntoIterator<Item = &'a Judgement<'a>>) -> Self {
        let mut tally = Self::default();
        for judgement in judgements {
            let count = match judgement.verdict {
                Verdict::Holds if judgement.claim.by_construction.is_some() => &mut tally.by_construction,
                Verdict::Holds => &mut tally.hold,
                Verdict::Fails => &mut tally.fail,
                Verdict::Open => &mut tally.open,
                Verdict::NotRun => &mut tally.not_run,
                Verdict::NotJudged => &mut tally.not_judged,
            };
            *count += 1;
        }
        tally
    }

    /// Counts these judgements: first those of the only or the simulated half and those that compare both halves, then those on real
    /// packets.
    #[must_use]
    pub fn of_halves(judgements: &[Judgement<'_>]) -> [Self; 2] {
        let of = |is_on_bed: bool| {
            Self::of(
                judgements
                    .iter()
                    .filter(|judgement| judgement.claim.is_on_bed() == is_on_bed),
            )
        };
        [of(false), of(true)]
    }

    /// The sum of two tallies.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            hold: self.hold + other.hold,
            by_construction: self.by_construction + other.by_construction,
            fail: self.fail + other.fail,
            open: self.open + other.open,
            not_run: self.not_run + other.not_run,
            not_judged: self.not_judged + other.not_judged,
        }
    }
}

/// For example `12 of 15 claims are shown; 1 fails, 2 are open; 3 more hold by construction`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.hold + self.fail + self.open + self.not_run;
        let is = |count| if count == 1 { "is" } else { "are" };
        write!(f, "{} of {all} claims {} shown", self.hold, is(self.hold))?;
        let fail = if self.fail == 1 { "fails" } else { "fail" };
        write!(f, "; {} {fail}, {} {} open", self.fail, self.open, is(self.open))?;
        if self.not_run > 0 {
            write!(f, ", {} {} not run", self.not_run, is(self.not_run))?;
        }
        if self.by_construction > 0 {
            let hold = if self.by_construction == 1 {
                "holds"
            } else {
                "hold"
            };
            write!(f, "; {} more {hold} by construction", self.by_construction)?;
        }
        if self.not_judged > 0 {
            let cannot = if self.not_judged == 1 {
                "claim is"
            } else {
                "claims are"
            };
            write!(f, "; {} {cannot} not judged", self.not_judged)?;
        }
        Ok(())
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
    fn claims_by_construction_are_counted_apart() {
        let claim = || Claim::new("", "", Bound::AtMost(1.0), |_| None);
        let (measured, made) = (claim(), claim().by_construction("both are the same protocol"));
        let judged = |claim, verdict| Judgement {
            claim,
            measured: None,
            verdict,
            busy_runs: 0,
        };
        let judgements = [
            judged(&measured, Verdict::Holds),
            judged(&made, Verdict::Holds),
            judged(&measured, Verdict::Open),
            judged(&made, Verdict::Fails),
        ];
        let tally = Tally::of(&judgements);
        let text = "1 of 3 claims is shown; 1 fails, 1 is open; 1 more holds by construction";
        assert_eq!(tally.to_string(), text);
        assert_eq!(tally.plus(tally).hold, 2);
    }

    #[test]
    fn an_open_claim_tells_the_seeds_that_would_decide() {
        let claim = Claim::new("", "", Bound::Within(2.0, 4.0), |_| None);
        let judged = |sample: &[f64]| {
            let measured = Estimate::of(sample).unwrap();
            let verdict = claim.bound.judge(&measured);
            Judgement {
                claim: &claim,
                measured: Some(measured),
                verdict,
                busy_runs: 0,
            }
        };
        assert_eq!(judged(&[1.0, 2.0, 3.0, 4.0, 5.0]).seeds_to_decide(), Some(13));
        assert_eq!(judged(&[3.0, 3.0]).seeds_to_decide(), None, "it holds");
    }

    #[test]
    fn one_seed_decides_nothing_and_equal_seeds_do() {
        assert_eq!(verdict(Bound::AtMost(9.0), &[1.0]), Verdict::Open);
        assert_eq!(verdict(Bound::Within(0.0, 0.0), &[0.0, 0.0]), Verdict::Holds);
        assert_eq!(verdict(Bound::Within(0.0, 0.0), &[1.0, 1.0]), Verdict::Fails);
    }
}
