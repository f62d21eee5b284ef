"""Compares the throughput of 1 KiB messages with aiortc's, and keeps the numbers in `results/python/throughput.json`.

Each library has both ends in one event loop of one process, over loopback, and sends for some seconds. aiortc always encrypts with DTLS;
anabranch is measured with and without DTLS. `scripts/python-throughput` runs this program.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import anabranch

SIZE = 1024


async def with_anabranch(seconds: float, *, encrypted: bool) -> float:
    """Messages a second that arrive."""
    certificate = anabranch.Certificate.generate() if encrypted else None
    async with await anabranch.listen("127.0.0.1:0", certificate=certificate) as endpoint:
        client = await anabranch.connect(endpoint.local_address, certificate=certificate)
        server = await endpoint.accept()
        assert server is not None
        message = bytes(SIZE)

        async def send() -> None:
            while True:
                await client.send(0, message)

        sending = asyncio.create_task(send())
        count, begin = 0, time.monotonic()
        while time.monotonic() - begin < seconds:
            received = await server.recv()
            assert received is not None and len(received.data) == SIZE
            count += 1
        taken = time.monotonic() - begin
        sending.cancel()
        client.abort()
        return count / taken


async def with_aiortc(seconds: float) -> float:
    """Messages a second that arrive."""
    from aiortc import RTCConfiguration, RTCPeerConnection

    # Without servers: addresses of this machine only.
    offering, answering = (RTCPeerConnection(RTCConfiguration(iceServers=[])) for _ in range(2))
    channel: Any = offering.createDataChannel("throughput")
    opened, counted = asyncio.Event(), asyncio.Event()
    message = bytes(SIZE)
    count, begin, taken = 0, 0.0, 0.0

    def receive(data: bytes) -> None:
        nonlocal count, taken
        assert len(data) == SIZE
        count += 1
        taken = time.monotonic() - begin
        if taken >= seconds:
            counted.set()

    def fill() -> None:
        while channel.readyState == "open" and channel.bufferedAmount < 1 << 20 and not counted.is_set():
            channel.send(message)

    @answering.on("datachannel")  # type: ignore[untyped-decorator]
    def on_channel(accepted: Any) -> None:
        accepted.on("message", receive)

    channel.on("open", opened.set)
    channel.bufferedAmountLowThreshold = 1 << 19
    channel.on("bufferedamountlow", fill)
    await offering.setLocalDescription(await offering.createOffer())
    await answering.setRemoteDescription(offering.localDescription)
    await answering.setLocalDescription(await answering.createAnswer())
    await offering.setRemoteDescription(answering.localDescription)
    await opened.wait()
    begin = time.monotonic()
    fill()
    await counted.wait()
    await offering.close()
    await answering.close()
    return count / taken


def main() -> None:
    """Measures in turn, several times, and writes the file."""
    parser = argparse.ArgumentParser(description="Compares the throughput of 1 KiB messages with aiortc's.")
    parser.add_argument("--seconds", type=float, default=5, help="how long each measurement takes")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each kind, in turn")
    parser.add_argument("--output", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    kinds: dict[str, Callable[[float], Awaitable[float]]] = {
        "anabranch": lambda seconds: with_anabranch(seconds, encrypted=False),
        "anabranch with DTLS": lambda seconds: with_anabranch(seconds, encrypted=True),
        "aiortc": with_aiortc,
    }

    async def measured(kind: str) -> float:
        return await kinds[kind](arguments.seconds)

    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(arguments.rounds):
        for kind, measurements in rates.items():
            measurements.append(round(asyncio.run(measured(kind)), 1))
            print(f"{kind}: {measurements[-1]} messages/s", flush=True)
    of_aiortc = max(rates["aiortc"])
    ratios = {kind: round(min(measurements) / of_aiortc, 2) for kind, measurements in rates.items() if kind != "aiortc"}
    record = {
        "message_bytes": SIZE,
        "seconds": arguments.seconds,
        "messages_per_s": rates,
        "lowest_of_anabranch_to_highest_of_aiortc": ratios,
        "versions": {name: version(name) for name in ("anabranch", "aiortc")},
        "python": platform.python_version(),
        "processors": os.cpu_count(),
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{arguments.output}: {ratios}")


if __name__ == "__main__":
    main()
