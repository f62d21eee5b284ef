"""Settings of endpoints as a plain object."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from anabranch._addresses import texts
from anabranch._documented import documented
from anabranch._times import LONGEST, Time, seconds

Scheduler = Literal[
    "first_come_first_served",
    "round_robin",
    "round_robin_per_packet",
    "priority",
    "fair_bandwidth",
    "weighted_fair_queueing",
]


# The texts have the ranges and defaults in one form, which a test compares with the Rust library.
@documented
@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of an endpoint, for `connect`, `listen` and `bind`::

        settings = anabranch.Settings(send_buffer=4_000_000, idle_timeout=timedelta(minutes=10))
        association = await anabranch.connect("192.0.2.1", settings=settings)

    Each field is a keyword. `None` means the default, or the value of the preset if there is one. A time is a `datetime.timedelta`, or a number
    of seconds. A number that is too large to be meant in seconds is refused; a `timedelta` is not. The names are those of `anabranch::Config` in
    Rust. An endpoint that cannot have a setting raises `SettingError` when it is bound.
    """

    preset: Literal["default", "low_latency", "rfc9260"] | None = None
    """The settings that the others of this object change. `"low_latency"` is for traffic that is worthless after a short time, where
    deadlines do not fit; `"rfc9260"` is the standard alone, for comparison. Default `"default"`."""
    outbound_streams: int | None = None
    """The number of outbound streams that this endpoint requests (RFC 9260 §5.1.1). Range `1` to `65_535`, default `16`."""
    max_inbound_streams: int | None = None
    """The most inbound streams that this endpoint accepts (RFC 9260 §5.1.1). Range `1` to `65_535`, default `65_535`."""
    receive_buffer: int | None = None
    """The receive buffer, in bytes of user data: the advertised receiver window (a_rwnd) when nothing waits to be read (RFC 9260 §3.3.2).
    Range `1_500` to `4_294_967_295`, default `1_048_576` (1 MiB)."""
    send_buffer: int | None = None
    """The send buffer, in bytes of user data that are queued or not yet acknowledged. `send` waits while it is full. At least `1`, default
    `1_048_576` (1 MiB)."""
    buffer_growth: int | None = None
    """The factor by which both buffers may grow automatically; 1 turns growth off. Range `1` to `4_294_967_295`, default `16`."""
    max_message: int | None = None
    """The largest message that `send` accepts, in bytes. At least `1`, default `268_435_456` (256 MiB)."""
    no_delay: bool | None = None
    """Whether small messages leave at once, also while others are outstanding (no Nagle algorithm, RFC 6458 §8.1.5). Default `True`."""
    scheduler: Scheduler | None = None
    """The stream scheduler, which chooses the stream that sends next (RFC 8260 §3): `"first_come_first_served"`, `"round_robin"`,
    `"round_robin_per_packet"`, `"priority"`, `"fair_bandwidth"` or `"weighted_fair_queueing"`. Default `"priority"`."""
    low_priority_delay: Time | None = None
    """The longest queueing delay in the network, in seconds, that data of priority 1 and above may add to messages of priority 0, which are
    more urgent. Longer than 0. Needs the scheduler `"priority"`. Without this setting there is no bound; the preset `"low_latency"` has 0.02."""
    late_per_million: int | None = None
    """Of a million messages with a deadline, the number that may be late because a transmission was lost. 1,000,000 sends no copies. Range
    `0` to `1_000_000`, default `1_000`."""
    local_addresses: Sequence[str] | None = None
    """The IP addresses that peers learn in the set-up (RFC 9260 §5.1.2). Without this setting they are those of a `bind` with several
    addresses."""
    path_pairs: Sequence[tuple[str, str]] | None = None
    """The paths: for each, an IP address of `local_addresses` or of a `bind` with several addresses, and the IP address of the peer that it
    reaches. If no pair names an address, the endpoint pairs it with the address that shares most leading bits."""
    dynamic_addresses: bool | None = None
    """Whether addresses may be added and removed while an association lasts (RFC 5061). `Association.add_path` needs it at both endpoints.
    Default `False`."""
    multipath: Literal["off", "cmt", "eca"] | None = None
    """Whether several paths are used at once. `"off"` sends on the primary path (RFC 9260 §6.4), `"cmt"` on every path, and `"eca"` on every
    path with ECA-SCTP, if the peer has it too. Default `"off"`."""
    coupling: Literal["uncoupled", "grouped", "lia", "resource_pooling"] | None = None
    """How the congestion windows of several paths depend on each other. `"grouped"`: paths that seem to share a bottleneck are one flow.
    `"lia"` (RFC 6356) and `"resource_pooling"` need RFC 9260's congestion control. Default `"grouped"`."""
    failover: Literal["fast", "potentially_failed", "rfc9260"] | None = None
    """When data leaves a path that does not answer. `"fast"`: within a few hundred milliseconds, if there are several paths;
    `"potentially_failed"`: at the first timeout (RFC 7829 §6); `"rfc9260"`: after more than `path_max_retrans` errors, 63 s with the usual
    timeouts. Default `"fast"`."""
    congestion_control: Literal["automatic", "rfc9260", "cubic", "bbr"] | None = None
    """The congestion control algorithm: `"rfc9260"` (RFC 9260 §7.2), `"cubic"` (RFC 9438) or `"bbr"` (draft-ietf-ccwg-bbr). `"automatic"` is
    CUBIC, or RFC 9260's algorithm if `coupling` needs it. Default `"automatic"`."""
    tolerate_random_loss: bool | None = None
    """Whether BBR takes losses without a queue for random: for links that lose packets at random, such as radio links. Needs
    `congestion_control="bbr"`, or the preset `"low_latency"`, which has both. Default `False`."""
    initial_window: int | None = None
    """The initial congestion window of a path, in full packets (RFC 6928). Range `2` to `4_294_967_295`. Without this setting it is that of
    the algorithm: 10 for CUBIC and BBR, about 3 for RFC 9260's."""
    loss_detection: Literal["rack", "missing_reports"] | None = None
    """How losses are detected: by time (RFC 8985), or by missing reports alone (RFC 9260 §7.2.4). Default `"rack"`."""
    discard_hopeless: bool | None = None
    """Whether a queued message with a lifetime is abandoned as soon as it cannot arrive before its lifetime is over. Needs BBR.
    Default `False`."""
    early_discard: bool | None = None
    """Whether a chunk that must not be retransmitted is abandoned at its first missing report, before fast retransmit would find it lost
    (RFC 9260 §7.2.4). Default `False`."""
    selective_forward_tsn: int | None = None
    """*Selective forward TSN* (Basto and Freitas): the number of later packets after which the sender tells the receiver that a chunk of an
    ordered message will not be retransmitted. Range `1` to `4_294_967_295`. Without this setting it is not offered."""
    extended_forward_tsn: bool | None = None
    """Whether extended FORWARD-TSN is offered (Rajiullah and Brunstrom). It lists abandoned unordered messages that FORWARD-TSN (RFC 3758)
    cannot pass yet. Default `False`."""
    nr_sack: bool | None = None
    """Whether NR-SACK is offered: an acknowledgement that promises not to take data back (draft-tuexen-tsvwg-sctp-multipath §4). Default
    `True`."""
    interleaving: bool | None = None
    """Whether message interleaving is offered (RFC 8260 §2). With it a large message does not delay messages of other streams. Default
    `True`."""
    reconfiguration: bool | None = None
    """Whether stream reconfiguration is offered (RFC 6525): streams may be reset and added. Default `True`."""
    ecn: bool | None = None
    """Whether ECN is offered (RFC 3168): queues then mark packets and do not drop them. Default `False`."""
    dscp: int | str | None = None
    """The Differentiated Services codepoint (DSCP, RFC 2474) of all packets, by which routers choose a queue: a number, or a name such as `"EF"`,
    `"AF41"`, `"CS1"` or `"LE"`. Linux only. Range `0` to `63`, default `0`."""
    path_mtu: int | None = None
    """The largest IP packet, in bytes, until path MTU discovery (RFC 8899) or the network reports another size. Range `576` to `65_535`,
    default `1_280`."""
    path_mtu_limit: int | None = None
    """The largest IP packet, in bytes, that path MTU discovery (RFC 8899) tries. Range `576` to `65_535`, default `65_535`."""
    sack_delay: Time | None = None
    """`SACK.Delay`: the longest delay of an acknowledgement, in seconds (RFC 9260 §6.2). Range `0` to `0.5`, default `0.2`; with several
    paths at most 0.02, unless `failover` changes this."""
    heartbeat_interval: Time | None = None
    """`HB.interval`: the time between heartbeats of an idle path is this and the RTO, in seconds (RFC 9260 §8.3). `math.inf` turns
    heartbeats off. At least `0`, default `30`."""
    rto_initial: Time | None = None
    """`RTO.Initial`: the timeout before the first measurement of the RTT, in seconds (RFC 9260 §6.3.1). Between `rto_min` and `rto_max`,
    default `1`."""
    rto_min: Time | None = None
    """`RTO.Min`: the shortest retransmission timeout, in seconds (RFC 9260 §6.3.1). Longer than 0, default `1`."""
    rto_max: Time | None = None
    """`RTO.Max`: the longest retransmission timeout, in seconds (RFC 9260 §6.3.1). At least `rto_initial`, default `60`."""
    association_max_retrans: int | None = None
    """`Association.Max.Retrans`: after more consecutive errors than this, over all paths, the association ends (RFC 9260 §8.1). Range `0` to
    `4_294_967_295`, default `10`."""
    path_max_retrans: int | None = None
    """`Path.Max.Retrans`: after more consecutive errors than this, a path is inactive (RFC 9260 §8.2). Range `0` to `4_294_967_295`, default
    `5`."""
    max_init_retransmits: int | None = None
    """`Max.Init.Retransmits`: the most retransmissions of INIT or COOKIE ECHO before set-up fails (RFC 9260 §5.1). Range `0` to
    `4_294_967_295`, default `8`."""
    shutdown_guard: Time | None = None
    """T5-shutdown-guard: how long a graceful shutdown may take without progress, in seconds (RFC 9260 §9.2). At least `0`, default `5`."""
    idle_timeout: Time | None = None
    """An association in which neither endpoint sends a message for this time, in seconds, is shut down. Longer than 0. `math.inf` means
    never. Default `inf`."""

    def changed(self) -> dict[str, Any]:
        """The fields that are not `None`, with times in seconds."""
        changed = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                changed[field.name] = seconds(field.name, value) if field.name in LONGEST else value
        if self.local_addresses is not None:
            changed["local_addresses"] = texts("local_addresses", self.local_addresses)
        if self.path_pairs is not None:
            changed["path_pairs"] = [_pair(pair) for pair in self.path_pairs]
        return changed


def _pair(pair: object) -> tuple[str, str]:
    match pair:
        case [str(local), str(remote)]:
            return local, remote
    raise TypeError(f"path_pairs cannot have {pair!r}: give pairs of a local address and an address of the peer, both as texts")
