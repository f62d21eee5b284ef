//! `--bed`: runs the cells of experiments also with real packets on the testbed.

use std::env::current_exe;
use std::fmt::Display;
use std::io::{stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anabranch_lab::Experiment;
use anabranch_lab::stage::{BedCells, RealNetwork, beside};
use anabranch_lab::testbed::{Testbed, host as host_of_testbed};

use super::Effort;
use crate::failure::Failure;

/// Is a host of a testbed that another process made.
pub(super) fn host() -> Result<(), Failure> {
    host_of_testbed(stdin().lock(), stdout().lock()).map_err(|error| Failure::new(format!("host: {error}")))
}

/// The testbed, if `--bed` is given.
pub(super) struct Real(Option<Arc<Testbed>>);

impl Real {
    /// # Errors
    /// This machine cannot have a testbed; the message names the requirement.
    pub(super) fn new(effort: &Effort, stop: &Arc<AtomicBool>) -> Result<Self, Failure> {
        if !effort.bed {
            return Ok(Self(None));
        }
        let failed = |error: &dyn Display| Failure::new(format!("--bed: {error}"));
        let program = current_exe().map_err(|error| failed(&error))?;
        let testbed = Testbed::new(Arc::clone(stop)).map_err(|error| failed(&error))?;
        Ok(Self(Some(Arc::new(testbed.with_processes(program)))))
    }

    /// Adds the runs of these cells on the testbed to the experiments.
    pub(super) fn beside(
        &self,
        experiments: Vec<Experiment>,
        cells: BedCells,
    ) -> Result<Vec<Experiment>, Failure> {
        let Some(testbed) = &self.0 else {
            return Ok(experiments);
        };
        let one = |experiment: &Experiment| {
            let real: Arc<dyn RealNetwork> = Arc::clone(testbed) as _;
            beside(experiment, real, cells).ok_or_else(|| {
                Failure::new(format!(
                    "--bed: {} has no cells that can run with real packets",
                    experiment.name
                ))
            })
        };
        experiments.iter().map(one).collect()
    }

    /// The outcome; if the testbed failed, its error.
    pub(super) fn explaining(&self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        match self.0.as_ref().and_then(|testbed| testbed.failure()) {
            Some(error) => Err(Failure::new(format!("--bed: {error}"))),
            None => outcome,
        }
    }
}
