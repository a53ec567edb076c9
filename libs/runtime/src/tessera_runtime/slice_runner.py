"""How long work in slices, and messages that have come, keep the loop to themselves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

from tessera_core.slices import Slices

T = TypeVar("T")
AT_MOST_S: Final = 0.004
"""Seconds after which no further slice begins before other tasks have run."""


class LoopTurn:
    """A task's turn on the loop: from when others ran last until they run again."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        """It begins now; `now` is in seconds."""
        self._now = now
        self.begin()

    def begin(self) -> None:
        """The task has waited, so that others could run."""
        self._began = self._now()

    async def pause(self) -> None:
        """Let others run if the turn has lasted `AT_MOST_S`."""
        if self._now() - self._began >= AT_MOST_S:
            await asyncio.sleep(0)
            self.begin()


async def in_slices(work: Slices[T], now: Callable[[], float] = time.perf_counter) -> T:
    """The result of the work; other tasks on the loop run before it and between its slices. `now`
    is in seconds."""
    await asyncio.sleep(0)
    turn = LoopTurn(now)
    while True:
        try:
            next(work)
        except StopIteration as e:
            found: T = e.value
            return found
        await turn.pause()
