"""How long launches take on the card: counts by time, as the hook writes them, and quantiles.

Item 0 counts what took less than 4.096 us, each further item what took up to twice as much as the
one before, and the last one all the rest, from 67 ms on. A graph is one launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final

from tessera_core.hook.usage_file import TIMES

FIRST_US: Final = 4.096
_WRAP: Final = 1 << 32


def grown(before: Sequence[int], now: Sequence[int]) -> tuple[int, ...]:
    """What the hook has counted since; no items after the last one that is not 0."""
    return _short([(new - old) % _WRAP for old, new in zip(before, now, strict=True)])


def added(counts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """The sum, item by item."""
    return _short([sum(column) for column in zip_longest(*counts, fillvalue=0)])


def quantiles_us(counts: Sequence[int], longest_us: float) -> tuple[float, float]:
    """The times that half of the launches took at most, and 99 in 100, in microseconds; 0 where
    nothing was counted. Times are taken to be spread evenly within an item, by their logarithm; the
    last item has no bound, and counts as `longest_us`."""
    return _quantile(counts, 0.5, longest_us), _quantile(counts, 0.99, longest_us)


def _quantile(counts: Sequence[int], part: float, longest_us: float) -> float:
    left = part * sum(counts)
    for item, count in enumerate(counts if left > 0 else ()):
        if left <= count:
            least = FIRST_US * 2.0 ** (item - 1)
            is_last = item == TIMES - 1
            return round(max(longest_us, least) if is_last else least * 2 ** (left / count), 1)
        left -= count
    return 0.0


def _short(counts: list[int]) -> tuple[int, ...]:
    while counts and not counts[-1]:
        counts.pop()
    return tuple(counts)
