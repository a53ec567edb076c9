"""How long until the next attempt: longer each time, and not the same for all processes."""

from __future__ import annotations

import asyncio
from random import Random


class Backoff:
    """Waits that double from `first_s` to `most_s`, each between a half and the whole of that."""

    def __init__(self, first_s: float, most_s: float, random: Random | str) -> None:
        """`random` may be a seed: what differs between this process and its siblings."""
        self._first_s = first_s
        self._most_s = most_s
        if isinstance(random, str):
            random = Random(random)  # noqa: S311  (spreads attempts, keeps no secret)
        self._random = random
        self._now_s = first_s

    def next(self) -> float:
        """Seconds to wait before the attempt that comes now."""
        wait_s, self._now_s = self._now_s, min(self._now_s * 2, self._most_s)
        return wait_s * (1 + self._random.random()) / 2

    async def wait(self) -> None:
        """Wait until the attempt that comes now."""
        await asyncio.sleep(self.next())

    def reset(self) -> None:
        """Call it after a success: the next wait is the first again."""
        self._now_s = self._first_s
