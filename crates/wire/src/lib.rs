//! SCTP on the wire: packets, chunks, parameters and error causes, from bytes to values and back.
//!
//! Reading never panics and allocates only what it returns: payloads and lists are slices of the datagram they came
//! in. Every value that was read writes back to the same bytes, except for what the standard says to ignore: padding
//! and reserved bits are written as zero.
#![no_std]

extern crate alloc;

pub mod cause;
mod checksum;
pub mod chunk;
pub mod packet;
pub mod parameter;
mod reader;
mod types;

pub use checksum::crc32c;
pub use types::{Fsn, Mid, Ppid, Psn, Ssn, StreamId, Tsn, VerificationTag};
