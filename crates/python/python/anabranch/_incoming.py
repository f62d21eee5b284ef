"""What asynchronous iterators of this package have in common."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Incoming(Generic[T]):
    """An asynchronous iterator over what a peer sends or sets up, until the end."""

    __slots__ = ()

    async def _next(self) -> T | None:
        """The next one, or `None` at the end."""
        raise NotImplementedError

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        item = await self._next()
        if item is None:
            raise StopAsyncIteration
        return item
