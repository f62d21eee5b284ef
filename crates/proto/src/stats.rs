//! Counters and readings that answer "why is it slow".

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use crate::ecn::EcnState;
use crate::path_id::{PathId, PathState};

/// Counters of one association since it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// SCTP packets sent and received.
    pub packets_sent: u64,
    /// SCTP packets received for this association.
    pub packets_received: u64,
    /// DATA chunks sent, repeats included.
    pub data_chunks_sent: u64,
    /// Bytes of user data sent, repeats included.
    pub data_bytes_sent: u64,
    /// DATA chunks received, duplicates included.
    pub data_chunks_received: u64,
    /// Messages accepted by `send`.
    pub messages_sent: u64,
    /// Messages handed over by `recv`, counted at their end.
    pub messages_received: u64,
    /// Chunks repeated after T3-rtx expired (RFC 9260 §6.3.3).
    pub retransmissions_timeout: u64,
    /// Chunks repeated by fast retransmit (RFC 9260 §7.2.4).
    pub retransmissions_fast: u64,
    /// Repeats that the peer reported as duplicates: the original had arrived.
    pub retransmissions_spurious: u64,
    /// Chunks sent again because a full buffer waited for them, though nothing said that they were lost (chunk rescheduling).
    pub chunks_rescheduled: u64,
    /// T3-rtx expirations.
    pub timeouts: u64,
    /// Times fast recovery was entered.
    pub fast_recoveries: u64,
    /// SACKs sent.
    pub sacks_sent: u64,
    /// SACKs received.
    pub sacks_received: u64,
    /// SACKs older than one already seen.
    pub sacks_stale: u64,
    /// Gap ack blocks in the acknowledgements sent, of every kind.
    pub gap_blocks_sent: u64,
    /// FORWARD-PSN chunks sent: transmissions not worth waiting for (ECA-SCTP).
    pub forward_psns_sent: u64,
    /// FORWARD-PSN chunks received.
    pub forward_psns_received: u64,
    /// Chunks taken for lost by the time that had passed, not by missing reports (the time rule).
    pub losses_by_time: u64,
    /// Tail loss probes sent (RFC 8985 §7).
    pub tail_loss_probes: u64,
    /// Window reductions undone because all losses of the episode, or the timeout, proved spurious.
    pub reductions_undone: u64,
    /// DATA chunks received twice.
    pub duplicates_received: u64,
    /// DATA chunks dropped because the buffer was full.
    pub dropped_no_room: u64,
    /// Chunks that the peer had gap-acknowledged and took back (RFC 9260 §6.2.1).
    pub reneged: u64,
    /// Times the peer's window closed while data was waiting.
    pub zero_windows: u64,
    /// Messages given up of which nothing was sent (RFC 7496 §4.3, `SCTP_PR_ASSOC_STATUS`).
    pub abandoned_unsent: u64,
    /// Messages given up of which something was sent (RFC 7496 §4.3).
    pub abandoned_sent: u64,
    /// Chunks given up at their first missing report instead of waiting for fast retransmit (early discard).
    pub early_discards: u64,
    /// FORWARD-TSN chunks sent, repeats included (RFC 3758).
    pub forward_tsns_sent: u64,
    /// FORWARD-TSN chunks received, those that came too late included.
    pub forward_tsns_received: u64,
    /// Selective forward TSNs sent: notices of one message that will not be repeated.
    pub selective_notices_sent: u64,
    /// Selective forward TSNs received.
    pub selective_notices_received: u64,
    /// Ordered messages that came after their stream had gone on without them.
    pub late_messages: u64,
    /// Bytes of user data freed because the peer can no longer take them back, before they were cumulatively
    /// acknowledged (NR-SACK).
    pub freed_early_bytes: u64,
    /// Acknowledgements that newly acknowledged something and left out chunks that the peer had declared non-renegable
    /// (NR-SACK): an error of the peer. The chunks stay acknowledged.
    pub nr_sack_contradictions: u64,
    /// Chunks that this side had gap-acknowledged and dropped again for want of room.
    pub chunks_reneged: u64,
    /// Packets with new data that came marked "congestion experienced" (CE), where ECN was negotiated.
    pub ce_packets_received: u64,
    /// ECNE chunks sent: reports of such packets, repeats included.
    pub ecnes_sent: u64,
    /// ECNE chunks received.
    pub ecnes_received: u64,
    /// Heartbeats sent.
    pub heartbeats_sent: u64,
    /// Probes for a larger path MTU sent (RFC 8899).
    pub mtu_probes_sent: u64,
    /// Times that large packets seemed to vanish, and a path's packets became small again (RFC 8899 §4.3).
    pub mtu_black_holes: u64,
    /// Times the data moved to another path because one failed.
    pub failovers: u64,
    /// INITs from the peer that crossed our own or came later (RFC 9260 §5.2.1, §5.2.2).
    pub init_collisions: u64,
    /// Restarts of the peer (RFC 9260 §5.2.4 A).
    pub restarts: u64,
}

/// Readings of one path.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathStats {
    /// The path.
    pub id: PathId,
    /// The local address, if it is fixed.
    pub local: Option<IpAddr>,
    /// The remote address and UDP port.
    pub remote: SocketAddr,
    /// Active, inactive or unconfirmed.
    pub state: PathState,
    /// Whether new data goes here.
    pub primary: bool,
    /// Smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// Round-trip time variation.
    pub rttvar: Duration,
    /// Retransmission timeout, back-off included.
    pub rto: Duration,
    /// Congestion window in bytes.
    pub cwnd: usize,
    /// Bytes per second at which packets are spread in time; `None` if they leave as soon as the window lets them: RFC 9260's
    /// algorithm, or no round-trip time is known yet.
    pub pacing_rate: Option<u64>,
    /// Slow start threshold in bytes; `usize::MAX` if the congestion control algorithm has none.
    pub ssthresh: usize,
    /// Bytes in flight: whole DATA chunks, their headers and padding included, as `cwnd` counts (RFC 9260 §1.6).
    pub flight_size: usize,
    /// `partial_bytes_acked` (RFC 9260 §7.2.2); 0 if the congestion control algorithm has none.
    pub partial_bytes_acked: usize,
    /// Largest IP packet in bytes.
    pub pmtu: u16,
    /// Errors in a row.
    pub error_count: u32,
    /// T3-rtx expirations on this path.
    pub timeouts: u64,
    /// Times that missing reports cut this path's congestion window.
    pub fast_recoveries: u64,
    /// Bytes of user data sent here, repeats included.
    pub data_bytes_sent: u64,
    /// DATA chunks sent here, repeats included.
    pub data_chunks_sent: u64,
    /// Of these, repeats: of what this path lost, or another one.
    pub chunks_retransmitted: u64,
    /// Chunks sent here that missing reports or T3-rtx found lost.
    pub chunks_lost: u64,
    /// ECN on this path.
    pub ecn: EcnPathStats,
}

/// Readings of ECN on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EcnPathStats {
    /// Whether packets leave as ECN-capable.
    pub state: EcnState,
    /// Packets that left as ECT(0).
    pub packets_sent: u64,
    /// Marked packets that the peer reported. A peer that counts none, such as Linux, reports one for each of its ECNEs.
    pub packets_marked: u64,
    /// Times that marks reduced the congestion window.
    pub reductions: u64,
}

/// What goes beyond RFC 9260 and is in use: both ends offered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Extensions {
    /// FORWARD-TSN (RFC 3758): what was sent once may be given up. What was not sent yet may be without it.
    pub partial_reliability: bool,
    /// NR-SACK (draft-tuexen-tsvwg-sctp-multipath §4).
    pub nr_sack: bool,
    /// Selective forward TSN (Basto and Freitas, *SCTP extensions for time sensitive traffic*).
    pub selective_forward_tsn: bool,
    /// I-DATA (RFC 8260): messages interleave.
    pub interleaving: bool,
    /// ECA-SCTP (Kim, Seo and Song): acknowledgements name transmissions.
    pub eca: bool,
    /// ECN (draft-stewart-tsvwg-sctpecn): packets are marked instead of dropped.
    pub ecn: bool,
}

/// Readings of one association.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AssociationStats {
    /// Counters since set-up.
    pub counters: Counters,
    /// What was agreed on at set-up; nothing before it is complete.
    pub extensions: Extensions,
    /// A reading for each path.
    pub paths: Vec<PathStats>,
    /// Bytes given to `send` that have not been sent once.
    pub queued_bytes: usize,
    /// Bytes sent and not acknowledged.
    pub outstanding_bytes: usize,
    /// Of these, what the peer acknowledged by gap blocks and could still take back. With NR-SACK none is, if the peer never
    /// takes anything back.
    pub gap_acked_bytes: usize,
    /// The peer's window as far as known, in bytes (RFC 9260 §6.2.1).
    pub peer_rwnd: usize,
    /// The window this side advertises, in bytes.
    pub a_rwnd: u32,
    /// Bytes received that the application has not taken.
    pub unread_bytes: usize,
}

/// Readings of one outbound stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StreamStats {
    /// Bytes waiting for their first transmission.
    pub queued_bytes: usize,
    /// Messages waiting for their first transmission, one in the middle of it included.
    pub queued_messages: usize,
    /// Messages accepted since set-up.
    pub messages: u64,
    /// Bytes accepted since set-up.
    pub bytes: u64,
    /// Messages that have left whole.
    pub messages_sent: u64,
    /// Time from `send` to the first transmission of the last fragment: sum over the messages that have left.
    pub queue_delay_total: Duration,
    /// The longest of them.
    pub queue_delay_max: Duration,
    /// Messages whose last fragment was acknowledged.
    pub messages_acknowledged: u64,
    /// Time from the first transmission of the last fragment to its acknowledgement, repeats and the peer's delay of
    /// acknowledgements included: sum over the messages acknowledged. What a message waits for here is in the queue delay, what
    /// it waits for in the network, behind what left before it, is in this.
    pub network_delay_total: Duration,
    /// The longest of them.
    pub network_delay_max: Duration,
}

impl StreamStats {
    /// The mean queue delay, once a message has left.
    #[must_use]
    pub fn queue_delay_mean(&self) -> Option<Duration> {
        mean(self.queue_delay_total, self.messages_sent)
    }

    /// The mean network delay, once a message was acknowledged.
    #[must_use]
    pub fn network_delay_mean(&self) -> Option<Duration> {
        mean(self.network_delay_total, self.messages_acknowledged)
    }
}

fn mean(total: Duration, count: u64) -> Option<Duration> {
    (count > 0).then(|| total.div_f64(count as f64))
}
