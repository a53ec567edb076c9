"""Work that lets other work of the event loop go first, without ever being kept from its turn.

A scheduler that admits pods as fast as they come, and places them when it is done with that, lets
each of them wait long. So what has begun goes first. Between processes it changes nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class FairQueue:
    """Requests that let others go first: one is answered in each turn of the event loop, after all
    that has come for other servers of the process."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Callable[[], None]] = deque()

    def join(self, answer: Callable[[], None]) -> None:
        """Call it when its turn comes."""
        if not self._waiting:
            self._loop.call_soon(self._next)
        self._waiting.append(answer)

    async def turn(self) -> None:
        """Wait for a turn."""
        come = asyncio.Event()
        self.join(come.set)
        await come.wait()

    def _next(self) -> None:
        answer = self._waiting.popleft()
        if self._waiting:
            self._loop.call_soon(self._next)
        answer()
