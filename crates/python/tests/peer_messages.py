"""The messages of the interop peers, by the rules of `interop/README.md`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

GAMMA = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
CLASSES = [(700, 1, 256), (900, 257, 4096), (987, 4097, 16384), (996, 16385, 65536), (1000, 65537, 262144)]
PPID_BASE = 0x41000000


def mix(z: int) -> int:
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def words(x: int, count: int) -> NDArray[numpy.uint64]:
    """The next words after the state `x`."""
    z = numpy.uint64(x) + numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(GAMMA)
    z = (z ^ z >> numpy.uint64(30)) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> numpy.uint64(27)) * numpy.uint64(0x94D049BB133111EB)
    return z ^ z >> numpy.uint64(31)


@dataclass(frozen=True)
class PeerMessage:
    stream: int
    ppid: int
    payload: bytes


def message(direction: int, index: int, *, seed: int, streams: int, max_size: int) -> PeerMessage:
    """Message `index` of a direction: 0 is sent by the side that connects."""
    with numpy.errstate(over="ignore"):
        x = mix((mix(2 * seed + direction) + index) & MASK)
        c, s, t = (int(word) for word in words(x, 3))
        low, high = next((low, high) for below, low, high in CLASSES if c % 1000 < below)
        size = low + s % (high - low + 1)
        if index == 0:
            size = 1
        if index == 1 or size > max_size:
            size = max_size
        count = (size + 7) // 8
        payload = words((x + 3 * GAMMA) & MASK, count).astype("<u8").tobytes()[:size]
    return PeerMessage(t % streams, PPID_BASE + index, payload)
