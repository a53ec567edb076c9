"""How long requests of services take, as a proxy: in times of their own work on an idle card.

While a service's request computes, others compute as well, and its speed is `s` (see
`workloads_closed`); the service's own requests queue for it, and it uses the part `rho` of what it
could get, which is `s` or its limit. With requests that come at random the mean is `1/s` times
`1/(1 - rho)`. Curves are constant for ten minutes, so it is looked at once in that time. Real
percentiles depend on how requests come and are batched: the figures compare policies, and say
nothing about milliseconds.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.workloads_closed import speeds
from tessera_core.fleet.arrays import Bools, Floats

SLOW: Final = 4.0
"""A request that takes longer than so many times its own work is slow."""
MOST: Final = 100.0
"""What a request takes at most here: the service gets less than it needs, and its queue grows."""
_FULL: Final = 100.0
_BINS: Final = 200


def latencies(wants: Floats, limits: Floats, room: Floats, serving: Bools) -> Floats:
    """Of the requests of each seat, were it a service, in times of their own work; (cards, seats),
    `room` (cards) what of a card can be used, all in percent."""
    speed = speeds(wants / _FULL, limits / _FULL, room / _FULL, serving)
    rho = wants / _FULL / np.minimum(speed, limits / _FULL)
    found: Floats = np.minimum(1 / speed / np.maximum(1 - rho, 1e-9), MOST)
    return found


class LatencyHistogram:
    """How long services answered how fast: all count alike, however many requests they have."""

    def __init__(self) -> None:
        """Nobody served."""
        self._edges = np.geomspace(1, MOST, _BINS)
        self._sums = np.zeros(_BINS + 1)

    def count(self, wants: Floats, limits: Floats, room: Floats, serving: Bools) -> None:
        """The services of a moment; `serving` (cards, seats)."""
        cards = np.flatnonzero((serving & (wants > 0)).any(1))
        if not len(cards):
            return
        found = latencies(wants[cards], limits[cards], room[cards], serving[cards])
        which = serving[cards] & (wants[cards] > 0)
        bins = np.searchsorted(self._edges, found[which])
        self._sums += np.bincount(bins, minlength=_BINS + 1)

    def percentile(self, percent: float) -> float:
        """For so many percent of the time requests take no longer; 0 without any."""
        total = self._sums.sum()
        if not total:
            return 0.0
        place = int(np.searchsorted(self._sums.cumsum(), total * percent / 100))
        return float(self._edges[min(place, _BINS - 1)])

    def slow_percent(self) -> float:
        """Percent of the time in which requests take longer than `SLOW`."""
        total = self._sums.sum()
        slow = self._sums[np.searchsorted(self._edges, SLOW) + 1 :].sum()
        return float(100 * slow / total) if total else 0.0
