"""What no policy can exceed, each bound allowing more than the one before.

O1 to O3 place pods as the policy `nothing` does, and divide time better than any card can; O4 and
O5 place nothing at all. With the same pods in the same places a later bound never gives less in a
tick; over days each one places and ends pods at other times, so that single figures may cross. A
policy that places better than `nothing` can exceed O1 to O3. What can be gained at all is up to O4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.workloads_cards import FULL, divide
from benchmarks.workloads_cluster import SLOTS, Run, request_of
from benchmarks.workloads_placement import Placement, SeatGrant
from benchmarks.workloads_pods import Workload
from tessera_core.fleet.arrays import Floats
from tessera_core.registry.registry import DialectRegistry

ALL: Final = -1
NODE: Final = -2


@dataclass(frozen=True)
class Bound:
    """A cluster that can do what none can."""

    what: str
    pool: int = ALL
    """Cards whose time is one: so many, those of a `NODE`, or `ALL`."""
    guaranteed: bool = False
    """Who was granted cores gets them before anybody gets more."""
    placed: bool = True
    """Memory, slots and cards limit who runs, as they do; else all that come run at once."""
    endless: bool = False
    """There is time for everybody."""

    def seats(self, workload: Workload, registry: DialectRegistry) -> tuple[int, int]:
        """Cards and seats on each; without placement one card with seats for all."""
        if self.placed:
            return workload.nodes * workload.cards, SLOTS
        cards = (request_of(registry, job).containers[0].requests[0].count for job in workload.jobs)
        return 1, max(sum(cards), 1)

    def divide(self, wants: Floats, promised: Floats, room: Floats, workload: Workload) -> Floats:
        """Percent of a card that each seat gets; all (cards, seats) but for `room`, the percent of
        each real card that can be used (cards). A pool of several cards loses nothing."""
        if self.endless:
            return wants
        total = workload.nodes * workload.cards
        size = {ALL: total, NODE: workload.cards}.get(self.pool, self.pool)
        pools = total // size
        if size > 1:
            room = np.full(pools, FULL * size)
        first = np.minimum(wants, promised) if self.guaranteed else np.zeros_like(wants)
        first = divide(first.reshape(pools, -1), room)
        rest = divide(wants.reshape(pools, -1) - first, room - first.sum(1))
        found: Floats = (first + rest).reshape(wants.shape)
        return found


class NoPlacement:
    """Everybody runs at once."""

    def place(self, run: Run, now: float) -> Sequence[SeatGrant]:
        """A seat for each card that it asks for."""
        del now
        asks = run.request.containers[0].requests[0]
        return [SeatGrant(0, asks.cores_percent, 0)] * asks.count

    def release(self, run: Run) -> None:
        """Nothing was held."""

    def learn(self, now: float) -> None:
        """There is nothing to learn."""


def placement_of(bound: Bound | None, otherwise: Placement) -> Placement:
    """How pods are placed."""
    return NoPlacement() if bound is not None and not bound.placed else otherwise


BOUNDS: Mapping[str, Bound] = {
    "O1": Bound("perfect lending on each card, granted cores first", pool=1, guaranteed=True),
    "O2": Bound("the cards of a node as one, no limits: free moves between them", pool=NODE),
    "O3": Bound("all cards as one, no limits; memory and slots as they are"),
    "O4": Bound("all cards as one, and nobody waits for memory or cards", placed=False),
    "O5": Bound("an endless cluster", placed=False, endless=True),
}
POSSIBLE: Final = "O4"
"""The bound that says what is possible."""
