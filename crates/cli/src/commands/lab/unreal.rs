//! `--bed` on systems without a testbed.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anabranch_lab::Experiment;
use anabranch_lab::stage::BedCells;

use super::Effort;
use crate::failure::Failure;

pub(super) fn host() -> Result<(), Failure> {
    Err(Failure::new("host: a testbed needs Linux"))
}

/// Takes the place of the testbed on Linux.
pub(super) struct Real;

impl Real {
    pub(super) fn new(effort: &Effort, _: &Arc<AtomicBool>) -> Result<Self, Failure> {
        match effort.bed {
            true => Err(Failure::new("--bed: a testbed needs Linux")),
            false => Ok(Self),
        }
    }

    pub(super) fn beside(
        &self,
        experiments: Vec<Experiment>,
        _: BedCells,
    ) -> Result<Vec<Experiment>, Failure> {
        Ok(experiments)
    }

    pub(super) fn explaining(&self, outcome: Result<(), Failure>) -> Result<(), Failure> {
        outcome
    }
}
