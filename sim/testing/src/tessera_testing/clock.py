"""A wall clock that goes with the event loop, so that on a virtual loop it is virtual too."""

from __future__ import annotations

import asyncio
from typing import Final

START: Final = 1_790_000_000.0
"""Some time in September 2026."""


class LoopClock:
    """`tessera_runtime.clock.Clock`, moved by the loop; `jump` sets it as an administrator would.

    Make it where the loop runs, or give the loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, start: float = START) -> None:
        self._loop = loop if loop is not None else asyncio.get_running_loop()
        self._start = start - self._loop.time()

    def time(self) -> float:
        """Unix time in seconds."""
        return self._start + self._loop.time()

    def time_ns(self) -> int:
        """Unix time in nanoseconds."""
        return round(self.time() * 1e9)

    def jump(self, seconds: float) -> None:
        """Go forward, or back, at once; no duration may notice."""
        self._start += seconds
