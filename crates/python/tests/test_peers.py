"""10,000 messages against the Rust server, and 10,000 each way against usrsctp."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess

import anabranch
from peer_messages import PPID_BASE, message

MESSAGES = 10_000
STREAMS = 8
SEED = 1
MAX_SIZE = 4096


async def test_echo_of_10000_messages(echo_server: str) -> None:
    async with await anabranch.connect(echo_server, 7) as association:

        async def send_all() -> None:
            for number in range(MESSAGES):
                payload = str(number).encode().ljust(number % 2000 + 8, b".")
                await association.send(number % STREAMS, payload, ppid=number)

        async with asyncio.TaskGroup() as group:
            group.create_task(send_all())
            last = [-1] * STREAMS
            for _ in range(MESSAGES):
                echo = await association.recv()
                assert echo is not None
                assert echo.data == str(echo.ppid).encode().ljust(echo.ppid % 2000 + 8, b".")
                assert echo.stream == echo.ppid % STREAMS
                assert echo.ppid > last[echo.stream], "in the order of the stream"
                last[echo.stream] = echo.ppid
    assert association.close_reason == "graceful shutdown"


async def test_10000_messages_each_way_with_usrsctp(usrsctp: str) -> None:
    arguments = [usrsctp, "listen", "--udp-port", "0", "--messages", str(MESSAGES), "--streams", str(STREAMS)]
    arguments += ["--seed", str(SEED), "--max-size", str(MAX_SIZE), "--timeout", "120"]
    peer = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert peer.stderr is not None
    ready = peer.stderr.readline()
    port = re.search(r"udp-port=(\d+)", ready)
    assert port is not None, ready
    settings = anabranch.Settings(outbound_streams=STREAMS, max_inbound_streams=STREAMS)
    async with await anabranch.connect(f"127.0.0.1:{port[1]}", 5000, settings=settings) as association:

        async def send_all() -> None:
            for index in range(MESSAGES):
                ours = message(0, index, seed=SEED, streams=STREAMS, max_size=MAX_SIZE)
                await association.send(ours.stream, ours.payload, ppid=ours.ppid)

        async with asyncio.TaskGroup() as group:
            group.create_task(send_all())
            last = [-1] * STREAMS
            for _ in range(MESSAGES):
                received = await association.recv()
                assert received is not None
                index = received.ppid - PPID_BASE
                expected = message(1, index, seed=SEED, streams=STREAMS, max_size=MAX_SIZE)
                assert (received.data, received.stream) == (expected.payload, expected.stream)
                assert index > last[received.stream], "in the order of the stream"
                last[received.stream] = index
    output, errors = await asyncio.to_thread(peer.communicate)
    verdict = json.loads(output)
    assert verdict["ok"] and verdict["received"] == MESSAGES and verdict["shutdown"], (verdict, errors)
