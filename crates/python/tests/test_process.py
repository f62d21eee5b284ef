"""Forks, signals, and the end of a process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import anabranch
import pytest

# No time limit of the protocol ends these calls before the test does.
WAITS = """
import asyncio, math, socket, sys, anabranch

SETTINGS = anabranch.Settings(shutdown_guard=3600, association_max_retrans=1000)

async def accept():
    async with await anabranch.listen("127.0.0.1:0", settings=SETTINGS) as endpoint:
        ready(lambda: True)
        await endpoint.accept()

async def connect():
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 0))
    async with await anabranch.bind("127.0.0.1:0", settings=SETTINGS, connect_timeout=math.inf) as endpoint:
        ready(lambda: endpoint.associations)
        await endpoint.connect("127.0.0.1:{}".format(silent.getsockname()[1]))

async def recv():
    async with await anabranch.listen("127.0.0.1:0", settings=SETTINGS, link="delay=0ms") as endpoint:
        client = await anabranch.connect(endpoint.local_address)
        server = await endpoint.accept()
        # The peer vanishes, so that a graceful shutdown would wait for it; another association waits to be accepted.
        other = await anabranch.connect(endpoint.local_address)
        endpoint.set_link("loss=100%")
        ready(lambda: True)
        await server.recv()

async def iterate():
    async with await anabranch.listen("127.0.0.1:0", settings=SETTINGS) as endpoint:
        async with await anabranch.connect(endpoint.local_address, settings=SETTINGS) as client:
            ready(lambda: True)
            async for message in client.stream(1):
                pass

def ready(begun):
    # After this turn of the event loop, the call waits.
    async def tell():
        while not begun():
            await asyncio.sleep(0.01)
        print("ready", flush=True)
    globals()["telling"] = asyncio.get_running_loop().create_task(tell())

asyncio.run(globals()[sys.argv[1]]())
"""


@pytest.mark.parametrize("call", ["accept", "connect", "recv", "iterate"])
def test_ctrl_c_ends_a_blocked_call(call: str) -> None:
    program = [sys.executable, "-c", WAITS, call]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGINT, errors
    assert errors.splitlines()[-1] == "KeyboardInterrupt", errors


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_gets_a_clear_error() -> None:
    async def main() -> None:
        async with await anabranch.listen("127.0.0.1:0") as endpoint:
            client = await anabranch.connect(endpoint.local_address)
            server = await endpoint.accept()
            assert server is not None
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                os.write(write, told(client, endpoint).encode())
                os._exit(0)
            os.close(write)
            with os.fdopen(read) as pipe:
                errors = await asyncio.to_thread(pipe.read)
            assert os.waitpid(child, 0)[1] == 0
            expected = f"process {child} is a fork of process {os.getpid()}, which uses anabranch already: "
            assert errors.count(expected) == 4, errors
            # The parent's association still works.
            await client.send(0, "still here")
            message = await server.recv()
            assert message is not None and message.data == b"still here"

    asyncio.run(main())


def told(client: anabranch.Association, endpoint: anabranch.Endpoint) -> str:
    """The errors of calls in a forked process. They come before a call needs an event loop."""
    calls: list[Callable[[], object]] = [
        lambda: client._native.send(0, "x", None),
        lambda: client.try_send(0, "x"),
        client.stats,
        lambda: endpoint.local_addresses,
    ]
    errors = []
    for call in calls:
        try:
            call()
        except anabranch.ForkedError as error:
            errors.append(str(error))
    return "\n".join(errors)


FORKS = """
import asyncio, multiprocessing, anabranch

def child(results):
    async def echo():
        async with await anabranch.listen("127.0.0.1:0") as endpoint:
            async with await anabranch.connect(endpoint.local_address) as client:
                await client.send(0, "in the child")
                server = await endpoint.accept()
                message = await server.recv()
                return message.data
    results.put(asyncio.run(echo()))

if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    process = context.Process(target=child, args=(results,))
    process.start()
    print(results.get(timeout=60).decode())
    process.join()
"""


def test_a_fork_before_the_first_use_works() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "in the child\n"), done.stderr


ENDS = """
import asyncio, anabranch

async def main():
    endpoint = await anabranch.listen("127.0.0.1:0")
    globals()["client"] = await anabranch.connect(endpoint.local_address)
    globals()["server"] = await endpoint.accept()
    globals()["waiting"] = asyncio.get_running_loop().create_task(server.recv())
    await asyncio.sleep(0)
    print("end", flush=True)

asyncio.run(main())
"""


def test_a_process_with_open_associations_ends() -> None:
    done = subprocess.run([sys.executable, "-c", ENDS], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
