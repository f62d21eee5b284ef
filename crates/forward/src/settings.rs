//! The settings of associations between clients and servers.

use std::time::Duration;

use anabranch::{Config, DynamicAddressConfig, Endpoint, EndpointBuilder, MultipathMode};

use crate::limits::{Limits, MOST_FLOWS};

/// The SCTP port of servers.
pub const PORT: u16 = 9899;
/// No message of this protocol is longer: a Hello with 256 rules has at most 70 KiB.
const LONGEST_MESSAGE: usize = 128 << 10;
/// The queueing delay that connections and large datagrams may cause to small datagrams.
const LOW_PRIORITY_DELAY: Duration = Duration::from_millis(30);
/// Associations of clients whose handshakes are not complete. Those behind one translator may have a quarter.
const BACKLOG: usize = 512;
/// The factor by which buffers may grow. With a peer that reads all messages at once, the receive buffer holds little.
const GROWTH: u32 = 8;

/// An endpoint with the settings of clients and servers. The caller adds encryption, and binds it.
///
/// Messages have priorities and deadlines, several paths are used at once, and a failed path is left after 200 ms. The endpoint follows its
/// addresses, and lets the peer do so (RFC 5061).
pub fn endpoint(limits: &Limits) -> EndpointBuilder {
    Endpoint::builder()
        .config(config(limits))
        .max_joined_message(LONGEST_MESSAGE)
        .backlog(BACKLOG)
}

fn config(limits: &Limits) -> Config {
    let mut config = Config::low_latency().with_fast_failover();
    // One stream for each flow, and one for control messages.
    config.streams.outbound = limits.flows.clamp(1, MOST_FLOWS) as u16 + 1;
    config.low_priority_delay = Some(LOW_PRIORITY_DELAY);
    config.multipath.mode = MultipathMode::Cmt;
    config.dynamic_addresses = Some(DynamicAddressConfig::default());
    config.buffers.growth = GROWTH;
    config
}
