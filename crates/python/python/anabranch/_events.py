"""Events of associations as plain objects."""

from __future__ import annotations

from dataclasses import dataclass

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
        StreamsAdded,
        PeerShutdown,
        Restarted,
        IdleTimeout,
        OtherEvent,
    )
}
