"""WebRTC data channels for asyncio: messages to and from browsers and other peers, encrypted and without a server between.

One peer makes an offer, and the other one an answer. The program takes each text to the other peer in any way, such as HTTP::

    from anabranch import datachannel

    connection, answer = await datachannel.answer(offer, "192.0.2.1:0")
    async for channel in connection:
        async for message in channel:
            await channel.send(message)
"""

from __future__ import annotations

from types import TracebackType

from anabranch import _native
from anabranch._association import Data
from anabranch._incoming import Incoming
from anabranch._loop import fair, finish
from anabranch._native import Certificate
from anabranch._settings import Settings
from anabranch._stats import AssociationStats
from anabranch._times import Time, seconds

__all__ = ["NORMAL_PRIORITY", "DataChannel", "PeerConnection", "answer", "offer"]

#: The priority of a channel that has no other (RFC 8831 §6.4).
NORMAL_PRIORITY = 256


async def offer(
    address: str,
    *,
    settings: Settings | None = None,
    certificate: Certificate | None = None,
    ice_lite: bool = False,
) -> tuple[PeerConnection, str]:
    """Begins a connection: returns it, and the offer for the peer. The peer's answer goes to `PeerConnection.accept_answer`.

    address: an address of this host that the peer can reach, and a UDP port; port 0 means any free port.
    certificate: by default a new one.
    ice_lite: this side only answers the peer's checks: for servers with a public address.
    """
    return await _begin(None, address, settings, certificate, ice_lite)


async def answer(
    offer: str,
    address: str,
    *,
    settings: Settings | None = None,
    certificate: Certificate | None = None,
    ice_lite: bool = False,
) -> tuple[PeerConnection, str]:
    """Begins a connection by the answer to a peer's offer: returns the connection, and the answer for the peer. See `offer`."""
    return await _begin(offer, address, settings, certificate, ice_lite)


async def _begin(
    offer: str | None, address: str, settings: Settings | None, certificate: Certificate | None, ice_lite: bool
) -> tuple[PeerConnection, str]:
    changed = (settings or Settings()).changed()
    native, text = await finish(_native.peer_connection(offer, address, changed, certificate, ice_lite))
    return PeerConnection(native), text


class PeerConnection(Incoming["DataChannel"]):
    """A connection to a peer, with any number of data channels. Made by `offer` and `answer`.

    As an asynchronous iterator, it returns the channels that the peer opens. As a context manager, it closes at the end: call
    `shutdown` before if messages must not be lost.
    """

    __slots__ = ("_native", "__weakref__")

    def __init__(self, native: _native.PeerConnection) -> None:
        self._native = native

    def accept_answer(self, answer: str) -> None:
        """The peer's answer to this side's offer."""
        self._native.accept_answer(answer)

    def restart_ice(self) -> str:
        """Looks for new routes to the peer, as after a change of the network. Returns an offer for the peer; the answer goes to
        `accept_answer`."""
        return self._native.restart_ice()

    def accept_offer(self, offer: str) -> str:
        """A further offer of the peer, as after its `restartIce()`. Returns the answer."""
        return self._native.accept_offer(offer)

    def add_candidate(self, candidate: str) -> None:
        """A candidate that the peer sends after its description (trickle ICE): the line `candidate:…`. Ones that cannot be used are ignored."""
        self._native.add_candidate(candidate)

    async def silent(self) -> None:
        """Waits until the peer was not heard for 10 s, or the connection has ended. The connection lives 20 s longer: `restart_ice` may find
        another route."""
        await finish(self._native.silent())

    async def connected(self) -> None:
        """Waits until channels can be opened. Raises `ConnectError` if the connection ends before."""
        await finish(self._native.connected())

    async def open(
        self,
        label: str,
        *,
        protocol: str = "",
        ordered: bool = True,
        lifetime: Time | None = None,
        retransmissions: int | None = None,
        priority: int = NORMAL_PRIORITY,
        negotiated: int | None = None,
    ) -> DataChannel:
        """Opens a channel, as soon as the connection is set up, and waits until the peer confirms it.

        ordered: whether messages arrive in the order in which they were sent.
        lifetime: the time, in seconds (at most 10) or as a `timedelta`, after which a message is neither sent nor retransmitted.
        retransmissions: how often each chunk of a message may be retransmitted. Only one of both may be given.
        priority: channels of a higher priority are served first: 128 (below normal), 256 (normal), 512 (high), 1,024 (extra high).
        negotiated: the number of a channel that both peers open without a message about it.
        """
        begun = self._native.open(
            label,
            protocol=protocol,
            ordered=ordered,
            lifetime=seconds("lifetime", lifetime),
            retransmissions=retransmissions,
            priority=priority,
            negotiated=negotiated,
        )
        return DataChannel(await finish(begun))

    async def accept(self) -> DataChannel | None:
        """The next channel that the peer opened; `None` after the end. If the task is cancelled, none is lost."""
        native = await finish(self._native.accept())
        return None if native is None else DataChannel(native)

    _next = accept

    async def closed(self) -> str:
        """Waits until the connection has ended, and returns the reason in words."""
        return await finish(self._native.closed())

    async def shutdown(self) -> str:
        """Ends the connection when the peer has acknowledged all messages. Returns the reason of the end in words."""
        return await finish(self._native.shutdown())

    def close(self) -> None:
        """Closes the connection at once. Messages that the peer has not acknowledged may be lost."""
        self._native.close()

    def stats(self) -> AssociationStats | None:
        """Counters and current values of the association; `None` before it begins."""
        stats = self._native.stats()
        return None if stats is None else AssociationStats.of(stats)

    async def __aenter__(self) -> PeerConnection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class DataChannel(Incoming[str | bytes]):
    """A channel of a connection: a two-way flow of messages. As an asynchronous iterator, it returns the messages of the peer."""

    __slots__ = ("_native", "__weakref__")

    def __init__(self, native: _native.DataChannel) -> None:
        self._native = native

    async def send(self, message: Data) -> None:
        """Sends a text as a text, and everything else as bytes. Waits while the send buffer is full.

        If the task is cancelled, the message was not accepted.
        """
        await fair()
        await finish(self._native.send(message))

    def try_send(self, message: Data) -> None:
        """Sends a message without waiting. Raises `BufferFullError` if the send buffer is full."""
        self._native.try_send(message)

    async def recv(self) -> str | bytes | None:
        """The next message: a text or bytes, as it was sent; `None` after the channel was closed. If the task is cancelled, none is lost."""
        await fair()
        return await finish(self._native.recv())

    _next = recv

    @property
    def id(self) -> int:
        """The number of the channel."""
        return self._native.id()

    @property
    def label(self) -> str:
        """The name that the opener gave the channel."""
        return self._native.properties()[0]

    @property
    def protocol(self) -> str:
        """The name of the protocol that the application uses in the channel, or an empty text."""
        return self._native.properties()[1]

    @property
    def ordered(self) -> bool:
        """Whether messages arrive in the order in which they were sent."""
        return self._native.properties()[2]

    @property
    def priority(self) -> int:
        """The priority: see `PeerConnection.open`."""
        return self._native.properties()[3]

    @property
    def buffered_amount(self) -> int:
        """The bytes that were given to `send` and have not left yet."""
        return self._native.buffered_amount()

    async def buffered_amount_low(self, threshold: int = 0) -> None:
        """Waits until the buffered amount is at most `threshold` bytes, or the channel is closed."""
        await finish(self._native.buffered_amount_low(threshold))

    def close(self) -> None:
        """Closes the channel: messages sent before still arrive."""
        self._native.close()

    async def closed(self) -> None:
        """Waits until the channel is closed, by either side."""
        await finish(self._native.closed())

    def __repr__(self) -> str:
        return f"<DataChannel {self.label!r}>"
