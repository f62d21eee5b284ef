//! The laboratory: experiments of published papers. They run in virtual time with the same code that runs on real networks; on Linux many
//! of them also run on real packets (`testbed`).
//!
//! An [`Experiment`] is data plus code: a question, parameters, a grid of [`Cell`]s, and a function that gives numbers for each cell and
//! seed. [`Claim`]s state results of the paper as inequalities that the numbers confirm or refute. [`run`](run::run) makes [`Results`]; the
//! number of jobs changes only how long this takes.

mod benchmark;
mod claim;
mod experiment;
pub mod experiments;
mod figure;
mod known;
mod message_numbers;
mod near;
mod packet_log;
pub mod plot;
mod queue_meter;
mod report;
mod results;
pub mod run;
#[cfg(test)]
mod sources;
pub mod stage;
pub mod statistics;
mod tap;
#[cfg(target_os = "linux")]
pub mod testbed;
mod timeline;
mod trace;
pub mod traffic;
mod trial;
mod user;

pub use benchmark::{Benchmark, Work};
pub use claim::{Bound, Claim, Half, Judgement, OnBed, Tally, Verdict};
pub use experiment::{Answer, Cell, Experiment, Extent, Metric, Parameter};
pub use figure::{ECDF, Figure, FigureCurve, PERCENTILES, REDUCTION, SERIES, percentile_metric};
pub use known::{Conditions, Known, KnownError};
pub use near::did_you_mean;
pub use report::{Finding, report};
pub use results::{CellResults, Results};
pub use tap::{Holdings, Tap};
pub use timeline::{Picture, Timeline, TimelineCurve, pictures};
pub use trace::{MessageRow, OwnPoints, RunTrace, Series, Trace, TraceDirectory, traced};
pub use trial::{Capture, Knob, KnobError, Knobs, Trial};
pub use user::{FileError, experiment_from_toml};

/// The digest of the sources that determine an experiment's numbers, as 16 hexadecimal digits: the code of this crate and, if it was built
/// in the repository, of the stack and the simulator. Comments on lines of their own do not count.
pub const SOURCES: &str = env!("ANABRANCH_LAB_SOURCES");
