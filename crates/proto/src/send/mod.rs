//! The sending half of an association: messages waiting (`send_queue`), chunks in flight (`outstanding`), what
//! acknowledgements say (`ack_report`) and what they prove lost (`ack_accounting`, `loss`).

mod abandonment;
mod ack_accounting;
mod ack_report;
mod data_format;
mod fragment;
mod loss;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod named_model;
mod outstanding;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod outstanding_model;
mod path_flight;
mod per_path;
mod perishable;
mod recovery_rules;
mod scheduler;
mod send_queue;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod send_queue_model;

pub(crate) use abandonment::{AbandonPolicy, Persistence};
pub(crate) use ack_accounting::AckAccounting;
pub(crate) use ack_report::AckReport;
pub(crate) use ack_report::normalise;
pub(crate) use data_format::{DataFormat, Label, TransmissionName};
pub(crate) use fragment::{Fragment, UnsentMessage};
pub(crate) use outstanding::{AckOutcome, Chunk, ChunkState, InvalidAck, Judge, Outstanding, PathOutcome};
pub use recovery_rules::{RecoveryRules, T3Restart};
pub(crate) use send_queue::SendQueue;
