"""Units that may go for a gang, the cheapest first, put in order in columns.

Most of them are pods by themselves. A gang that needs whole nodes goes through thousands of these,
and needs a few in the end: those are made into units when they are read, the others never.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, overload

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.ledger.ledger import Ledger
from tessera_core.preemption.card_lines import CardLines, joined, lines_of
from tessera_core.preemption.eviction_costs import CostKey, EvictionCosts
from tessera_core.preemption.victim_columns import SinglePods, VictimColumns
from tessera_core.preemption.victim_units import VictimUnit
from tessera_core.slices import Slices

_SLICE: Final = 256
"""Pods of one slice: about a millisecond."""
_PRIORITIES: Final = 1 << 32
"""How many there are."""


class VictimOrder(Sequence[VictimUnit]):
    """The units in the order of their cost."""

    def __init__(
        self,
        columns: VictimColumns,
        ledger: Ledger,
        pods: SinglePods,
        units: Sequence[VictimUnit],
        order: Ints,
    ) -> None:
        """`order` has the numbers of pods, and behind them those of `units`."""
        self._columns = columns
        self._ledger = ledger
        self._pods = pods
        self._units = units
        self._order = order
        self._place: Ints = np.empty(len(order), np.int64)
        """Number -> its place."""
        self._place[order] = np.arange(len(order))
        rows = ledger.fleet.rows
        at = [
            (number, rows[victim.pod.spec.node_name])
            for number, unit in enumerate(units, len(pods.number))
            for victim in unit.pods
            if victim.pod.spec.node_name in rows
        ]
        self._at: Ints = np.array(at, np.int64).reshape(len(at), 2)
        """Number of a unit of several pods, and a row that one of them is on."""

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, at: int) -> VictimUnit: ...
    @overload
    def __getitem__(self, at: slice) -> list[VictimUnit]: ...
    def __getitem__(self, at: int | slice) -> VictimUnit | list[VictimUnit]:
        if isinstance(at, slice):
            return [self.unit(number) for number in self._order[at].tolist()]
        return self.unit(int(self._order[at]))

    def lines(self, priority: int, now: float, costs: EvictionCosts) -> CardLines:
        """What they hold: the owner of a line is its unit's place in this order, and the lines are
        in that order. Priority and time are those that the pods were read with."""
        of_pods, known = self._columns.below(priority, now), self._pods.number
        number: Ints = np.full(int(max(of_pods.owner.max(initial=0), known.max(initial=0))) + 1, -1)
        number[known] = np.arange(len(known))
        of_pods = replace(of_pods, owner=number[of_pods.owner])
        of_pods = of_pods.only(of_pods.owner >= 0)
        of_units = lines_of(self._units, self._ledger, costs)
        of_units = replace(of_units, owner=of_units.owner + len(self._pods.number))
        lines = joined((of_pods, of_units))
        lines = replace(lines, owner=self._place[lines.owner])
        return lines.only(np.argsort(lines.owner, kind="stable"))

    def first(self, count: int, rows: Bools | None) -> Slices[list[VictimUnit]]:
        """Of the first units those with a pod on one of these rows of the ledger's fleet; None =
        all."""
        there = np.arange(count)
        if rows is not None:
            on = np.zeros(len(self._order), np.bool_)
            on[: len(self._pods.row)] = rows[self._pods.row] & (self._pods.row >= 0)
            on[self._at[rows[self._at[:, 1]], 0]] = True
            there = np.flatnonzero(on[self._order[:count]])
        found: list[VictimUnit] = []
        for at in range(0, len(there), _SLICE):
            if at:
                yield
            found += map(self.unit, self._order[there[at : at + _SLICE]].tolist())
        return found

    def unit(self, number: int) -> VictimUnit:
        """One of the pods or units, by its number."""
        single = len(self._pods.number)
        if number >= single:
            return self._units[number - single]
        victim = self._columns.victim(int(self._pods.number[number]))
        return VictimUnit(pods=(victim,), priority=victim.pod.spec.priority or 0)


class _Keys(Struct, frozen=True):
    """What `EvictionCosts.key` has of each unit, but for its name."""

    coarse: Ints
    """Victims that end slowly, then the priority, then gangs that stop."""
    card_s: Floats
    fine: tuple[Floats, ...]
    """The rest, the most important first."""


def in_order(
    columns: VictimColumns,
    ledger: Ledger,
    pods: SinglePods,
    units: Sequence[VictimUnit],
    costs: EvictionCosts,
) -> Slices[VictimOrder]:
    """The pods and units by `EvictionCosts.key`, where no queue gives back."""
    keys = _keys(pods, [costs.key(unit) for unit in units])
    yield
    order: Ints = np.lexsort((keys.card_s, keys.coarse))
    yield
    tied = list(_runs(order, keys.coarse, keys.card_s))
    if tied:
        at = np.concatenate([np.arange(*run) for run in tied])
        run = np.repeat(np.arange(len(tied)), [last - first for first, last in tied])
        rows = order[at]
        order[at] = rows[np.lexsort((*(key[rows] for key in reversed(keys.fine)), run))]
        yield
    found = VictimOrder(columns, ledger, pods, units, order)
    for first, last in _runs(order, keys.coarse, keys.card_s, *keys.fine) if tied else ():
        names = {int(number): found.unit(int(number)).name for number in order[first:last]}
        order[first:last] = sorted(names, key=names.__getitem__)
        yield
    return VictimOrder(columns, ledger, pods, units, order)


def _keys(pods: SinglePods, units: Sequence[CostKey]) -> _Keys:
    def both(of_pods: Floats | Ints | Bools, of_units: Iterable[float]) -> Floats:
        return np.concatenate([of_pods, np.array([*of_units], np.float64)])

    slow = both(pods.slow, (cost.slow for cost, _ in units))
    priority = both(pods.priority, (cost.priority for cost, _ in units))
    gangs = both(np.zeros(len(pods.slow)), (cost.gangs for cost, _ in units))
    return _Keys(
        coarse=((slow * _PRIORITIES + priority) * 2 + gangs).astype(np.int64),
        card_s=both(pods.card_s, (cost.card_s for cost, _ in units)),
        fine=(
            both(np.ones(len(pods.slow)), (cost.pods for cost, _ in units)),
            both(pods.cards, (cost.cards for cost, _ in units)),
            both(pods.priority, (rank[0] for _, rank in units)),
            both(-pods.since, (rank[1] for _, rank in units)),
        ),
    )  # fmt: skip


def _runs(order: Ints, *keys: Floats | Ints) -> Iterator[tuple[int, int]]:
    """Beginnings and ends of what is equal in all keys and next to each other in the order."""
    same = np.zeros(len(order) + 1, np.int8)
    same[1:-1] = np.all([key[order[1:]] == key[order[:-1]] for key in keys], axis=0)
    edges = np.flatnonzero(np.diff(same))
    yield from zip(edges[::2].tolist(), (edges[1::2] + 1).tolist(), strict=True)
