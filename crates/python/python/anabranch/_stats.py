"""Statistics of associations, paths and streams. The texts of the fields are those of the Rust library, which a test compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch._documented import documented
from anabranch._types import PathState


@documented
@dataclass(frozen=True, kw_only=True)
class Counters:
    """Counters of an association since it was created. They never decrease."""

    packets_sent: int
    """SCTP packets sent."""
    packets_received: int
    """SCTP packets received for this association."""
    data_chunks_sent: int
    """DATA chunks sent, retransmissions included."""
    data_bytes_sent: int
    """Bytes of user data sent, retransmissions included."""
    data_chunks_received: int
    """DATA chunks received, duplicates included."""
    messages_sent: int
    """Messages accepted by `send`."""
    messages_received: int
    """Messages delivered by `recv`, counted when the end of the message is delivered."""
    retransmissions_timeout: int
    """Chunks retransmitted after T3-rtx expired (RFC 9260 §6.3.3)."""
    retransmissions_fast: int
    """Chunks retransmitted after missing reports (fast retransmit, RFC 9260 §7.2.4) or RACK (RFC 8985) declared them lost."""
    retransmissions_spurious: int
    """Spurious retransmissions: the peer reported the TSN as a duplicate, so the original had arrived."""
    timeouts: int
    """Expirations of T3-rtx, over all paths."""
    fast_recoveries: int
    """How many times fast recovery was entered (RFC 9260 §7.2.4), over all paths."""
    sacks_sent: int
    """SACKs sent (with the extensions: NR-SACKs and COOP-SACKs)."""
    sacks_received: int
    """SACKs received (with the extensions: NR-SACKs and COOP-SACKs)."""
    losses_by_time: int
    """Chunks declared lost by the time rule or RACK's timer and not by missing reports."""
    tail_loss_probes: int
    """Tail loss probes sent (RFC 8985 §7)."""
    repair_chunks: int
    """Repair chunks sent for messages with a deadline (`deadline` of `send`); they are DATA chunks too."""
    messages_repaired: int
    """Messages of the peer that were delivered with the help of repair chunks."""
    early_copies: int
    """Early copies of chunks sent (`early_copies` of `send`)."""
    early_copies_unnecessary: int
    """Early copies that the peer did not need: it reported the TSN as a duplicate. A report can be lost."""
    redundancy_bytes: int
    """Bytes of the early copies sent, with chunk headers and padding."""
    reductions_undone: int
    """Window reductions undone because all losses of the episode, or the timeout, proved spurious."""
    duplicates_received: int
    """DATA chunks received more than once."""
    dropped_no_room: int
    """DATA chunks dropped because the receive buffer was full, or because their TSN was too far ahead of the cumulative TSN."""
    zero_windows: int
    """How many times the peer's receive window closed while data waited to be sent."""
    abandoned_unsent: int
    """Messages abandoned before any of their data was sent (RFC 7496 §4.3, `SCTP_PR_ASSOC_STATUS`)."""
    abandoned_sent: int
    """Messages abandoned after at least a part of them was sent (RFC 7496 §4.3)."""
    early_discards: int
    """Chunks abandoned at their first missing report instead of the last one needed for fast retransmit (early discard)."""
    forward_tsns_sent: int
    """FORWARD-TSN chunks sent, retransmissions included (RFC 3758)."""
    forward_tsns_received: int
    """FORWARD-TSN chunks received, including those that moved nothing."""
    selective_notices_sent: int
    """Selective forward TSN chunks sent. Each notifies the receiver of a chunk that will not be retransmitted."""
    selective_notices_received: int
    """Selective forward TSN chunks received."""
    extended_forwards_sent: int
    """Extended FORWARD-TSN chunks sent, retransmissions included."""
    extended_forwards_received: int
    """Extended FORWARD-TSN chunks received, including those that moved nothing."""
    late_messages: int
    """Ordered messages that arrived after the receiver had delivered later messages of their stream without them."""
    heartbeats_sent: int
    """Heartbeats sent."""
    mtu_probes_sent: int
    """Path MTU probes sent (RFC 8899)."""
    mtu_black_holes: int
    """Black holes detected: large packets of a path were lost repeatedly, so the path's packet size was reduced (RFC 8899 §4.3)."""
    failovers: int
    """Failovers: data moved to another path because its path failed (RFC 9260 §8.2, RFC 7829)."""
    restarts: int
    """Restarts of the peer (RFC 9260 §5.2.4 A)."""


@documented
@dataclass(frozen=True, kw_only=True)
class Extensions:
    """The extensions that were negotiated: those beyond RFC 9260 that both endpoints offered."""

    partial_reliability: bool
    """FORWARD-TSN (RFC 3758): messages may be abandoned after they were sent. Before a message is sent, it may be abandoned without FORWARD-TSN
    too."""
    nr_sack: bool
    """NR-SACK (draft-tuexen-tsvwg-sctp-multipath §4)."""
    selective_forward_tsn: bool
    """Selective forward TSN (Basto and Freitas, *SCTP extensions for time sensitive traffic*)."""
    extended_forward_tsn: bool
    """Extended FORWARD-TSN (after Rajiullah and Brunstrom, *Optimizing PR-SCTP Performance using NR-SACKs*)."""
    interleaving: bool
    """I-DATA (RFC 8260): message interleaving."""
    eca: bool
    """ECA-SCTP (Kim, Seo and Song): acknowledgements name transmissions."""
    ecn: bool
    """ECN (draft-stewart-tsvwg-sctpecn): queues mark packets instead of dropping them."""
    reconfiguration: bool
    """RE-CONFIG (RFC 6525): streams may be reset and added."""
    authentication: bool
    """Authenticated chunks (RFC 4895)."""
    dynamic_addresses: bool
    """Dynamic address reconfiguration (RFC 5061)."""
    port_pairs: bool
    """Paths that differ by the UDP port of the peer alone (this project's, experimental)."""
    repair: bool
    """Repair chunks for large messages with a deadline (this project's, experimental)."""
    zero_checksum: bool
    """Packets to the peer have a checksum of zero (RFC 9653)."""
    protection: bool
    """DTLS chunks (draft-ietf-tsvwg-sctp-dtls-chunk): packets after set-up are encrypted."""


@documented
@dataclass(frozen=True, kw_only=True)
class PathStats:
    """Current values of a path."""

    id: int
    """The number of the path."""
    local: str | None
    """The local address from which packets leave; `None` if the operating system chooses it."""
    remote: str
    """The remote address and UDP port (0 without encapsulation)."""
    state: PathState
    """Unconfirmed, active, potentially failed or inactive."""
    primary: bool
    """Whether this is the primary path, which new data takes while it is active (RFC 9260 §6.4)."""
    srtt: float | None
    """The smoothed RTT (RFC 9260 §6.3.1); `None` before the first measurement. In seconds."""
    rttvar: float
    """The RTT variation (RFC 9260 §6.3.1). In seconds."""
    rto: float
    """The retransmission timeout, with its back-off (RFC 9260 §6.3.1, §6.3.3 E2). In seconds."""
    cwnd: int
    """The congestion window in bytes."""
    pacing_rate: int | None
    """The pacing rate in bytes per second. `None` if packets are not paced: with the algorithm of RFC 9260, or before the first RTT
    measurement."""
    known_rate: int | None
    """The highest rate in bytes per second that the path has carried lately. `None` with a congestion control algorithm that does not measure it
    (only BBR does), and while the path has not been filled."""
    ssthresh: int | None
    """The slow start threshold in bytes; `None` if the congestion control algorithm has none, or before the first reduction."""
    flight_size: int
    """Bytes in flight: whole DATA chunks, their headers and padding included, as `cwnd` counts (RFC 9260 §1.3)."""
    pmtu: int
    """The path MTU: the largest IP packet that is sent, in bytes."""
    error_count: int
    """Consecutive errors: the path's error counter (RFC 9260 §8.2)."""
    timeouts: int
    """T3-rtx expirations on this path."""
    fast_recoveries: int
    """How many times losses found by missing reports or RACK, not by T3-rtx, reduced this path's congestion window."""
    data_bytes_sent: int
    """Bytes of user data sent on this path, retransmissions included, early copies not."""
    copy_bytes_sent: int
    """Bytes of user data in early copies sent on this path."""
    data_bytes_received: int
    """Bytes of user data that arrived on this path, retransmissions and copies included."""
    data_chunks_sent: int
    """DATA chunks sent on this path, retransmissions included, early copies not."""
    chunks_retransmitted: int
    """Retransmissions sent on this path, of chunks that this path or another path had lost."""
    chunks_lost: int
    """Chunks sent on this path that missing reports, RACK or T3-rtx declared lost."""


@documented
@dataclass(frozen=True, kw_only=True)
class AssociationStats:
    """Current values of an association."""

    counters: Counters
    """Counters since set-up."""
    extensions: Extensions
    """The extensions negotiated; all false before set-up is complete."""
    paths: tuple[PathStats, ...]
    """The values of each path."""
    queued_bytes: int
    """Bytes given to `send` and not yet sent for the first time."""
    outstanding_bytes: int
    """Bytes of user data sent and not acknowledged, neither cumulatively nor as non-renegable."""
    gap_acked_bytes: int
    """Of `outstanding_bytes`, those that the peer acknowledged in gap ack blocks and may still renege on. 0 if NR-SACK is negotiated and the
    peer never reneges."""
    peer_rwnd: int
    """The peer's advertised receiver window less the bytes in flight (RFC 9260 §6.2.1), in bytes."""
    a_rwnd: int
    """The receiver window that this endpoint advertises, in bytes."""
    unread_bytes: int
    """Bytes received that the application has not read."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> AssociationStats:
        """The statistics from what the native part returns."""
        rest = dict(values)
        return cls(
            counters=Counters(**rest.pop("counters")),
            extensions=Extensions(**rest.pop("extensions")),
            paths=tuple(PathStats(**path) for path in rest.pop("paths")),
            **rest,
        )


@documented
@dataclass(frozen=True, kw_only=True)
class StreamStats:
    """Counters and delays of an outbound stream."""

    queued_bytes: int
    """Bytes that wait for their first transmission."""
    queued_messages: int
    """Messages that wait for their first transmission, or whose transmission is not complete."""
    messages: int
    """Messages accepted by `send` since set-up."""
    bytes: int
    """Bytes accepted by `send` since set-up."""
    messages_sent: int
    """Messages whose last fragment was sent."""
    messages_acknowledged: int
    """Messages whose last fragment was acknowledged."""
    queue_delay_total: float
    """The queue delay, from `send` to the first transmission of the last fragment: sum over the messages sent. In seconds."""
    queue_delay_max: float
    """The longest queue delay. In seconds."""
    network_delay_total: float
    """The network delay, from the first transmission of the last fragment to its acknowledgement: sum over the messages acknowledged. It
    includes queues in the network, retransmissions and the peer's acknowledgement delay. In seconds."""
    network_delay_max: float
    """The longest network delay. In seconds."""
