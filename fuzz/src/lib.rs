//! What the fuzz targets do with their input; see `CONTRIBUTING.md`. Each function takes any bytes and panics if what
//! must always hold does not.

#[path = "../../crates/wire/tests/explore/mod.rs"]
mod explore;

mod association;
mod input;
mod node;
mod pair;
mod peer;
mod work;

pub use anabranch_proto::fuzzing::{
    controllers, interleaved, named, outstanding, reassembly, recovery, send_queue, tsn_tracker,
};

/// A datagram: reading never panics, and what was read writes back.
///
/// # Panics
/// If it does not.
pub fn parse(input: &[u8]) {
    explore::explore_datagram(bytes::Bytes::copy_from_slice(input));
}

/// An association that was set up as it should be, against any packets, passing of time and calls of the application.
///
/// # Panics
/// If an association takes too much memory, or says what it must not; if one with a silent peer does not end; if the
/// endpoint does not serve the next peer.
pub fn association(input: &[u8]) {
    association::run(input);
}

/// Two endpoints over paths that treat packets as the input says, and then heal.
///
/// # Panics
/// If a message is lost, changed, repeated or out of order, or if something does not end.
pub fn pair(input: &[u8]) {
    pair::run(input);
}

/// A peer that makes the endpoint hold much, and then sends little that may cost much.
///
/// # Panics
/// If the endpoint does more for what it receives than docs/LIMITS.md says. Work is counted only where the target is built with
/// `-sanitizer-coverage-trace-pc`, as `scripts/fuzz` does.
pub fn work(input: &[u8]) {
    work::run(input);
}
