"""Who would have to go for a gang: the search of `victim_search`, without units that do not matter.

It finds what that search finds among all units on all nodes. How many of the cheapest have to go at
least is seen in columns (`gang_bounds`). Trials are made on a copy of those nodes alone that take
any member once so many have gone, with the victims on them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tessera_core.fleet.arrays import Bools
from tessera_core.preemption.eviction_trials import EvictionTrials
from tessera_core.preemption.gang_bounds import GangBounds
from tessera_core.preemption.victim_columns import SinglePods, VictimColumns
from tessera_core.preemption.victim_order import VictimOrder
from tessera_core.preemption.victim_search import MOST_UNITS, Trial, VictimSearch, VictimSet
from tessera_core.rebalance.disruption_budgets import Disruption, forbidden
from tessera_core.slices import Slices
from tessera_schema.kube import Pod

_SLICE: Final = 256
"""Pods of one slice: about a millisecond."""


class GangVictims:
    """The cheapest units for one gang."""

    def __init__(
        self, order: VictimOrder, bounds: GangBounds, trials: EvictionTrials, search: VictimSearch
    ) -> None:
        """All of the units that may go for it; where nothing has gone in `trials` yet."""
        self._order = order
        self._bounds = bounds
        self._trials = trials
        self._search = search

    def cheapest(self, most_trials: int) -> Slices[VictimSet | None]:
        """What `VictimSearch.quick` and `exact` find one after the other."""
        order, search = self._order, self._search
        least = (yield from self._bounds.least(len(order))) if len(order) else None
        if least is None:
            return None
        found, gone = yield from self._first(least)
        if found is not None and not search.forbidden(found.units):
            count = bisect_right(order, found.cost, key=search.cost_of)
            trial = self._on(max(gone, count if count <= MOST_UNITS else 0))[1]
            best = yield from search.improved(order, found, trial, None)
            return (yield from search.exact_in(order, trial, best, most_trials))
        units = yield from order.first(len(order), None)
        best = yield from search.quick(units, self._trials.anywhere, None)
        return (yield from search.exact(units, self._trials.anywhere, best, most_trials))

    def _first(self, least: int) -> Slices[tuple[VictimSet | None, int]]:
        """A set that suffices and of which no unit can be left out, and how many of the cheapest
        units it is made of; `least` of them have to go at least."""
        few = enough = least
        while True:
            rows, trial = self._on(enough)
            units = yield from self._order.first(enough, rows)
            if (yield from self._search.tried(trial, units)) is not None:
                break
            if enough == len(self._order):
                return None, enough
            few, enough = enough + 1, min(2 * enough - least + 1, len(self._order))
        while few < enough:
            middle = (few + enough) // 2
            units = yield from self._order.first(middle, rows)
            if (yield from self._search.tried(trial, units)) is None:
                few = middle + 1
            else:
                enough = middle
        units = yield from self._order.first(enough, rows)
        return (yield from self._search.reprieved(units, trial)), enough

    def _on(self, gone: int) -> tuple[Bools | None, Trial]:
        """The rows whose units matter once so many have gone, None for all; and trials there."""
        rows = self._bounds.rows(gone)[0]
        within = self._trials.within(np.flatnonzero(rows))
        return None if self._trials.limited else rows, within.anywhere


def who_may_go(
    pods: SinglePods,
    columns: VictimColumns,
    takes_from: Callable[[Pod], bool],
    budgets: Sequence[Disruption],
) -> Slices[SinglePods]:
    """The pods of which one says by something like them that the gang takes from their queue, and
    that no disruption budget guards by themselves."""
    groups, like = columns.groups(pods)
    may = np.zeros(int(groups.max(initial=0)) + 1, np.bool_)
    budgeted = np.zeros_like(may)
    named = {budget.namespace for budget in budgets}
    for group in np.unique(groups).tolist():
        may[group] = takes_from(like[group])
        budgeted[group] = (like[group].metadata.namespace or "default") in named
    yield
    free = may[groups]
    for at, n in enumerate(np.flatnonzero(free & budgeted[groups]).tolist(), 1):
        pod = columns.victim(int(pods.number[n])).pod
        free[n] = not forbidden(budgets, (pod,))
        if not at % _SLICE:
            yield
    return pods.only(free)
