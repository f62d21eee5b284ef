//! The settings of an endpoint and its associations: protocol parameters under their names in RFC 9260 §16, with unit, range, default
//! and source, and the settings of each extension.

mod address_types;
mod authentication;
mod dynamic_addresses;
#[cfg(any(test, feature = "experiments"))]
mod experiments;
mod extensions;
mod multipath;
mod path_settings;
mod recovery;
mod setters;

use core::time::Duration;
use std::net::IpAddr;

use anabranch_wire::Tsn;
use anabranch_wire::chunk::ExperimentalChunkTypes;

use crate::controller::{BbrConfig, CongestionControl};
use crate::dscp::Dscp;

pub use address_types::AddressTypes;
pub(crate) use authentication::MOST_KEYS;
pub use authentication::{AuthenticationConfig, HmacAlgorithm, SharedKey};
pub use dynamic_addresses::{AddressForm, DynamicAddressConfig};
pub use extensions::{
    DiscardNotice, InterleavingConfig, NrSackConfig, PartialReliabilityConfig, ReconfigurationConfig,
};
pub use multipath::{
    AckRouting, CoupledControl, EcaConfig, MultipathConfig, MultipathMode, PathScheduler,
    RetransmissionPolicy,
};
pub use path_settings::{PathHeartbeats, PathMtu, PathSettings};
pub use recovery::{DiscardReduction, LossDetection, RecoveryRules, T3Restart};

/// The settings of an endpoint and of the associations it makes. Start from [`Config::default`] and change the fields you need.
/// [`Config::validate`] reports a setting that is out of range or contradicts another one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// Retransmission timeouts (RFC 9260 §6.3.1).
    pub rto: RtoConfig,
    /// How many retransmissions without an answer end set-up, a path or the association (RFC 9260 §5.1, §8.1, §8.2).
    pub retransmissions: RetransmissionConfig,
    /// Heartbeats (RFC 9260 §8.3).
    pub heartbeat: HeartbeatConfig,
    /// Acknowledgements that this endpoint sends (RFC 9260 §6.2).
    pub sack: SackConfig,
    /// Numbers of streams (RFC 9260 §5.1.1).
    pub streams: StreamConfig,
    /// Buffers and receive window.
    pub buffers: BufferConfig,
    /// `Max.Burst`: how many packets of new data may leave a path at once, in addition to the bytes that a SACK newly acknowledged.
    /// In packets, at least 1. Default 4 (RFC 9260 §16).
    pub max_burst: u32,
    /// The length of one burst handed to the network, as a time: the bytes that the path's congestion window sends in this time, at
    /// least one packet. After each burst a more urgent message may overtake waiting data. Default 1 ms. A longer time makes larger
    /// batches on paths with long round-trip times and costs less processor time.
    pub burst_time: Duration,
    /// The initial congestion window of a path, in full packets, at least 2. `None`, the default, takes that of the algorithm: ten
    /// for CUBIC and BBR, which pace packets (RFC 6928), about three for the others (RFC 9260 §7.2.1).
    pub initial_window: Option<u32>,
    /// The congestion control algorithm; each path has its own controller. Default [`CongestionControl::Automatic`].
    pub congestion_control: CongestionControl,
    /// `Valid.Cookie.Life`: how long after its creation a state cookie is accepted. Longer than zero. Default 60 s (RFC 9260 §16).
    pub cookie_lifetime: Duration,
    /// The size of the largest IP packet sent on a path until path MTU discovery or the network reports another size. In bytes, 576 to
    /// 65,535. Default 1,280, the minimum MTU of IPv6 links (RFC 8200 §5), which passes through tunnels as well.
    pub path_mtu: u16,
    /// The largest IP packet that path MTU discovery (RFC 8899) probes for once full packets are sent. In bytes, from `path_mtu` to
    /// 65,535. Default 65,535, which local interfaces carry. If equal to `path_mtu`, path MTU discovery is off: the size is not reduced
    /// either where packets of `path_mtu` bytes are lost.
    pub path_mtu_limit: u16,
    /// Whether packets are encapsulated in UDP (RFC 6951), which costs 8 bytes for each packet. Default true.
    pub udp_encapsulation: bool,
    /// Bytes that a layer between UDP or IP and SCTP adds to each packet, at most 256: those of DTLS (RFC 8261 §4). They are subtracted from the
    /// path MTU. Default 0.
    pub lower_layer_overhead: u16,
    /// Whether the layer below detects errors better than the checksum, as DTLS does (RFC 8261): then packets with a checksum of zero are
    /// accepted, and are sent to a peer that accepts them (RFC 9653, error detection method 1). Default false. Setting it without DTLS lets
    /// damaged packets in.
    pub zero_checksum: bool,
    /// Whether small messages leave at once (`SCTP_NODELAY`, RFC 6458 §8.1.5). Default true, unlike the socket API, because messages
    /// here are meant to arrive in time. False bundles small messages while data is outstanding (Nagle).
    pub no_delay: bool,
    /// The stream scheduler (RFC 8260 §3). Default [`SchedulerKind::Priority`].
    pub scheduler: SchedulerKind,
    /// A bound on the queueing delay that less urgent data, of priority classes 1 and above, causes to class 0 in the network. Such
    /// data leaves only while the bytes in flight can be delivered within the round-trip time without queues plus this time. Choose at
    /// least the time that one or two packets take on the slowest link, or less urgent data does not fill that link; 0.2 to 0.5 s suit
    /// a slow one. If cross traffic keeps the queue longer than this, less urgent data yields, down to two packets in flight. Longer than
    /// zero; needs [`SchedulerKind::Priority`]. `None`, the default, sets no bound.
    pub low_priority_delay: Option<Duration>,
    /// The local addresses that INIT and INIT ACK list for the peer (RFC 9260 §5.1.2). Empty, the default, lists none: all packets then
    /// leave from the address that set-up used, even if the host has other addresses. That is right behind an address translator
    /// (RFC 6951) and wherever one address is enough.
    pub local_addresses: Vec<IpAddr>,
    /// The IP versions that this endpoint supports, at least one. If it is only one, and there are `local_addresses`, the INIT says so
    /// (Supported Address Types, RFC 9260 §3.3.2.1.5), and the peer lists no addresses that this endpoint could not use. Default both. The sockets of the crate `anabranch` turn
    /// off what they cannot reach.
    pub address_types: AddressTypes,
    /// Which local address is used with which address of the peer. For an address of the peer that no pair names, the sender takes
    /// the one of `local_addresses` that shares most leading bits with it; among equals, the one with the fewest paths. Default empty.
    pub path_pairs: Vec<PathPair>,
    /// The most destination addresses of one peer; further addresses that the peer lists are ignored. 1 to 255, default 16.
    pub max_paths: usize,
    /// Use of several paths at once. Default off.
    pub multipath: MultipathConfig,
    /// T5-shutdown-guard (RFC 9260 §9.2): how long a graceful shutdown may take before the association ends with an ABORT. The
    /// timer starts with the request, and again each time the peer has acknowledged 64 KiB more, or all that remained. `None`, the
    /// default, takes 5 · `RTO.Max` (RFC 9260 §9.2).
    pub shutdown_guard: Option<Duration>,
    /// An association in which neither endpoint has sent a message for this time is shut down gracefully, after
    /// [`crate::Event::IdleTimeout`]. Heartbeats do not count. Longer than zero. `None`, the default, keeps idle associations.
    pub idle_timeout: Option<Duration>,
    /// Partial reliability: messages that may be abandoned (RFC 3758).
    pub partial_reliability: PartialReliabilityConfig,
    /// NR-SACK: acknowledgements that distinguish renegable from non-renegable chunks.
    pub nr_sack: NrSackConfig,
    /// The numbers of the experimental chunk types, which no standard assigns. Change them if another protocol on the network uses the
    /// same numbers. Both endpoints need the same numbers.
    pub chunk_types: ExperimentalChunkTypes,
    /// Message interleaving (I-DATA, RFC 8260).
    pub interleaving: InterleavingConfig,
    /// Explicit Congestion Notification (RFC 3168, draft-stewart-tsvwg-sctpecn): if both endpoints ask for it, queues mark packets instead
    /// of dropping them. Default false. The driver must send each datagram with [`crate::Transmit::ecn`] and pass the codepoints of
    /// received datagrams to [`crate::Endpoint::handle_datagram`].
    pub ecn: bool,
    /// The Differentiated Services codepoint of all packets (RFC 2474), by which routers choose a queue. Default 0, best effort.
    /// [`PathSettings::dscp`] changes it for one path. The driver must send each datagram with [`crate::Transmit::dscp`].
    pub dscp: Dscp,
    /// Authenticated chunks (RFC 4895). `None`, the default, offers nothing.
    pub authentication: Option<AuthenticationConfig>,
    /// Dynamic address reconfiguration (RFC 5061). `None`, the default, offers nothing.
    pub dynamic_addresses: Option<DynamicAddressConfig>,
    /// The Adaptation Code Point of the protocol above SCTP (RFC 5061 §4.2.6), which the peer's application gets as
    /// [`crate::Event::AdaptationLayer`]. `None`, the default, sends no indication.
    pub adaptation_layer: Option<u32>,
    /// Stream reconfiguration (RFC 6525).
    pub reconfiguration: ReconfigurationConfig,
    /// How losses are detected and repaired. Default [`RecoveryRules::RACK`].
    pub recovery: RecoveryRules,
    /// The Initial TSN of this endpoint. `None`, the default, draws a random one for each association, as RFC 9260 §3.3.2 demands. A
    /// fixed one is for tests, above all of TSN wrap-around.
    pub initial_tsn: Option<Tsn>,
}

/// A local address and the address of the peer to which packets leave from it. Both have the same IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPair {
    /// One of `Config::local_addresses`.
    pub local: IpAddr,
    /// An address of a peer.
    pub remote: IpAddr,
}

/// Retransmission timeout, RFC 9260 §6.3.1 and §16. `min` ≤ `initial` ≤ `max`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RtoConfig {
    /// `RTO.Initial`: the timeout before the first RTT measurement. Default 1 s.
    pub initial: Duration,
    /// `RTO.Min`, longer than zero. Default 1 s.
    pub min: Duration,
    /// `RTO.Max`. Default 60 s.
    pub max: Duration,
}

/// Limits on retransmissions, RFC 9260 §5.1, §8.1, §8.2 and §16.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RetransmissionConfig {
    /// `Association.Max.Retrans`: the association fails if more consecutive errors than this occur, over all paths. Default 10.
    pub association_max_retrans: u32,
    /// `Path.Max.Retrans`: a path becomes inactive after more consecutive errors than this. Default 5.
    pub path_max_retrans: u32,
    /// `PotentiallyFailed.Max.Retrans`: a path becomes potentially failed after more consecutive errors than this (RFC 7829 §3.2). Data
    /// then takes another path, and a heartbeat tests this path every RTO. `None`, the default, has no such state: data stays on the
    /// path until it is inactive (RFC 9260 §8.2). RFC 7829 §6 recommends 0 for fast failover. A value of `path_max_retrans` or more has
    /// no effect (RFC 7829 §3.2, item 1).
    pub potentially_failed_max_retrans: Option<u32>,
    /// `Max.Init.Retransmits`: the most retransmissions of INIT or COOKIE ECHO before set-up fails. Default 8.
    pub max_init_retransmits: u32,
}

/// Heartbeats, RFC 9260 §8.3 and §16.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HeartbeatConfig {
    /// `HB.interval`: the time between heartbeats of an idle path is this plus the RTO. `None` sends heartbeats only to confirm new
    /// addresses. Default 30 s.
    pub interval: Option<Duration>,
    /// `HB.Max.Burst`: the most heartbeats that leave at once, at least 1. Default 1.
    pub max_burst: u32,
}

/// Delayed acknowledgements, RFC 9260 §6.2 and §16.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SackConfig {
    /// `SACK.Delay`: the longest time for which an acknowledgement is delayed, at most 500 ms (RFC 9260 §6.2). Default 200 ms.
    pub delay: Duration,
    /// The number of packets with data after which a SACK leaves without delay, at least 1. Default 2 (RFC 9260 §6.2).
    pub frequency: u32,
}

/// Numbers of streams, RFC 9260 §5.1.1.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StreamConfig {
    /// The number of outbound streams that this endpoint requests, at least 1. Default 16.
    pub outbound: u16,
    /// The most inbound streams that this endpoint accepts, at least 1. Default 65,535.
    pub max_inbound: u16,
}

/// Buffers, the receive window, and limits on the memory that a peer can occupy.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BufferConfig {
    /// The receive buffer: the advertised receiver window (a_rwnd) when nothing waits to be read, in bytes of user data. At least
    /// 1,500 (RFC 9260 §3.3.2), default 1 MiB. Memory is limited too, to twice this and 32 KiB: each chunk counts 256 bytes beside its user
    /// data, and so does each incomplete message. So messages shorter than 256 bytes get a smaller window.
    pub receive: u32,
    /// The send buffer: bytes of user data queued or not yet acknowledged. At least 1, default 1 MiB. While all streams together have
    /// less, each accepts messages. Then a stream that has filled its share answers [`crate::SendError::BufferFull`], and others go on:
    /// see `stream_shares`. All streams together take at most twice this, and one message more: a single message may be larger than the
    /// buffer. This bound counts memory, with about 230 bytes for each message or chunk in addition to its user data.
    pub send: usize,
    /// Whether the streams share the send buffer fairly, so that a stream which has filled its share delays `send` of no other stream.
    /// Default true. The share of a stream is what twice `send` leaves free: all of `send` for a single stream, two thirds of it for each
    /// of two, and so on. With the scheduler [`SchedulerKind::Priority`] the data of less urgent classes does not count in a stream's share,
    /// and each class in use keeps an equal part of `send`, which other classes leave free. With more than eight classes the least urgent
    /// ones keep the last eighth together. False is for comparison with other stacks: the streams use one buffer, and all wait when it is
    /// full.
    pub stream_shares: bool,
    /// The factor by which `receive` and `send` may grow automatically, at least 1. The receive buffer grows when the application reads
    /// a whole window within half a second. The send buffer grows when half of it is in flight. Default 16, which fills a path of
    /// 1 Gbit/s and 130 ms; 1 turns growth off.
    pub growth: u32,
    /// The largest message that `send` accepts, in bytes, at least 1. Default 256 MiB. Longer messages are sent in parts
    /// ([`crate::Association::send_part`]).
    pub max_message: usize,
    /// A message longer than this, in bytes, is delivered in parts before it is complete (partial delivery, RFC 9260 §6.9). At least 1;
    /// never more than half of `receive` is used. Default 256 KiB.
    pub partial_delivery_point: usize,
}

/// The stream scheduler, which chooses the stream of the next chunk (RFC 8260 §3). It chooses for a whole message, whatever its
/// length, or with message interleaving for each chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SchedulerKind {
    /// Messages leave in the order in which they were given to `send` (RFC 8260 §3.1).
    FirstComeFirstServed,
    /// Streams with data send in turn (RFC 8260 §3.2).
    RoundRobin,
    /// Streams with data send in turn, a packet each: the new data of a packet belongs to one stream (RFC 8260 §3.3).
    RoundRobinPerPacket,
    /// The stream of the most urgent priority class sends; streams of equal priority send in turn (RFC 8260 §3.4). The default: all streams
    /// have equal priority until [`crate::Association::set_stream_priority`].
    #[default]
    Priority,
    /// Streams with data send equal numbers of bytes (RFC 8260 §3.5).
    FairBandwidth,
    /// Streams with data send bytes in proportion to their weights (RFC 8260 §3.6). See
    /// [`crate::Association::set_stream_weight`].
    WeightedFairQueueing,
}

impl RetransmissionConfig {
    /// Whether paths can be potentially failed.
    pub(crate) fn fails_potentially(&self) -> bool {
        self.potentially_failed_max_retrans.is_some()
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rto: RtoConfig {
                initial: Duration::from_secs(1),
                min: Duration::from_secs(1),
                max: Duration::from_secs(60),
            },
            retransmissions: RetransmissionConfig {
                association_max_retrans: 10,
                path_max_retrans: 5,
                potentially_failed_max_retrans: None,
                max_init_retransmits: 8,
            },
            heartbeat: HeartbeatConfig {
                interval: Some(Duration::from_secs(30)),
                max_burst: 1,
            },
            sack: SackConfig {
                delay: Duration::from_millis(200),
                frequency: 2,
            },
            streams: StreamConfig {
                outbound: 16,
                max_inbound: u16::MAX,
            },
            buffers: BufferConfig {
                growth: 16,
                receive: 1 << 20,
                send: 1 << 20,
                stream_shares: true,
                max_message: 256 << 20,
                partial_delivery_point: 256 << 10,
            },
            max_burst: 4,
            burst_time: Duration::from_millis(1),
            initial_window: None,
            congestion_control: CongestionControl::Automatic,
            cookie_lifetime: Duration::from_secs(60),
            path_mtu: 1280,
            path_mtu_limit: 65_535,
            udp_encapsulation: true,
            lower_layer_overhead: 0,
            zero_checksum: false,
            no_delay: true,
            scheduler: SchedulerKind::default(),
            low_priority_delay: None,
            ecn: false,
            dscp: Dscp::default(),
            local_addresses: Vec::new(),
            address_types: AddressTypes::BOTH,
            path_pairs: Vec::new(),
            max_paths: 16,
            multipath: MultipathConfig::OFF,
            shutdown_guard: None,
            idle_timeout: None,
            partial_reliability: PartialReliabilityConfig {
                offer: true,
                discard_unsent: true,
                discard_hopeless: false,
                early_discard: false,
                selective_forward_tsn: None,
                extended_forward_tsn: false,
                discard_notice: DiscardNotice::WithData,
            },
            nr_sack: NrSackConfig {
                offer: true,
                may_renege: false,
                forward_past_nonrenegable: true,
            },
            chunk_types: ExperimentalChunkTypes::default(),
            interleaving: InterleavingConfig { offer: false },
            authentication: None,
            dynamic_addresses: None,
            adaptation_layer: None,
            reconfiguration: ReconfigurationConfig {
                offer: true,
                max_outbound: u16::MAX,
                association_reset: true,
            },
            recovery: RecoveryRules::RACK,
            initial_tsn: None,
        }
    }
}

/// A setting that is out of range, or that contradicts another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} {problem}")]
pub struct ConfigError {
    /// The setting, as `Config` names it.
    pub setting: &'static str,
    /// The rule that it breaks.
    pub problem: &'static str,
}

impl Config {
    /// Checks the range of every setting.
    ///
    /// # Errors
    /// Names the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let checks = [
            (self.rto.min <= self.rto.max, "rto.min", "must not exceed rto.max"),
            (
                self.rto.min <= self.rto.initial && self.rto.initial <= self.rto.max,
                "rto.initial",
                "must lie between rto.min and rto.max",
            ),
            (!self.rto.min.is_zero(), "rto.min", "must be longer than zero"),
            (
                self.sack.delay <= Duration::from_millis(500),
                "sack.delay",
                "must be at most 500 ms",
            ),
            (self.sack.frequency >= 1, "sack.frequency", "must be at least 1"),
            (
                self.heartbeat.max_burst >= 1,
                "heartbeat.max_burst",
                "must be at least 1",
            ),
            (
                self.streams.outbound >= 1,
                "streams.outbound",
                "must be at least 1",
            ),
            (
                self.streams.max_inbound >= 1,
                "streams.max_inbound",
                "must be at least 1",
            ),
            (
                self.buffers.receive >= 1500,
                "buffers.receive",
                "must be at least 1500 bytes",
            ),
            (self.buffers.send >= 1, "buffers.send", "must be at least 1 byte"),
            (self.buffers.growth >= 1, "buffers.growth", "must be at least 1"),
            (
                self.buffers.max_message >= 1,
                "buffers.max_message",
                "must be at least 1 byte",
            ),
            (
                self.buffers.partial_delivery_point >= 1,
                "buffers.partial_delivery_point",
                "must be at least 1 byte",
            ),
            (self.max_burst >= 1, "max_burst", "must be at least 1"),
            (
                self.initial_window.is_none_or(|packets| packets >= 2),
                "initial_window",
                "must be at least 2 packets",
            ),
            (
                self.idle_timeout != Some(Duration::ZERO),
                "idle_timeout",
                "must be longer than zero",
            ),
            (
                !self.cookie_lifetime.is_zero(),
                "cookie_lifetime",
                "must be longer than zero",
            ),
            (self.path_mtu >= 576, "path_mtu", "must be at least 576 bytes"),
            (
                self.lower_layer_overhead <= 256,
                "lower_layer_overhead",
                "must be at most 256 bytes",
            ),
            (
                self.path_mtu <= self.path_mtu_limit,
                "path_mtu_limit",
                "must not be less than path_mtu",
            ),
            (
                self.recovery.missing_reports >= 1,
                "recovery.missing_reports",
                "must be at least 1",
            ),
            (
                self.recovery.ssthresh_floor >= 1,
                "recovery.ssthresh_floor",
                "must be at least 1 packet",
            ),
            (
                self.partial_reliability.selective_forward_tsn != Some(0),
                "partial_reliability.selective_forward_tsn",
                "must be at least 1 packet",
            ),
            (
                self.chunk_types.is_valid(),
                "chunk_types",
                "must be numbers that no standard has, each its own",
            ),
            (
                self.low_priority_delay.is_none() || self.scheduler == SchedulerKind::Priority,
                "low_priority_delay",
                "needs the scheduler Priority",
            ),
            (
                self.low_priority_delay.is_none_or(|delay| !delay.is_zero()),
                "low_priority_delay",
                "must be longer than zero",
            ),
            (
                self.address_types.ipv4 || self.address_types.ipv6,
                "address_types",
                "must have a version of IP that a socket of this endpoint carries",
            ),
            (
                self.path_pairs.iter().all(|pair| {
                    pair.local.is_ipv4() == pair.remote.is_ipv4()
                        && self.local_addresses.contains(&pair.local)
                }),
                "path_pairs",
                "must begin with one of local_addresses, and end with an address of the same version of IP",
            ),
            (
                (1..=255).contains(&self.max_paths),
                "max_paths",
                "must lie between 1 and 255",
            ),
            (
                !matches!(
                    self.congestion_control,
                    CongestionControl::Cubic | CongestionControl::Bbr(_)
                ) || !self.multipath.is_on()
                    || self.multipath.congestion == CoupledControl::Uncoupled,
                "multipath.congestion",
                "must be Uncoupled for CUBIC and BBR on several paths at once; to couple the paths, set congestion_control to Rfc9260",
            ),
        ];
        let broken = checks.into_iter().find(|(holds, ..)| !holds);
        let authentication = || self.authentication.as_ref()?.problem();
        match broken
            .map(|(_, setting, problem)| (setting, problem))
            .or_else(authentication)
        {
            Some((setting, problem)) => Err(ConfigError { setting, problem }),
            None => Ok(()),
        }
    }

    /// The local address that `path_pairs` names for an address of the peer.
    #[must_use]
    pub fn paired_with(&self, remote: IpAddr) -> Option<IpAddr> {
        let pair = self.path_pairs.iter().find(|pair| pair.remote == remote)?;
        Some(pair.local)
    }

    /// The same loss recovery and congestion control as RFC 9260: losses are detected by missing reports and T3-rtx; congestion control of
    /// §7.2 with its initial window; `Max.Burst` and no pacing; no I bit. Messages leave in the order of `send`, and all streams wait for
    /// one send buffer. All other settings are those of [`Config::default`]. For comparison with other stacks, and for experiments made
    /// with them.
    #[must_use]
    pub fn rfc9260() -> Self {
        let mut config = Self {
            recovery: RecoveryRules::RFC9260,
            congestion_control: CongestionControl::Rfc9260,
            scheduler: SchedulerKind::FirstComeFirstServed,
            ..Self::default()
        };
        config.buffers.stream_shares = false;
        config
    }

    /// Settings for interactive traffic: messages that are useful for a short time only, such as video, games and remote control, also
    /// together with a file transfer in the same association. Put the stream of the file into a priority class of 1 or more
    /// ([`crate::Association::set_stream_priority`]).
    ///
    /// | setting | value | why (`docs/RECOVERY.md`, *Low latency*, has the measurements) |
    /// | --- | --- | --- |
    /// | `congestion_control` | [`CongestionControl::Bbr`] with `tolerate_random_loss` | carries video over links that lose 3 to 5 % of the packets; keeps queues short |
    /// | `scheduler`, `interleaving` | [`SchedulerKind::Priority`], offered | a message of the file does not delay an urgent one in the send queue |
    /// | `low_priority_delay` | 20 ms | the file does not delay urgent messages in the queues of the network |
    /// | `discard_hopeless` | true | a message that would come too late does not delay the next one |
    ///
    /// For messages that are useful for less than two round-trip times, add [`crate::SendOptions::early_copies`].
    ///
    /// With several paths at once, set [`MultipathConfig::congestion`] to [`CoupledControl::Uncoupled`], or choose another
    /// `congestion_control`.
    #[must_use]
    pub fn low_latency() -> Self {
        let default = Self::default();
        Self {
            congestion_control: CongestionControl::Bbr(BbrConfig {
                tolerate_random_loss: true,
            }),
            scheduler: SchedulerKind::Priority,
            low_priority_delay: Some(Duration::from_millis(20)),
            interleaving: InterleavingConfig { offer: true },
            partial_reliability: PartialReliabilityConfig {
                discard_hopeless: true,
                ..default.partial_reliability
            },
            ..default
        }
    }

    /// The same settings with no extension offered: RFC 9260 and nothing else on the wire.
    #[must_use]
    pub fn without_extensions(mut self) -> Self {
        self.partial_reliability.offer = false;
        self.partial_reliability.selective_forward_tsn = None;
        self.partial_reliability.extended_forward_tsn = false;
        self.nr_sack.offer = false;
        self.interleaving.offer = false;
        self.authentication = None;
        self.dynamic_addresses = None;
        self.adaptation_layer = None;
        self.reconfiguration.offer = false;
        if self.multipath.mode == MultipathMode::Eca {
            self.multipath.mode = MultipathMode::Cmt;
        }
        self
    }

    /// The same settings, changed so that data leaves a failed path within a few hundred milliseconds instead of seconds. For
    /// associations with several paths.
    ///
    /// | setting | value | why |
    /// | --- | --- | --- |
    /// | `retransmissions.potentially_failed_max_retrans` | 0 | data leaves the path at its first timeout (RFC 7829 §6) |
    /// | `rto.min`, `rto.initial`, `rto.max` | 200 ms, 500 ms, 2 s | the first timeout comes 200 ms after the last acknowledgement, or after a smoothed RTT and its variation; a path that works again is found within about 3 s |
    /// | `sack.delay` | 20 ms | the acknowledgement delay must be shorter than the peer's `rto.min`; use these settings at both endpoints |
    /// | `heartbeat.interval` | 500 ms | the failure of an idle path is found before the path is needed |
    /// | `retransmissions.association_max_retrans` | 30 | if every path fails, the association lasts for another minute |
    ///
    /// If the round-trip times are shorter than 50 ms, `rto.min` may be as low as 50 ms. It must leave room for the variation of the
    /// delay, or spurious timeouts cause spurious failovers.
    #[must_use]
    pub fn with_fast_failover(mut self) -> Self {
        self.retransmissions.potentially_failed_max_retrans = Some(0);
        self.retransmissions.association_max_retrans = 30;
        self.rto = RtoConfig {
            initial: Duration::from_millis(500),
            min: Duration::from_millis(200),
            max: Duration::from_secs(2),
        };
        self.sack.delay = Duration::from_millis(20);
        self.heartbeat.interval = Some(Duration::from_millis(500));
        self
    }

    /// The time of T5-shutdown-guard (RFC 9260 §9.2) that these settings result in.
    #[must_use]
    pub fn effective_shutdown_guard(&self) -> Duration {
        self.shutdown_guard.unwrap_or(self.rto.max * 5)
    }
}
