//! The code of the fuzz targets; see `CONTRIBUTING.md`. Each function accepts any bytes and panics if an invariant is violated.

#[path = "../../crates/wire/tests/explore/mod.rs"]
mod explore;

mod association;
mod family;
#[cfg(feature = "encryption")]
mod handshake;
mod input;
#[cfg(feature = "encryption")]
mod keys;
mod memory;
mod node;
mod pair;
mod peer;
#[cfg(feature = "encryption")]
mod session;
mod work;

pub use anabranch_proto::fuzzing::{
    controllers, interleaved, named, outstanding, reassembly, recovery, send_queue, tsn_tracker,
};

/// libFuzzer ends the program at each panic. Panics of the library for DTLS end their connection only, which is for the targets to test.
#[cfg(feature = "encryption")]
fn print_panics() {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| std::panic::set_hook(Box::new(|info| eprintln!("{info}"))));
}

/// A datagram: decoding never panics, and a decoded value encodes to the same bytes.
///
/// # Panics
/// If an encoded value differs.
pub fn parse(input: &[u8]) {
    explore::explore_datagram(bytes::Bytes::copy_from_slice(input));
}

/// A correctly set up association receives arbitrary packets, while time passes and the application makes calls.
///
/// # Panics
/// If an association uses too much memory or violates an invariant of its output; if an association with a silent peer does not end; if the
/// endpoint does not serve the next peer.
pub fn association(input: &[u8]) {
    association::run(input);
}

/// Two endpoints over paths with the impairments that the input selects; later the paths work again.
///
/// # Panics
/// If a message is lost, changed, duplicated or out of order, or if the run does not end.
pub fn pair(input: &[u8]) {
    pair::run(input);
}

/// A peer makes the endpoint store much, and then sends few bytes that may cause much work.
///
/// # Panics
/// If the endpoint does more work for the bytes it receives than docs/LIMITS.md allows. Work is counted only if the target is built with
/// `-sanitizer-coverage-trace-pc`, as `scripts/fuzz` does.
pub fn work(input: &[u8]) {
    work::run(input);
}

/// A message between a client and a server of the forwarder.
///
/// # Panics
/// If an encoded message or place differs.
#[cfg(feature = "encryption")]
pub fn forward(input: &[u8]) {
    anabranch_forward::fuzzing::message(input);
}

/// DTLS handshakes between two endpoints while somebody drops, duplicates, changes and forges datagrams. The keys of a handshake are random, so that
/// a run differs from another with the same input in them alone.
///
/// # Panics
/// If a panic of the library for DTLS leaves its connection; if handshakes or connections exceed their limits; if a stranger gets many bytes for
/// few; if a packet arrives that was not sent; if there is no connection once the network works.
#[cfg(feature = "encryption")]
pub fn handshake(input: &[u8]) {
    handshake::run(input);
}

/// TLS handshakes for the keys of DTLS chunks, while somebody loses, changes and forges messages. The keys are random, so that a run differs from
/// another with the same input in them.
///
/// # Panics
/// If a message causes many actions; if keys come in another order than their epochs; if two ends that nobody disturbed have other keys.
#[cfg(feature = "encryption")]
pub fn keys(input: &[u8]) {
    keys::run(input);
}

/// A session of data channels, with a hostile peer or with another session, while somebody changes, forges and loses datagrams and descriptions. The
/// keys of ICE and DTLS are random, so that a run differs from another with the same input in them.
///
/// # Panics
/// If a session holds more memory than docs/LIMITS.md allows; if its events or its timeouts break a rule; if messages between two sessions are
/// lost, changed, duplicated or out of order once the network works.
#[cfg(feature = "encryption")]
pub fn session(input: &[u8]) {
    session::run(input);
}
