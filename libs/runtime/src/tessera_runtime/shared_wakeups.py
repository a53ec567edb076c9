"""Work that is done again and again wakes its process together: at the multiples of its period, by
the loop's clock. A wake-up for nothing takes a tenth of a millisecond of processor time, and what
runs after it finds the caches of others.

That clock begins with the machine's start, so machines do not wake together.
"""

from __future__ import annotations

import asyncio
from typing import Final

_EARLY: Final = 1 / 16
"""Of a period, by which a timer may end too early."""


def next_multiple(now_s: float, period_s: float) -> float:
    """When work of this period is due next."""
    return (now_s + period_s * _EARLY) // period_s * period_s + period_s


async def sleep_until_multiple(period_s: float) -> None:
    """Sleep for a period at most, until work of this period is due."""
    now_s = asyncio.get_running_loop().time()
    await asyncio.sleep(next_multiple(now_s, period_s) - now_s)
