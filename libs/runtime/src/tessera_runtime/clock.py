"""Time as an argument: the wall clock for stamps, which may jump; durations are the loop's."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The wall clock. Durations are measured with the event loop's own clock, never with this."""

    def time(self) -> float:
        """Unix time in seconds."""
        ...

    def time_ns(self) -> int:
        """Unix time in nanoseconds."""
        ...


class SystemClock:
    """The wall clock of this machine."""

    def time(self) -> float:
        """Unix time in seconds."""
        return time.time()

    def time_ns(self) -> int:
        """Unix time in nanoseconds."""
        return time.time_ns()
