//! The parts of an experiment: its texts, its grid of cells, and the numbers of one run.

use std::fmt;

use crate::claim::Claim;
use crate::figure::Figure;
use crate::stage::Stage;
use crate::timeline::Timeline;
use crate::trial::{Knob, Trial};

/// A function that an experiment supplies; it lives as long as the program.
pub type Answer<In, Out> = &'static (dyn Fn(In) -> Out + Send + Sync);

/// An experiment as a value: nothing runs before [`crate::run::run`] is called.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// The name on the command line: lower case with hyphens.
    pub name: &'static str,
    /// The question that the experiment answers, in one sentence.
    pub question: &'static str,
    /// The authors and the paper.
    pub source: &'static str,
    /// The settings that all cells share.
    pub parameters: &'static [Parameter],
    /// The settings that a user may change.
    pub knobs: &'static [Knob],
    /// The metrics of each run, in the order in which [`Cell`]s return them.
    pub metrics: &'static [Metric],
    /// The number of seeds by default.
    pub seeds: Answer<Extent, u64>,
    /// The grid. Every cell has the same axes.
    pub cells: Answer<Extent, Vec<Cell>>,
    /// The claims about the numbers.
    pub claims: &'static (dyn Fn() -> Vec<Claim> + Send + Sync),
    /// The paper's figures, to be drawn from the numbers.
    pub figures: &'static (dyn Fn() -> Vec<Figure> + Send + Sync),
    /// The paper's figures of single runs.
    pub timelines: &'static (dyn Fn() -> Vec<Timeline> + Send + Sync),
}

impl fmt::Debug for Experiment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Experiment")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// The cells that the claims need, shorter and fewer: for every change of the code.
    Quick,
    /// All cells, with runs as short and as few as in the quick setting: for tables.
    Short,
    /// All cells, as long as the paper had them.
    Full,
}

impl Extent {
    /// The extent in one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Short => "short",
            Self::Full => "full",
        }
    }
}

/// A setting that does not vary.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name of the setting.
    pub name: &'static str,
    /// The value, with its unit.
    pub value: &'static str,
    /// Whether the paper states the value; otherwise this project chose it.
    pub from_paper: bool,
}

/// A setting that no paper states.
pub(crate) const fn ours(name: &'static str, value: &'static str) -> Parameter {
    Parameter {
        name,
        value,
        from_paper: false,
    }
}

/// A number that every run gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// By which results name it: lower case with underscores.
    pub name: &'static str,
    /// Its unit; empty for pure numbers.
    pub unit: &'static str,
    /// The meaning of the number.
    pub about: &'static str,
    /// Whether tables and reports show the metric; the other metrics serve claims only.
    pub is_shown: bool,
}

/// A metric that is shown.
pub(crate) const fn metric(name: &'static str, unit: &'static str, about: &'static str) -> Metric {
    Metric {
        name,
        unit,
        about,
        is_shown: true,
    }
}

/// Returns the numbers of a run; `None` if the run was interrupted.
type Run = Box<dyn Fn(&Trial<'_>) -> Option<Vec<f64>> + Send + Sync>;

/// One cell of the grid, and how to run it.
pub struct Cell {
    coordinates: Vec<(&'static str, String)>,
    run: Run,
    stage: Option<Stage>,
}

impl Cell {
    /// A cell. `run` gets the seed, which decides all random numbers, and the user's settings. It returns the experiment's metrics in their
    /// order, with NaN for a number that a run does not have. Runs of different cells with equal seeds must meet the same traffic and the
    /// same start offsets, unless the cells differ in exactly these.
    pub fn new(
        coordinates: Vec<(&'static str, String)>,
        run: impl Fn(&Trial<'_>) -> Vec<f64> + Send + Sync + 'static,
    ) -> Self {
        Self::interruptible(coordinates, move |trial| Some(run(trial)))
    }

    /// A cell whose runs take real time: `run` returns `None` if it was interrupted.
    pub(crate) fn interruptible(
        coordinates: Vec<(&'static str, String)>,
        run: impl Fn(&Trial<'_>) -> Option<Vec<f64>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            coordinates,
            run: Box::new(run),
            stage: None,
        }
    }

    /// A cell that can also run on real packets.
    #[must_use]
    pub fn staged(coordinates: Vec<(&'static str, String)>, stage: Stage) -> Self {
        let simulated = stage.clone();
        Self {
            stage: Some(stage),
            ..Self::new(coordinates, move |trial| simulated.simulate(trial))
        }
    }

    /// The cell's stage, if the cell can also run on real packets.
    #[must_use]
    pub fn stage(&self) -> Option<&Stage> {
        self.stage.as_ref()
    }

    /// The cell's place on each axis.
    #[must_use]
    pub fn coordinates(&self) -> &[(&'static str, String)] {
        &self.coordinates
    }

    /// Whether the cell lies at these places; axes that are not named match any place.
    #[must_use]
    pub fn lies_at(&self, places: &[(&str, &str)]) -> bool {
        lies_at(&self.coordinates, places)
    }

    /// Runs the cell; `None` if the run was interrupted.
    #[must_use]
    pub fn run(&self, trial: &Trial<'_>) -> Option<Vec<f64>> {
        (self.run)(trial)
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell")
            .field("coordinates", &self.coordinates)
            .finish_non_exhaustive()
    }
}

/// Whether all the places are among the coordinates.
pub(crate) fn lies_at(coordinates: &[(&'static str, String)], places: &[(&str, &str)]) -> bool {
    places.iter().all(|(axis, place)| {
        coordinates
            .iter()
            .any(|(name, value)| name == axis && value == place)
    })
}
