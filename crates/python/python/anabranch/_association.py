"""Endpoints, associations and handles of streams for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, TypedDict
from weakref import WeakSet

from anabranch import _native
from anabranch._addresses import DEFAULT_UDP_PORT, host, same_port, texts, whole
from anabranch._errors import Error, SettingError
from anabranch._events import Event, made
from anabranch._incoming import Incoming
from anabranch._loop import fair, finish
from anabranch._native import Certificate, Keys, Message
from anabranch._settings import Settings
from anabranch._stats import AssociationStats, PathStats, StreamStats
from anabranch._times import Time, seconds
from anabranch._types import Delivery

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: What `send` accepts. Text is sent as UTF-8.
Data = bytes | bytearray | memoryview | str

#: The SCTP port of `connect` and `listen` without one, as in the Rust library. It names a service of the program behind the UDP port.
DEFAULT_SCTP_PORT = 7


def _reason(exception: BaseException) -> str:
    """The words for the peer about the exception that ends a block."""
    if isinstance(exception, (asyncio.CancelledError, KeyboardInterrupt)):
        return "the program was interrupted"
    return type(exception).__name__


class SendOptions(TypedDict, total=False):
    """The options of a message: `Association.send` has their meanings."""

    ordered: bool | None
    deadline: Time | None
    lifetime: Time | None
    retransmissions: int | None
    buffer_priority: int | None
    ppid: int
    context: int
    immediate: bool
    path: int | None
    early_copies: int


def _options(
    *,
    ordered: bool | None = None,
    deadline: Time | None = None,
    lifetime: Time | None = None,
    retransmissions: int | None = None,
    buffer_priority: int | None = None,
    ppid: int = 0,
    context: int = 0,
    immediate: bool = False,
    path: int | None = None,
    early_copies: int = 0,
) -> _native.Options:
    return _native.Options(
        unordered=None if ordered is None else not ordered,
        deadline=seconds("deadline", deadline),
        lifetime=seconds("lifetime", lifetime),
        retransmissions=retransmissions,
        buffer_priority=buffer_priority,
        ppid=ppid,
        context=context,
        immediate=immediate,
        path=path,
        early_copies=early_copies,
    )


# The name in Python's error about an option that does not exist.
_options.__qualname__ = SendOptions.__qualname__


class Stream(Incoming[Message]):
    """The handle of one stream of an association, with its own options for the messages that it sends. Made by `Association.stream` and
    `Association.accept_stream`::

        positions = association.stream(1, deadline=0.1)
        await positions.send("at 52.52, 13.41")
        if (await positions.deliver("at 52.53, 13.42")).outcome == "abandoned":
            print("the deadline has passed")

    A stream has two directions: the handle sends messages to the peer, and receives those that the peer sends on the stream of the same number.
    As an asynchronous iterator, it returns the messages of the peer. From the first call that receives, the messages of the stream come to
    its handles and no longer to `Association.recv`.
    """

    __slots__ = ("_association", "_native")

    def __init__(self, native: _native.Stream, association: Association) -> None:
        self._native = native
        self._association = association

    @property
    def id(self) -> int:
        """The number of the stream."""
        return self._native.id()

    @property
    def association(self) -> Association:
        """The association of the stream."""
        return self._association

    async def send(self, message: Data) -> int:
        """Sends a message with the options of the handle and returns its number. Waits while the stream has no room in the send buffer.

        If the task is cancelled, the message was not accepted.
        """
        await fair()
        return await finish(self._native.send(message))

    async def deliver(self, message: Data) -> Delivery:
        """Sends a message with the options of the handle, and waits for its outcome: `acknowledged`, `abandoned` or `failed`.

        To send further messages at the same time, call it in a task (`asyncio.create_task`). A reliable message to a peer that does not
        answer waits until the association ends. Raises `ClosedError` if the association has ended, or is shutting down, when it is called.
        If the task is cancelled, the message may have been accepted.
        """
        await fair()
        return Delivery(*await finish(self._native.deliver(message)))

    def try_send(self, message: Data) -> int:
        """Sends a message without waiting. Raises `BufferFullError` if the stream has no room."""
        return self._native.try_send(message)

    async def recv(self) -> Message | None:
        """The next message of this stream. `None` if the peer reset the stream, or after a graceful shutdown: that it sent all it wanted
        to send must be in the messages, for example as a length.

        If the task is cancelled, no message is lost.
        """
        await fair()
        return await finish(self._native.recv())

    _next = recv

    async def next_event(self) -> Event | None:
        """The next event of a message of this stream: `Abandoned`, `Undelivered` or `Missed`. `None` when the association has ended and all events
        are read.

        From the first call on, the events of the stream come to this handle and no longer to `Association.events`, also those that wait already.
        They come to the association again when the handle is freed. If the task is cancelled, no event is lost.
        """
        return made(await finish(self._native.next_event()))

    async def events(self) -> AsyncIterator[Event]:
        """The events of the messages of this stream, as `next_event`, until the end of the association."""
        while (event := await self.next_event()) is not None:
            yield event

    @property
    def buffered_amount(self) -> int:
        """The bytes that were given to `send` and have not left yet."""
        return self._native.buffered_amount()

    async def buffered_amount_low(self, threshold: int = 0) -> None:
        """Waits until the buffered amount is at most `threshold` bytes."""
        await finish(self._native.buffered_amount_low(threshold))

    async def reset(self) -> None:
        """Resets the outbound stream (RFC 6525): the peer reads the messages sent before, and then the end of the stream."""
        await finish(self._native.reset())

    def set_priority(self, priority: int) -> None:
        """Sets the priority of the stream: 0, the default, is the highest."""
        self._association.set_stream_priority(self.id, priority)

    def stats(self) -> StreamStats:
        """Counters of the outbound stream."""
        return StreamStats(**self._native.stats())

    def __repr__(self) -> str:
        return f"Stream({self.id})"


class Association(Incoming[Message]):
    """An association: a two-way connection with many streams of messages. Made by `connect`, `Endpoint.connect` and `Endpoint.accept`::

        async with await anabranch.connect("192.0.2.1") as association:
            await association.send(0, "turn left")
            await association.send(1, "at 52.52, 13.41", deadline=0.1)
            async for message in association:
                print(message.stream, message.data)

    Sending: `send` waits for room in the send buffer, `try_send` does not wait, and `deliver` waits for the outcome. `stream` makes a handle with
    options for all messages of a stream. Receiving: `recv`, or `accept_stream` for a handle of each stream. Observing: `events`, `stats`,
    `paths` and `close_reason`. The end: `shutdown` and `abort`.

    Some tasks can send while others receive. As a context manager, it shuts down gracefully at the end; if the block raises an exception,
    it is aborted. As an asynchronous iterator, it returns the messages of the peer until the association was shut down.
    """

    __slots__ = ("_native", "_endpoint", "__weakref__")

    def __init__(self, native: _native.Association, endpoint: Endpoint) -> None:
        self._native = native
        self._endpoint = endpoint
        endpoint._known.add(self)

    async def send(
        self,
        stream: int,
        message: Data,
        *,
        ordered: bool | None = None,
        deadline: Time | None = None,
        lifetime: Time | None = None,
        retransmissions: int | None = None,
        buffer_priority: int | None = None,
        ppid: int = 0,
        context: int = 0,
        immediate: bool = False,
        path: int | None = None,
        early_copies: int = 0,
    ) -> int:
        """Sends a message on a stream, and returns the number of the message. Waits while the send buffer has no room for the stream.

        If the task is cancelled, the message was not accepted. At most one of the first four options may be given:

        deadline: the time, in seconds (at most 10) or as a `timedelta` (at most 60 s), after which the message is of no use to the peer. Longer
            than 0. The association decides how often it is sent so that 99.9 % of such messages arrive in time, and when it is abandoned.
        lifetime: the time, in seconds (at most 10) or as a `timedelta`, after which the message is neither sent nor retransmitted.
        retransmissions: how often each chunk of the message may be retransmitted.
        buffer_priority: if the send buffer is full, the message is abandoned for a message with a lower number (RFC 7496 §3.2).
        ordered: False delivers the message as soon as it arrives, whatever was sent before. The default is True without a deadline, and False
            with one.
        ppid: the payload protocol identifier, which the peer gets.
        context: a number that the events about the message have.
        immediate: asks the peer to acknowledge at once.
        path: the path of the first transmission.
        early_copies: how often the message is sent again, a third of a round-trip time apart, while it is not acknowledged: for short, urgent
            messages that are of use for less than two round-trip times.
        """
        await fair()
        if ordered is not False and (deadline, lifetime, retransmissions, buffer_priority, ppid, context, immediate, path, early_copies) == _DEFAULTS:
            return await finish(self._native.send(stream, message, None))
        options = _options(
            ordered=ordered,
            deadline=deadline,
            lifetime=lifetime,
            retransmissions=retransmissions,
            buffer_priority=buffer_priority,
            ppid=ppid,
            context=context,
            immediate=immediate,
            path=path,
            early_copies=early_copies,
        )
        return await finish(self._native.send(stream, message, options))

    async def deliver(self, stream: int, message: Data, **options: Unpack[SendOptions]) -> Delivery:
        """Sends a message with the options of `send`, and waits for its outcome, as `Stream.deliver`."""
        return await Stream(self._native.stream(stream, _options(**options)), self).deliver(message)

    def try_send(self, stream: int, message: Data, **options: Unpack[SendOptions]) -> int:
        """Sends a message without waiting, with the options of `send`. Raises `BufferFullError` if the stream has no room."""
        return self._native.try_send(stream, message, _options(**options) if options else None)

    async def recv(self) -> Message | None:
        """The next message, or `None` when the association was shut down and all messages are read.

        Messages that nobody reads fill the receive window, and the peer then stops sending. If the task is cancelled, no message is lost.
        """
        await fair()
        return await finish(self._native.recv())

    _next = recv

    def stream(
        self,
        stream: int,
        *,
        ordered: bool | None = None,
        deadline: Time | None = None,
        lifetime: Time | None = None,
        retransmissions: int | None = None,
        buffer_priority: int | None = None,
        ppid: int = 0,
        early_copies: int = 0,
        priority: int | None = None,
    ) -> Stream:
        """The handle of a stream. Its messages have the options of `send`; `priority` is the priority of the stream, 0 the highest."""
        options = _options(
            ordered=ordered,
            deadline=deadline,
            lifetime=lifetime,
            retransmissions=retransmissions,
            buffer_priority=buffer_priority,
            ppid=ppid,
            early_copies=early_copies,
        )
        if priority is not None:
            self.set_stream_priority(stream, priority)
        return Stream(self._native.stream(stream, options), self)

    async def accept_stream(self) -> Stream | None:
        """The next stream on which the peer began to send; `None` at the end. From the first call on, all messages come to handles."""
        native = await finish(self._native.accept_stream())
        return None if native is None else Stream(native, self)

    async def next_event(self) -> Event | None:
        """The next event, or `None` when the association has ended and all events are read."""
        return made(await finish(self._native.next_event()))

    async def events(self) -> AsyncIterator[Event]:
        """All events until the end of the association, without those that a `Stream` reads."""
        while (event := await self.next_event()) is not None:
            yield event

    async def drained(self) -> None:
        """Waits until nothing is in flight or in the send buffer: each message was acknowledged or abandoned. While a program sends, this may
        take for ever."""
        await finish(self._native.drained())

    async def shutdown(self) -> None:
        """Shuts the association down gracefully: returns when both sides have acknowledged all data. Cancelling does not stop the shutdown."""
        await finish(self._native.shutdown())

    def abort(self, reason: Data = b"") -> None:
        """Ends the association at once. The peer gets at most 1,024 bytes of `reason`."""
        self._native.abort(reason)

    async def closed(self) -> str:
        """Waits until the association has ended, and returns the reason in words."""
        return await finish(self._native.closed())

    @property
    def close_reason(self) -> str | None:
        """The reason of the end in words; `None` before the end."""
        return self._native.close_reason()

    def stats(self) -> AssociationStats:
        """Counters and current values of the association and its paths."""
        return AssociationStats.of(self._native.stats())

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint of the association."""
        return self._endpoint

    @property
    def state(self) -> str:
        """The state of RFC 9260 §4, such as "established"."""
        return self._native.state()

    @property
    def outbound_streams(self) -> int:
        """The number of outbound streams, which are numbered from 0."""
        return self._native.outbound_streams()

    @property
    def remote_address(self) -> str:
        """The peer's address and UDP port on the primary path."""
        return self._native.remote_address()

    @property
    def ports(self) -> tuple[int, int]:
        """The local and the remote SCTP port."""
        return self._native.ports()

    @property
    def peer_fingerprint(self) -> str | None:
        """The fingerprint of the peer's certificate, if the endpoint encrypts with `certificate`."""
        return self._native.peer_fingerprint()

    @property
    def peer_key(self) -> str | None:
        """The public key that the peer showed, if the endpoint encrypts with `keys`."""
        return self._native.peer_key()

    def set_stream_priority(self, stream: int, priority: int) -> None:
        """Sets the priority of a stream: 0, the default, is the highest. Streams of a lower priority can starve."""
        self._native.set_stream_priority(stream, priority)

    def set_stream_weight(self, stream: int, weight: int) -> None:
        """Sets the weight of a stream, for the scheduler "weighted_fair_queueing"."""
        self._native.set_stream_weight(stream, weight)

    def set_primary_path(self, path: int) -> None:
        """Makes a path the primary path: new data uses it while it is active."""
        self._native.set_primary_path(path)

    def add_path(self, source: str) -> None:
        """Adds paths from an address of this host such as "192.168.1.20", from a network interface such as "wlan0", or from each interface
        with a default route, "auto". They are followed: an address that appears joins, and one that the host loses leaves at once.

        Both endpoints need the setting `dynamic_addresses`. Interfaces work on Linux only.
        """
        self._native.add_path(source)

    def remove_path(self, source: str) -> None:
        """Removes the paths from there, unless another source has them too. An association keeps one local address."""
        self._native.remove_path(source)

    def paths(self) -> Sequence[PathStats]:
        """The paths that the association has now, with their state and counters: those of `stats`."""
        return self.stats().paths

    def request_heartbeat(self, path: int) -> None:
        """Sends a HEARTBEAT on a path now; `stats` has the measured round-trip time."""
        self._native.request_heartbeat(path)

    def reset_streams(self, streams: Sequence[int]) -> None:
        """Resets outbound streams (RFC 6525)."""
        self._native.reset_streams(list(streams))

    def add_streams(self, outgoing: int, incoming: int = 0) -> None:
        """Adds streams (RFC 6525). The event `StreamsAdded` tells when they may be used."""
        self._native.add_streams(outgoing, incoming)

    async def __aenter__(self) -> Association:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exception is None:
            await self.shutdown()
        else:
            self.abort(_reason(exception))

    def __repr__(self) -> str:
        return f"<Association with {self.remote_address}, {self.state}>"


class Endpoint(Incoming["Association"]):
    """UDP sockets that carry any number of associations. Made by `bind` and `listen`::

        async with await anabranch.listen("0.0.0.0") as endpoint:
            async for association in endpoint:
                tasks.add(asyncio.create_task(serve(association)))

    `listen` accepts associations, and `connect` sets one up. One endpoint can do both. An endpoint with several addresses (`bind`) has several
    paths to each peer.

    As a context manager, it closes at the end; if the block raises an exception, its associations are aborted. As an asynchronous iterator,
    it returns the associations that peers set up.
    """

    __slots__ = ("_native", "_known", "__weakref__")

    def __init__(self, native: _native.Endpoint) -> None:
        self._native = native
        # The associations that the program still holds.
        self._known: WeakSet[Association] = WeakSet()

    @property
    def local_addresses(self) -> list[str]:
        """The local address and UDP port of each socket."""
        return self._native.local_addresses()

    @property
    def local_address(self) -> str:
        """The first local address and UDP port."""
        return self.local_addresses[0]

    def listen(self, sctp_port: int = DEFAULT_SCTP_PORT) -> None:
        """Accepts associations on this SCTP port, 1 to 65,535, from now on."""
        self._native.listen(sctp_port)

    def stop_listening(self, sctp_port: int) -> None:
        """Accepts no more associations on this SCTP port. Existing associations continue."""
        self._native.stop_listening(sctp_port)

    async def accept(self) -> Association | None:
        """The next association that a peer set up; `None` once the endpoint is closed. If the task is cancelled, none is lost."""
        native = await finish(self._native.accept())
        return None if native is None else Association(native, self)

    _next = accept

    async def connect(
        self,
        remote: str,
        sctp_port: int = DEFAULT_SCTP_PORT,
        *,
        local_sctp_port: int | None = None,
        local_address: str | None = None,
    ) -> Association:
        """Sets up an association with a peer.

        remote: the address and UDP port of the peer, such as "192.0.2.1:9899". The UDP port 9899 may be left out.
        sctp_port: the SCTP port of the peer. It names a service of the program behind the UDP port.
        local_sctp_port: the SCTP port of this endpoint; by default any free one.
        local_address: the address of this endpoint from which the set-up leaves.

        A peer that does not answer is an error after 10 s, or after the `connect_timeout` of `bind`. Cancelling aborts the set-up.
        """
        (remote,) = texts("remote", [remote])
        native = await finish(self._native.connect(whole(remote), sctp_port, local_sctp_port, local_address))
        return Association(native, self)

    def set_link(self, link: str, local_address: str | None = None) -> None:
        """Replaces the emulated link of all addresses, or of one, for later packets: "loss=100%" loses all of them.

        One address has a link of its own if `bind` got a list of links.
        """
        self._native.set_link(link, None if local_address is None else host(local_address))

    @property
    def associations(self) -> int:
        """The number of associations, including those in set-up or shutdown."""
        return self._native.associations()

    @property
    def failed_handshakes(self) -> int:
        """The number of associations that peers began and that ended before their packets were encrypted, for example because this endpoint
        does not accept the key of the peer. `accept` does not return them. Peers that offer no encryption do not count. 0 without encryption."""
        return self._native.failed_handshakes()

    async def close(self) -> None:
        """Accepts no more associations, shuts all down gracefully, and waits until they have ended."""
        await finish(self._native.close())

    async def __aenter__(self) -> Endpoint:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exception: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exception is not None:
            await self._abort(_reason(exception))
        await self.close()

    async def _abort(self, reason: str) -> None:
        """Aborts all associations, so that `close` need not wait for peers: those of the program, and those that it has not accepted."""
        for association in list(self._known):
            association.abort(reason)
        while not isinstance(waiting := self._native.accept(), _native.Operation):
            if waiting is None:
                return
            waiting.abort(reason)
        waiting.close()

    def __repr__(self) -> str:
        return f"<Endpoint at {', '.join(self.local_addresses)}>"


_DEFAULTS = (None, None, None, None, 0, 0, False, None, 0)


async def _bind(
    addresses: Sequence[str],
    remote: str | None,
    settings: Settings | None,
    keys: Keys | None,
    certificate: Certificate | None,
    fingerprints: Sequence[str] | None,
    backlog: int | None = None,
    max_associations: int | None = None,
    linger: Time | None = None,
    connect_timeout: Time | None = None,
    link: str | Sequence[str] | None = None,
) -> Endpoint:
    if fingerprints is not None and certificate is None:
        raise SettingError("fingerprints without a certificate: give both, or the endpoint does not encrypt")
    if keys is not None and certificate is not None:
        raise SettingError("keys and a certificate: give keys, or for DTLS a certificate")
    changed = (settings or Settings()).changed()
    known = None if fingerprints is None else texts("fingerprints", fingerprints)
    lingers = seconds("linger", linger)
    limit = seconds("connect_timeout", connect_timeout)
    links = [link] if isinstance(link, str) else texts("link", () if link is None else link)
    if not isinstance(link, str) and links and len(links) != len(addresses):
        raise SettingError(f"{len(links)} links and {len(addresses)} addresses: give one link, or one for each address")
    begun = _native.bind(same_port(addresses), remote, changed, keys, certificate, known, backlog, max_associations, lingers, limit, links)
    return Endpoint(await finish(begun))


async def bind(
    *addresses: str,
    settings: Settings | None = None,
    keys: Keys | None = None,
    certificate: Certificate | None = None,
    fingerprints: Sequence[str] | None = None,
    backlog: int | None = None,
    max_associations: int | None = None,
    linger: Time | None = None,
    connect_timeout: Time | None = None,
    link: str | Sequence[str] | None = None,
) -> Endpoint:
    """Binds an endpoint to an address and UDP port such as "0.0.0.0:9899"; port 0 means any free port. Without a port it is 9899.

    Several addresses are several paths: peers learn all of them. They have one UDP port, because SCTP over UDP has one (RFC 6951 §4.1): give
    it once, or with each address. `keys` encrypt the packets of every path, and accept only the peers whose public keys they name. A
    certificate encrypts with DTLS, on one path, and `fingerprints` are those of the peers that are accepted, by default all.
    `connect_timeout`, by default 10 s, limits `Endpoint.connect`. `link` emulates a link in front of the sockets, for both directions, such as
    "rate=10mbit,delay=20ms,loss=1%". All addresses share it; with a list, each address has a link of its own.
    `Endpoint.set_link` changes it. In each run, the same packets are lost.
    """
    if not addresses:
        raise SettingError('give an address, such as "0.0.0.0:9899"')
    return await _bind(
        texts("addresses", addresses), None, settings, keys, certificate, fingerprints, backlog, max_associations, linger, connect_timeout, link
    )


async def listen(
    address: str,
    sctp_port: int = DEFAULT_SCTP_PORT,
    *,
    settings: Settings | None = None,
    keys: Keys | None = None,
    certificate: Certificate | None = None,
    fingerprints: Sequence[str] | None = None,
    link: str | None = None,
) -> Endpoint:
    """Binds an endpoint to an address and UDP port, as `bind`, and accepts associations on this SCTP port."""
    (address,) = texts("address", [address])
    endpoint = await bind(address, settings=settings, keys=keys, certificate=certificate, fingerprints=fingerprints, link=link)
    try:
        endpoint.listen(sctp_port)
    except Error:
        await endpoint.close()
        raise
    return endpoint


async def connect(
    remote: str,
    sctp_port: int = DEFAULT_SCTP_PORT,
    *,
    settings: Settings | None = None,
    keys: Keys | None = None,
    certificate: Certificate | None = None,
    fingerprints: Sequence[str] | None = None,
    link: str | None = None,
) -> Association:
    """Sets up an association with a peer, from an endpoint of its own.

    remote: the address and UDP port of the peer, such as "192.0.2.1:9899". The UDP port 9899 may be left out.
    sctp_port: the SCTP port of the peer. It names a service of the program behind the UDP port.
    """
    (remote,) = texts("remote", [remote])
    remote = whole(remote)
    endpoint = await _bind((), remote, settings, keys, certificate, fingerprints, link=link)
    return await endpoint.connect(remote, sctp_port)
