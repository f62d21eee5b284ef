//! SCTP on the wire: decodes and encodes packets, chunks, parameters and error causes.
//!
//! Decoding never panics, and it allocates only the values that it returns: payloads and lists are slices of the received datagram. A
//! decoded value encodes to the same bytes, except for padding and reserved bits. The standard tells a receiver to ignore these, and this
//! crate writes them as zero.
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
