"""The time that the ledger goes by: Unix time at the start, then the event loop's own steps.

It never jumps, so a clock that is set back or forth neither drops reservations nor makes a list
look older than what was known before it. It is shown to people too, so it starts at the wall clock.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop

from tessera_runtime.clock import Clock


class MonotonicClock:
    """Seconds that only go forward, at the pace of the loop."""

    def __init__(self, clock: Clock, loop: AbstractEventLoop) -> None:
        """Reads the wall clock once."""
        self._loop = loop
        self._start = clock.time() - loop.time()

    def time(self) -> float:
        """Seconds since 1970, as far as the wall clock was right at the start."""
        return self._start + self._loop.time()

    def at(self, loop_time: float) -> float:
        """The same for a time of the loop's clock."""
        return self._start + loop_time
