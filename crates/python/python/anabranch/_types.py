"""Settings, statistics and events as plain objects."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from anabranch._times import LONGEST, Time, seconds

Scheduler = Literal[
    "first_come_first_served",
    "round_robin",
    "round_robin_per_packet",
    "priority",
    "fair_bandwidth",
    "weighted_fair_queueing",
]
#: The fate of a message.
Delivery = Literal["acknowledged", "abandoned", "failed"]
PathState = Literal["unconfirmed", "active", "potentially_failed", "inactive"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of an endpoint. `None` means the default of the Rust library. Sizes are in bytes. A time is a
    `datetime.timedelta`, or a number of seconds. A number that is too large to be meant in seconds is refused.

    The names are those of `anabranch::Config`, whose documentation has the meanings, ranges and defaults.
    """

    #: The settings that the others of this object change: "default"; "low_latency", for traffic that is worthless after a short time, where
    #: deadlines do not fit; or "rfc9260", the standard alone, for comparison.
    preset: Literal["default", "low_latency", "rfc9260"] | None = None
    #: The number of outbound streams that this endpoint requests. Default 16.
    outbound_streams: int | None = None
    #: The most inbound streams that this endpoint accepts. Default 65,535.
    max_inbound_streams: int | None = None
    #: The receive buffer. At least 1,500, default 1 MiB.
    receive_buffer: int | None = None
    #: The send buffer: `send` waits while it is full. Default 1 MiB.
    send_buffer: int | None = None
    #: The factor by which both buffers may grow automatically. Default 16; 1 turns growth off.
    buffer_growth: int | None = None
    #: The largest message that `send` accepts. Default 256 MiB.
    max_message: int | None = None
    #: Whether small messages leave at once, also while others are outstanding (no Nagle algorithm).
    no_delay: bool | None = None
    #: Which stream sends next (RFC 8260 §3). Default "priority".
    scheduler: Scheduler | None = None
    #: The longest delay that data of lower priority may add to urgent messages.
    low_priority_delay: Time | None = None
    #: Of a million messages with a deadline, how many may be late for want of copies. Default 1,000; 1,000,000 sends no copies.
    late_per_million: int | None = None
    #: The addresses that peers learn, if not those of a `bind` with several addresses.
    local_addresses: Sequence[str] | None = None
    #: Whether addresses may be added and removed while an association lasts (RFC 5061): `Association.add_path` needs it at both ends.
    dynamic_addresses: bool | None = None
    #: Whether several paths are used at once: "off" (default), "cmt" or "eca".
    multipath: Literal["off", "cmt", "eca"] | None = None
    #: How the windows of several paths depend on each other. Default "grouped": paths that seem to share a bottleneck are one flow.
    coupling: Literal["uncoupled", "grouped", "lia", "resource_pooling"] | None = None
    #: When data leaves a path that does not answer. Default "fast": within a few hundred milliseconds, if there are several paths;
    #: "potentially_failed" at the first timeout, "rfc9260" after 63 s.
    failover: Literal["fast", "potentially_failed", "rfc9260"] | None = None
    #: The congestion control algorithm. Default "automatic".
    congestion_control: Literal["automatic", "rfc9260", "cubic", "bbr"] | None = None
    #: Whether BBR takes losses without a queue for random (`BbrConfig::tolerate_random_loss`). Needs `congestion_control="bbr"`, or the
    #: preset "low_latency", which has both.
    tolerate_random_loss: bool | None = None
    #: How losses are detected.
    loss_detection: Literal["rack", "missing_reports"] | None = None
    #: Whether a message that would come too late leaves the send buffer before its lifetime ends.
    discard_hopeless: bool | None = None
    #: Whether a chunk that must not be retransmitted is abandoned at its first missing report.
    early_discard: bool | None = None
    #: Selective forward TSN: see `PartialReliabilityConfig::selective_forward_tsn`.
    selective_forward_tsn: int | None = None
    #: Extended FORWARD-TSN: see `PartialReliabilityConfig::extended_forward_tsn`.
    extended_forward_tsn: bool | None = None
    #: Whether NR-SACK is offered.
    nr_sack: bool | None = None
    #: Whether message interleaving is offered (RFC 8260). Default true: a large message does not delay messages of other streams.
    interleaving: bool | None = None
    #: Whether stream reconfiguration is offered (RFC 6525).
    reconfiguration: bool | None = None
    #: Whether ECN is offered.
    ecn: bool | None = None
    #: The largest IP packet at first.
    path_mtu: int | None = None
    #: The largest IP packet that path MTU discovery tries.
    path_mtu_limit: int | None = None
    #: The longest delay of an acknowledgement, at most 0.5 s. Default 0.2 s, and 0.02 s with several paths.
    sack_delay: Time | None = None
    #: `HB.interval`; `math.inf` turns heartbeats off.
    heartbeat_interval: Time | None = None
    #: `RTO.Initial`.
    rto_initial: Time | None = None
    #: `RTO.Min`.
    rto_min: Time | None = None
    #: `RTO.Max`.
    rto_max: Time | None = None
    #: `Association.Max.Retrans`.
    association_max_retrans: int | None = None
    #: `Path.Max.Retrans`.
    path_max_retrans: int | None = None
    #: `Max.Init.Retransmits`.
    max_init_retransmits: int | None = None
    #: The time limit of a shutdown without progress (T5-shutdown-guard). Default 5 s.
    shutdown_guard: Time | None = None
    #: An association in which neither endpoint sends a message for this time is shut down; `math.inf`, the default, means never.
    idle_timeout: Time | None = None

    def changed(self) -> dict[str, Any]:
        """The fields that are not `None`, with times in seconds."""
        values = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        return {
            name: seconds(name, value) if name in LONGEST else value for name, value in values if value is not None
        }


@dataclass(frozen=True, kw_only=True)
class Counters:
    """Counters of an association since it was created: `anabranch::Counters` has their meanings."""

    packets_sent: int
    packets_received: int
    data_chunks_sent: int
    data_bytes_sent: int
    data_chunks_received: int
    messages_sent: int
    messages_received: int
    retransmissions_timeout: int
    retransmissions_fast: int
    retransmissions_spurious: int
    timeouts: int
    fast_recoveries: int
    sacks_sent: int
    sacks_received: int
    losses_by_time: int
    tail_loss_probes: int
    repair_chunks: int
    messages_repaired: int
    early_copies: int
    early_copies_unnecessary: int
    redundancy_bytes: int
    reductions_undone: int
    duplicates_received: int
    dropped_no_room: int
    zero_windows: int
    abandoned_unsent: int
    abandoned_sent: int
    early_discards: int
    forward_tsns_sent: int
    forward_tsns_received: int
    selective_notices_sent: int
    selective_notices_received: int
    extended_forwards_sent: int
    extended_forwards_received: int
    late_messages: int
    heartbeats_sent: int
    mtu_probes_sent: int
    mtu_black_holes: int
    failovers: int
    restarts: int


@dataclass(frozen=True, kw_only=True)
class Extensions:
    """The extensions that were negotiated."""

    partial_reliability: bool
    nr_sack: bool
    selective_forward_tsn: bool
    extended_forward_tsn: bool
    interleaving: bool
    eca: bool
    ecn: bool
    reconfiguration: bool
    authentication: bool
    dynamic_addresses: bool
    port_pairs: bool
    repair: bool
    zero_checksum: bool
    #: Packets are protected by DTLS chunks.
    protection: bool


@dataclass(frozen=True, kw_only=True)
class PathStats:
    """Current values of a path. Times are in seconds."""

    id: int
    local: str | None
    remote: str
    state: PathState
    primary: bool
    #: The smoothed RTT; `None` before the first measurement.
    srtt: float | None
    rttvar: float
    rto: float
    cwnd: int
    #: Bytes per second; `None` if packets are not paced.
    pacing_rate: int | None
    #: `None` before the first reduction, or if the algorithm has none.
    ssthresh: int | None
    flight_size: int
    pmtu: int
    error_count: int
    timeouts: int
    fast_recoveries: int
    data_bytes_sent: int
    data_chunks_sent: int
    chunks_retransmitted: int
    chunks_lost: int


@dataclass(frozen=True, kw_only=True)
class AssociationStats:
    """Current values of an association."""

    counters: Counters
    extensions: Extensions
    paths: tuple[PathStats, ...]
    #: Bytes given to `send` and not yet sent for the first time.
    queued_bytes: int
    #: Bytes sent and not acknowledged.
    outstanding_bytes: int
    gap_acked_bytes: int
    peer_rwnd: int
    a_rwnd: int
    #: Bytes received that the program has not read.
    unread_bytes: int

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


@dataclass(frozen=True, kw_only=True)
class StreamStats:
    """Counters of an outbound stream. Times are in seconds."""

    queued_bytes: int
    queued_messages: int
    messages: int
    bytes: int
    messages_sent: int
    messages_acknowledged: int
    #: From `send` to the first transmission of the last fragment: sum and maximum.
    queue_delay_total: float
    queue_delay_max: float
    #: From the first transmission of the last fragment to its acknowledgement: sum and maximum.
    network_delay_total: float
    network_delay_max: float


class Event:
    """The base class of all events."""

    __slots__ = ()


@dataclass(frozen=True)
class Abandoned(Event):
    """A message was abandoned (RFC 3758), for example because its lifetime was over."""

    #: The number that `send` returned.
    message: int
    stream: int
    #: The number that the program gave to `send`.
    context: int
    #: Whether a part of the message was sent. The peer may then have received it.
    sent: bool


@dataclass(frozen=True)
class Undelivered(Event):
    """A message was not acknowledged before the association ended or restarted."""

    message: int
    stream: int
    context: int
    sent: bool


@dataclass(frozen=True)
class PathChanged(Event):
    """A path changed its state."""

    path: int
    remote: str
    state: PathState


@dataclass(frozen=True)
class StreamsAdded(Event):
    """The number of streams grew (RFC 6525)."""

    outbound_streams: int
    inbound_streams: int


@dataclass(frozen=True)
class PeerShutdown(Event):
    """The peer began a graceful shutdown and accepts no more messages."""


@dataclass(frozen=True)
class Restarted(Event):
    """The peer restarted. Messages that were not acknowledged are lost."""


@dataclass(frozen=True)
class IdleTimeout(Event):
    """No endpoint sent a message for `Settings.idle_timeout`: the association is being shut down."""


@dataclass(frozen=True)
class OtherEvent(Event):
    """An event without a class of its own."""

    #: The event as the Rust library prints it. The text may change between versions.
    text: str


EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (Abandoned, Undelivered, PathChanged, StreamsAdded, PeerShutdown, Restarted, IdleTimeout, OtherEvent)
}
