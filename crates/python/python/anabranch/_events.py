"""Events of associations as plain objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anabranch._documented import documented
from anabranch._types import PathState


class Event:
    """The base class of all events."""

    __slots__ = ()


@documented
@dataclass(frozen=True)
class Abandoned(Event):
    """A message was abandoned (RFC 3758), for example because its lifetime was over."""

    message: int
    """The number that `send` returned."""
    stream: int
    """The stream of the message."""
    context: int
    """The number that the program gave to `send`."""
    sent: bool
    """Whether any part of the message was sent. If so, the peer may have received it."""


@documented
@dataclass(frozen=True)
class Undelivered(Event):
    """A message was not acknowledged before the association ended or restarted."""

    message: int
    """The number that `send` returned."""
    stream: int
    """The stream of the message."""
    context: int
    """The number that the program gave to `send`."""
    sent: bool
    """Whether any part of the message was sent. If so, the peer may have received it."""


@documented
@dataclass(frozen=True)
class PathChanged(Event):
    """A path changed its state (RFC 9260 §11.2.3, RFC 7829 §7.1)."""

    path: int
    """The number of the path."""
    remote: str
    """The remote address and UDP port of the path."""
    state: PathState
    """The state of the path now."""


class AddressEvent(Event):
    """The base class of the events about addresses (RFC 5061). They need `Settings(dynamic_addresses=True)` at both endpoints."""

    __slots__ = ()


@documented
@dataclass(frozen=True)
class PeerAddressAdded(AddressEvent):
    """The peer has another address. `PathChanged` follows when the path to the address is confirmed."""

    address: str
    """The IP address."""
    path: int
    """The number of the new path."""


@documented
@dataclass(frozen=True)
class PeerAddressRemoved(AddressEvent):
    """The peer does not have this address any more. A later path may have the number of a path to this address."""

    address: str
    """The IP address."""


@documented
@dataclass(frozen=True)
class PeerPathRemoved(AddressEvent):
    """The peer removed one of several paths to an address."""

    address: str
    """The IP address."""
    path: int
    """The number of the removed path. A later path may have the same number."""


@documented
@dataclass(frozen=True)
class PeerPrimaryRequested(AddressEvent):
    """The peer asked for this primary path. The path is used as soon as its address is confirmed."""

    address: str
    """The IP address of the peer."""
    path: int
    """The number of the path."""


@documented
@dataclass(frozen=True)
class LocalAddressAdded(AddressEvent):
    """The peer knows this address of this endpoint now."""

    address: str
    """The IP address."""


@documented
@dataclass(frozen=True)
class LocalAddressMayShare(AddressEvent):
    """The endpoints did not negotiate paths that differ by the UDP port alone (`Extensions.port_pairs`). If address translators give this
    address and another one of this endpoint the same public address, the peer sends to one of the two alone. Follows `LocalAddressAdded`."""

    address: str
    """The IP address."""


@documented
@dataclass(frozen=True)
class LocalAddressRemoved(AddressEvent):
    """The peer does not use this address of this endpoint any more."""

    address: str
    """The IP address."""


@documented
@dataclass(frozen=True)
class LocalAddressRefused(AddressEvent):
    """The peer refused to add or delete this address of this endpoint. The endpoint sends no further request until its addresses change
    again."""

    address: str
    """The IP address."""
    cause: int
    """The code of the error cause (RFC 5061 §4.3); 0 if the peer named none."""


@dataclass(frozen=True)
class AddressChangesUnsupported(AddressEvent):
    """The peer does not recognize requests about addresses (ASCONF) although it offered them. No more requests are sent."""


@documented
@dataclass(frozen=True)
class StreamsAdded(Event):
    """The number of streams grew (RFC 6525)."""

    outbound_streams: int
    """The number of streams to the peer now."""
    inbound_streams: int
    """The number of streams from the peer now."""


@dataclass(frozen=True)
class PeerShutdown(Event):
    """The peer began a graceful shutdown and accepts no more messages (RFC 9260 §9.2)."""


@dataclass(frozen=True)
class Restarted(Event):
    """The peer restarted (RFC 9260 §5.2). Messages that were not acknowledged are lost."""


@dataclass(frozen=True)
class IdleTimeout(Event):
    """No endpoint sent a message for `Settings.idle_timeout`: the association is being shut down."""


@documented
@dataclass(frozen=True)
class Stalled(Event):
    """For a minute, the peer has acknowledged none of the data that waits: its application reads nothing, or no packet arrives, which
    `PathChanged` tells sooner. The association continues; `Association.abort` ends it."""

    bytes: int
    """Bytes of user data that are queued or not acknowledged."""


@documented
@dataclass(frozen=True)
class Missed(Event):
    """The association dropped the oldest events here, because the program did not read them. It keeps the newest 16,384."""

    count: int
    """The number of dropped events."""


@documented
@dataclass(frozen=True)
class OtherEvent(Event):
    """An event without a class of its own."""

    text: str
    """The event as the Rust library prints it. The text may change between versions."""


#: The classes of the events by their names, which the native part uses.
EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        Abandoned,
        Undelivered,
        PathChanged,
        PeerAddressAdded,
        PeerAddressRemoved,
        PeerPathRemoved,
        PeerPrimaryRequested,
        LocalAddressAdded,
        LocalAddressMayShare,
        LocalAddressRemoved,
        LocalAddressRefused,
        AddressChangesUnsupported,
        StreamsAdded,
        PeerShutdown,
        Restarted,
        IdleTimeout,
        Stalled,
        Missed,
        OtherEvent,
    )
}


def made(named: tuple[str, dict[str, Any]] | None) -> Event | None:
    """The event of a name and its fields, from the native part."""
    if named is None:
        return None
    name, fields = named
    return EVENTS[name](**fields)
