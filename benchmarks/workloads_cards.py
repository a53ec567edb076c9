"""How a card's time is divided among the containers that want it: the model, in one function.

Containers that want time at once are served in turn with equal slices, as a GPU does with the
processes of several containers: each gets what it demands as long as that is no more than an equal
part of what is left. Nobody gets more than the limit in force for it. Each further container that
is busy costs `SWITCH_PERCENT` of the card for switching between them, up to `SWITCH_MOST_PERCENT`:
a guess, not a measurement. Memory never limits anybody here, since it is granted and not shared.
"""

from __future__ import annotations

import numpy as np

from tessera_core.fleet.arrays import Floats

FULL = 100.0
SWITCH_PERCENT = 2.0
SWITCH_MOST_PERCENT = 10.0


def capacity(demand: Floats) -> Floats:
    """Percent of each card that can be used with so much demand on its seats (cards, seats)."""
    busy = (demand > 0).sum(1)
    lost = np.clip(SWITCH_PERCENT * (busy - 1), 0, SWITCH_MOST_PERCENT)
    left: Floats = FULL - lost
    return left


def divide(demand: Floats) -> Floats:
    """Percent of its card that each seat gets of what it demands; both (cards, seats)."""
    room = capacity(demand)
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
