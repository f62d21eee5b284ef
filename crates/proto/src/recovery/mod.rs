//! Loss recovery: the chunks that were sent and are not acknowledged (`outstanding`), what acknowledgements say (`ack_report`),
//! which sending brought a chunk where they name sendings (`identity`), how losses are found (`detect`, `tail`) and how often they
//! reduce a congestion window (`episode`, `undo`). Each path's `Flight` knows what is in flight.

mod ack_report;
mod detect;
mod episode;
mod identity;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod named_model;
mod outstanding;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod outstanding_model;
mod tail;
mod undo;

pub(crate) use ack_report::{AckReport, Listing, normalise};
pub(crate) use episode::Phase;
pub(crate) use outstanding::{
    AckOutcome, Answer, Chunk, ChunkState, InvalidAck, Judge, Outstanding, PathOutcome,
};
