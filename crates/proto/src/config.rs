//! The settings of an endpoint and its associations: protocol parameters under their names in RFC 9260 §16, with unit, range, default
//! and source, and the settings of each extension.

mod address_types;
mod authentication;
mod buffers;
mod dynamic_addresses;
mod error;
#[cfg(any(test, feature = "experiments"))]
mod experiments;
mod extensions;
mod failover;
mod lower_layer;
mod multipath;
mod parameters;
mod path_settings;
mod protection;
mod recovery;
mod settings;

use core::time::Duration;
use std::net::IpAddr;

use anabranch_wire::Tsn;
use anabranch_wire::chunk::{ExperimentalChunkTypes, kind};

use crate::controller::{BbrConfig, CongestionControl};
use crate::dscp::Dscp;

pub use address_types::AddressTypes;
pub(crate) use authentication::MOST_KEYS;
pub use authentication::{AuthenticationConfig, HmacAlgorithm, SharedKey};
pub use buffers::BufferConfig;
pub use dynamic_addresses::{AddressForm, DynamicAddressConfig};
pub use error::ConfigError;
use error::check;
pub use extensions::{
    DiscardNotice, InterleavingConfig, NrSackConfig, PartialReliabilityConfig, ReconfigurationConfig,
};
pub use failover::Failover;
pub use lower_layer::LowerLayer;
pub use multipath::{
    AckRouting, CoupledControl, EcaConfig, MultipathConfig, MultipathMode, PathScheduler,
    RetransmissionPolicy,
};
pub use parameters::{HeartbeatConfig, RetransmissionConfig, RtoConfig, SackConfig, StreamConfig};
pub use path_settings::{PathHeartbeats, PathMtu, PathSettings};
pub use protection::ProtectionConfig;
pub(crate) use protection::{MOST_METHODS, MOST_RECORD, PROTECTION_OVERHEAD};
pub use recovery::{DiscardReduction, LossDetection, RecoveryRules, T3Restart};
use settings::settings;

settings! {
    /// The settings of an endpoint and of the associations it makes. Start from [`Config::default`] and assign to the fields you
    /// need. [`Config::validate`] reports a setting that is out of range or contradicts another one.
    ///
    /// ```
    /// let mut config = anabranch_proto::Config::default();
    /// config.streams.outbound = 100;
    /// config.ecn = true;
    /// assert_eq!(config.validate(), Ok(()));
    /// ```
    ///
    /// Applications set these fields. Settings for experiments, for the comparison with papers and other stacks, and protocol parameters that
    /// only researchers change are fields too, but public with the feature `experiments` alone. Without the feature they have their
    /// defaults.
    #[derive(Clone, Debug, PartialEq)]
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
        /// The congestion control algorithm; each path has its own controller. Default [`CongestionControl::Automatic`].
        pub congestion_control: CongestionControl,
        /// The initial congestion window of a path, in full packets, at least 2. `None`, the default, takes that of the algorithm: ten
        /// for CUBIC and BBR, which pace packets (RFC 6928), about three for the others (RFC 9260 §7.2.1).
        pub initial_window: Option<u32>,
        /// The largest IP packet that path MTU discovery (RFC 8899) probes for once full packets are sent. In bytes, 576 to 65,535. Default
        /// 65,535, which local interfaces carry. Packets begin with 1,280 bytes, the minimum MTU of IPv6 links. If the limit is 1,280 or
        /// less, all packets have at most this size, and path MTU discovery is off: the size is not reduced either where such packets are
        /// lost.
        pub path_mtu_limit: u16,
        /// The layer that carries the packets. Default [`LowerLayer::Udp`].
        pub lower_layer: LowerLayer,
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
        /// Of a million messages with a deadline ([`crate::SendOptions::deadline`]), how many may be late because a transmission was lost: 0 to
        /// 1,000,000. Chunks that would fail more often are sent twice or more (`docs/RECOVERY.md`, *Deadlines*). 1,000,000 sends no copies: for
        /// traffic that pays for each byte. Default 1,000.
        pub late_per_million: u32,
        /// The local addresses that INIT and INIT ACK list for the peer (RFC 9260 §5.1.2). Empty, the default, lists none: all packets then
        /// leave from the address that set-up used, even if the host has other addresses. That is right behind an address translator
        /// (RFC 6951) and wherever one address is enough.
        pub local_addresses: Vec<IpAddr>,
        /// Which local address is used with which address of the peer: each pair is a path. For an address of the peer that no pair names,
        /// the sender takes the one of `local_addresses` that shares most leading bits with it; among equals, the one with the fewest
        /// paths. In the same way a local address that no pair names gets a path to an address of the peer. Default empty.
        pub path_pairs: Vec<PathPair>,
        /// Use of several paths at once. Default off.
        pub multipath: MultipathConfig,
        /// T5-shutdown-guard (RFC 9260 §9.2): how long a graceful shutdown may take before the association ends with an ABORT. The
        /// timer starts with the request, and again each time the peer has acknowledged all that remained, or as many bytes more as 200
        /// bytes/s are in its time. Default 5 s. `None` takes 5 · `RTO.Max`, as RFC 9260 §9.2 does: 300 s, also of [`Config::rfc9260`].
        pub shutdown_guard: Option<Duration>,
        /// An association in which neither endpoint has sent a message for this time is shut down gracefully, after
        /// [`crate::Event::IdleTimeout`]. Heartbeats do not count. Longer than zero. `None`, the default, keeps idle associations.
        pub idle_timeout: Option<Duration>,
        /// Message interleaving (I-DATA, RFC 8260), offered by default.
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
        /// Stream reconfiguration (RFC 6525), offered by default; [`Config::without_extensions`] turns it off.
        pub reconfiguration: ReconfigurationConfig,
    } experiments {
        /// `Max.Burst`: how many packets of new data may leave a path at once, in addition to the bytes that a SACK newly acknowledged.
        /// In packets, at least 1. Default 4 (RFC 9260 §16).
        pub max_burst: u32,
        /// The length of one burst handed to the network, as a time: the bytes that the path's congestion window sends in this time, at
        /// least one packet. After each burst a more urgent message may overtake waiting data. Default 1 ms. A longer time makes larger
        /// batches on paths with long round-trip times and costs less processor time.
        pub burst_time: Duration,
        /// `Valid.Cookie.Life`: how long after its creation a state cookie is accepted. Longer than zero. Default 60 s (RFC 9260 §16).
        pub cookie_lifetime: Duration,
        /// The size of the largest IP packet sent on a path until path MTU discovery or the network reports another size. In bytes, 576 to
        /// 65,535; if it is more than `path_mtu_limit`, that limit is used. Default 1,280, the minimum MTU of IPv6 links (RFC 8200 §5),
        /// which passes through tunnels as well. If equal to `path_mtu_limit`, path MTU discovery is off.
        pub path_mtu: u16,
        /// The IP versions that this endpoint supports, at least one. If it is only one, and there are `local_addresses`, the INIT says so
        /// (Supported Address Types, RFC 9260 §3.3.2.1.5), and the peer lists no addresses that this endpoint could not use. Default
        /// both. A driver turns off the versions that its sockets cannot reach ([`Config::limit_address_types`]).
        pub address_types: AddressTypes,
        /// The most destination addresses of one peer; further addresses that the peer lists are ignored. 1 to 255, default 16. A
        /// DTLS connection ([`LowerLayer::Dtls`]) has one.
        pub max_paths: usize,
        /// Partial reliability: messages that may be abandoned (RFC 3758).
        pub partial_reliability: PartialReliabilityConfig,
        /// NR-SACK: acknowledgements that distinguish renegable from non-renegable chunks.
        pub nr_sack: NrSackConfig,
        /// The numbers of the experimental chunk types, which no standard assigns. Change them if another protocol on the network uses the
        /// same numbers. Both endpoints need the same numbers.
        pub chunk_types: ExperimentalChunkTypes,
        /// How losses are detected and repaired. Default [`RecoveryRules::RACK`].
        pub recovery: RecoveryRules,
        /// Protected packets (draft-ietf-tsvwg-sctp-dtls-chunk). `None`, the default, protects none. A driver that has the cryptography sets it
        /// ([`Config::require_protection`]).
        pub protection: Option<ProtectionConfig>,
        /// The Initial TSN of this endpoint. `None`, the default, draws a random one for each association, as RFC 9260 §3.3.2 demands. A
        /// fixed one is for tests, above all of TSN wrap-around.
        pub initial_tsn: Option<Tsn>,
    }
}

/// A local address and the address of the peer to which packets leave from it. Both have the same IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPair {
    /// One of `Config::local_addresses`.
    pub local: IpAddr,
    /// An address of a peer.
    pub remote: IpAddr,
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
    /// The stream of the most urgent priority class sends (RFC 8260 §3.4); of streams of equal priority the one whose first message has the
    /// earliest deadline ([`crate::SendOptions::deadline`]). Streams without deadlines come after those, in turn. The default: all streams
    /// have equal priority until [`crate::Association::set_stream_priority`].
    #[default]
    Priority,
    /// Streams with data send equal numbers of bytes (RFC 8260 §3.5).
    FairBandwidth,
    /// Streams with data send bytes in proportion to their weights (RFC 8260 §3.6). See
    /// [`crate::Association::set_stream_weight`].
    WeightedFairQueueing,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            rto: RtoConfig::default(),
            retransmissions: RetransmissionConfig::default(),
            heartbeat: HeartbeatConfig::default(),
            sack: SackConfig::default(),
            streams: StreamConfig::default(),
            buffers: BufferConfig::default(),
            max_burst: 4,
            burst_time: Duration::from_millis(1),
            initial_window: None,
            congestion_control: CongestionControl::Automatic,
            cookie_lifetime: Duration::from_secs(60),
            path_mtu: 1280,
            path_mtu_limit: 65_535,
            lower_layer: LowerLayer::Udp,
            no_delay: true,
            scheduler: SchedulerKind::default(),
            low_priority_delay: None,
            late_per_million: 1_000,
            ecn: false,
            dscp: Dscp::default(),
            local_addresses: Vec::new(),
            address_types: AddressTypes::BOTH,
            path_pairs: Vec::new(),
            max_paths: 16,
            multipath: MultipathConfig::default(),
            shutdown_guard: Some(Duration::from_secs(5)),
            idle_timeout: None,
            partial_reliability: PartialReliabilityConfig::default(),
            nr_sack: NrSackConfig::default(),
            chunk_types: ExperimentalChunkTypes::default(),
            interleaving: InterleavingConfig::default(),
            authentication: None,
            dynamic_addresses: None,
            adaptation_layer: None,
            reconfiguration: ReconfigurationConfig::default(),
            recovery: RecoveryRules::RACK,
            protection: None,
            initial_tsn: None,
        }
    }
}

impl Config {
    /// Checks the range of every setting, those of all groups included.
    ///
    /// # Errors
    /// Names the first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.rto.validate()?;
        self.sack.validate()?;
        self.heartbeat.validate()?;
        self.streams.validate()?;
        self.buffers.validate()?;
        self.lower_layer.validate()?;
        self.recovery.validate()?;
        self.partial_reliability.validate()?;
        self.validate_transmission()?;
        self.validate_addresses()?;
        self.validate_protection()?;
        match &self.authentication {
            Some(authentication) => authentication.validate(),
            None => Ok(()),
        }
    }

    /// Checks the protection of packets, and what cannot be used with it.
    fn validate_protection(&self) -> Result<(), ConfigError> {
        let Some(protection) = &self.protection else {
            return Ok(());
        };
        protection.validate()?;
        check(&[
            (
                self.authentication.is_none(),
                "authentication",
                "must be None if packets are protected: a DTLS chunk authenticates all chunks, and the two cannot be negotiated together",
            ),
            (
                !self.lower_layer.detects_errors(),
                "lower_layer",
                "must not be DTLS if packets are protected: they would be encrypted twice",
            ),
        ])
    }

    /// Checks what decides when data leaves.
    fn validate_transmission(&self) -> Result<(), ConfigError> {
        check(&[
            (self.max_burst >= 1, "max_burst", "must be at least 1"),
            (
                self.initial_window.is_none_or(|packets| packets >= 2),
                "initial_window",
                "must be at least 2 packets",
            ),
            (
                self.low_priority_delay.is_none() || self.scheduler == SchedulerKind::Priority,
                "low_priority_delay",
                "needs the scheduler Priority",
            ),
            (
                self.late_per_million <= 1_000_000,
                "late_per_million",
                "must be at most 1,000,000",
            ),
            (
                self.low_priority_delay.is_none_or(|delay| !delay.is_zero()),
                "low_priority_delay",
                "must be longer than zero",
            ),
            (
                !matches!(
                    self.congestion_control,
                    CongestionControl::Cubic | CongestionControl::Bbr(_)
                ) || !self.multipath.couples_all(),
                "multipath.congestion",
                "must be Grouped or Uncoupled for CUBIC and BBR on several paths at once: Lia and ResourcePooling couple RFC 9260's windows only",
            ),
        ])
    }

    /// Checks the rest: addresses, the size of packets, and the life of an association.
    fn validate_addresses(&self) -> Result<(), ConfigError> {
        check(&[
            (
                self.idle_timeout != Some(Duration::ZERO),
                "idle_timeout",
                "must be longer than zero; to keep idle associations, set it to None",
            ),
            (
                !self.cookie_lifetime.is_zero(),
                "cookie_lifetime",
                "must be longer than zero",
            ),
            (self.path_mtu >= 576, "path_mtu", "must be at least 576 bytes"),
            (
                self.path_mtu_limit >= 576,
                "path_mtu_limit",
                "must be at least 576 bytes",
            ),
            (
                self.chunk_types.is_valid(),
                "chunk_types",
                "must be numbers that no standard has, each its own",
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
        ])
    }

    /// Turns off the IP versions that are not among `reachable`. For drivers: a socket may carry one version alone, and the peer
    /// should then list no addresses of the other one ([`AddressTypes`]).
    pub fn limit_address_types(&mut self, reachable: AddressTypes) {
        self.address_types.ipv4 &= reachable.ipv4;
        self.address_types.ipv6 &= reachable.ipv6;
    }

    /// Encrypts all packets after set-up in DTLS chunks, and refuses peers that do not (draft-ietf-tsvwg-sctp-dtls-chunk, strict mode). For
    /// drivers: they have to manage the keys ([`crate::Association::key_manager`]).
    pub fn require_protection(&mut self, protection: ProtectionConfig) {
        self.protection = Some(protection);
    }

    /// The bytes that the protection of a packet adds to it.
    pub(crate) fn protection_overhead(&self) -> u16 {
        if self.protection.is_some() {
            PROTECTION_OVERHEAD
        } else {
            0
        }
    }

    /// The most destination addresses of one peer.
    pub(crate) fn most_paths(&self) -> usize {
        match self.lower_layer {
            LowerLayer::Dtls { .. } => 1,
            _ => self.max_paths,
        }
    }

    /// Whether paths may differ by the UDP port of the peer alone: packets have one, and there may be several paths.
    pub(crate) fn may_pair_by_port(&self) -> bool {
        self.lower_layer.is_over_udp() && self.most_paths() > 1
    }

    /// Whether `path_pairs` has this pair.
    pub(crate) fn names_pair(&self, local: IpAddr, remote: IpAddr) -> bool {
        self.path_pairs.contains(&PathPair { local, remote })
    }

    /// The local address that `path_pairs` names for an address of the peer; the first one if it names several.
    #[must_use]
    pub fn paired_with(&self, remote: IpAddr) -> Option<IpAddr> {
        let pair = self.path_pairs.iter().find(|pair| pair.remote == remote)?;
        Some(pair.local)
    }

    /// The authentication that this endpoint offers. RFC 5061 demands that ASCONF and ASCONF-ACK are authenticated. An application that names
    /// DATA or FORWARD-TSN also means the chunk that replaces it if messages are interleaved, as they are by default.
    pub(crate) fn offered_authentication(&self) -> Option<AuthenticationConfig> {
        let mut asked = self.authentication.clone();
        if let Some(asked) = asked.as_mut().filter(|_| self.interleaving.offer) {
            for (named, meant) in [
                (kind::DATA, kind::I_DATA),
                (kind::FORWARD_TSN, kind::I_FORWARD_TSN),
            ] {
                if asked.chunks.contains(&named) && !asked.chunks.contains(&meant) {
                    asked.chunks.push(meant);
                }
            }
        }
        // A DTLS chunk authenticates ASCONFs too (draft-ietf-tsvwg-sctp-dtls-chunk §3.2).
        if self.dynamic_addresses.is_none() || self.protection.is_some() {
            return asked;
        }
        let mut authentication = asked.unwrap_or_else(|| AuthenticationConfig {
            required: false,
            ..AuthenticationConfig::default()
        });
        for kind in [kind::ASCONF, kind::ASCONF_ACK] {
            if !authentication.chunks.contains(&kind) {
                authentication.chunks.push(kind);
            }
        }
        Some(authentication)
    }

    /// The same settings for an endpoint that has these addresses now. Settings that list none, because the endpoint has one address or an
    /// address translator, stay so.
    #[must_use]
    pub(crate) fn with_local_addresses(&self, addresses: &[IpAddr]) -> Self {
        let mut config = self.clone();
        if !config.local_addresses.is_empty() {
            config.local_addresses = addresses.to_vec();
        }
        config
    }

    /// The same loss recovery and congestion control as RFC 9260: losses are detected by missing reports and T3-rtx; congestion control of
    /// §7.2 with its initial window; `Max.Burst` and no pacing; no I bit. Messages leave in the order of `send`, in DATA chunks, and all
    /// streams wait for one send buffer. Data stays on a path that does not answer until it is inactive. A shutdown takes at most 300 s
    /// without progress. All other settings are those of [`Config::default`]. For comparison with other stacks, and for
    /// experiments made with them.
    #[must_use]
    pub fn rfc9260() -> Self {
        let mut config = Self {
            recovery: RecoveryRules::RFC9260,
            congestion_control: CongestionControl::Rfc9260,
            scheduler: SchedulerKind::FirstComeFirstServed,
            shutdown_guard: None,
            ..Self::default()
        };
        config.buffers.stream_shares = false;
        config.interleaving.offer = false;
        config.retransmissions.failover = Failover::Rfc9260;
        config
    }

    /// Settings for interactive traffic: messages that are useful for a short time only, such as video, games and remote control, also
    /// together with a file transfer in the same association. Put the stream of the file into a priority class of 1 or more
    /// ([`crate::Association::set_stream_priority`]).
    ///
    /// | setting | value | why (`docs/RECOVERY.md`, *Low latency*, has the measurements) |
    /// | --- | --- | --- |
    /// | `congestion_control` | [`CongestionControl::Bbr`] with `tolerate_random_loss` | carries video over links that lose 3 to 5 % of the packets; keeps queues short |
    /// | `scheduler`, `interleaving` | [`SchedulerKind::Priority`], offered; as by default | a message of the file does not delay an urgent one in the send queue |
    /// | `low_priority_delay` | 20 ms | the file does not delay urgent messages in the queues of the network |
    /// | `discard_hopeless` | true | a message that would come too late does not delay the next one |
    ///
    /// For messages that are useful for less than two round-trip times, add [`crate::SendOptions::early_copies`].
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
        self.protection = None;
        if self.multipath.mode == MultipathMode::Eca {
            self.multipath.mode = MultipathMode::Cmt;
        }
        self
    }

    /// The same settings, changed so that data leaves a failed path within a few hundred milliseconds instead of seconds. An association
    /// with several paths has them by itself ([`Failover::Fast`]). With one path they find an interruption faster, and the association
    /// outlives a longer one.
    ///
    /// | setting | value, unless it is smaller already | why |
    /// | --- | --- | --- |
    /// | `retransmissions.failover` | [`Failover::PotentiallyFailed`], 0 | data leaves the path at its first timeout (RFC 7829 §6) |
    /// | `rto.min`, `rto.initial`, `rto.max` | 200 ms, 500 ms, 2 s | the first timeout comes 200 ms after the last acknowledgement, or after a smoothed RTT and its variation; a path that works again is found within about 3 s |
    /// | `sack.delay` | 20 ms | the acknowledgement delay must be shorter than the peer's `rto.min` |
    /// | `heartbeat.interval` | 500 ms | the failure of an idle path is found before the path is needed |
    /// | `retransmissions.association_max_retrans` | three times as many | the timeouts are shorter: with 30 the association lasts for another minute if every path fails |
    ///
    /// If the round-trip times are shorter than 50 ms, `rto.min` may be as low as 50 ms. It must leave room for the variation of the
    /// delay, or spurious timeouts cause spurious failovers.
    #[must_use]
    pub fn with_fast_failover(mut self) -> Self {
        let (rto, limits) = (&mut self.rto, &mut self.retransmissions);
        limits.failover = Failover::PotentiallyFailed { max_retrans: 0 };
        limits.association_max_retrans = limits.association_max_retrans.saturating_mul(3);
        *rto = RtoConfig {
            initial: rto.initial.min(Duration::from_millis(500)),
            min: rto.min.min(Duration::from_millis(200)),
            max: rto.max.min(Duration::from_secs(2)),
        };
        self.sack.delay = self.sack.delay.min(Duration::from_millis(20));
        let faster = |interval: Duration| interval.min(Duration::from_millis(500));
        self.heartbeat.interval = self.heartbeat.interval.map(faster);
        self
    }

    /// The settings of an association with several paths, if they are not these.
    pub(crate) fn of_several_paths(&self) -> Option<Self> {
        let is_fast = self.retransmissions.failover == Failover::Fast;
        is_fast.then(|| self.clone().with_fast_failover())
    }

    /// Whether an association has several paths from the beginning, as far as this endpoint knows.
    pub(crate) fn lists_several_paths(&self) -> bool {
        self.local_addresses.len().max(self.path_pairs.len()) > 1
    }

    /// The time of T5-shutdown-guard (RFC 9260 §9.2) that these settings result in.
    #[must_use]
    pub fn effective_shutdown_guard(&self) -> Duration {
        self.shutdown_guard.unwrap_or(self.rto.max * 5)
    }
}
