"""Endpoints, associations and streams in one event loop, over loopback."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import math
import re
import socket
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import anabranch
import pytest
from anabranch._addresses import host, same_port, whole


@asynccontextmanager
async def pair(
    settings: anabranch.Settings | None = None,
) -> AsyncIterator[tuple[anabranch.Association, anabranch.Association]]:
    """Both ends of an association."""
    async with await anabranch.listen("127.0.0.1:0", settings=settings) as endpoint:
        client = await anabranch.connect(endpoint.local_address, settings=settings)
        server = await endpoint.accept()
        assert server is not None
        yield client, server


async def test_messages_arrive_with_their_fields() -> None:
    async with pair() as (client, server):
        before = time.monotonic()
        numbers = [
            await client.send(3, b"bytes", ppid=51),
            await client.send(3, "text \u00e4", ordered=False),
            await client.send(3, bytearray(b"array")),
            await client.send(3, memoryview(b"0view0")[1:5]),
        ]
        assert numbers == [0, 1, 2, 3]
        received = [await server.recv() for _ in numbers]
        assert all(message is not None for message in received)
        by_data = {message.data: message for message in received if message is not None}
        assert set(by_data) == {b"bytes", "text \u00e4".encode(), b"array", b"view"}
        assert (by_data[b"bytes"].stream, by_data[b"bytes"].ppid, by_data[b"bytes"].unordered) == (3, 51, False)
        assert by_data["text \u00e4".encode()].unordered
        assert repr(by_data[b"bytes"]) == "Message(stream=3, ppid=51, unordered=False, 5 bytes)"
        assert {message.path for message in by_data.values()} == {0}
        arrivals = [message.arrived_at for message in by_data.values()]
        assert all(before <= arrived <= time.monotonic() for arrived in arrivals)
        with pytest.raises(TypeError):
            await client.send(0, 17)  # type: ignore[arg-type]


class Relay(asyncio.DatagramProtocol):
    """A link of 20 ms each way between a server and its one client."""

    def __init__(self, server: tuple[str, int]) -> None:
        self.server = server
        self.client: tuple[str, int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, source: tuple[str, int]) -> None:
        if source != self.server:
            self.client = source
        to = self.client if source == self.server else self.server
        asyncio.get_running_loop().call_later(0.02, self.transport.sendto, data, to)


@pytest.mark.parametrize("by_handle", [False, True])
async def test_early_copies_are_sent(by_handle: bool) -> None:
    async with await anabranch.listen("127.0.0.1:0") as endpoint:
        host, port = endpoint.local_address.split(":")
        loop = asyncio.get_running_loop()
        relay, _ = await loop.create_datagram_endpoint(lambda: Relay((host, int(port))), local_addr=(host, 0))
        async with await anabranch.connect("{}:{}".format(*relay.get_extra_info("sockname")), 7) as client:
            server = await endpoint.accept()
            assert server is not None
            handle = client.stream(1, early_copies=3)
            # The copy is due long before the acknowledgement; on a busy machine, now and then it is not.
            for number in range(100):
                if by_handle:
                    await handle.send(f"{number}")
                else:
                    await client.send(1, f"{number}", early_copies=3)
                received = await server.recv()
                assert received is not None and received.data == f"{number}".encode()
                await client.drained()
                if client.stats().counters.early_copies:
                    break
            else:
                pytest.fail("no message had a copy")
        relay.close()


async def test_a_deadline_is_one_number() -> None:
    async with pair() as (client, server):
        await client.send(1, "now", deadline=5)
        await client.stream(2, deadline=timedelta(seconds=5)).send("soon")
        await client.send(1, "in order", deadline=9.0, ordered=True)
        received = [await server.recv() for _ in range(3)]
        assert [message is not None and message.unordered for message in received] == [True, True, False]
        for wrong in ({"lifetime": 1.0}, {"retransmissions": 0}, {"early_copies": 1}):
            with pytest.raises(anabranch.SettingError, match="deadline"):
                await client.send(1, "both", deadline=1.0, **wrong)


@pytest.mark.parametrize("deadline", [0, -1, -0.001, math.nan, timedelta(0), timedelta(seconds=-1)])
async def test_a_deadline_is_longer_than_zero(deadline: float | timedelta) -> None:
    text = re.escape(f"deadline cannot be {deadline}: ") + ".*longer than 0"
    async with pair() as (client, _):
        with pytest.raises(anabranch.SettingError, match=text):
            await client.send(1, "now", deadline=deadline)
        with pytest.raises(anabranch.SettingError, match=text):
            client.try_send(1, "now", deadline=deadline)
        with pytest.raises(anabranch.SettingError, match=text):
            client.stream(1, deadline=deadline)


async def test_large_messages_are_joined() -> None:
    async with pair() as (client, server):
        large = bytes(range(256)) * 8192
        sending = asyncio.create_task(client.send(0, large))
        received = await server.recv()
        await sending
        assert received is not None and received.data == large


async def test_context_managers_shut_down() -> None:
    async with pair() as (client, server):
        async with client:
            await client.send(0, "one")
            await client.send(1, "two")
        assert client.close_reason == "graceful shutdown"
        assert sorted([message.data async for message in server]) == [b"one", b"two"]
        assert await server.recv() is None
        assert await server.closed() == "graceful shutdown"


async def test_an_exception_in_the_block_aborts() -> None:
    async with pair() as (client, server):
        with pytest.raises(KeyError):
            async with client:
                raise KeyError("odd")
        assert client.close_reason == "this side aborted it"
        with pytest.raises(anabranch.ClosedError, match='the peer aborted it \\("KeyError"\\)'):
            await server.recv()
        with pytest.raises(ConnectionError):
            await client.send(0, "late")


async def test_a_program_that_is_interrupted_says_so_to_its_peer() -> None:
    async with pair() as (client, server):
        with pytest.raises(asyncio.CancelledError):
            async with client:
                raise asyncio.CancelledError
        with pytest.raises(anabranch.ClosedError, match='the peer aborted it \\("the program was interrupted"\\)'):
            await server.recv()


async def test_an_exception_in_the_block_of_an_endpoint_aborts_its_associations() -> None:
    async with await anabranch.bind("127.0.0.1:0") as peers:
        with pytest.raises(KeyError):
            async with await anabranch.listen("127.0.0.1:0") as endpoint:
                accepted = await peers.connect(endpoint.local_address)
                server = await endpoint.accept()
                assert server is not None
                waiting = await peers.connect(endpoint.local_address)
                # The endpoint has acknowledged data, so that this association waits to be accepted.
                assert (await waiting.deliver(0, "x")).outcome == "acknowledged"
                raise KeyError("odd")
        for association in (accepted, waiting):
            assert await association.closed() == 'the peer aborted it ("KeyError")'


async def test_streams_have_messages_of_their_own() -> None:
    async with pair() as (client, server):
        first, second = server.stream(1), server.stream(2)
        waiting = asyncio.create_task(second.recv())
        await client.stream(2, lifetime=10, priority=1).send("second")
        message = await waiting
        assert message is not None and message.data == b"second"
        await client.stream(1).send("first")
        message = await first.recv()
        assert message is not None and message.data == b"first"
        await client.stream(9).send("accepted")
        accepted = await server.accept_stream()
        assert accepted is not None and accepted.id == 9 and accepted.association is server
        assert [message.data async for message in _first(accepted)] == [b"accepted"]
        await client.drained()
        assert client.stream(9).stats().messages_acknowledged == 1
        assert client.stream(9).buffered_amount == 0
        await client.stream(9).buffered_amount_low()


async def test_a_message_has_an_outcome() -> None:
    async with pair() as (client, server):
        assert await client.deliver(1, "first", ppid=7) == anabranch.Delivery("acknowledged", sent=True, message=0)
        assert await client.stream(1).deliver("second") == anabranch.Delivery("acknowledged", sent=True, message=1)
        for received in [await server.recv(), await server.recv()]:
            assert received is not None and (received.data, received.ppid) in [(b"first", 7), (b"second", 0)]
        assert await client.deliver(1, "late", lifetime=0) == anabranch.Delivery("abandoned", sent=False, message=2)
        assert await client.stream(1, lifetime=0).deliver("late") == anabranch.Delivery("abandoned", sent=False, message=3)
        mistyped: Any = {"dedline": 0.1}
        named = re.escape("SendOptions() got an unexpected keyword argument 'dedline'")
        with pytest.raises(TypeError, match=named):
            client.try_send(1, "x", **mistyped)
        with pytest.raises(TypeError, match=named):
            await client.deliver(1, "x", **mistyped)
    async with await anabranch.listen("127.0.0.1:0") as endpoint:
        client = await anabranch.connect(endpoint.local_address, link="delay=1ms")
        client.endpoint.set_link("loss=100%")
        delivering = asyncio.create_task(client.deliver(1, "lost"))
        while not client.stats().outstanding_bytes:
            await asyncio.sleep(0.01)
        # The peer gets the ABORT, so that the server need not wait for an end without it.
        client.endpoint.set_link("delay=1ms")
        client.abort()
        assert await delivering == anabranch.Delivery("failed", sent=True, message=0)
        with pytest.raises(anabranch.ClosedError):
            await client.deliver(1, "after the end")


async def _first(stream: anabranch.Stream) -> AsyncIterator[anabranch.Message]:
    async for message in stream:
        yield message
        return


async def test_streams_are_reset_and_added() -> None:
    settings = anabranch.Settings(reconfiguration=True)
    async with pair(settings) as (client, server):
        incoming = server.stream(4)
        # A handle tells of resets from its first call on.
        receiving = asyncio.create_task(incoming.recv())
        await asyncio.sleep(0)
        await client.stream(4).send("before")
        await client.stream(4).reset()
        message = await receiving
        assert message is not None and message.data == b"before"
        assert await incoming.recv() is None
        # One request at a time: the answer to the reset comes first.
        async for event in client.events():
            if isinstance(event, anabranch.OtherEvent) and "Answered" in event.text:
                break
        client.add_streams(4)
        async for event in client.events():
            if isinstance(event, anabranch.StreamsAdded):
                assert event.outbound_streams == 20
                break
        assert client.outbound_streams == 20


async def test_send_waits_for_room() -> None:
    """With nobody who reads, all buffers fill. Then `send` waits, and continues when the peer reads."""
    settings = anabranch.Settings(send_buffer=20_000, receive_buffer=20_000, buffer_growth=1)
    async with pair(settings) as (client, server):
        message = bytes(1000)
        sent = 0

        async def send_all() -> None:
            nonlocal sent
            for _ in range(500):
                await client.send(0, message)
                sent += 1

        sending = asyncio.create_task(send_all())
        # As soon as the stream has no room, the task waits. This does not depend on time.
        while True:
            await asyncio.sleep(0.01)
            try:
                client.try_send(0, message)
            except anabranch.BufferFullError as error:
                assert str(error) == "the send buffer is full: await send, or try again later"
                break
            sent += 1
        assert not sending.done() and sent < 100
        received = 0
        async with asyncio.TaskGroup() as group:
            group.create_task(_shut_down_after(sending, client))
            async for _ in server:
                received += 1
        assert received >= 500


async def _shut_down_after(task: asyncio.Task[None], association: anabranch.Association) -> None:
    await task
    await association.shutdown()


async def test_a_cancelled_send_sent_nothing() -> None:
    settings = anabranch.Settings(send_buffer=20_000, receive_buffer=20_000, buffer_growth=1)
    async with pair(settings) as (client, server):
        accepted = 0
        while True:
            try:
                async with asyncio.timeout(0.05):
                    await client.send(0, f"{accepted}".ljust(1000))
                accepted += 1
            except TimeoutError:
                break
        async with asyncio.TaskGroup() as group:
            group.create_task(client.shutdown())
            received = [int(message.data) async for message in server]
        assert received == list(range(accepted))


async def test_cancelled_receivers_lose_no_message() -> None:
    """Receivers are cancelled all the time, some just when their message has come."""
    count = 2000
    async with pair() as (client, server):

        async def send_all() -> None:
            for number in range(count):
                await client.send(0, str(number))
                if number % 7 == 0:
                    await asyncio.sleep(0)

        sending = asyncio.create_task(send_all())
        received: list[int] = []
        turn = 0
        while len(received) < count:
            receiving = asyncio.create_task(server.recv())
            turn += 1
            if turn % 3:
                for _ in range(turn % 5):
                    await asyncio.sleep(0)
                receiving.cancel()
            try:
                message = await receiving
            except asyncio.CancelledError:
                continue
            assert message is not None
            received.append(int(message.data))
        await sending
        assert received == list(range(count))


async def test_a_cancelled_accept_loses_no_association() -> None:
    async with await anabranch.listen("127.0.0.1:0") as endpoint:
        for turn in range(20):
            accepting = asyncio.create_task(endpoint.accept())
            await asyncio.sleep(0)
            client = await anabranch.connect(endpoint.local_address)
            if turn % 2:
                accepting.cancel()
            try:
                server = await accepting
            except asyncio.CancelledError:
                server = await endpoint.accept()
            assert server is not None
            assert server.remote_address.split(":")[1] == client.endpoint.local_address.split(":")[1]
            client.abort("enough")


async def test_a_task_that_sends_in_a_loop_lets_others_run() -> None:
    async with pair() as (client, _):
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        # Fewer bytes than the send buffer has: no call waits.
        for _ in range(1000):
            await client.send(0, b"x" * 100)
        assert turns >= 5
        counting.cancel()


async def test_expired_messages_are_reported() -> None:
    settings = anabranch.Settings(send_buffer=2_000_000, receive_buffer=20_000, buffer_growth=1)
    async with pair(settings) as (client, server):
        # The peer reads nothing, so that its window closes before most of these messages are sent.
        for _ in range(100):
            await client.send(0, bytes(1000), lifetime=0.05, context=17)
        async for event in client.events():
            if isinstance(event, anabranch.Abandoned) and not event.sent:
                assert (event.stream, event.context) == (0, 17)
                break
        client.abort()
        assert [event async for event in client.events() if isinstance(event, anabranch.Undelivered | anabranch.Abandoned)]
        assert client.stats().counters.abandoned_unsent > 0
        assert server.close_reason is None or "aborted" in server.close_reason


async def test_the_association_says_how_many_events_it_dropped() -> None:
    async with pair() as (client, _):
        for _ in range(16_384 + 100):
            await client.send(1, "late", lifetime=0)
        await client.drained()
        events = []
        while (event := await client.next_event()) != anabranch.Abandoned(16_384 + 99, 1, 0, sent=False):
            events.append(event)
        assert isinstance(events[0], anabranch.Missed) and events[0].count >= 100
        assert not any(isinstance(event, anabranch.Missed) for event in events[1:])


async def test_a_stream_has_the_events_of_its_messages() -> None:
    async with pair() as (client, _):
        stream = client.stream(1, lifetime=0)
        assert (await stream.deliver("before the first call")).outcome == "abandoned"
        assert await stream.next_event() == anabranch.Abandoned(0, 1, 0, sent=False)
        await client.send(2, "of another stream", lifetime=0, context=5)
        await client.send(1, "of this stream", lifetime=0, context=6)
        async for event in stream.events():
            assert event == anabranch.Abandoned(2, 1, 6, sent=False)
            break
        async for event in client.events():
            if isinstance(event, anabranch.Abandoned):
                assert (event.stream, event.context) == (2, 5)
                break
        # A call that is cancelled takes no event.
        waiting = asyncio.create_task(stream.next_event())
        await asyncio.sleep(0)
        waiting.cancel()
        await client.send(1, "after it", lifetime=0)
        assert await stream.next_event() == anabranch.Abandoned(3, 1, 0, sent=False)
        # Without a handle that reads them, the association has the events.
        del stream, waiting
        gc.collect()
        await client.send(1, "for the association", lifetime=0, context=7)
        async for event in client.events():
            if isinstance(event, anabranch.Abandoned):
                assert (event.stream, event.context) == (1, 7)
                break
        client.abort()
        assert [event async for event in client.stream(1).events()] == []


async def test_statistics_are_typed_objects() -> None:
    async with pair() as (client, server):
        await client.send(0, bytes(10_000))
        await server.recv()
        await client.drained()
        stats = client.stats()
        assert stats.counters.messages_sent == 1 and server.stats().counters.messages_received == 1
        assert stats.extensions.partial_reliability
        (path,) = stats.paths
        assert path.primary and path.state == "active" and path.srtt is not None and path.cwnd > 1000
        assert dataclasses.asdict(stats)["paths"][0]["id"] == 0
        assert client.state == "established" and client.outbound_streams == 16
        assert client.ports[1] == 7 and "established" in repr(client)
        client.request_heartbeat(0)
        client.set_primary_path(0)
        with pytest.raises(anabranch.PathError):
            client.request_heartbeat(5)


async def test_several_paths() -> None:
    settings = anabranch.Settings(multipath="cmt")
    async with await anabranch.bind("127.0.0.1:0", "127.0.0.2:0", settings=settings) as server:
        server.listen(7)
        async with await anabranch.bind("127.0.0.3:0", "127.0.0.4:0", settings=settings) as client:
            association = await client.connect(server.local_address)
            accepted = await server.accept()
            assert accepted is not None
            await association.send(0, "two paths")
            message = await accepted.recv()
            assert message is not None and message.data == b"two paths"
            async for event in association.events():
                if isinstance(event, anabranch.PathChanged) and event.state == "active":
                    break
            assert len(association.stats().paths) > 1


async def test_path_pairs_choose_the_local_address_of_each_path() -> None:
    # The pairs cross: without them, the addresses that share most leading bits are a path.
    pairs = [("127.0.0.6", "127.0.0.1"), ("127.0.0.3", "127.0.0.5")]
    settings = anabranch.Settings(path_pairs=pairs)
    async with await anabranch.bind("127.0.0.1:0", "127.0.0.5:0") as server:
        server.listen()
        for chosen, expected in ((settings, pairs), (None, [("127.0.0.3", "127.0.0.1"), ("127.0.0.6", "127.0.0.5")])):
            async with await anabranch.bind("127.0.0.3:0", "127.0.0.6:0", settings=chosen) as client:
                async with await client.connect(server.local_address) as association:
                    paths = association.paths()
                    assert sorted((path.local, host(path.remote)) for path in paths) == sorted(expected)
        with pytest.raises(anabranch.SettingError, match="path_pairs.* must begin with one of local_addresses"):
            await anabranch.bind("127.0.0.7:0", "127.0.0.8:0", settings=settings)
    with pytest.raises(anabranch.SettingError, match='"eth0" is not an IP address'):
        await anabranch.bind("127.0.0.1:0", settings=anabranch.Settings(path_pairs=[("eth0", "127.0.0.2")]))


@pytest.mark.parametrize(("dscp", "number"), [("AF41", 34), (46, 46)])
async def test_packets_have_the_codepoint(dscp: int | str, number: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        peer.bind(("127.0.0.1", 0))
        peer.setblocking(False)
        async with await anabranch.bind("127.0.0.1:0", settings=anabranch.Settings(dscp=dscp)) as endpoint:
            connecting = asyncio.create_task(endpoint.connect("{}:{}".format(*peer.getsockname())))
            arrived = asyncio.Event()
            asyncio.get_running_loop().add_reader(peer, arrived.set)
            await arrived.wait()
            asyncio.get_running_loop().remove_reader(peer)
            _, ((_, _, service), *_), _, _ = peer.recvmsg(2000, 100)
            assert service[0] >> 2 == number
            connecting.cancel()
    with pytest.raises(anabranch.SettingError, match='dscp: "AF44" is not a DSCP: give a number from 0 to 63 or a name'):
        await anabranch.bind("127.0.0.1:0", settings=anabranch.Settings(dscp="AF44"))


async def test_paths_are_added_and_removed() -> None:
    settings = anabranch.Settings(dynamic_addresses=True)
    async with pair(settings) as (client, _):
        assert [path.local for path in client.paths()] == ["127.0.0.1"]
        client.add_path("127.0.0.2")
        client.add_path("lo")
        async with asyncio.timeout(60):
            while [path.state for path in client.paths()] != ["active", "active"]:
                await asyncio.sleep(0.01)
        assert {path.local for path in client.paths()} >= {"127.0.0.2"}
        client.remove_path("127.0.0.2")
        async with asyncio.timeout(60):
            while len(client.paths()) > 1:
                await asyncio.sleep(0.01)
        with pytest.raises(anabranch.PathError, match="it has lo"):
            client.add_path("wlan9")
        with pytest.raises(anabranch.PathError, match="no path from 127.0.0.9"):
            client.remove_path("127.0.0.9")
    async with pair() as (client, _):
        with pytest.raises(anabranch.PathError, match="not negotiated"):
            client.add_path("127.0.0.2")


async def test_changes_of_addresses_are_events() -> None:
    async def address_event(association: anabranch.Association) -> anabranch.Event:
        async with asyncio.timeout(60):
            async for event in association.events():
                if isinstance(event, anabranch.AddressEvent):
                    return event
        raise AssertionError("the association has ended")

    async with pair(anabranch.Settings(dynamic_addresses=True)) as (client, server):
        client.add_path("127.0.0.2")
        assert await address_event(client) == anabranch.LocalAddressAdded("127.0.0.2")
        added = await address_event(server)
        assert added == anabranch.PeerAddressAdded(address="127.0.0.2", path=1)
        async with asyncio.timeout(60):
            async for event in server.events():
                if isinstance(event, anabranch.PathChanged) and event.path == 1 and event.state == "active":
                    assert event.remote.startswith("127.0.0.2:")
                    break
        client.remove_path("127.0.0.2")
        assert await address_event(client) == anabranch.LocalAddressRemoved("127.0.0.2")
        assert await address_event(server) == anabranch.PeerAddressRemoved("127.0.0.2")


async def test_presets_and_the_settings_that_change_them() -> None:
    settings = anabranch.Settings(
        preset="low_latency", coupling="uncoupled", failover="potentially_failed", discard_hopeless=False, sack_delay=0.02
    )
    async with pair(settings) as (client, server):
        await client.send(0, "x", lifetime=0.5)
        message = await server.recv()
        assert message is not None and message.data == b"x"
    # BBR paces from the first measurement; Reno of RFC 9260 never does.
    for preset, paces in (("low_latency", True), ("rfc9260", False)):
        async with pair(anabranch.Settings(preset=preset)) as (client, server):  # type: ignore[arg-type]
            await client.send(0, "x")
            assert await server.recv() is not None
            assert (client.stats().paths[0].pacing_rate is not None) == paces, preset
    async with pair(anabranch.Settings(initial_window=30)) as (client, _):
        assert client.stats().paths[0].cwnd > 30 * 1000
    async with pair(anabranch.Settings(congestion_control="bbr", tolerate_random_loss=True)):
        pass
    with pytest.raises(anabranch.SettingError, match='tolerate_random_loss is a setting of BBR: set congestion_control="bbr"'):
        await anabranch.bind("127.0.0.1:0", settings=anabranch.Settings(tolerate_random_loss=True))
    for name in ("preset", "coupling", "failover"):
        with pytest.raises(anabranch.SettingError, match=f"{name} cannot be .*: choose one of"):
            await anabranch.bind("127.0.0.1:0", settings=anabranch.Settings(**{name: "none"}))  # type: ignore[arg-type]


async def test_an_emulated_link() -> None:
    async with await anabranch.listen("127.0.0.1:0") as server:
        client = await anabranch.connect(server.local_address, link="rate=10mbit,delay=100ms")
        async with client:
            await client.stream(0).deliver("x")
            (path,) = client.paths()
            assert path.srtt is not None and path.srtt > 0.19
    with pytest.raises(anabranch.SettingError, match='link: delay cannot be "often"'):
        await anabranch.bind("127.0.0.1:0", link="delay=often")
    with pytest.raises(anabranch.SettingError, match="3 links and 1 addresses"):
        await anabranch.bind("127.0.0.1:0", link=["delay=1ms"] * 3)
    async with await anabranch.bind("127.0.5.3:0", "127.0.5.4:0", link="delay=1ms") as endpoint:
        endpoint.set_link("delay=2ms")
        with pytest.raises(anabranch.SettingError, match="all addresses share one link"):
            endpoint.set_link("delay=2ms", "127.0.5.3")
        with pytest.raises(anabranch.SettingError, match="is not an address of this endpoint"):
            endpoint.set_link("delay=2ms", "127.0.5.5")


async def test_each_path_has_its_own_link_and_one_is_cut() -> None:
    settings = anabranch.Settings(multipath="eca")
    ours, links = ["127.0.5.1:0", "127.0.5.2:0"], ["rate=10mbit,delay=10ms", "rate=10mbit,delay=60ms"]
    async with await anabranch.bind("127.0.6.1:0", "127.0.6.2:0", settings=settings) as server:
        server.listen()
        async with await anabranch.bind(*ours, settings=settings, link=links) as endpoint:
            with pytest.raises(anabranch.SettingError, match="no emulated link"):
                server.set_link("loss=100%")
            client = await endpoint.connect(server.local_address)
            association = await server.accept()
            assert association is not None
            async with client:
                while any(path.state != "active" or path.srtt is None for path in client.paths()):
                    await asyncio.sleep(0.02)
                for path in client.paths():
                    assert path.srtt is not None and path.local is not None
                    assert path.srtt > (0.11 if path.local.startswith("127.0.5.2") else 0.019)
                endpoint.set_link("loss=100%", "127.0.5.1")
                stream = client.stream(1, deadline=timedelta(seconds=30))
                assert [(await stream.deliver("x")).outcome for _ in range(3)] == ["acknowledged"] * 3
                assert any(path.state != "active" for path in client.paths())


@pytest.mark.parametrize(
    ("address", "name", "with_port"),
    [
        ("192.0.2.1", "192.0.2.1", "192.0.2.1:9899"),
        ("192.0.2.1:5", "192.0.2.1", "192.0.2.1:5"),
        ("2001:db8::1", "2001:db8::1", "[2001:db8::1]:9899"),
        ("[2001:db8::1]", "2001:db8::1", "[2001:db8::1]:9899"),
        ("[2001:db8::1]:5", "2001:db8::1", "[2001:db8::1]:5"),
        ("server.example", "server.example", "server.example:9899"),
    ],
)
def test_the_usual_udp_port_may_be_left_out(address: str, name: str, with_port: str) -> None:
    assert (host(address), whole(address)) == (name, with_port)


def test_all_addresses_of_an_endpoint_have_one_udp_port() -> None:
    assert same_port(["192.0.2.1", "2001:db8::1"]) == ["192.0.2.1:9899", "[2001:db8::1]:9899"]
    assert same_port(["192.0.2.1", "192.0.2.2:5", "192.0.2.3:5"]) == ["192.0.2.1:5", "192.0.2.2:5", "192.0.2.3:5"]


async def test_wrong_addresses_are_refused() -> None:
    with pytest.raises(anabranch.SettingError, match="'127.0.0.1:5' and '127.0.0.2:6' have different UDP ports: .* one UDP port"):
        await anabranch.bind("127.0.0.1:5", "127.0.0.2:6")
    wrong: Any = ["127.0.0.1:0"]
    with pytest.raises(TypeError, match=re.escape("addresses cannot have ['127.0.0.1:0'], of the type list: give texts")):
        await anabranch.bind(wrong)
    with pytest.raises(TypeError, match=re.escape("addresses cannot have ('127.0.0.1', 0), of the type tuple: give texts")):
        await anabranch.bind("127.0.0.1:0", cast(Any, ("127.0.0.1", 0)))
    with pytest.raises(TypeError, match="address cannot have 9899, of the type int"):
        await anabranch.listen(cast(Any, 9899))
    with pytest.raises(TypeError, match="remote cannot have None, of the type NoneType"):
        await anabranch.connect(cast(Any, None))
    with pytest.raises(TypeError, match="link cannot have 5, of the type int"):
        await anabranch.bind("127.0.0.1:0", link=cast(Any, [5]))
    with pytest.raises(TypeError, match="link cannot be 5: give a list of texts"):
        await anabranch.bind("127.0.0.1:0", link=cast(Any, 5))
    with pytest.raises(TypeError, match="fingerprints cannot be 'AB:CD': give a list of texts"):
        await anabranch.bind("127.0.0.1:0", certificate=anabranch.Certificate.generate(), fingerprints="AB:CD")


async def test_sctp_ports_have_names_of_their_own() -> None:
    async with await anabranch.listen("127.0.0.1:0", sctp_port=5001) as endpoint:
        endpoint.listen(sctp_port=5002)
        client = await anabranch.connect(endpoint.local_address, sctp_port=5001)
        assert client.ports[1] == 5001
        client = await client.endpoint.connect(endpoint.local_address, sctp_port=5002, local_sctp_port=5003)
        assert client.ports == (5003, 5002)
        endpoint.stop_listening(sctp_port=5001)
        with pytest.raises(anabranch.ConnectError):
            await anabranch.connect(endpoint.local_address, sctp_port=5001)


async def test_encryption() -> None:
    own, theirs = anabranch.Certificate.generate(), anabranch.Certificate.generate()
    async with await anabranch.listen("127.0.0.1:0", certificate=theirs, fingerprints=[own.fingerprint]) as server:
        known = [theirs.fingerprint]
        association = await anabranch.connect(server.local_address, certificate=own, fingerprints=known)
        assert association.peer_fingerprint == theirs.fingerprint
        wrong = [own.fingerprint]
        with pytest.raises(anabranch.ConnectError, match="no DTLS connection"):
            await anabranch.connect(server.local_address, certificate=own, fingerprints=wrong)
    again = anabranch.Certificate.from_pem(*own.to_pem())
    assert again.fingerprint == own.fingerprint


async def test_every_path_is_encrypted_with_keys(tmp_path: Path) -> None:
    names = ("server", "client", "stranger")
    files = {name: tmp_path / f"{name}.key" for name in names}
    public = {name: anabranch.generate_key(files[name]) for name in names}
    assert files["server"].stat().st_mode & 0o777 == 0o600
    known = (tmp_path / "server.key.pub").read_text()
    assert known == public["server"] + "\n"
    with pytest.raises(FileExistsError):
        anabranch.generate_key(files["server"])
    keys = {name: anabranch.Keys(file, tmp_path / "server.key.pub") for name, file in files.items() if name != "server"}
    accepted = anabranch.Keys(files["server"], tmp_path / "client.key.pub")
    paths = anabranch.Settings(multipath="cmt")
    async with await anabranch.bind("127.0.0.1:0", "127.0.0.2:0", settings=paths, keys=accepted) as server:
        server.listen()
        addresses = server.local_addresses
        async with await anabranch.bind("127.0.0.3:0", "127.0.0.4:0", settings=paths, keys=keys["client"]) as endpoint:
            association = await endpoint.connect(addresses[0])
            peer = await server.accept()
            assert peer is not None and peer.peer_key == public["client"]
            assert association.peer_key == public["server"] and association.peer_fingerprint is None
            assert association.stats().extensions.protection and len(association.paths()) > 1
            assert (await association.deliver(0, "x" * 100_000)).outcome == "acknowledged"
            message = await peer.recv()
            assert message is not None and len(message.data) == 100_000
        assert server.failed_handshakes == 0
        with pytest.raises(anabranch.ConnectError, match="the server refused the client"):
            async with await anabranch.bind("127.0.0.1:0", keys=keys["stranger"]) as stranger:
                await stranger.connect(addresses[0])
        while server.failed_handshakes == 0:
            await asyncio.sleep(0.01)
    with pytest.raises(anabranch.CertificateError, match="no such file|No such file"):
        anabranch.Keys(tmp_path / "missing", tmp_path / "server.key.pub")
    certificate = anabranch.Certificate.generate()
    with pytest.raises(anabranch.SettingError, match="keys and a certificate"):
        await anabranch.bind("127.0.0.1:0", keys=accepted, certificate=certificate)


async def test_errors_have_the_texts_of_the_library() -> None:
    async with pair() as (client, server):
        with pytest.raises(anabranch.SendError, match="stream 99 does not exist: the association has 16 outbound streams"):
            await client.send(99, "no such stream")
        with pytest.raises(anabranch.SettingError, match="lifetime cannot be -1"):
            await client.send(0, "x", lifetime=-1.0)
        with pytest.raises(anabranch.SettingError, match="one of lifetime"):
            await client.send(0, "x", lifetime=1.0, retransmissions=1)
        with pytest.raises(anabranch.SettingError, match="99"):
            client.set_stream_priority(99, 1)
        with pytest.raises(OverflowError):
            await client.send(70_000, "x")
        with pytest.raises(anabranch.BindError, match="cannot bind"):
            await anabranch.bind(server.endpoint.local_address)
        with pytest.raises(anabranch.ListenError, match="port 0"):
            server.endpoint.listen(0)
    with pytest.raises(anabranch.SettingError, match="has no UDP port"):
        await anabranch.bind("127.0.0.1:port")
    with pytest.raises(anabranch.SettingError, match="scheduler cannot be"):
        await anabranch.bind("127.0.0.1:0", settings=anabranch.Settings(scheduler="fast"))  # type: ignore[arg-type]
    with pytest.raises(anabranch.SettingError, match="streams"):
        await anabranch.bind("127.0.0.1:0", settings=anabranch.Settings(outbound_streams=0))
    with pytest.raises(anabranch.ConnectError, match="cannot be resolved"):
        await anabranch.connect("no host:7", 7)
    for error in (anabranch.ConnectError, anabranch.ClosedError):
        assert issubclass(error, ConnectionError) and issubclass(error, anabranch.Error)
    assert issubclass(anabranch.SettingError, ValueError)
    assert issubclass(anabranch.ConnectTimeoutError, TimeoutError)


async def test_times_name_their_unit() -> None:
    times = ["heartbeat_interval", "idle_timeout", "low_priority_delay", "rto_initial", "rto_max", "rto_min", "shutdown_guard"]
    for name in times:
        with pytest.raises(anabranch.SettingError, match=f"{name} cannot be 100000.* is in seconds.*milliseconds=100000"):
            await anabranch.bind("127.0.0.1:0", settings=anabranch.Settings(**{name: 100_000}))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"low_priority_delay cannot be 20: .* 20 ms are 0.02 or timedelta\(milliseconds=20\)"):
        await anabranch.bind("127.0.0.1:0", settings=anabranch.Settings(low_priority_delay=20))
    with pytest.raises(anabranch.SettingError, match="linger cannot be 500"):
        await anabranch.bind("127.0.0.1:0", linger=500)
    settings = anabranch.Settings(
        low_priority_delay=timedelta(milliseconds=20),
        heartbeat_interval=math.inf,
        idle_timeout=timedelta(days=7),
        rto_min=timedelta(milliseconds=200),
    )
    seconds = {"low_priority_delay": 0.02, "heartbeat_interval": math.inf, "idle_timeout": 604_800.0, "rto_min": 0.2}
    assert settings.changed() == seconds
    async with await anabranch.bind("127.0.0.1:0", settings=settings, linger=timedelta(0)):
        pass
    async with pair() as (client, _):
        for name in ("deadline", "lifetime"):
            ways_out = r"50 ms are 0.05 or timedelta\(milliseconds=50\), 50 s are timedelta\(seconds=50\)"
            for wrong in (50, 50.0, 10.5):
                with pytest.raises(anabranch.SettingError, match=f"{name} cannot be {wrong}: a number is in seconds, at most 10; "):
                    await client.send(0, "x", **cast(Any, {name: wrong}))
            with pytest.raises(anabranch.SettingError, match=ways_out):
                client.stream(0, **cast(Any, {name: 50}))
            for right in (10, timedelta(seconds=50)):
                await client.send(0, "x", **cast(Any, {name: right}))


async def test_a_closed_endpoint_accepts_nothing() -> None:
    endpoint = await anabranch.listen("127.0.0.1:0")
    accepting = asyncio.create_task(endpoint.accept())
    await asyncio.sleep(0)
    await endpoint.close()
    assert await accepting is None
    assert [association async for association in endpoint] == []
    with pytest.raises(anabranch.ConnectError, match="the endpoint is closed"):
        await endpoint.connect("127.0.0.1:9", 7)


async def test_connecting_can_be_cancelled_and_has_a_time_limit() -> None:
    async with await anabranch.bind("127.0.0.1:0") as silent, await anabranch.bind("127.0.0.1:0") as endpoint:
        # An endpoint that does not listen refuses. A socket that answers nothing lets the caller wait.
        with pytest.raises(anabranch.ConnectError, match="did not set up an association"):
            await endpoint.connect(silent.local_address, 7)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0))
    async with await anabranch.bind("127.0.0.1:0") as endpoint:
        port = transport.get_extra_info("sockname")[1]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await endpoint.connect(f"127.0.0.1:{port}", 7)
    async with await anabranch.bind("127.0.0.1:0", connect_timeout=0.05) as endpoint:
        with pytest.raises(anabranch.ConnectTimeoutError, match="does not answer"):
            await endpoint.connect(f"127.0.0.1:{port}")
    transport.close()


async def test_dropped_objects_are_freed() -> None:
    async with await anabranch.listen("127.0.0.1:0") as endpoint:
        client = await anabranch.connect(endpoint.local_address)
        server = await endpoint.accept()
        assert server is not None
        gone = weakref.ref(client)
        # Without a reference cycle, so without the collector of garbage. The association then shuts down in the background.
        gc.disable()
        del client
        assert gone() is None
        gc.enable()
        assert [message async for message in server] == []


def test_event_loops_follow_each_other() -> None:
    """Each event loop has wake-ups of its own; nothing remains of a loop that has ended."""

    async def exchange() -> bytes:
        async with pair() as (client, server):
            receiving = asyncio.create_task(server.recv())
            await asyncio.sleep(0)
            await client.send(0, "again")
            message = await receiving
            assert message is not None
            return message.data

    for _ in range(5):
        assert asyncio.run(exchange()) == b"again"
