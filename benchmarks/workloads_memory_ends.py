"""Best-effort pods end where owners need the memory (`workloads_memory`)."""

from __future__ import annotations

import numpy as np

from benchmarks.workloads_cluster import TICK_S
from benchmarks.workloads_simulation import Simulation
from tessera_core.fleet.arrays import Floats
from tessera_core.node.memory_reclaim import too_many


class SpareMemory:
    """A part of a policy: ends who is too many."""

    def before(self, world: Simulation, wants: Floats) -> None:
        """Owners that begin or grow find what they were granted."""
        spare = world.spare
        if spare is None:
            return
        short, used = spare.short(world.now), world.seats.memory_in_use(world.now)
        for card in np.flatnonzero(short).tolist():
            if not spare.alone[card]:
                world.counted.over_s += TICK_S
                spare.close(card, world.now)
            self._end(world, wants, card, float(short[card]), used)

    def after(self, world: Simulation, wants: Floats, got: Floats) -> None:
        """Nothing."""

    def _end(
        self, world: Simulation, wants: Floats, card: int, short: float, brings: Floats
    ) -> None:
        """The youngest of the card; `brings` (cards, seats) is what comes free with each."""
        seats = world.seats
        places = np.flatnonzero(seats.spare[card])
        held = [(float(seats.sat[card, p]), float(brings[card, p])) for p in places]
        for number in too_many(short, held):
            place = int(places[number])
            wants[card, place] = 0
            world.end_spare(world.running[int(seats.job[card, place])])
