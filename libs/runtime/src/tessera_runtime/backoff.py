"""How long until the next attempt: longer each time, and not the same for everybody."""

from __future__ import annotations

from random import Random


class RetryDelays:
    """Waits that double from `first_s` to `most_s`, each between a half and the whole of that."""

    def __init__(self, first_s: float, most_s: float, random: Random) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._random = random
        self._now_s = first_s

    def next(self) -> float:
        """Seconds to wait before the attempt that comes now."""
        wait_s, self._now_s = self._now_s, min(self._now_s * 2, self._most_s)
        return wait_s * (1 + self._random.random()) / 2

    def reset(self) -> None:
        """It worked: begin anew."""
        self._now_s = self._first_s
