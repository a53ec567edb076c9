"""How long to wait before trying again: longer each time, never in step with others."""

from __future__ import annotations

import asyncio
import random


class Backoff:
    """Waits that double, with jitter, up to a bound."""

    def __init__(self, first_s: float, most_s: float, seed: str) -> None:
        """`seed` is what tells this process from its siblings."""
        self._first_s = first_s
        self._most_s = most_s
        self._next_s = first_s
        self._chance = random.Random(seed)  # noqa: S311  (spreads attempts, keeps no secret)

    def reset(self) -> None:
        """Things went well: the next wait is the first again."""
        self._next_s = self._first_s

    async def wait(self) -> None:
        """Wait between half and all of what it is the turn of."""
        delay_s = self._next_s
        self._next_s = min(self._next_s * 2, self._most_s)
        await asyncio.sleep(delay_s * self._chance.uniform(0.5, 1))
