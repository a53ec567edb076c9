"""How a card's time is divided among the containers that want it: the model.

*Open*: containers that want time at once are served in turn with equal slices, as a GPU does with
the processes of several containers: each gets what it demands as long as that is no more than an
equal part of what is left. *Closed*: the same slices, and who does not serve waits for its own
kernels before it wants more (`workloads_closed`). Nobody gets more than the limit in force for it.
Containers that are busy at once cost a part of the card (`workloads_interference`). Memory never
limits anybody here, since it is granted and not shared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.workloads_closed import divide_closed
from benchmarks.workloads_interference import GUESS, Interference
from tessera_core.fleet.arrays import Bools, Floats, Ints

FULL = 100.0


@dataclass(frozen=True)
class CardModel:
    """What all cards of a cluster are like."""

    closed: bool = False
    interference: Interference = GUESS

    def capacity(self, demand: Floats, loads: Ints) -> Floats:
        """Percent of each card that can be used with so much demand on its seats (cards, seats) of
        containers of these loads."""
        left: Floats = FULL - self.interference.lost(demand > 0, loads)
        return left

    def divide(self, wants: Floats, limits: Floats, loads: Ints, serving: Bools) -> Floats:
        """Percent of its card that each seat gets of what it wants; all (cards, seats)."""
        demand = np.minimum(wants, limits)
        room = self.capacity(demand, loads)
        return divide_closed(wants, limits, room, serving) if self.closed else divide(demand, room)


OPEN = CardModel()


def divide(demand: Floats, room: Floats) -> Floats:
    """Percent that each seat (pools, seats) gets of what it demands where a pool of one card, or of
    several, has so much room (pools): no more than an equal part of what others leave."""
    got = demand.copy()
    tight = np.flatnonzero(demand.sum(1) > room)
    if len(tight):
        got[tight] = np.minimum(demand[tight], _level(demand[tight], room[tight])[:, None])
    return got


def _level(demand: Floats, room: Floats) -> Floats:
    """What each seat gets at most where demand exceeds the room, so that all of it is used."""
    ordered = np.sort(demand, axis=1)
    seats = demand.shape[1]
    before = np.cumsum(ordered, axis=1) - ordered
    # With the first i seats satisfied the others share the rest alike.
    levels = (room[:, None] - before) / (seats - np.arange(seats))
    first = (levels <= ordered).argmax(axis=1)
    level: Floats = levels[np.arange(len(demand)), first]
    return level
