//! What an experiment is: its words, its grid of cells, and what one run gives.

use std::fmt;

use crate::claim::Claim;
use crate::figure::Figure;
use crate::stage::Stage;
use crate::trial::{Knob, Trial};

/// What an experiment answers, made of what it is asked; it lives as long as the program.
pub type Answer<In, Out> = &'static (dyn Fn(In) -> Out + Send + Sync);

/// An experiment as a value: nothing runs until [`crate::run::run`] is told to.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// By which it is called: lower case with hyphens.
    pub name: &'static str,
    /// What is asked, in a sentence.
    pub question: &'static str,
    /// Whose experiment it is.
    pub source: &'static str,
    /// What is the same in every cell.
    pub parameters: &'static [Parameter],
    /// What a user may change of it.
    pub knobs: &'static [Knob],
    /// What each run measures, in the order in which [`Cell`]s answer it.
    pub metrics: &'static [Metric],
    /// How many seeds a run takes if nobody says.
    pub seeds: Answer<Extent, u64>,
    /// The grid. Every cell has the same axes.
    pub cells: Answer<Extent, Vec<Cell>>,
    /// What is to be seen in the numbers.
    pub claims: &'static (dyn Fn() -> Vec<Claim> + Send + Sync),
    /// The paper's figures, to be drawn from the numbers.
    pub figures: &'static (dyn Fn() -> Vec<Figure> + Send + Sync),
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
    /// In a word.
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
    /// What is set.
    pub name: &'static str,
    /// To what, with its unit.
    pub value: &'static str,
    /// Whether the paper says so; otherwise it was silent, and the value is ours.
    pub from_paper: bool,
}

/// A setting that no paper gives.
pub(crate) const fn ours(name: &'static str, value: &'static str) -> Parameter {
    Parameter {
        name,
        value,
        from_paper: false,
    }
}

/// A number that every run gives.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// By which results name it: lower case with underscores.
    pub name: &'static str,
    /// Its unit; empty for pure numbers.
    pub unit: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Whether people want to see it; all others are there for claims.
    pub is_shown: bool,
}

/// A metric in a line.
pub(crate) const fn metric(name: &'static str, unit: &'static str, about: &'static str) -> Metric {
    Metric {
        name,
        unit,
        about,
        is_shown: true,
    }
}

/// Gives a run's numbers; nothing if it was interrupted.
type Run = Box<dyn Fn(&Trial<'_>) -> Option<Vec<f64>> + Send + Sync>;

/// One place in the grid, and how to run it.
pub struct Cell {
    coordinates: Vec<(&'static str, String)>,
    run: Run,
    stage: Option<Stage>,
}

impl Cell {
    /// A cell. `run` is given the seed, which is all of its luck, and what the user set, and answers the experiment's metrics in their order; a
    /// number that a run does not have is not a number (NaN). Runs of different cells with equal seeds must meet the
    /// same traffic and the same start offsets, as far as the cells do not say otherwise.
    pub fn new(
        coordinates: Vec<(&'static str, String)>,
        run: impl Fn(&Trial<'_>) -> Vec<f64> + Send + Sync + 'static,
    ) -> Self {
        Self::interruptible(coordinates, move |trial| Some(run(trial)))
    }

    /// A cell whose runs take real time: `run` answers nothing if it was interrupted.
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

    /// A cell that can be run on real packets as well.
    #[must_use]
    pub fn staged(coordinates: Vec<(&'static str, String)>, stage: Stage) -> Self {
        let simulated = stage.clone();
        Self {
            stage: Some(stage),
            ..Self::new(coordinates, move |trial| simulated.simulate(trial))
        }
    }

    /// What it is, if it can be run on real packets as well.
    #[must_use]
    pub fn stage(&self) -> Option<&Stage> {
        self.stage.as_ref()
    }

    /// Its place on each axis.
    #[must_use]
    pub fn coordinates(&self) -> &[(&'static str, String)] {
        &self.coordinates
    }

    /// Whether it lies at these places; axes that are not named may have any.
    #[must_use]
    pub fn lies_at(&self, places: &[(&str, &str)]) -> bool {
        lies_at(&self.coordinates, places)
    }

    /// Runs it; `None` if it was interrupted.
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
