//! The experiments, and what several of them share.

mod nr_sack_forward_tsn;
mod time_sensitive;

use crate::experiment::Experiment;

/// All experiments, in the order in which they are listed.
#[must_use]
pub fn all() -> Vec<Experiment> {
    vec![nr_sack_forward_tsn::experiment(), time_sensitive::experiment()]
}

/// The experiment of this name.
#[must_use]
pub fn named(name: &str) -> Option<Experiment> {
    all().into_iter().find(|experiment| experiment.name == name)
}
