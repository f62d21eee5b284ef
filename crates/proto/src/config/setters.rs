//! The settings as chains: `Config::default().ecn(true)`.

use core::time::Duration;
use std::net::IpAddr;

use anabranch_wire::Tsn;
use anabranch_wire::chunk::ExperimentalChunkTypes;

use super::*;
use crate::controller::CongestionControl;
use crate::dscp::Dscp;
use crate::setters::setters;

setters!(Config {
    rto: RtoConfig,
    retransmissions: RetransmissionConfig,
    heartbeat: HeartbeatConfig,
    sack: SackConfig,
    streams: StreamConfig,
    buffers: BufferConfig,
    max_burst: u32,
    burst_time: Duration,
    initial_window: impl Into<Option<u32>>,
    congestion_control: CongestionControl,
    cookie_lifetime: Duration,
    path_mtu: u16,
    path_mtu_limit: u16,
    udp_encapsulation: bool,
    lower_layer_overhead: u16,
    zero_checksum: bool,
    no_delay: bool,
    scheduler: SchedulerKind,
    low_priority_delay: impl Into<Option<Duration>>,
    local_addresses: Vec<IpAddr>,
    address_types: AddressTypes,
    path_pairs: Vec<PathPair>,
    max_paths: usize,
    multipath: MultipathConfig,
    shutdown_guard: impl Into<Option<Duration>>,
    idle_timeout: impl Into<Option<Duration>>,
    partial_reliability: PartialReliabilityConfig,
    nr_sack: NrSackConfig,
    chunk_types: ExperimentalChunkTypes,
    interleaving: InterleavingConfig,
    ecn: bool,
    dscp: Dscp,
    authentication: impl Into<Option<AuthenticationConfig>>,
    dynamic_addresses: impl Into<Option<DynamicAddressConfig>>,
    adaptation_layer: impl Into<Option<u32>>,
    reconfiguration: ReconfigurationConfig,
    recovery: RecoveryRules,
    initial_tsn: impl Into<Option<Tsn>>,
});

setters!(RtoConfig {
    initial: Duration,
    min: Duration,
    max: Duration,
});

setters!(RetransmissionConfig {
    association_max_retrans: u32,
    path_max_retrans: u32,
    potentially_failed_max_retrans: impl Into<Option<u32>>,
    max_init_retransmits: u32,
});

setters!(HeartbeatConfig {
    interval: impl Into<Option<Duration>>,
    max_burst: u32,
});

setters!(SackConfig {
    delay: Duration,
    frequency: u32,
});

setters!(StreamConfig {
    outbound: u16,
    max_inbound: u16,
});

setters!(BufferConfig {
    receive: u32,
    send: usize,
    stream_shares: bool,
    growth: u32,
    max_message: usize,
    partial_delivery_point: usize,
});

setters!(PartialReliabilityConfig {
    offer: bool,
    discard_unsent: bool,
    discard_hopeless: bool,
    early_discard: bool,
    selective_forward_tsn: impl Into<Option<u32>>,
    extended_forward_tsn: bool,
    discard_notice: DiscardNotice,
});

setters!(NrSackConfig {
    offer: bool,
    may_renege: bool,
    forward_past_nonrenegable: bool,
});

setters!(InterleavingConfig { offer: bool });

setters!(ReconfigurationConfig {
    offer: bool,
    max_outbound: u16,
    association_reset: bool,
});
