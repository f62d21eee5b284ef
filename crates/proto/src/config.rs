//! What can be set, with RFC 9260 §16 names, units, ranges and defaults.

mod multipath;
mod recovery;

use core::time::Duration;
use std::net::IpAddr;

use anabranch_wire::Tsn;
use anabranch_wire::chunk::OwnChunkTypes;

use crate::controller::{BbrConfig, CongestionControl};

pub use multipath::{
    AckRouting, CoupledControl, EcaConfig, MultipathConfig, MultipathMode, PathScheduler,
    RetransmissionPolicy,
};
pub use recovery::{LossDetection, RecoveryRules, T3Restart};

/// The settings of an endpoint and of the associations it makes. Start from [`Config::default`] and change what
/// you need; [`Config::validate`] tells what does not fit together.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Retransmission timeouts (RFC 9260 §6.3.1).
    pub rto: RtoConfig,
    /// When to give up (RFC 9260 §8.1, §8.2, §5.1).
    pub retransmissions: RetransmissionConfig,
    /// Heartbeats (RFC 9260 §8.3).
    pub heartbeat: HeartbeatConfig,
    /// Acknowledgements that this side sends (RFC 9260 §6.2).
    pub sack: SackConfig,
    /// Numbers of streams (RFC 9260 §5.1.1).
    pub streams: StreamConfig,
    /// Buffers and windows.
    pub buffers: BufferConfig,
    /// `Max.Burst`: packets that may leave at once on a path beyond what a SACK newly acknowledged; at least 1.
    /// Default 4 (RFC 9260 §16).
    pub max_burst: u32,
    /// How much of a path's rate is handed to the network at once, after which a more urgent message may overtake what waits:
    /// the bytes that its congestion window lets out in this time, but at least a packet. Default 1 ms; longer ones make
    /// larger batches where round trips are long, and cost less processor time.
    pub burst_time: Duration,
    /// The first congestion window of a path in full packets, at least 2. `None`, the default, is the algorithm's: ten for CUBIC and
    /// BBR, which pace them (RFC 6928), else about three (RFC 9260 §7.2.1).
    pub initial_window: Option<u32>,
    /// The congestion control algorithm, one controller a path. Default [`CongestionControl::Automatic`].
    pub congestion_control: CongestionControl,
    /// `Valid.Cookie.Life`: how long a state cookie may be returned. Default 60 s (RFC 9260 §16).
    pub cookie_lifetime: Duration,
    /// The largest IP packet sent on a path until something better is known, in bytes, 576 to 65,535. Default
    /// 1,280: passes everywhere, IPv6 tunnels included.
    pub path_mtu: u16,
    /// The largest IP packet that is sought by probing (RFC 8899) once packets are filled, in bytes, from `path_mtu` to
    /// 65,535. Default 65,535, which local interfaces carry; `path_mtu` itself seeks nothing, not even a smaller size where
    /// packets of `path_mtu` bytes are lost.
    pub path_mtu_limit: u16,
    /// Whether packets travel in UDP (RFC 6951), which takes 8 bytes of each. Default true.
    pub udp_encapsulation: bool,
    /// Whether small messages leave at once (`SCTP_NODELAY`, RFC 6458 §8.1.5). Default true, unlike the socket
    /// API: messages here are meant to arrive in time. False bundles them while data is outstanding (Nagle).
    pub no_delay: bool,
    /// Which stream sends next. Default [`SchedulerKind::FirstComeFirstServed`].
    pub scheduler: SchedulerKind,
    /// The time for which data of priority classes from 1 on may stand in the network's queues in front of class 0: such data
    /// leaves only while what is in flight is delivered in a round trip without queues and this time. At least what a
    /// packet or two take on the slowest link, or less urgent data does not fill it; 0.2 to 0.5 s suit a thin one. `None`,
    /// the default, bounds nothing; it needs [`SchedulerKind::Priority`]. Where other traffic keeps the queue longer than
    /// this, less urgent data gives way to it, down to two packets in flight.
    pub low_priority_delay: Option<Duration>,
    /// The local addresses that the peer is told of, besides the one it sees; empty (the default) lists none: then all
    /// packets leave from the address that set-up used, whatever others the host has. That is right behind an address
    /// translator and wherever one address is enough (RFC 9260 §5.1.2, RFC 6951).
    pub local_addresses: Vec<IpAddr>,
    /// Which local address packets leave from towards which of the peer's. For an address of the peer that is not in it (none
    /// is, by default) it is the one of `local_addresses` that shares most leading bits with it, and of several as good the
    /// one that has the fewest paths.
    pub path_pairs: Vec<PathPair>,
    /// Most destination addresses of one peer; further ones that it lists are ignored. 1 to 255, default 16.
    pub max_paths: usize,
    /// Several paths at once.
    pub multipath: MultipathConfig,
    /// T5-shutdown-guard: how long an orderly shutdown may take from the moment that it is asked for, or that 64 KiB, or all
    /// that remained, were acknowledged since; then it ends with an ABORT. `None` derives 5 · `RTO.Max` from RFC 9260 §9.2.
    pub shutdown_guard: Option<Duration>,
    /// Messages that may be given up (RFC 3758).
    pub partial_reliability: PartialReliabilityConfig,
    /// Acknowledgements that tell what cannot be taken back (NR-SACK).
    pub nr_sack: NrSackConfig,
    /// The numbers of the chunk types that are this project's own, where others use them too: both ends need the same.
    pub chunk_types: OwnChunkTypes,
    /// Messages of several streams that leave and arrive interleaved (I-DATA).
    pub interleaving: InterleavingConfig,
    /// Explicit Congestion Notification (RFC 3168, draft-stewart-tsvwg-sctpecn): queues mark packets instead of dropping them, if both
    /// ends ask for it. Default false. The driver must send each datagram with [`crate::Transmit::ecn`] and hand in the codepoints of
    /// those that arrive.
    pub ecn: bool,
    /// How losses are found and answered. Default [`RecoveryRules::RACK`].
    pub recovery: RecoveryRules,
    /// The first TSN that this side uses. `None`, the default, draws one at random for each association, as RFC 9260
    /// §3.3.2 wants; a fixed one is for tests, of wrap-around first of all.
    pub initial_tsn: Option<Tsn>,
}

/// A local address, and the address of a peer's that packets leave from it to. Both are of one version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPair {
    /// One of `Config::local_addresses`.
    pub local: IpAddr,
    /// An address of a peer.
    pub remote: IpAddr,
}

/// RFC 9260 §6.3.1 and §16.
#[derive(Clone, Debug, PartialEq)]
pub struct RtoConfig {
    /// `RTO.Initial`. Default 1 s.
    pub initial: Duration,
    /// `RTO.Min`. Default 1 s.
    pub min: Duration,
    /// `RTO.Max`. Default 60 s.
    pub max: Duration,
}

/// RFC 9260 §8.1, §8.2, §5.1 and §16.
#[derive(Clone, Debug, PartialEq)]
pub struct RetransmissionConfig {
    /// `Association.Max.Retrans`: errors in a row, over all paths, before the association fails. Default 10.
    pub association_max_retrans: u32,
    /// `Path.Max.Retrans`: errors in a row before a path is inactive. Default 5.
    pub path_max_retrans: u32,
    /// `PotentiallyFailed.Max.Retrans`: errors in a row before a path is potentially failed (RFC 7829 §3.2), after which
    /// data takes another path and heartbeats ask for this one every RTO. `None`, the default, has no such state: data
    /// stays until the path is inactive, as RFC 9260 §8.2 has it. RFC 7829 §6 recommends 0 to those who want it; from
    /// `path_max_retrans` on it changes nothing (§3.2, item 1).
    pub potentially_failed_max_retrans: Option<u32>,
    /// `Max.Init.Retransmits`: repeats of INIT or COOKIE ECHO before set-up fails. Default 8.
    pub max_init_retransmits: u32,
}

/// RFC 9260 §8.3 and §16.
#[derive(Clone, Debug, PartialEq)]
pub struct HeartbeatConfig {
    /// `HB.interval`: added to the RTO between heartbeats of an idle path; `None` sends none but those that
    /// confirm a new address. Default 30 s.
    pub interval: Option<Duration>,
    /// `HB.Max.Burst`: heartbeats that may leave at once, at least 1. Default 1.
    pub max_burst: u32,
}

/// RFC 9260 §6.2 and §16.
#[derive(Clone, Debug, PartialEq)]
pub struct SackConfig {
    /// `SACK.Delay`: longest wait for an acknowledgement, at most 500 ms. Default 200 ms.
    pub delay: Duration,
    /// Packets with data that bring a SACK without delay, at least 1. Default 2.
    pub frequency: u32,
}

/// RFC 9260 §5.1.1.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamConfig {
    /// Outbound streams asked for, at least 1. Default 16.
    pub outbound: u16,
    /// Inbound streams accepted at most, at least 1. Default 65,535.
    pub max_inbound: u16,
}

/// Buffers, windows and the limits on what a peer can make this side keep.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferConfig {
    /// Bytes of user data this side holds for the peer's messages: the advertised receiver window. At least
    /// 1,500 (RFC 9260 §3.3.2), default 1 MiB.
    pub receive: u32,
    /// Bytes of user data queued or not yet acknowledged beyond which `send` answers that the buffer is full.
    /// Default 1 MiB. A single message may be larger: it is taken when there is any room.
    pub send: usize,
    /// How many times as large as `receive` and `send` the two may become by themselves, at least 1: the one when the
    /// application reads so fast that a window's worth is gone within half a second, the other when half of it is in
    /// flight. Default 16, which fills 1 Gbit/s over 130 ms; 1 keeps both as they are.
    pub growth: u32,
    /// The largest message that `send` takes, in bytes. Default 256 MiB; parts make longer ones.
    pub max_message: usize,
    /// A message of more bytes than this is handed to the application in parts, before it is complete. It is
    /// also at most half of `receive`. Default 256 KiB.
    pub partial_delivery_point: usize,
    /// Chunks kept at most for reassembly and order, whatever their size: bounds what a peer that sends single
    /// bytes can make this side hold. Default 65,536.
    pub max_chunks: usize,
}

/// Partial reliability (RFC 3758, RFC 7496) and what makes it fast (Basto and Freitas, *SCTP extensions for time
/// sensitive traffic*). Which message may be given up, and when, is said with each: [`crate::Reliability`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialReliabilityConfig {
    /// Whether FORWARD-TSN is offered to the peer. Default true. Without it on both sides, what was sent once is repeated
    /// until it is acknowledged.
    pub offer: bool,
    /// Whether a message is given up while it waits for its first transmission. Default true. False is for experiments: such
    /// a message is sent once, however late, as the stack of Rajiullah and Brunstrom did.
    pub discard_unsent: bool,
    /// *Early discard*: a chunk that its message's reliability would not let be repeated is given up at the first missing
    /// report, not the last one needed. It is a loss for congestion control then as it would have been later. Default
    /// false, because reordering alone causes first missing reports. A message may say otherwise:
    /// [`crate::SendOptions::early_discard`].
    pub early_discard: bool,
    /// *Selective forward TSN*: offered to the peer, and used if it offers it too. So many packets after one with a message
    /// that will not be repeated, a notice of it tells the receiver not to hold back what follows on the stream. At most
    /// half the congestion window counts. `None`, the default, offers nothing; 1 is what the paper used.
    pub selective_forward_tsn: Option<u32>,
    /// Which of these notices messages have that do not say otherwise by [`crate::SendOptions::discard_notice`], where both
    /// sides offered selective forward TSN. Default [`DiscardNotice::WithData`].
    pub discard_notice: DiscardNotice,
}

/// Whether a receiver is told of each chunk of an ordered message that will not be retransmitted, so that it need not hold
/// back what follows on the stream (*selective forward TSN*; Basto and Freitas, *SCTP extensions for time sensitive
/// traffic*). In force where both sides offered it: [`PartialReliabilityConfig`](crate::PartialReliabilityConfig).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DiscardNotice {
    /// It is not told.
    Never,
    /// By a later packet with data, on the path of the chunk.
    #[default]
    WithData,
    /// So too; and by a packet with nothing else if the congestion window lets no more data out on that path. Such a packet
    /// costs about 60 bytes. It is of use where the stream goes on over other paths, or the window is one packet.
    Alone,
}

/// NR-SACK (draft-tuexen-tsvwg-sctp-multipath §4; Natarajan and others, *NR-SACKs for SCTP*).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NrSackConfig {
    /// Whether it is offered; used in place of SACK if both sides do. Default true.
    pub offer: bool,
    /// Whether this side may take back what it acknowledged by gap blocks, when its buffer is full and what closes the lowest
    /// gap needs the room. Default false: everything held is declared non-renegable, and the buffer may grow beyond its limit
    /// instead, up to twice.
    pub may_renege: bool,
    /// Whether FORWARD-TSN passes chunks that the peer can no longer take back (Rajiullah and Brunstrom, *Optimizing PR-SCTP
    /// Performance using NR-SACKs*). Default true; false is for comparison.
    pub forward_past_nonrenegable: bool,
}

/// Message interleaving (RFC 8260 §2): I-DATA in place of DATA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterleavingConfig {
    /// Whether it is offered; used if both sides do. Default false: each chunk takes 4 bytes more, and parts of several messages
    /// may be handed to the application in turn ([`crate::MessagePart::message`] tells them apart); RFC 8260 §2.2.1 wants it
    /// asked for. With it a large message never holds up those of other streams.
    pub offer: bool,
}

/// Which stream sends next (RFC 8260 §3). Without message interleaving a turn is a message, whatever its length; with it, a
/// chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SchedulerKind {
    /// Messages leave in the order in which they were given to `send` (RFC 8260 §3.1).
    #[default]
    FirstComeFirstServed,
    /// Streams with data take turns (RFC 8260 §3.2).
    RoundRobin,
    /// Streams with data take turns of a packet each: new data in a packet is of one stream (RFC 8260 §3.3).
    RoundRobinPerPacket,
    /// The most urgent class first, always; the streams of a class take turns (RFC 8260 §3.4). See
    /// [`crate::Association::set_stream_priority`].
    Priority,
    /// Streams with data send as many bytes each (RFC 8260 §3.5).
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
                max_message: 256 << 20,
                partial_delivery_point: 256 << 10,
                max_chunks: 65_536,
            },
            max_burst: 4,
            burst_time: Duration::from_millis(1),
            initial_window: None,
            congestion_control: CongestionControl::Automatic,
            cookie_lifetime: Duration::from_secs(60),
            path_mtu: 1280,
            path_mtu_limit: 65_535,
            udp_encapsulation: true,
            no_delay: true,
            scheduler: SchedulerKind::default(),
            low_priority_delay: None,
            ecn: false,
            local_addresses: Vec::new(),
            path_pairs: Vec::new(),
            max_paths: 16,
            multipath: MultipathConfig::OFF,
            shutdown_guard: None,
            partial_reliability: PartialReliabilityConfig {
                offer: true,
                discard_unsent: true,
                early_discard: false,
                selective_forward_tsn: None,
                discard_notice: DiscardNotice::WithData,
            },
            nr_sack: NrSackConfig {
                offer: true,
                may_renege: false,
                forward_past_nonrenegable: true,
            },
            chunk_types: OwnChunkTypes::default(),
            interleaving: InterleavingConfig { offer: false },
            recovery: RecoveryRules::RACK,
            initial_tsn: None,
        }
    }
}

/// A setting that is out of its range, or that does not fit another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting} {problem}")]
pub struct ConfigError {
    /// The setting, as `Config` names it.
    pub setting: &'static str,
    /// What is wrong with it and what is allowed.
    pub problem: &'static str,
}

impl Config {
    /// Checks every range.
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
            (
                self.buffers.max_chunks >= 16,
                "buffers.max_chunks",
                "must be at least 16",
            ),
            (self.max_burst >= 1, "max_burst", "must be at least 1"),
            (
                self.initial_window.is_none_or(|packets| packets >= 2),
                "initial_window",
                "must be at least 2 packets",
            ),
            (
                !self.cookie_lifetime.is_zero(),
                "cookie_lifetime",
                "must be longer than zero",
            ),
            (self.path_mtu >= 576, "path_mtu", "must be at least 576 bytes"),
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
        match checks.into_iter().find(|(holds, ..)| !holds) {
            Some((_, setting, problem)) => Err(ConfigError { setting, problem }),
            None => Ok(()),
        }
    }

    /// The local address that `path_pairs` has for this one of a peer's.
    #[must_use]
    pub fn paired_with(&self, remote: IpAddr) -> Option<IpAddr> {
        let pair = self.path_pairs.iter().find(|pair| pair.remote == remote)?;
        Some(pair.local)
    }

    /// The rules of RFC 9260 for what is sent: missing reports and T3-rtx find losses, its own congestion control, `Max.Burst` and no
    /// pacing, its initial window, no I bit. All else is as in [`Config::default`]. For comparison, and for experiments that other
    /// stacks made with these rules.
    #[must_use]
    pub fn rfc9260() -> Self {
        Self {
            recovery: RecoveryRules::RFC9260,
            congestion_control: CongestionControl::Rfc9260,
            ..Self::default()
        }
    }

    /// Settings for interactive traffic: messages that are of use for a short time, such as video, games and remote control, also beside
    /// a file in the same association. The file's stream belongs in a priority class from 1 on
    /// ([`crate::Association::set_stream_priority`]).
    ///
    /// | setting | value | why (`docs/RECOVERY.md`, *Low latency*, has the measurements) |
    /// | --- | --- | --- |
    /// | `congestion_control` | [`CongestionControl::Bbr`] with `tolerate_random_loss` | carries video over links that lose 3 to 5 % of the packets; keeps queues short |
    /// | `scheduler`, `interleaving` | [`SchedulerKind::Priority`], offered | no message of the file holds an urgent one up at this side |
    /// | `low_priority_delay` | 20 ms | nor in the queues of the network |
    ///
    /// With several paths at once [`MultipathConfig::congestion`] must be [`CoupledControl::Uncoupled`], or `congestion_control` another
    /// one.
    #[must_use]
    pub fn low_latency() -> Self {
        Self {
            congestion_control: CongestionControl::Bbr(BbrConfig {
                tolerate_random_loss: true,
            }),
            scheduler: SchedulerKind::Priority,
            low_priority_delay: Some(Duration::from_millis(20)),
            interleaving: InterleavingConfig { offer: true },
            ..Self::default()
        }
    }

    /// The same settings with no extension offered: RFC 9260 and nothing else on the wire.
    #[must_use]
    pub fn without_extensions(mut self) -> Self {
        self.partial_reliability.offer = false;
        self.partial_reliability.selective_forward_tsn = None;
        self.nr_sack.offer = false;
        self.interleaving.offer = false;
        if self.multipath.mode == MultipathMode::Eca {
            self.multipath.mode = MultipathMode::Cmt;
        }
        self
    }

    /// The same settings with those changed that decide how soon a dead path is left: for several paths, where a pause of
    /// a second is too long and one of a few hundred milliseconds is not.
    ///
    /// | setting | value | why |
    /// | --- | --- | --- |
    /// | `retransmissions.potentially_failed_max_retrans` | 0 | data leaves the path at its first timeout (RFC 7829 §6) |
    /// | `rto.min`, `rto.initial`, `rto.max` | 200 ms, 500 ms, 2 s | the first timeout comes 200 ms after the last answer, or a round trip and its variation; a path that is back is found within about 3 s |
    /// | `sack.delay` | 20 ms | the peer of a short `rto.min` must answer sooner than it; both sides want these settings |
    /// | `heartbeat.interval` | 500 ms | a path that is idle is found dead before it is needed |
    /// | `retransmissions.association_max_retrans` | 30 | when every path is dead, the association still lives for a minute |
    ///
    /// A shorter `rto.min` still, down to 50 ms, is right where round trips are shorter than that: it must leave room for
    /// the variation of the delay, or paths are left for nothing.
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

    /// T5-shutdown-guard (RFC 9260 §9.2), in use.
    #[must_use]
    pub fn shutdown_guard(&self) -> Duration {
        self.shutdown_guard.unwrap_or(self.rto.max * 5)
    }
}
