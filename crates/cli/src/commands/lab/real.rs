//! `--bed`: the experiments beside themselves on real packets.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anabranch_lab::Experiment;
use anabranch_lab::stage::{RealNetwork, beside};
use anabranch_lab::testbed::Testbed;

use super::Effort;
use crate::failure::Failure;

/// Where runs are made on real packets, if they are asked for.
pub(super) struct Real(Option<Arc<Testbed>>);

impl Real {
    /// # Errors
    /// There can be none here; the message says what it takes.
    pub(super) fn new(effort: &Effort, stop: &Arc<AtomicBool>) -> Result<Self, Failure> {
        let testbed = effort.bed.then(|| Testbed::new(Arc::clone(stop))).transpose();
        let testbed = testbed.map_err(|error| Failure::new(format!("--bed: {error}")))?;
        Ok(Self(testbed.map(Arc::new)))
    }

    /// The experiments as they are to be run. `all`: with all cells that can be run on real packets.
    pub(super) fn beside(&self, experiments: Vec<Experiment>, all: bool) -> Result<Vec<Experiment>, Failure> {
        let Some(testbed) = &self.0 else {
            return Ok(experiments);
        };
        let one = |experiment: &Experiment| {
            let real: Arc<dyn RealNetwork> = Arc::clone(testbed) as _;
            beside(experiment, real, all).ok_or_else(|| {
                Failure::new(format!(
                    "--bed: {} has no cells that can be run on real packets",
                    experiment.name
                ))
            })
        };
        experiments.iter().map(one).collect()
    }

    /// The outcome, or why the runs came to an end.
    pub(super) fn explaining(&self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        match self.0.as_ref().and_then(|testbed| testbed.failure()) {
            Some(error) => Err(Failure::new(format!("--bed: {error}"))),
            None => outcome,
        }
    }
}
