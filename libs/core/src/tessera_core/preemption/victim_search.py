"""The cheapest of some units whose eviction makes room.

1. Of the units in the order of their cost as few as suffice go, from the cheapest on.
2. Those are taken back, the dearest first, without which there is still room, as kube-scheduler
   does; before all others those of nodes that nobody uses, and those that may not go together.
3. The same of all units that cost no more, those of the dearest cards first.
4. Sets are tried in the order of their cost, until one of them suffices or costs as much.

Step 4 is exact, and bounded. More than `MOST_UNITS` units end it after step 2. A slice is a trial
or less.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence, Set
from heapq import heappop, heappush, merge
from itertools import islice
from typing import Final

from msgspec import Struct

from tessera_core.gangs.reservation import Seats
from tessera_core.preemption.eviction_costs import CostKey, EvictionCost, EvictionCosts
from tessera_core.preemption.victim_units import VictimUnit
from tessera_core.slices import Slices

Trial = Callable[[Sequence[VictimUnit]], Slices[Seats | None]]
"""Where everybody would go without these units; None where there is no room even so."""
Forbidden = Callable[[Sequence[VictimUnit]], str]
"""Why these units may not all go; empty when they may. What is forbidden stays so with more."""
Together = Callable[[Sequence[VictimUnit]], Slices[list[VictimUnit]]]
"""Of units in an order all that may go with those before them."""
MOST_UNITS: Final = 32
"""Units that are tried in more than one way."""
_SLICE: Final = 256
"""Units of one slice: some milliseconds."""
_MOST_SETS: Final = 20_000
"""Sets of one search that are put in order."""


class VictimSet(Struct, frozen=True):
    """Units whose eviction makes room, and the places that they make."""

    units: tuple[VictimUnit, ...]
    seats: Seats
    cost: EvictionCost


class VictimSearch:
    """Looks for the cheapest set, in one or several groups of units."""

    def __init__(
        self,
        costs: EvictionCosts,
        forbidden: Forbidden,
        most_trials: int,
        *,
        together: Together | None = None,
    ) -> None:
        """`most_trials` are those of all searches together. With `together` most units may not go
        with all others."""
        self.left = most_trials
        self.exhausted = False
        """True after a search that ended early: a cheaper set may exist."""
        self._costs = costs
        self.forbidden = forbidden
        self._together = together
        self._keys: dict[str, CostKey] = {}
        """The cost of each unit by itself, and its rank, by name."""
        self._ordered: tuple[Sequence[VictimUnit], list[VictimUnit]] = (), []
        """The last units that were put in order, and their order."""

    def quick(
        self, units: Sequence[VictimUnit], trial: Trial, best: VictimSet | None
    ) -> Slices[VictimSet | None]:
        """A cheap set of these units, by steps 1 to 3, or `best` if that costs no more."""
        order = yield from self._in_order(units)
        if self._together is not None:
            order = yield from self._together(order)
        first = (yield from self._greedy(order, trial)) if order else None
        if first is None:
            return best
        return (yield from self.improved(order, first, trial, best))

    def improved(
        self, order: Sequence[VictimUnit], first: VictimSet, trial: Trial, best: VictimSet | None
    ) -> Slices[VictimSet | None]:
        """Step 3, of units in the order of their cost; `first` is what step 2 left."""
        best = self._cheaper(first, best)
        count = bisect_right(order, first.cost, key=self.cost_of)
        if count > MOST_UNITS:
            return best
        totals = self._costs.on_cards(order[:count])
        by_card = sorted(order[:count], key=lambda unit: (totals[unit.name], unit.name))
        return self._cheaper((yield from self.reprieved(by_card, trial)), best)

    def exact(
        self, units: Sequence[VictimUnit], trial: Trial, best: VictimSet | None, most_trials: int
    ) -> Slices[VictimSet | None]:
        """The cheapest set of these units, by step 4, or `best` if that costs no more."""
        order = yield from self._in_order(units)
        return (yield from self.exact_in(order, trial, best, most_trials))

    def exact_in(
        self, order: Sequence[VictimUnit], trial: Trial, best: VictimSet | None, most_trials: int
    ) -> Slices[VictimSet | None]:
        """The same of units in the order of their cost."""
        count = len(order)
        if best is not None:
            count = bisect_left(order, best.cost, key=self.cost_of)
        if count > MOST_UNITS and (best is not None or self._together is not None):
            self.exhausted = True
            return best
        return (yield from self._exact(order[:count], trial, best, most_trials))

    def _in_order(self, units: Sequence[VictimUnit]) -> Slices[list[VictimUnit]]:
        """The units by their cost: parts of them are sorted in a slice each, and merged."""
        if self._ordered[0] is units:
            return self._ordered[1]
        parts: list[list[VictimUnit]] = []
        for at in range(0, len(units), _SLICE):
            if parts:
                yield
            parts.append(sorted(units[at : at + _SLICE], key=self._key))
        order: list[VictimUnit] = []
        merged = merge(*parts, key=self._key)
        while part := list(islice(merged, _SLICE)):
            if order:
                yield
            order += part
        self._ordered = units, order
        return order

    def _key(self, unit: VictimUnit) -> CostKey:
        name = unit.name
        if name not in self._keys:
            self._keys[name] = self._costs.key(unit)
        return self._keys[name]

    def cost_of(self, unit: VictimUnit) -> EvictionCost:
        """Of the unit by itself."""
        return self._key(unit)[0]

    def _cheaper(self, found: VictimSet, best: VictimSet | None) -> VictimSet | None:
        if self.forbidden(found.units) or (best is not None and best.cost <= found.cost):
            return best
        return found

    # -- the first set

    def _greedy(self, order: Sequence[VictimUnit], trial: Trial) -> Slices[VictimSet | None]:
        """A set that suffices and of which no unit can be left out; None where all are too few."""
        few, enough = 1, 1
        while (yield from self.tried(trial, order[:enough])) is None:
            if enough >= len(order):
                return None
            few, enough = enough + 1, min(2 * enough, len(order))
        while few < enough:
            middle = (few + enough) // 2
            if (yield from self.tried(trial, order[:middle])) is None:
                few = middle + 1
            else:
                enough = middle
        gone = yield from self.reprieved(order[:enough], trial)
        if self.forbidden(gone.units) and enough < len(order):
            gone = yield from self.reprieved(order, trial)
        return gone

    def reprieved(self, units: Sequence[VictimUnit], trial: Trial) -> Slices[VictimSet]:
        """What is left of units that suffice if those are taken back that are not needed, the last
        one first."""
        gone, seats = list(units), (yield from self.tried(trial, units)) or {}
        used = {seat.node for seat in seats.values()}
        near: list[VictimUnit] = []
        for at in range(0, len(gone), _SLICE):
            if at:
                yield
            near += (
                unit
                for unit in gone[at : at + _SLICE]
                if any(victim.pod.spec.node_name in used for victim in unit.pods)
            )
        if len(near) < len(gone):
            found = yield from self.tried(trial, near)
            if found is not None:
                gone, seats = near, found
        guarded = self._too_many(gone)
        last_first = [*reversed(gone)]
        last_first.sort(key=lambda unit: unit.name not in guarded)
        for unit in last_first:
            fewer = [each for each in gone if each is not unit]
            found = yield from self.tried(trial, fewer)
            if found is not None:
                gone, seats = fewer, found
        return VictimSet(tuple(gone), seats, self._costs.of(gone))

    def _too_many(self, units: Sequence[VictimUnit]) -> Set[str]:
        """Names of the units that may not go together with those before them."""
        going: list[VictimUnit] = []
        guarded: set[str] = set()
        if not self.forbidden(units):
            return guarded
        for unit in units:
            if self.forbidden((*going, unit)):
                guarded.add(unit.name)
            else:
                going.append(unit)
        return guarded

    # -- all sets

    def _exact(
        self,
        order: Sequence[VictimUnit],
        trial: Trial,
        best: VictimSet | None,
        most_trials: int,
    ) -> Slices[VictimSet | None]:
        heap: list[tuple[EvictionCost, int, tuple[int, ...]]] = []
        self._push(heap, order, (), best)
        floor = max(self.left - most_trials, 0)
        while heap:
            cost, _, at = heappop(heap)
            if best is not None and cost >= best.cost:
                return best
            if self.left <= floor:
                self.exhausted = True
                return best
            units = [order[n] for n in at]
            seats = yield from self.tried(trial, units)
            if seats is not None:
                return VictimSet(tuple(units), seats, cost)
            if len(heap) < _MOST_SETS:
                self._push(heap, order, at, best)
            else:
                self.exhausted = True
        return best

    def _push(
        self,
        heap: list[tuple[EvictionCost, int, tuple[int, ...]]],
        order: Sequence[VictimUnit],
        at: tuple[int, ...],
        best: VictimSet | None,
    ) -> None:
        """The sets with one unit more, later in the order, that may go and cost less."""
        for n in range(at[-1] + 1 if at else 0, len(order)):
            more = (*at, n)
            units = [order[each] for each in more]
            cost = self._costs.of(units)
            if (best is None or cost < best.cost) and not self.forbidden(units):
                heappush(heap, (cost, len(more), more))

    def tried(self, trial: Trial, units: Sequence[VictimUnit]) -> Slices[Seats | None]:
        """A trial beyond the bound fails, so nothing is left out because of it."""
        yield
        if self.left <= 0:
            self.exhausted = True
            return None
        self.left -= 1
        return (yield from trial(units))
