//! The two halves of an experiment: which cells and claims are on which half.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::beside::OF_THE_BED;
use super::{BED, CellName, HALF, Origin, RealNetwork, SIMULATED, Scenario, Stage, simulated};
use crate::claim::{Claim, Half, OnBed, Place};
use crate::experiment::{Cell, Experiment, Extent};
use crate::results::Results;
use crate::trial::Trial;
use crate::user::word;

/// The cells that run on real packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BedCells {
    /// The experiment's default cells.
    Usual,
    /// All cells that can.
    All,
    /// The cells that the claims need; the simulator runs all cells.
    OfClaims,
}

/// The cells and claims of an experiment with two halves.
pub(super) struct Halves {
    pub(super) cells: Vec<HalfCell>,
    /// Each claim on the simulated half and on the other.
    pub(super) claims: Vec<[Claim; 2]>,
}

/// A cell that the simulator runs.
pub(super) struct HalfCell {
    pub(super) cell: Cell,
    /// Whether it runs on real packets as well.
    pub(super) is_on_bed: bool,
}

impl Halves {
    pub(super) fn of(experiment: &Experiment, extent: Extent, chosen: BedCells) -> Self {
        let mut cells = (experiment.cells)(extent);
        if chosen != BedCells::OfClaims {
            let is_chosen = |stage: &Stage| chosen == BedCells::All || stage.is_usual;
            cells.retain(|cell| cell.stage().is_some_and(is_chosen));
        }
        let only_simulated = |place: &Place| {
            let cell = cells.iter().find(|cell| cell.coordinates() == place);
            !cell.is_some_and(|cell| cell.stage().is_some_and(|stage| stage.has_real))
        };
        let mut imagined = Results::imagined(experiment, extent, &cells);
        let mut claims = Vec::new();
        let mut needed_on_bed: BTreeSet<Place> = BTreeSet::new();
        for claim in (experiment.claims)() {
            // A claim about cells that are not chosen is judged on neither half.
            let Some(needs) = claim.needs(&mut imagined) else {
                continue;
            };
            let on_bed = match needs.iter().filter(|place| only_simulated(place)).count() {
                0 => {
                    needed_on_bed.extend(needs.iter().cloned());
                    OnBed::By(needs)
                }
                lacking => OnBed::Not(word(format!(
                    "{lacking} of the {} cells that it needs run only in the simulator",
                    needs.len()
                ))),
            };
            claims.push([claim.on(Half::Simulated), claim.on(Half::Bed(on_bed))]);
        }
        let with_places = cells.into_iter().map(|cell| HalfCell {
            is_on_bed: cell.stage().is_some_and(|stage| {
                let is_needed = needed_on_bed.contains(cell.coordinates()) || !stage.agreement.is_empty();
                stage.has_real && (chosen != BedCells::OfClaims || is_needed)
            }),
            cell,
        });
        Self {
            cells: with_places.collect(),
            claims,
        }
    }
}

impl HalfCell {
    /// The cell in the simulator and, if it is chosen, on real packets.
    pub(super) fn both(
        self,
        (experiment, extent): (&'static str, Extent),
        real: &Arc<dyn RealNetwork>,
    ) -> Vec<Cell> {
        let on = |network: &str| {
            let mut place = self.cell.coordinates().to_vec();
            place.push((HALF, network.to_owned()));
            place
        };
        let (here, there) = (on(SIMULATED), on(BED));
        let stage = self.cell.stage().cloned();
        let bed = stage.clone().filter(|_| self.is_on_bed).map(|stage| {
            let (real, place) = (Arc::clone(real), self.cell.coordinates().to_vec());
            Cell::interruptible(there, move |trial: &Trial<'_>| {
                let origin = Origin {
                    seed: trial.seed,
                    cell: Some(CellName {
                        experiment,
                        extent,
                        place: &place,
                        settings: trial.settings(),
                    }),
                };
                let run = real.run(&|| stage.scenario(trial), &origin)?;
                let mut numbers = stage.numbers(&run.record);
                numbers.extend(run.numbers());
                Some(numbers)
            })
        });
        let simulated = Cell::interruptible(here, move |trial| {
            let mut numbers = match &stage {
                Some(stage) => stage.numbers(&simulated(as_linux(stage.scenario(trial)), trial)),
                None => self.cell.run(trial)?,
            };
            numbers.extend([f64::NAN; OF_THE_BED.len()]);
            Some(numbers)
        });
        [Some(simulated), bed].into_iter().flatten().collect()
    }
}

/// Uses Linux's TCP settings instead of the paper's, as the other half runs the kernel's TCP.
pub(super) fn as_linux(mut scenario: Scenario) -> Scenario {
    if let Some(flows) = &mut scenario.tcp {
        flows.config = flows.real.clone();
    }
    scenario
}
