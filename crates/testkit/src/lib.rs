//! Shared tools of the protocol's tests: a simulated [`Pair`] of hosts; a [`Script`] of hand-made packets against one endpoint;
//! a [`fixture`] with packets as short text for the tests of the extensions; a [`victim`] of hostile peers that send many
//! packets; a [`Ledger`] that compares sent and received messages; [`arrows`], which draws packets; and the [`resident`] memory
//! of processes.
//!
//! All functions panic with a message that helps to find the cause of a failure. Nothing here is for production.

mod additive_increase;
pub mod arrows;
mod beside_tcp;
mod bulk;
mod capture;
mod chunks;
pub mod fixture;
pub mod host_matrix;
mod ledger;
mod memory;
mod pair;
mod script;
mod seeds;
mod signature;
mod talker;
mod toy_keys;
pub mod victim;

use anabranch_proto::Config;

pub use additive_increase::AdditiveIncrease;
pub use beside_tcp::BesideTcp;
pub use bulk::{Bulk, Greedy, Sink};
pub use chunks::{sack, shutdown_chunk};
pub use ledger::{Ledger, Parcel, Violation};
pub use memory::resident;
pub use pair::{PORT, Pair, Setup, Side};
pub use script::{FromEndpoint, Script, packet_of, state_cookie};
pub use seeds::Seeds;
pub use signature::{Signature, authentication_parameters};
pub use talker::{Message, Talker};
pub use toy_keys::{ToyGuard, ToyKey, ToyKeys, ToyRestartKeys, protect, protect_with_restarts};

/// Settings of an endpoint that follows RFC 9260 and sends nothing unless asked: no heartbeats, no probes for a larger path
/// MTU, no extensions. The buffers keep their configured sizes.
#[must_use]
pub fn quiet() -> Config {
    let mut config = Config::rfc9260().without_extensions();
    config.heartbeat.interval = None;
    config.path_mtu_limit = config.path_mtu;
    config.buffers.growth = 1;
    config
}

/// These settings after a change.
#[must_use]
pub fn with(mut config: Config, change: impl FnOnce(&mut Config)) -> Config {
    change(&mut config);
    config
}

/// Settings of RFC 9260 for measurements on Ethernet: full packets, and buffers of this many bytes on both hosts, which keep
/// their sizes.
#[must_use]
pub fn with_buffers(bytes: usize) -> Config {
    let mut config = Config::rfc9260();
    config.path_mtu = 1500;
    config.path_mtu_limit = 1500;
    config.buffers.receive = bytes as u32;
    config.buffers.send = bytes;
    config.buffers.growth = 1;
    config
}
