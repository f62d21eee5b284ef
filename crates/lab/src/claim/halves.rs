//! Claims of an experiment with [two halves](crate::stage::beside()): which cells a claim needs, and the claim judged on one half.

use std::ops::Range;
use std::sync::Arc;

use super::Claim;
use crate::results::Results;
use crate::stage::{BED, HALF, NOT_HELD, SIMULATED};

/// A place on each axis.
pub(crate) type Place = Vec<(&'static str, String)>;

/// The half of an experiment that a claim is judged on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Half {
    /// The simulator.
    Simulated,
    /// Real packets.
    Bed(OnBed),
}

/// How a claim is judged on real packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnBed {
    /// By the runs of these cells, given by their places on the experiment's own axes.
    By(Vec<Vec<(&'static str, String)>>),
    /// Not at all, for this reason.
    Not(&'static str),
}

impl Half {
    /// The half's place on the axis [`HALF`].
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Simulated => SIMULATED,
            Self::Bed(_) => BED,
        }
    }
}

impl Claim {
    /// The same claim about one half of the results.
    pub(crate) fn on(&self, half: Half) -> Self {
        let measure = Arc::clone(&self.measure);
        let name = half.name();
        Self {
            half: Some(half),
            measure: Arc::new(move |results| measure(&results.half(name))),
            ..self.clone()
        }
    }

    /// The cells of these results that the claim cannot do without; `None` if the claim needs other cells as well. Only the places of the
    /// cells count, not their numbers.
    pub(crate) fn needs(&self, results: &mut Results) -> Option<Vec<Place>> {
        (self.measure)(results)?;
        let mut needed = Vec::new();
        self.add_needed(results, 0..results.cells.len(), &mut needed);
        Some(needed)
    }

    /// Adds the needed cells of a range: if the claim can do without the whole range, there are none. Otherwise the halves of the range
    /// are tried.
    fn add_needed(&self, results: &mut Results, range: Range<usize>, needed: &mut Vec<Place>) {
        let without: Vec<_> = results.cells.drain(range.clone()).collect();
        let is_needed = (self.measure)(results).is_none();
        results.cells.splice(range.start..range.start, without);
        match range.len() {
            _ if !is_needed => {}
            1 => needed.push(results.cells[range.start].coordinates.clone()),
            len => {
                let middle = range.start + len / 2;
                self.add_needed(results, range.start..middle, needed);
                self.add_needed(results, middle..range.end, needed);
            }
        }
    }

    /// The number of runs behind this claim for which the machine was too busy; 0 if the claim is not judged on real packets.
    pub(super) fn busy_runs(&self, results: &Results) -> usize {
        let Some(Half::Bed(OnBed::By(places))) = &self.half else {
            return 0;
        };
        let busy_at = |place: &Place| {
            let mut at: Vec<(&str, &str)> = vec![(HALF, BED)];
            at.extend(place.iter().map(|(axis, place)| (*axis, place.as_str())));
            let not_held = results.sample(&at, NOT_HELD).unwrap_or_default();
            not_held.iter().filter(|value| **value == 1.0).count()
        };
        places.iter().map(busy_at).sum()
    }
}
