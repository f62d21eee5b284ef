//! SCTP on the wire: packets, chunks, parameters and error causes, from bytes to values and back.
#![no_std]

extern crate alloc;

mod types;

pub use types::{Fsn, Mid, Ppid, Ssn, StreamId, Tsn, VerificationTag};
