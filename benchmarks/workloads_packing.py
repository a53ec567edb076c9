"""The scheduler's default order: dialects' own until enough pods came, `pack` from then on."""

from __future__ import annotations

from typing import Final

from tessera_core.fleet.fleet import Fleet
from tessera_core.placement.packing.demand_history import History
from tessera_core.placement.packing.forecast import learn
from tessera_core.placement.packing.packer import Packer
from tessera_schema.requests import PodRequest

LEARN_S: Final = 6 * 3600.0
"""Seconds between two lessons; the scheduler takes ten minutes, but pods of one workload are drawn
from the same shapes all the time."""


class Packing:
    """Counts and learns; it needs no background here."""

    def __init__(self, fleet: Fleet, packer: Packer) -> None:
        """Nothing has come."""
        self._fleet = fleet
        self._packer = packer
        self._history = History()
        self._due = 0.0

    def count(self, request: PodRequest, now: float) -> None:
        """A pod was placed for the first time."""
        self._history.add(request, now)

    def learn(self, now: float) -> None:
        """Learn from what came, when that is due and there is enough."""
        if now < self._due or not self._history.enough(now):
            return
        self._due = now + LEARN_S
        former = self._packer.state
        fresh = former.apart()
        fresh.adopt(learn(*former.lesson(self._fleet, self._history, now)))
        self._packer.state, self._packer.by_default = fresh, True
