"""The programs that the tests talk to. `scripts/python` says where they are."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


def program(variable: str) -> str:
    """The program of an environment variable."""
    path = os.environ.get(variable)
    if path is None or not Path(path).exists():
        pytest.fail(f"{variable} must name a program: run scripts/python")
    return path


@pytest.fixture
def command() -> str:
    """The command `anabranch`."""
    return program("ANABRANCH_COMMAND")


@pytest.fixture
def usrsctp() -> str:
    """The peer that uses usrsctp."""
    return program("ANABRANCH_USRSCTP")


@pytest.fixture
def echo_server(command: str) -> Iterator[str]:
    """The address of a Rust program that echoes messages on SCTP port 7."""
    arguments = [command, "listen", "--echo", "--bind", "127.0.0.1", "--udp-port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        port = re.search(r"UDP port (\d+)", line)
        assert port is not None, line
        yield f"127.0.0.1:{port[1]}"
        server.terminate()
