"""Data channels between two connections of one event loop, over loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import anabranch
import pytest
from anabranch import datachannel

LOOPBACK = "127.0.0.1:0"


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[datachannel.PeerConnection, datachannel.PeerConnection]]:
    """Both ends of a connection."""
    offers, offer = await datachannel.offer(LOOPBACK)
    answers, answer = await datachannel.answer(offer, LOOPBACK, ice_lite=True)
    async with offers, answers:
        assert offers.stats() is None
        offers.accept_answer(answer)
        await offers.connected()
        await answers.connected()
        yield offers, answers


async def test_texts_and_bytes_arrive_as_such() -> None:
    async with pair() as (offers, answers):
        opening = asyncio.create_task(offers.open("game", protocol="moves", ordered=False, lifetime=0.1, priority=512))
        theirs = await answers.accept()
        assert theirs is not None
        ours = await opening
        found = (theirs.label, theirs.protocol, theirs.ordered, theirs.priority, theirs.id == ours.id)
        assert found == ("game", "moves", False, 512, True)
        sent: list[str | bytes] = ["text \u00e4", b"bytes", "", b""]
        for message in sent:
            await ours.send(message)
            assert await theirs.recv() == message
        theirs.try_send(bytearray(b"array"))
        assert await ours.recv() == b"array"
        stats = offers.stats()
        assert stats is not None and stats.counters.data_chunks_sent >= len(sent)


async def test_closed_channels_and_connections_end_the_loops() -> None:
    async with pair() as (offers, answers):

        async def echo() -> list[str]:
            labels = []
            async for channel in answers:
                labels.append(channel.label)
                async for message in channel:
                    await channel.send(message)
            return labels

        serving = asyncio.create_task(echo())
        for label in ("first", "second"):
            channel = await offers.open(label)
            await channel.send(label)
            assert await channel.recv() == label
            channel.close()
            await channel.closed()
            assert await channel.recv() is None
            with pytest.raises(anabranch.ClosedError):
                await channel.send("late")
        offers.close()
        assert "closed" in await offers.closed()
        assert await serving == ["first", "second"]


async def test_negotiated_channels_need_no_announcement() -> None:
    async with pair() as (offers, answers):
        ours = await offers.open("state", negotiated=7)
        theirs = await answers.open("state", negotiated=7)
        await ours.send("at 52.52, 13.41")
        assert await theirs.recv() == "at 52.52, 13.41"
        with pytest.raises(anabranch.SettingError, match="in use"):
            await offers.open("again", negotiated=7)


async def test_the_buffered_amount_falls() -> None:
    async with pair() as (offers, answers):
        channel = await offers.open("file")
        for _ in range(8):
            await channel.send(bytes(65_536))
        await channel.buffered_amount_low(0)
        assert channel.buffered_amount == 0


async def test_a_lifetime_may_be_a_timedelta() -> None:
    async with pair() as (offers, answers):
        ours = await offers.open("positions", lifetime=timedelta(seconds=10))
        await ours.send("here")
        theirs = await answers.accept()
        assert theirs is not None and await theirs.recv() == "here"
        with pytest.raises(anabranch.SettingError, match="lifetime cannot be -1"):
            await offers.open("late", lifetime=timedelta(seconds=-1))


async def test_a_cancelled_recv_takes_no_message() -> None:
    async with pair() as (offers, answers):
        ours = await offers.open("events")
        theirs = await answers.accept()
        assert theirs is not None
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(theirs.recv(), 0.01)
        await ours.send("once")
        assert await theirs.recv() == "once"


async def test_mistakes_are_explained() -> None:
    with pytest.raises(anabranch.ConnectError, match="description"):
        await datachannel.answer("no description", LOOPBACK)
    with pytest.raises(anabranch.SettingError, match="unspecified"):
        await datachannel.offer("0.0.0.0:0")
    with pytest.raises(anabranch.BindError):
        await datachannel.offer("192.0.2.1:0")
    connection, _ = await datachannel.offer(LOOPBACK)
    with pytest.raises(anabranch.ConnectError, match="no description"):
        connection.restart_ice()
    with pytest.raises(anabranch.SettingError, match="one of lifetime"):
        await connection.open("both", lifetime=1, retransmissions=1)
    early = asyncio.create_task(connection.open("early"))
    await asyncio.sleep(0)
    connection.close()
    with pytest.raises(anabranch.ClosedError, match="ended"):
        await early


async def test_ice_is_restarted_and_a_shutdown_waits() -> None:
    async with pair() as (offers, answers):
        opening = asyncio.create_task(offers.open("x"))
        theirs = await answers.accept()
        ours = await opening
        assert theirs is not None
        for one, other in ((offers, answers), (answers, offers)):
            one.accept_answer(other.accept_offer(one.restart_ice()))
            await ours.send("still here")
            assert await theirs.recv() == "still here"
        answers.add_candidate("candidate:1 1 udp 2113937151 192.0.2.1 9 typ host")
        with pytest.raises(anabranch.Error, match="candidate"):
            answers.add_candidate("nonsense")
        await ours.send("the last one")
        ending = asyncio.create_task(offers.shutdown())
        assert await theirs.recv() == "the last one"
        await ending
        await answers.closed()
        await answers.silent()
