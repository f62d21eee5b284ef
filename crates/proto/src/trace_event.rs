//! Trace events: the events inside an association that explain its behaviour ([`crate::Association::set_tracing`]).
//!
//! Names are those of RFC 9260. TSNs, SSNs and MIDs are those of the packets, so that events can be compared with a capture.

mod display;

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use anabranch_wire::{StreamId, Tsn};

use crate::association_state::AssociationState;
use crate::close_reason::CloseReason;
use crate::message::MessageId;
use crate::path_id::{PathId, PathState};
use crate::stats::Extensions;
use crate::time::Timestamp;

/// How much an association records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum TraceLevel {
    /// Nothing. The default.
    #[default]
    Off,
    /// All events but those of packets.
    Events,
    /// All events.
    Packets,
}

/// An event inside an association.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceEvent {
    /// When: the `now` of the call that caused the event.
    pub at: Timestamp,
    /// The event.
    pub kind: TraceKind,
}

/// A range of TSNs: the first and the last.
pub type TsnRange = (Tsn, Tsn);

/// An event inside an association. Bytes are bytes of user data unless a field says otherwise.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TraceKind {
    /// The association entered another state (RFC 9260 §4), named as in [`crate::AssociationState`]. The first change is from CLOSED, also
    /// if tracing began later.
    StateChanged {
        /// The state before.
        from: AssociationState,
        /// The state now.
        to: AssociationState,
    },
    /// Set-up is complete (RFC 9260 §5.1).
    Negotiated {
        /// Streams to the peer.
        outbound_streams: u16,
        /// Streams from the peer.
        inbound_streams: u16,
        /// The extensions that both endpoints support.
        extensions: Extensions,
    },
    /// The association has ended (RFC 9260 §9).
    Closed {
        /// Why.
        reason: CloseReason,
    },
    /// A path is new, or its state changed (RFC 9260 §5.4, §8.2; RFC 7829).
    PathChanged {
        /// The path.
        path: PathId,
        /// Its local address; `None` if the operating system chooses it.
        local: Option<IpAddr>,
        /// Its remote address and UDP port.
        remote: SocketAddr,
        /// Its state now.
        state: PathState,
    },
    /// The congestion control, the RTT or the pacing of a path changed (RFC 9260 §6.3.1, §7.2).
    PathMetrics(PathMetrics),
    /// A packet was given to the driver to send. Only with [`TraceLevel::Packets`].
    PacketSent {
        /// The path.
        path: PathId,
        /// Length of the SCTP packet in bytes.
        bytes: usize,
        /// Its chunks, in order.
        chunks: Vec<TraceChunk>,
    },
    /// A packet of this association arrived. Only with [`TraceLevel::Packets`].
    PacketReceived {
        /// The path; `None` if it came from an address that is no path.
        path: Option<PathId>,
        /// Length of the SCTP packet in bytes.
        bytes: usize,
        /// Its chunks, in order.
        chunks: Vec<TraceChunk>,
    },
    /// The application gave a message, or a part of one, to `send` (RFC 9260 §11.1.5).
    MessageQueued {
        /// The message.
        message: MessageId,
        /// Its stream.
        stream: StreamId,
        /// The length of the message, or of the part.
        bytes: usize,
        /// Whether the message ends here.
        end: bool,
        /// Bytes that now wait for their first transmission, on all streams.
        queued_bytes: usize,
    },
    /// Data waits, and none of it may leave. Reported when the reason changes.
    SendingWaits {
        /// Why.
        reason: Blocked,
    },
    /// A chunk of user data left: DATA, I-DATA, E-DATA or E-I-DATA (RFC 9260 §6.1).
    DataSent {
        /// Its TSN.
        tsn: Tsn,
        /// The message; the identifier that `send` returned.
        message: MessageId,
        /// The stream of the message.
        stream: StreamId,
        /// The path.
        path: PathId,
        /// Bytes of user data in the chunk.
        bytes: usize,
        /// Whether the chunk begins the message.
        beginning: bool,
        /// Whether the chunk ends the message.
        ending: bool,
        /// The number of this transmission of the chunk, from 1.
        transmission: u32,
        /// Why the chunk left again; `None` for the first transmission.
        cause: Option<LossRule>,
        /// At the first transmission: the time since `send`, if it is known.
        waited: Option<Duration>,
        /// Of an early copy: its number among the copies of the chunk, from 1. Copies do not count in `transmission`.
        copy: Option<u32>,
    },
    /// A chunk of a message with a deadline ([`crate::SendOptions::deadline`]) left for the first time: the estimate that decides how many
    /// early copies it needs.
    CopiesPlanned {
        /// Its TSN.
        tsn: Tsn,
        /// The message.
        message: MessageId,
        /// The stream of the message.
        stream: StreamId,
        /// The path of the first transmission.
        path: PathId,
        /// The time until the deadline.
        left: Duration,
        /// How long the transmission takes to the peer, as estimated, with the queues of the path.
        arrives: Duration,
        /// The estimated probability, from 0 to 1, that without copies the chunk is not at the peer in time: neither by this transmission
        /// nor by a retransmission.
        failure: f64,
        /// The copies that it needs.
        copies: u8,
    },
    /// A message of several chunks with a deadline ([`crate::SendOptions::deadline`]) left, and may be followed by repair chunks.
    RepairsPlanned {
        /// The message.
        message: MessageId,
        /// The stream of the message.
        stream: StreamId,
        /// The chunks of the message.
        fragments: usize,
        /// The time until the deadline.
        left: Duration,
        /// The estimated probability, from 0 to 1, that one of its chunks and its retransmissions in time are lost.
        failure: f64,
        /// The repair chunks that it needs.
        repairs: usize,
    },
    /// An early copy, or a repair chunk of the message that ends with this chunk, is due and does not leave; or a chunk that needs copies gets none.
    /// Of the copies that are due, the first is reported, when its chunk or its reason changes.
    CopyWaits {
        /// The TSN of the chunk.
        tsn: Tsn,
        /// The message.
        message: MessageId,
        /// The stream of the message.
        stream: StreamId,
        /// The path that the copy would take; of a copy that waits for data, the path of the transmission before.
        path: PathId,
        /// Why.
        reason: CopyWait,
    },
    /// A chunk in flight was declared lost, or is to be retransmitted as if it were.
    ChunkLost {
        /// Its TSN.
        tsn: Tsn,
        /// The message.
        message: MessageId,
        /// The stream of the message.
        stream: StreamId,
        /// The path of its last transmission.
        path: PathId,
        /// The number of that transmission, from 1.
        transmission: u32,
        /// The rule that declared it lost.
        rule: LossRule,
    },
    /// A loss proved spurious: the peer received a transmission of the chunk that had been declared lost (RFC 3708, RFC 8985 §6.2).
    LossSpurious {
        /// The TSN.
        tsn: Tsn,
    },
    /// The receiver reneged on a chunk that a gap ack block had acknowledged (RFC 9260 §6.2.1).
    Reneged {
        /// The TSN.
        tsn: Tsn,
    },
    /// T3-rtx expired (RFC 9260 §6.3.3).
    T3Expired {
        /// The path.
        path: PathId,
        /// Chunks declared lost.
        lost: u32,
        /// The RTO from now on, backed off.
        rto: Duration,
    },
    /// The probe timeout expired: a tail loss probe leaves (RFC 8985 §7.3).
    ProbeTimeout {
        /// The path.
        path: PathId,
    },
    /// The last window reduction of a path proved spurious and is undone (RFC 3708; after T3-rtx by F-RTO, RFC 5682).
    ReductionUndone {
        /// The path.
        path: PathId,
    },
    /// An acknowledgement arrived: SACK, NR-SACK or COOP-SACK (RFC 9260 §6.2.1).
    AckReceived {
        /// The path on which it arrived; `None` if it came from an address that is no path.
        path: Option<PathId>,
        /// The cumulative TSN ack.
        cumulative_tsn_ack: Tsn,
        /// The peer's advertised receiver window in bytes.
        a_rwnd: u32,
        /// The TSNs in gap ack blocks; of a COOP-SACK none, because its blocks list transmissions.
        gap_ack_blocks: Vec<TsnRange>,
        /// TSNs that arrived more than once.
        duplicates: usize,
    },
    /// These chunks are acknowledged for the first time.
    Acknowledged {
        /// Their TSNs, in order.
        tsns: Vec<TsnRange>,
    },
    /// All chunks of a message are acknowledged.
    MessageAcknowledged {
        /// The message.
        message: MessageId,
        /// Its stream.
        stream: StreamId,
        /// The time from `send` to the first transmission of its first chunk.
        queue_delay: Duration,
        /// The time from `send` to this acknowledgement.
        delay: Duration,
        /// Retransmissions of its chunks, without early copies.
        retransmissions: u32,
        /// Early copies of its chunks.
        copies: u32,
    },
    /// A message was abandoned (RFC 3758 §3.5, RFC 7496).
    MessageAbandoned {
        /// The message.
        message: MessageId,
        /// Its stream.
        stream: StreamId,
        /// Whether a part of it was sent.
        sent: bool,
        /// Why.
        reason: AbandonReason,
    },
    /// FORWARD-TSN or I-FORWARD-TSN left: the peer need not wait for chunks up to this TSN (RFC 3758 §3.5; RFC 8260 §2.3.1).
    ForwardSent {
        /// The New Cumulative TSN.
        new_cumulative_tsn: Tsn,
    },
    /// FORWARD-TSN or I-FORWARD-TSN arrived (RFC 3758 §3.6).
    ForwardReceived {
        /// The New Cumulative TSN.
        new_cumulative_tsn: Tsn,
    },
    /// A chunk of user data arrived (RFC 9260 §6.2).
    DataReceived {
        /// Its TSN.
        tsn: Tsn,
        /// The stream of its message.
        stream: StreamId,
        /// The SSN of its message; with I-DATA the MID.
        sequence: u32,
        /// Whether the message is unordered.
        unordered: bool,
        /// The path on which it arrived; `None` if it came from an address that is no path.
        path: Option<PathId>,
        /// Bytes of user data in the chunk.
        bytes: usize,
        /// Whether the chunk begins the message.
        beginning: bool,
        /// Whether the chunk ends the message.
        ending: bool,
        /// Whether this TSN arrived for the first time.
        new: bool,
        /// If TSNs below this one are missing: the lowest of them.
        missing: Option<Tsn>,
    },
    /// An acknowledgement left: SACK, NR-SACK or COOP-SACK (RFC 9260 §6.2).
    AckSent {
        /// The path.
        path: PathId,
        /// The cumulative TSN ack.
        cumulative_tsn_ack: Tsn,
        /// The advertised receiver window in bytes.
        a_rwnd: u32,
        /// The TSNs in gap ack blocks; of a COOP-SACK none, because its blocks list transmissions.
        gap_ack_blocks: Vec<TsnRange>,
    },
    /// Head-of-line blocking: an ordered message is complete and waits for an earlier message of its stream (RFC 9260 §6.6).
    MessageBlocked {
        /// Its stream.
        stream: StreamId,
        /// Its first TSN.
        tsn: Tsn,
        /// The lowest missing TSN.
        missing: Tsn,
    },
    /// The application can read a message (RFC 9260 §6.5, §6.6). Of a message that is delivered in parts (§6.9), the last part with
    /// `recv` to come.
    MessageDelivered {
        /// Its stream.
        stream: StreamId,
        /// Its first TSN; `None` if its sender abandoned it after parts of it were delivered.
        tsn: Option<Tsn>,
        /// Its length, without the parts delivered before.
        bytes: usize,
        /// The time for which it was complete and blocked ([`TraceKind::MessageBlocked`]).
        blocked: Duration,
    },
    /// The queue of events was full: this many of the oldest were dropped.
    EventsDropped {
        /// How many.
        count: u64,
    },
}

/// The congestion control, the RTT and the pacing of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathMetrics {
    /// The path.
    pub path: PathId,
    /// The congestion window in bytes (RFC 9260 §7.2).
    pub cwnd: usize,
    /// The slow start threshold in bytes; `None` if there is none yet.
    pub ssthresh: Option<usize>,
    /// Bytes in flight, with chunk headers and padding, when another value changed.
    pub flight_size: usize,
    /// The smoothed RTT (RFC 9260 §6.3.1); `None` before the first measurement.
    pub srtt: Option<Duration>,
    /// The RTT variation (RFC 9260 §6.3.1).
    pub rttvar: Duration,
    /// The retransmission timeout, with its back-off.
    pub rto: Duration,
    /// The pacing rate in bytes per second; `None` without pacing.
    pub pacing_rate: Option<u64>,
}

/// A chunk of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceChunk {
    /// The chunk type ([`crate::wire::chunk::kind`]; those of experimental chunks are settings).
    pub kind: u8,
    /// The chunk flags.
    pub flags: u8,
    /// The chunk length in bytes, without padding.
    pub bytes: usize,
    /// The TSN of user data, the cumulative TSN ack of an acknowledgement, the New Cumulative TSN of FORWARD-TSN.
    pub tsn: Option<Tsn>,
}

/// The rule that declares a chunk lost, or lets it leave again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossRule {
    /// Missing reports: fast retransmit (RFC 9260 §7.2.4).
    MissingReports,
    /// The first missing report of a chunk that must not be retransmitted (early discard, Basto and Freitas); or FORWARD-TSN passed such a
    /// chunk before further reports came.
    FirstMissingReport,
    /// A later transmission was acknowledged, and the reordering window is over (RACK, RFC 8985 §6.2).
    Rack,
    /// The time rule of several paths: 1.25 round trips after a chunk that a later one overtook
    /// ([`crate::MultipathConfig::time_rule`]).
    TimeRule,
    /// T3-rtx (RFC 9260 §6.3.3).
    T3Rtx,
    /// Not a loss: a tail loss probe, which asks for an acknowledgement (RFC 8985 §7.3).
    TailLossProbe,
    /// Not a loss: an early copy, before a loss can be known ([`crate::SendOptions::early_copies`]).
    EarlyCopy,
    /// The probe timeout expired, and the chunk may not be retransmitted.
    ProbeTimeout,
    /// Not a loss: chunk rescheduling, because a full buffer waits for the chunk ([`crate::MultipathConfig::reschedule`]).
    Rescheduled,
    /// The path of the chunk is gone, or set-up begins again.
    Withdrawn,
}

/// Why a message was abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbandonReason {
    /// Its lifetime was over (RFC 3758 §4.1).
    Lifetime,
    /// It could not arrive within its lifetime ([`crate::PartialReliabilityConfig::discard_hopeless`]).
    Hopeless,
    /// A chunk of it was lost and had been retransmitted as often as allowed (RFC 7496 §3.1).
    Retransmissions,
    /// The send buffer was full, and a more important message needed it (RFC 7496 §3.2).
    Priority,
}

/// Why no packet with data leaves now (RFC 9260 §6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Blocked {
    /// The state of the association allows no data.
    State,
    /// The application gave no data, or not the rest of a message (explicit end of record).
    Application,
    /// The peer's receive window, or the range of TSNs that gap ack blocks can name.
    ReceiveWindow,
    /// The delay bound for less urgent data ([`Config::low_priority_delay`](crate::Config::low_priority_delay)).
    DelayBound,
    /// Small messages wait to be bundled (Nagle's algorithm).
    Nagle,
    /// The congestion window.
    CongestionWindow,
    /// The pacer, until this time.
    Pacer(Timestamp),
    /// `Max.Burst` (RFC 9260 §6.1 D).
    MaxBurst,
}

/// Why an early copy does not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyWait {
    /// Data leaves first: a retransmission, or new data that is as urgent.
    Data,
    /// The state of the association or of the path allows no data.
    State,
    /// The congestion window; for a repair chunk also the peer's receive window; or a tail loss probe, which goes first.
    CongestionWindow,
    /// Data and copies take all that they may take of the path's rate.
    Room,
    /// A queue stands at the bottleneck: the link is full, and copies pause.
    Pause,
    /// A copy would arrive too late.
    TooLate,
    /// The path's round-trip time was not measured yet.
    Unmeasured,
    /// Copies need RACK-TLP, and a peer that reports duplicates.
    Unavailable,
}

impl TraceKind {
    /// The name of the event in logs and qlog files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::StateChanged { .. } => "state_changed",
            Self::Negotiated { .. } => "negotiated",
            Self::Closed { .. } => "closed",
            Self::PathChanged { .. } => "path_changed",
            Self::PathMetrics(_) => "path_metrics",
            Self::PacketSent { .. } => "packet_sent",
            Self::PacketReceived { .. } => "packet_received",
            Self::MessageQueued { .. } => "message_queued",
            Self::SendingWaits { .. } => "sending_waits",
            Self::DataSent { .. } => "data_sent",
            Self::CopiesPlanned { .. } => "copies_planned",
            Self::RepairsPlanned { .. } => "repairs_planned",
            Self::CopyWaits { .. } => "copy_waits",
            Self::ChunkLost { .. } => "chunk_lost",
            Self::LossSpurious { .. } => "loss_spurious",
            Self::Reneged { .. } => "reneged",
            Self::T3Expired { .. } => "t3_expired",
            Self::ProbeTimeout { .. } => "probe_timeout",
            Self::ReductionUndone { .. } => "reduction_undone",
            Self::AckReceived { .. } => "ack_received",
            Self::Acknowledged { .. } => "acknowledged",
            Self::MessageAcknowledged { .. } => "message_acknowledged",
            Self::MessageAbandoned { .. } => "message_abandoned",
            Self::ForwardSent { .. } => "forward_sent",
            Self::ForwardReceived { .. } => "forward_received",
            Self::DataReceived { .. } => "data_received",
            Self::AckSent { .. } => "ack_sent",
            Self::MessageBlocked { .. } => "message_blocked",
            Self::MessageDelivered { .. } => "message_delivered",
            Self::EventsDropped { .. } => "events_dropped",
        }
    }
}

impl LossRule {
    /// The name of the rule in logs and qlog files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MissingReports => "missing_reports",
            Self::FirstMissingReport => "first_missing_report",
            Self::Rack => "rack",
            Self::TimeRule => "time_rule",
            Self::T3Rtx => "t3_rtx",
            Self::TailLossProbe => "tail_loss_probe",
            Self::EarlyCopy => "early_copy",
            Self::ProbeTimeout => "probe_timeout",
            Self::Rescheduled => "rescheduled",
            Self::Withdrawn => "withdrawn",
        }
    }
}

impl AbandonReason {
    /// The name of the reason in logs and qlog files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lifetime => "lifetime",
            Self::Hopeless => "hopeless",
            Self::Retransmissions => "retransmissions",
            Self::Priority => "priority",
        }
    }
}

impl Blocked {
    /// Whether the network is the limit, and not the application or the peer.
    pub(crate) fn is_for_network(self) -> bool {
        matches!(self, Self::CongestionWindow | Self::Pacer(_) | Self::MaxBurst)
    }

    /// The name of the reason in logs and qlog files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Application => "application",
            Self::ReceiveWindow => "receive_window",
            Self::DelayBound => "delay_bound",
            Self::Nagle => "nagle",
            Self::CongestionWindow => "congestion_window",
            Self::Pacer(_) => "pacer",
            Self::MaxBurst => "max_burst",
        }
    }
}

impl CopyWait {
    /// The reason for which a path admits no copy.
    pub(crate) fn of(blocked: Blocked) -> Self {
        match blocked {
            Blocked::State => Self::State,
            _ => Self::CongestionWindow,
        }
    }

    /// The name of the reason in logs and qlog files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::State => "state",
            Self::CongestionWindow => "congestion_window",
            Self::Room => "room",
            Self::Pause => "pause",
            Self::TooLate => "too_late",
            Self::Unmeasured => "unmeasured",
            Self::Unavailable => "unavailable",
        }
    }
}
