"""How long work in slices keeps the loop to itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, TypeVar

from tessera_core.slices import Slices

T = TypeVar("T")
AT_MOST_S: Final = 0.004
"""Seconds after which no further slice begins before other tasks have run."""


async def in_slices(work: Slices[T], now: Callable[[], float] = time.perf_counter) -> T:
    """The result of the work; other tasks on the loop run before it and between its slices. `now`
    is in seconds."""
    await asyncio.sleep(0)
    began = now()
    while True:
        try:
            next(work)
        except StopIteration as e:
            found: T = e.value
            return found
        if now() - began >= AT_MOST_S:
            await asyncio.sleep(0)
            began = now()
