//! The laboratory: experiments of published papers, run in virtual time by the very code that runs on real networks.
//!
//! An [`Experiment`] is data plus code: a question, parameters, a grid of [`Cell`]s, a run for each cell and seed that
//! gives numbers, and [`Claim`]s: what the paper reported, as inequalities that the numbers can confirm or refute.
//! [`run`](run::run) makes [`Results`]; what it is told of jobs changes how long it takes and nothing else.

mod benchmark;
mod claim;
mod experiment;
pub mod experiments;
mod figure;
mod known;
mod packet_log;
pub mod plot;
mod queue_meter;
mod report;
mod results;
pub mod run;
pub mod stage;
pub mod statistics;
mod tap;
pub mod traffic;
mod trial;
mod user;

pub use benchmark::{Benchmark, Work};
pub use claim::{Bound, Claim, Judgement, Verdict};
pub use experiment::{Answer, Cell, Experiment, Extent, Metric, Parameter};
pub use figure::{Figure, FigureCurve};
pub use known::{Conditions, Known, KnownError};
pub use report::{Finding, report};
pub use results::{CellResults, Results};
pub use tap::{Holdings, Tap};
pub use trial::{Capture, Knob, KnobError, Knobs, Trial};
pub use user::{FileError, experiment_from_toml};
