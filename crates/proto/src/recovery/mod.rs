//! Loss recovery. Fast retransmit and fast recovery: RFC 9260 §7.2.4; T3-rtx: §6.3; RACK-TLP: RFC 8985.
//!
//! | module | what it owns |
//! | --- | --- |
//! | `outstanding` | outstanding chunks and their states (§6.2.1); what missing reports and T3-rtx do to them (§7.2.4, §6.3.3) |
//! | `ack_report` | the contents of an acknowledgement: SACK, NR-SACK, COOP-SACK, SHUTDOWN |
//! | `detect` | loss detection: fast retransmit by missing reports (§7.2.4), RACK (RFC 8985 §6) |
//! | `retained` | the user data kept for retransmission |
//! | `tail` | tail loss probes (RFC 8985 §7) and F-RTO (RFC 5682) |
//! | `episode` | fast recovery (§7.2.4): one window reduction for the losses of one window |
//! | `undo` | spurious window reductions (RFC 3708) |
//! | `identity` | which transmission brought a chunk, if acknowledgements name transmissions (ECA-SCTP) |
//!
//! Each path's `Flight` (`path/flight.rs`) knows which of the chunks are in flight there.

mod ack_report;
mod detect;
mod episode;
mod identity;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod named_model;
mod outstanding;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod outstanding_model;
mod retained;
mod tail;
mod undo;

pub(crate) use ack_report::{AckReport, Listing, normalise};
pub(crate) use episode::Phase;
pub(crate) use outstanding::{
    AckOutcome, Answer, CHUNK_MEMORY, Chunk, ChunkState, InvalidAck, Judge, Outstanding, PathOutcome,
};
