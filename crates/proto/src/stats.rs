//! Statistics: counters and current values of an association, its paths and its streams (STATUS, RFC 9260 §11.1.8).

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use crate::config::HmacAlgorithm;
use crate::dscp::Dscp;
use crate::ecn::EcnState;
use crate::path_id::{PathId, PathState};

/// Counters of one association since it was created. They never decrease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// SCTP packets sent.
    pub packets_sent: u64,
    /// SCTP packets received for this association.
    pub packets_received: u64,
    /// DATA chunks sent, retransmissions included.
    pub data_chunks_sent: u64,
    /// Bytes of user data sent, retransmissions included.
    pub data_bytes_sent: u64,
    /// DATA chunks received, duplicates included.
    pub data_chunks_received: u64,
    /// Messages accepted by `send`.
    pub messages_sent: u64,
    /// Messages delivered by `recv`, counted when the end of the message is delivered.
    pub messages_received: u64,
    /// Chunks retransmitted after T3-rtx expired (RFC 9260 §6.3.3).
    pub retransmissions_timeout: u64,
    /// Chunks retransmitted after missing reports (fast retransmit, RFC 9260 §7.2.4) or RACK (RFC 8985) declared them lost.
    pub retransmissions_fast: u64,
    /// Spurious retransmissions: the peer reported the TSN as a duplicate, so the original had arrived.
    pub retransmissions_spurious: u64,
    /// Chunks retransmitted without any sign of loss, because a full buffer waited for them (chunk rescheduling,
    /// [`crate::MultipathConfig::reschedule`]).
    pub chunks_rescheduled: u64,
    /// Expirations of T3-rtx, over all paths.
    pub timeouts: u64,
    /// How many times fast recovery was entered (RFC 9260 §7.2.4), over all paths.
    pub fast_recoveries: u64,
    /// SACKs sent (with the extensions: NR-SACKs and COOP-SACKs).
    pub sacks_sent: u64,
    /// SACKs received (with the extensions: NR-SACKs and COOP-SACKs).
    pub sacks_received: u64,
    /// SACKs received that were older than one received before.
    pub sacks_stale: u64,
    /// Gap ack blocks in the acknowledgements sent, of every kind.
    pub gap_blocks_sent: u64,
    /// FORWARD-PSN chunks sent (ECA-SCTP): they name transmissions that the receiver need not wait for.
    pub forward_psns_sent: u64,
    /// FORWARD-PSN chunks received.
    pub forward_psns_received: u64,
    /// Chunks declared lost by the time rule ([`crate::MultipathConfig::time_rule`]) or RACK's timer and not by missing reports.
    pub losses_by_time: u64,
    /// Tail loss probes sent (RFC 8985 §7).
    pub tail_loss_probes: u64,
    /// Repair chunks sent for messages with a deadline ([`crate::SendOptions::deadline`]); they are DATA chunks too.
    pub repair_chunks: u64,
    /// Messages of the peer that were delivered with the help of repair chunks.
    pub messages_repaired: u64,
    /// Early copies of chunks sent ([`crate::SendOptions::early_copies`]).
    pub early_copies: u64,
    /// Early copies that the peer did not need: it reported the TSN as a duplicate. A report can be lost.
    pub early_copies_unnecessary: u64,
    /// Bytes of the early copies sent, with chunk headers and padding.
    pub redundancy_bytes: u64,
    /// Window reductions undone because all losses of the episode, or the timeout, proved spurious.
    pub reductions_undone: u64,
    /// DATA chunks received more than once.
    pub duplicates_received: u64,
    /// DATA chunks dropped because the receive buffer was full, or because their TSN was too far ahead of the cumulative TSN.
    pub dropped_no_room: u64,
    /// Chunks that the peer acknowledged in a gap ack block and then reneged on (RFC 9260 §6.2.1).
    pub reneged: u64,
    /// How many times the peer's receive window closed while data waited to be sent.
    pub zero_windows: u64,
    /// Messages abandoned before any of their data was sent (RFC 7496 §4.3, `SCTP_PR_ASSOC_STATUS`).
    pub abandoned_unsent: u64,
    /// Messages abandoned after at least a part of them was sent (RFC 7496 §4.3).
    pub abandoned_sent: u64,
    /// Chunks abandoned at their first missing report instead of the last one needed for fast retransmit (early discard).
    pub early_discards: u64,
    /// FORWARD-TSN chunks sent, retransmissions included (RFC 3758).
    pub forward_tsns_sent: u64,
    /// FORWARD-TSN chunks received, including those that moved nothing.
    pub forward_tsns_received: u64,
    /// Selective forward TSN chunks sent. Each notifies the receiver of a chunk that will not be retransmitted.
    pub selective_notices_sent: u64,
    /// Selective forward TSN chunks received.
    pub selective_notices_received: u64,
    /// Extended FORWARD-TSN chunks sent, retransmissions included.
    pub extended_forwards_sent: u64,
    /// Extended FORWARD-TSN chunks received, including those that moved nothing.
    pub extended_forwards_received: u64,
    /// Ordered messages that arrived after the receiver had delivered later messages of their stream without them.
    pub late_messages: u64,
    /// Bytes of user data freed before they were cumulatively acknowledged, because the peer declared them non-renegable
    /// (NR-SACK).
    pub freed_early_bytes: u64,
    /// NR-SACKs that newly acknowledged data and left out chunks which the peer had declared non-renegable: an error of the peer. The
    /// chunks stay acknowledged.
    pub nr_sack_contradictions: u64,
    /// Chunks that this endpoint reneged on: acknowledged in a gap ack block and then dropped because the buffer was full.
    pub chunks_reneged: u64,
    /// Packets with new data that arrived marked "congestion experienced" (CE), if ECN was negotiated.
    pub ce_packets_received: u64,
    /// ECNE chunks sent, retransmissions included. They report packets that arrived marked.
    pub ecnes_sent: u64,
    /// ECNE chunks received.
    pub ecnes_received: u64,
    /// RE-CONFIG chunks sent, retransmissions and responses included (RFC 6525).
    pub reconfigs_sent: u64,
    /// RE-CONFIG chunks received, if stream reconfiguration was negotiated.
    pub reconfigs_received: u64,
    /// Heartbeats sent.
    pub heartbeats_sent: u64,
    /// Path MTU probes sent (RFC 8899).
    pub mtu_probes_sent: u64,
    /// Black holes detected: large packets of a path were lost repeatedly, so the path's packet size was reduced (RFC 8899 §4.3).
    pub mtu_black_holes: u64,
    /// Failovers: data moved to another path because its path failed (RFC 9260 §8.2, RFC 7829).
    pub failovers: u64,
    /// INITs received from the peer while this association existed (RFC 9260 §5.2.1, §5.2.2).
    pub init_collisions: u64,
    /// Restarts of the peer (RFC 9260 §5.2.4 A).
    pub restarts: u64,
    /// Packets sent with an AUTH chunk (RFC 4895).
    pub packets_signed: u64,
    /// Packets received whose AUTH chunk was verified.
    pub packets_verified: u64,
    /// Packets received whose AUTH chunk could not be verified: the chunks after it were discarded.
    pub packets_unverified: u64,
    /// ASCONF chunks sent, retransmissions included (RFC 5061).
    pub asconfs_sent: u64,
    /// ASCONF chunks received and processed; retransmissions of the peer do not count.
    pub asconfs_received: u64,
    /// Chunks received and discarded because the peer must authenticate chunks of this type, and did not.
    pub chunks_unauthenticated: u64,
}

/// Current values of one path.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathStats {
    /// The number of the path.
    pub id: PathId,
    /// The local address from which packets leave; `None` if the operating system chooses it.
    pub local: Option<IpAddr>,
    /// The remote address and UDP port (0 without encapsulation).
    pub remote: SocketAddr,
    /// Unconfirmed, active, potentially failed or inactive.
    pub state: PathState,
    /// Whether this is the primary path, which new data takes while it is active (RFC 9260 §6.4).
    pub primary: bool,
    /// The smoothed RTT (RFC 9260 §6.3.1); `None` before the first measurement.
    pub srtt: Option<Duration>,
    /// The RTT variation (RFC 9260 §6.3.1).
    pub rttvar: Duration,
    /// The retransmission timeout, with its back-off (RFC 9260 §6.3.1, §6.3.3 E2).
    pub rto: Duration,
    /// The congestion window in bytes.
    pub cwnd: usize,
    /// The pacing rate in bytes per second. `None` if packets are not paced: with the algorithm of RFC 9260, or before the first RTT
    /// measurement.
    pub pacing_rate: Option<u64>,
    /// The highest rate in bytes per second that the path has carried lately. `None` with a congestion control algorithm that does not measure it
    /// (only BBR does), and while the path has not been filled.
    pub known_rate: Option<u64>,
    /// The slow start threshold in bytes; `usize::MAX` if the congestion control algorithm has none, or before the first reduction.
    pub ssthresh: usize,
    /// Bytes in flight: whole DATA chunks, their headers and padding included, as `cwnd` counts (RFC 9260 §1.3).
    pub flight_size: usize,
    /// `partial_bytes_acked` (RFC 9260 §7.2.2); 0 if the congestion control algorithm has none.
    pub partial_bytes_acked: usize,
    /// The path MTU: the largest IP packet that is sent, in bytes.
    pub pmtu: u16,
    /// Whether path MTU discovery may change `pmtu` ([`crate::PathSettings::path_mtu`], [`crate::Config::path_mtu_limit`]).
    pub discovers_pmtu: bool,
    /// `HB.interval` of the path; `None` if it has no heartbeats ([`crate::PathSettings::heartbeats`]).
    pub heartbeat_interval: Option<Duration>,
    /// `Path.Max.Retrans` of the path ([`crate::PathSettings::max_retrans`]).
    pub max_retrans: u32,
    /// The Differentiated Services codepoint of packets on the path ([`crate::PathSettings::dscp`]).
    pub dscp: Dscp,
    /// Consecutive errors: the path's error counter (RFC 9260 §8.2).
    pub error_count: u32,
    /// T3-rtx expirations on this path.
    pub timeouts: u64,
    /// How many times losses found by missing reports or RACK, not by T3-rtx, reduced this path's congestion window.
    pub fast_recoveries: u64,
    /// Bytes of user data sent on this path, retransmissions included, early copies not.
    pub data_bytes_sent: u64,
    /// Bytes of user data in early copies sent on this path.
    pub copy_bytes_sent: u64,
    /// Bytes of user data that arrived on this path, retransmissions and copies included.
    pub data_bytes_received: u64,
    /// DATA chunks sent on this path, retransmissions included, early copies not.
    pub data_chunks_sent: u64,
    /// Retransmissions sent on this path, of chunks that this path or another path had lost.
    pub chunks_retransmitted: u64,
    /// Chunks sent on this path that missing reports, RACK or T3-rtx declared lost.
    pub chunks_lost: u64,
    /// ECN on this path.
    pub ecn: EcnPathStats,
}

/// Current values of ECN on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EcnPathStats {
    /// Whether data packets leave as ECN-capable.
    pub state: EcnState,
    /// Packets that left as ECT(0).
    pub packets_sent: u64,
    /// Marked packets that the peer reported. A peer that does not count them, such as Linux, reports one packet in each ECNE.
    pub packets_marked: u64,
    /// How many times marks reduced the congestion window.
    pub reductions: u64,
}

/// The extensions negotiated: those beyond RFC 9260 that both endpoints offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Extensions {
    /// FORWARD-TSN (RFC 3758): messages may be abandoned after they were sent. Before a message is sent, it may be abandoned
    /// without FORWARD-TSN too.
    pub partial_reliability: bool,
    /// NR-SACK (draft-tuexen-tsvwg-sctp-multipath §4).
    pub nr_sack: bool,
    /// Selective forward TSN (Basto and Freitas, *SCTP extensions for time sensitive traffic*).
    pub selective_forward_tsn: bool,
    /// Extended FORWARD-TSN (after Rajiullah and Brunstrom, *Optimizing PR-SCTP Performance using NR-SACKs*).
    pub extended_forward_tsn: bool,
    /// I-DATA (RFC 8260): message interleaving.
    pub interleaving: bool,
    /// ECA-SCTP (Kim, Seo and Song): acknowledgements name transmissions.
    pub eca: bool,
    /// ECN (draft-stewart-tsvwg-sctpecn): queues mark packets instead of dropping them.
    pub ecn: bool,
    /// RE-CONFIG (RFC 6525): streams may be reset and added.
    pub reconfiguration: bool,
    /// Authenticated chunks (RFC 4895).
    pub authentication: bool,
    /// Dynamic address reconfiguration (RFC 5061).
    pub dynamic_addresses: bool,
    /// Paths that differ by the UDP port of the peer alone (this project's, experimental).
    pub port_pairs: bool,
    /// Repair chunks for large messages with a deadline (this project's, experimental).
    pub repair: bool,
    /// Packets to the peer have a checksum of zero (RFC 9653).
    pub zero_checksum: bool,
    /// DTLS chunks (draft-ietf-tsvwg-sctp-dtls-chunk): packets after set-up are encrypted.
    pub protection: bool,
}

/// Protected packets (draft-ietf-tsvwg-sctp-dtls-chunk).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ProtectionStats {
    /// Both directions are protected. User messages are sent only then.
    pub is_protected: bool,
    /// The association was restarted with restart keys, by this endpoint or by the peer.
    pub is_restarted: bool,
    /// The epoch of the key with which packets are encrypted: 3 at first, and one more after each rekeying. After a restart that of the
    /// restart keys, and then 3 again.
    pub epoch: Option<u64>,
    /// The newest epoch of an encrypted packet of the peer. Restart keys do not count.
    pub newest_received: Option<u64>,
    /// Packets encrypted.
    pub packets_sealed: u64,
    /// Packets decrypted.
    pub packets_opened: u64,
    /// Packets discarded because they were in clear when all had to be encrypted.
    pub packets_unprotected: u64,
    /// Packets discarded because they were not authentic, or because there was no key for them.
    pub packets_unauthentic: u64,
    /// Packets discarded because they had arrived before, or were older than the replay window.
    pub packets_replayed: u64,
}

/// Authenticated chunks (RFC 4895), as negotiated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthenticationStats {
    /// The HMAC algorithm with which this endpoint signs: the first of the peer's list that it supports.
    pub hmac: HmacAlgorithm,
    /// The identifier of the key with which this endpoint signs.
    pub active_key: u16,
    /// The identifier of the key with which the peer signs: that of its last verified AUTH chunk.
    pub peer_key: u16,
    /// The chunk types that this endpoint accepts only if the peer signed them, in ascending order.
    pub chunks_required: Vec<u8>,
    /// The chunk types that this endpoint signs because the peer asked for it, in ascending order.
    pub chunks_signed: Vec<u8>,
}

/// Current values of one association.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AssociationStats {
    /// Counters since set-up.
    pub counters: Counters,
    /// The extensions negotiated; all false before set-up is complete.
    pub extensions: Extensions,
    /// Authenticated chunks; `None` if they were not negotiated.
    pub authentication: Option<AuthenticationStats>,
    /// Protected packets; `None` if this endpoint does not protect them.
    pub protection: Option<ProtectionStats>,
    /// The values of each path.
    pub paths: Vec<PathStats>,
    /// Bytes given to `send` and not yet sent for the first time.
    pub queued_bytes: usize,
    /// Bytes of user data sent and not acknowledged, neither cumulatively nor as non-renegable.
    pub outstanding_bytes: usize,
    /// Of `outstanding_bytes`, those that the peer acknowledged in gap ack blocks and may still renege on. 0 if NR-SACK is negotiated
    /// and the peer never reneges.
    pub gap_acked_bytes: usize,
    /// The peer's advertised receiver window less the bytes in flight (RFC 9260 §6.2.1), in bytes.
    pub peer_rwnd: usize,
    /// The receiver window that this endpoint advertises, in bytes.
    pub a_rwnd: u32,
    /// Bytes received that the application has not read.
    pub unread_bytes: usize,
}

/// Current values of one outbound stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StreamStats {
    /// Bytes that wait for their first transmission.
    pub queued_bytes: usize,
    /// Messages that wait for their first transmission, or whose transmission is not complete.
    pub queued_messages: usize,
    /// Messages accepted by `send` since set-up.
    pub messages: u64,
    /// Bytes accepted by `send` since set-up.
    pub bytes: u64,
    /// Messages whose last fragment was sent.
    pub messages_sent: u64,
    /// The queue delay, from `send` to the first transmission of the last fragment: sum over the messages sent.
    pub queue_delay_total: Duration,
    /// The longest queue delay.
    pub queue_delay_max: Duration,
    /// Messages whose last fragment was acknowledged.
    pub messages_acknowledged: u64,
    /// The network delay, from the first transmission of the last fragment to its acknowledgement: sum over the messages acknowledged.
    /// It includes queues in the network, retransmissions and the peer's acknowledgement delay.
    pub network_delay_total: Duration,
    /// The longest network delay.
    pub network_delay_max: Duration,
}

impl StreamStats {
    /// The mean queue delay; `None` before a message was sent.
    #[must_use]
    pub fn queue_delay_mean(&self) -> Option<Duration> {
        mean(self.queue_delay_total, self.messages_sent)
    }

    /// The mean network delay; `None` before a message was acknowledged.
    #[must_use]
    pub fn network_delay_mean(&self) -> Option<Duration> {
        mean(self.network_delay_total, self.messages_acknowledged)
    }
}

fn mean(total: Duration, count: u64) -> Option<Duration> {
    (count > 0).then(|| total.div_f64(count as f64))
}
