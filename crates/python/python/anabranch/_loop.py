"""Operations of the native part in an asyncio event loop.

A thread of the Rust runtime cannot complete an operation. It only makes a socket readable, and the event loop then advances the operation
itself. If a task is cancelled, its operation is dropped and has taken nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import weakref
from typing import TypeVar

from anabranch._native import Operation, Wakeups

T = TypeVar("T")

#: After so many operations that were complete at once, the other tasks of the event loop run.
BURST = 64


class _Waiting:
    """The operations that wait in one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.wakeups = Wakeups()
        self.futures: dict[int, asyncio.Future[None]] = {}
        self.tickets = itertools.count()
        self.burst = BURST
        loop.add_reader(self.wakeups.fileno(), self._wake)

    def _wake(self) -> None:
        for ticket in self.wakeups.take():
            future = self.futures.get(ticket)
            if future is not None and not future.done():
                future.set_result(None)


_waiting: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = weakref.WeakKeyDictionary()


def _waiting_in(loop: asyncio.AbstractEventLoop) -> _Waiting:
    waiting = _waiting.get(loop)
    if waiting is None:
        waiting = _waiting[loop] = _Waiting(loop)
    return waiting


async def fair() -> None:
    """Lets other tasks run now and then. A task that sends or receives in a loop would otherwise never let go of the event loop."""
    waiting = _waiting_in(asyncio.get_running_loop())
    waiting.burst -= 1
    if waiting.burst <= 0:
        waiting.burst = BURST
        await asyncio.sleep(0)


async def finish(begun: T | Operation[T]) -> T:
    """The result of an operation that has begun."""
    if not isinstance(begun, Operation):
        return begun
    loop = asyncio.get_running_loop()
    waiting = _waiting_in(loop)
    waiting.burst = BURST
    ticket = next(waiting.tickets)
    try:
        while True:
            future = waiting.futures[ticket] = loop.create_future()
            done = begun.poll(waiting.wakeups, ticket)
            if done is not None:
                return done[0]
            await future
    finally:
        waiting.futures.pop(ticket, None)
        begun.close()
