//! Loss recovery: the chunks that were sent and are not acknowledged (`outstanding`), what acknowledgements say (`ack_report`),
//! what they tell of losses and of progress (`ack_accounting`), for all paths as one (`loss`) or for each
//! (`per_path`, `path_flight`), and which transmissions they name (`transmissions`).

mod ack_accounting;
mod ack_report;
mod loss;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod named_model;
mod outstanding;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod outstanding_model;
mod path_flight;
mod per_path;
mod transmissions;

pub(crate) use ack_accounting::AckAccounting;
pub(crate) use ack_report::{AckReport, normalise};
pub(crate) use outstanding::{AckOutcome, Chunk, ChunkState, InvalidAck, Judge, Outstanding, PathOutcome};
pub(crate) use per_path::PerPathRules;
