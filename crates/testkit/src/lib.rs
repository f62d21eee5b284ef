//! What the tests of the protocol share: a simulated [`Pair`] of hosts, a [`Script`] of hand-made packets against one
//! endpoint, a [`desk`] for the extensions' scenarios, a [`Ledger`] that checks what arrives against what was sent, and packets drawn as [`arrows`].
//!
//! Everything panics with what a person needs to find the cause; nothing here is for production.

mod additive_increase;
pub mod arrows;
mod bulk;
mod capture;
mod chunks;
pub mod desk;
pub mod host_matrix;
mod ledger;
mod pair;
mod script;
mod seeds;
mod talker;

use anabranch_proto::Config;

pub use additive_increase::AdditiveIncrease;
pub use bulk::{Bulk, Greedy, Sink};
pub use chunks::{sack, shutdown_chunk};
pub use ledger::{Ledger, Parcel, Violation};
pub use pair::{PORT, Pair, Setup, Side};
pub use script::{FromEndpoint, Script, packet_of, state_cookie};
pub use seeds::Seeds;
pub use talker::{Message, Talker};

/// Settings of an endpoint that follows RFC 9260 and says nothing unasked: no heartbeats, no probes for a larger path MTU, no extension; its
/// buffers stay as they are.
#[must_use]
pub fn quiet() -> Config {
    let mut config = Config::rfc9260().without_extensions();
    config.heartbeat.interval = None;
    config.path_mtu_limit = config.path_mtu;
    config.buffers.growth = 1;
    config
}

/// RFC 9260 for measurements on Ethernet: full packets, and buffers of so many bytes on both sides, which stay as they are.
#[must_use]
pub fn with_buffers(bytes: usize) -> Config {
    let mut config = Config {
        path_mtu: 1500,
        path_mtu_limit: 1500,
        ..Config::rfc9260()
    };
    config.buffers.receive = bytes as u32;
    config.buffers.send = bytes;
    config.buffers.growth = 1;
    config
}
