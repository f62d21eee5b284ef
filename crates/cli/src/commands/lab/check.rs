//! `anabranch lab check`: judges the claims of experiments, and tells by the exit status whether they hold as required.

use std::sync::atomic::AtomicBool;

use anabranch_lab::stage::BedCells;
use anabranch_lab::{Experiment, Judgement, Tally};

use super::measure::Measuring;
use super::real::Real;
use super::{CheckArgs, age, tell};
use crate::failure::Failure;

/// Judges the claims of the chosen experiments. With a testbed, each claim is judged on real packets as well.
pub(super) fn check(args: &CheckArgs, real: &Real, stop: &AtomicBool) -> Result<(), Failure> {
    let chosen = real.beside(args.chosen.experiments()?, BedCells::OfClaims)?;
    let measuring = Measuring::new(&chosen, &args.effort, &args.choice, args.observe.json, stop)?;
    args.effort.check_outputs()?;
    let mut failed = Failed::default();
    let (mut count, mut tally, mut on_bed) = (0, Tally::default(), Tally::default());
    for measured in measuring.results() {
        let (experiment, results) = measured?;
        let claims = (experiment.claims)();
        let judgements: Vec<_> = claims.iter().map(|claim| claim.judge(&results)).collect();
        tell::judgements(args.observe.output(), &experiment, &results, &judgements);
        count += 1;
        let [here, there] = Tally::of_halves(&judgements);
        (tally, on_bed) = (tally.plus(here), on_bed.plus(there));
        failed.add(&experiment, &judgements);
    }
    if count > 1 {
        tell::summary(args.observe.output(), tally, on_bed);
    }
    age::warn(&chosen);
    failed.outcome()
}

/// The exit status if claims fail on real packets only.
const FAILED_ON_BED: u8 = 3;

/// The claims that do not hold as required.
#[derive(Debug, Default)]
struct Failed {
    simulated: Vec<String>,
    on_bed: Vec<String>,
}

impl Failed {
    fn add(&mut self, experiment: &Experiment, judgements: &[Judgement<'_>]) {
        for judgement in judgements.iter().filter(|judgement| !judgement.is_in_order()) {
            let list = match judgement.claim.is_on_bed() {
                false => &mut self.simulated,
                true => &mut self.on_bed,
            };
            list.push(format!("\n  {}: {}", experiment.name, judgement.claim.says));
        }
    }

    fn outcome(self) -> Result<(), Failure> {
        let mut told = Vec::new();
        if !self.simulated.is_empty() {
            told.push(format!(
                "these claims do not hold as required:{}",
                self.simulated.concat()
            ));
        }
        if !self.on_bed.is_empty() {
            told.push(format!(
                "these claims fail on real packets:{}",
                self.on_bed.concat()
            ));
        }
        let failure = Failure::new(told.join("\n"));
        match (self.simulated.is_empty(), self.on_bed.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => Err(failure.with_status(FAILED_ON_BED)),
            (false, _) => Err(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_tells_which_half_failed() {
        let list = |fails: bool| match fails {
            true => vec!["\n  tcp: a claim".to_owned()],
            false => Vec::new(),
        };
        for (simulated, on_bed, status) in [
            (false, false, None),
            (true, false, Some(1)),
            (false, true, Some(FAILED_ON_BED)),
            (true, true, Some(1)),
        ] {
            let failed = Failed {
                simulated: list(simulated),
                on_bed: list(on_bed),
            };
            let told = failed.outcome().err();
            assert_eq!(told.as_ref().map(Failure::status), status);
            let lines = told.map_or(0, |failure| failure.message().lines().count());
            assert_eq!(lines, 2 * (usize::from(simulated) + usize::from(on_bed)));
        }
    }
}
