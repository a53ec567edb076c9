"""Finds what would help a pod that waits (`tessera_core.explain.advice`): a few array operations
over all cards, and a look at the pods of a few nodes. It is done when somebody asks, not for each
pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from msgspec.structs import replace

from tessera_core.dialect_kit.contract import Dialect, Dimension
from tessera_core.explain.advice import (
    MIB_UNIT,
    Advice,
    Barrier,
    BlockingPod,
    FreePart,
    LargestCard,
    PodMemoryUnit,
)
from tessera_core.fleet.arrays import Bools, Ints
from tessera_core.fleet.charges import Charge
from tessera_core.fleet.columns import CardColumns
from tessera_core.fleet.cores import percent
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.lent_memory import memory_taken
from tessera_core.ledger.entries import LedgerEntry
from tessera_core.placement import predicates
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ids_in
from tessera_core.placement.units import PlacementUnit, units
from tessera_core.quota.allowance import Allowance, minimum_usage
from tessera_schema.kube import Pod
from tessera_schema.reasons import Reason
from tessera_schema.requests import PodRequest

_MEMORY: Final = (Reason.CARD_INSUFFICIENT_MEMORY,)
_CORES: Final = (Reason.CARD_INSUFFICIENT_CORE, Reason.CARD_COMPUTE_UNITS_EXHAUSTED)
_NODES: Final = 4
"""Nodes whose pods are looked at: those with most free, and as many with the fewest sharers."""
_PODS: Final = 4
"""Pods of one card that are waited for at most."""
_SHOWN: Final = 4
"""Models that are named."""
_MOST_NOTES: Final = 3
"""Gangs whose reserved cards are named."""
_ByReason = list[tuple[Reason, Bools]]
_SharesOn = Mapping[int, Sequence[tuple[Charge, LedgerEntry]]]
"""Column -> what pods hold of the card, those that hold most first."""
OnNode = Callable[[str], Iterable[LedgerEntry]]
"""Node -> the pods in the ledger that are on it."""


def memory_unit(dialects: Mapping[str, Dialect], pod: Pod) -> PodMemoryUnit:
    """How the pod writes memory of cards, by the names in its containers."""
    names = {
        name: quota.unit
        for dialect in dialects.values()
        for name, quota in dialect.quota.items()
        if quota.dimension is Dimension.MEMORY
    }
    for container in pod.all_containers:
        for name in (*container.resources.limits, *container.resources.requests):
            if name in names:
                return PodMemoryUnit(name, max(int(names[name]), 1))
    return MIB_UNIT


def advise(
    fleet: Fleet,
    on: OnNode,
    request: PodRequest,
    allowance: Allowance,
    *,
    rows: Bools | None = None,
    unit: PodMemoryUnit = MIB_UNIT,
) -> Advice:
    """What would help a pod that waits. `on` names the pods of a node (`Ledger.on`), `rows` are the
    fleet's rows that may be used otherwise (None = all), `unit` is how the pod writes memory
    (`memory_unit`)."""
    over = allowance.exceeded(minimum_usage(request))
    if over:
        return Advice(barrier=Barrier.QUOTA, said=over)
    usable = ~fleet.blocked if rows is None else rows & ~fleet.blocked
    wanted = units(request)
    if fleet.reserved and not Placer(fleet).screen(wanted, allowance, usable).any():
        reserved, fleet = fleet.reserved, fleet.opened()
        rows = Placer(fleet).screen(wanted, allowance, usable)
        if rows.any():
            nodes = {fleet.names[row] for row in rows.nonzero()[0]}
            notes = [each.note for each in reserved if not nodes.isdisjoint(each.cards)]
            return Advice(barrier=Barrier.RESERVED, said="; ".join(notes[:_MOST_NOTES]))
    for one in wanted:
        advice = _Search(fleet, one, usable).advice(on, request.uid, unit)
        if advice.barrier is not Barrier.NONE:
            return advice
    return Advice(barrier=Barrier.TOGETHER if len(wanted) > 1 else Barrier.NONE)


def permanent_barrier(
    fleet: Fleet, request: PodRequest, *, unit: PodMemoryUnit = MIB_UNIT
) -> Advice | None:
    """What keeps a pod from every card even if nobody used one, whatever is reserved and quotas
    allow; None where an end of others may help. Use changes nothing about it."""
    fleet = fleet.opened() if fleet.reserved else fleet
    found = (_Search(fleet, one, ~fleet.blocked).permanent(unit) for one in units(request))
    return next(filter(None, found), None)


class _Search:
    """One unit compared with all cards: those that do now, and those that would if nobody used
    them."""

    def __init__(self, fleet: Fleet, unit: PlacementUnit, usable: Bools) -> None:
        self._fleet, self._unit, self._request = fleet, unit, unit.lead
        self._count = unit.lead.count
        self._ids = ids_in(fleet, unit.lead)
        self._need = unit.need(fleet.cards, fleet.models)
        self._mine = fleet.of_vendor(unit.lead.vendor) & usable[:, None]
        self._idle = self._by_reason(fleet.cards.idle())
        self._could = predicates.passed(self._idle, self._mine)

    @cached_property
    def _now(self) -> _ByReason:
        return self._by_reason(self._fleet.cards)

    def _by_reason(self, cards: CardColumns) -> _ByReason:
        fleet = self._fleet
        return predicates.predicates(
            self._request, self._need, cards, models=fleet.models, modes=fleet.modes, ids=self._ids
        )

    def _but(self, by_reason: _ByReason, *reasons: Reason) -> Bools:
        """The cards that fail no other test than these."""
        return predicates.passed(
            [entry for entry in by_reason if entry[0] not in reasons], self._mine
        )

    def _enough(self, cards: Bools) -> Bools:
        """The rows with as many of these cards as are asked."""
        rows: Bools = cards.sum(1) >= self._count
        return rows

    def advice(self, on: OnNode, uid: str, unit: PodMemoryUnit) -> Advice:
        """Barrier.NONE where some node has room for the unit."""
        about = self._described(unit)
        if self._enough(predicates.passed(self._now, self._mine)).any():
            return about
        permanent = self.permanent(unit)
        if permanent is not None:
            return permanent
        held = replace(
            about, barrier=Barrier.HELD, holders=self._in_the_way(on, uid),
            largest_card=self._largest(self._could, by_cores=False),
        )  # fmt: skip
        return self._with_free(held)

    def permanent(self, unit: PodMemoryUnit) -> Advice | None:
        """What nobody's end mends; None where somebody's may."""
        about = self._described(unit)
        if not self._mine.any():
            return replace(about, barrier=Barrier.NO_CARDS)
        if not self._could.any():
            return self._never(about)
        if not self._enough(self._could).any():
            most = int(self._could.sum(1).max())
            return replace(about, barrier=Barrier.TOO_MANY, most_cards=most)
        return None

    def _described(self, unit: PodMemoryUnit) -> Advice:
        request, need = self._request, self._need
        among = self._could if self._could.any() else self._mine
        alone = np.logical_or(need.alone, request.policy.idle_cards_only)
        memory = np.broadcast_to(need.memory, among.shape)[among]
        return Advice(
            barrier=Barrier.NONE,
            container=", ".join(part.container.container for part in self._unit.parts),
            vendor=request.vendor, count=self._count,
            memory_bytes=int(memory.max(initial=0)),
            memory_percent=0 if request.memory_bytes else request.memory_percent,
            cores_percent=percent(int(np.max(need.cores, initial=0))),
            whole=bool(np.broadcast_to(alone, among.shape)[among].any()), unit=unit,
        )  # fmt: skip

    # -- what nobody's end mends

    def _never(self, about: Advice) -> Advice:
        """Why no card would do, even if nobody used it."""
        for by_cores, reasons in ((False, _MEMORY), (True, _CORES)):
            among = self._but(self._idle, *reasons)
            if among.any():
                return replace(
                    about, barrier=Barrier.TOO_LARGE, by_memory=not by_cores, by_cores=by_cores,
                    largest_card=self._largest(among, by_cores=by_cores),
                )  # fmt: skip
        codes = predicates.first_reasons(self._idle, self._mine.shape)[self._mine]
        reason = Reason(int(np.bincount(codes).argmax()))
        numbers = np.unique(self._fleet.cards.model[self._mine]).tolist()[:_SHOWN]
        models = [self._fleet.models.of[number] or "of unknown model" for number in numbers]
        said = f"{reason.wire}; there are {', '.join(models)}"
        return replace(about, barrier=Barrier.NOT_ALLOWED, said=said)

    def _largest(self, among: Bools, *, by_cores: bool) -> LargestCard:
        c = self._fleet.cards
        column = np.where(among, c.cores_total if by_cores else c.memory_total, -1)
        at = np.unravel_index(int(column.argmax()), column.shape)
        return LargestCard(
            model=self._fleet.models.of[int(c.model[at])], memory_bytes=int(c.memory_total[at]),
            cores_percent=percent(int(c.cores_total[at])),
        )  # fmt: skip

    # -- what pods hold

    def _with_free(self, held: Advice) -> Advice:
        """With the largest part that is free, and of what there is too little."""
        c = self._fleet.cards
        memory, cores = self._free_memory(), c.cores_total - c.cores_used
        for reasons, free in ((_MEMORY, memory), (_CORES, cores), (_MEMORY + _CORES, memory)):
            among = self._but(self._now, *reasons) & self._could
            if self._enough(among).any():
                return replace(
                    held, largest_free=self._best(among, free),
                    by_memory=reasons is not _CORES, by_cores=reasons is not _MEMORY,
                )  # fmt: skip
        return held

    def _free_memory(self) -> Ints:
        cards = self._fleet.cards
        return cards.memory_total - memory_taken(cards, best_effort=self._need.best_effort)

    def _best(self, among: Bools, free: Ints) -> FreePart | None:
        """Of the row whose `count` freest cards have most, the least of those cards."""
        part = np.where(among, np.maximum(free, 0), 0)
        last = part.shape[1] - self._count
        each = np.partition(part, last, axis=1)[:, last]
        row = int(each.argmax())
        if each[row] <= 0:
            return None
        columns = (-part[row]).argsort(kind="stable")[: self._count]
        c, card = self._fleet.cards, self._fleet.facts[row][int(columns[-1])]
        memory = self._free_memory()[row, columns].min()
        cores = (c.cores_total - c.cores_used)[row, columns].min()
        return FreePart(
            node=self._fleet.names[row], card=card.id, index=card.index, model=card.model,
            memory_bytes=max(int(memory), 0), cores_percent=percent(max(int(cores), 0)),
        )  # fmt: skip

    def _in_the_way(self, on: OnNode, uid: str) -> tuple[BlockingPod, ...]:
        """The fewest pods of one of a few nodes that leave room by ending."""
        best: tuple[BlockingPod, ...] = ()
        for row in self._nearest():
            held = self._shares_on(
                row, [e for e in on(self._fleet.names[row]) if e.grant.uid != uid]
            )
            found = self._holders(row, held)
            if found and (not best or len(found) < len(best)):
                best = found
        return best

    def _nearest(self) -> list[int]:
        """The rows with most memory free on cards that could do, and those with the fewest sharers
        of them."""
        c, enough = self._fleet.cards, self._enough(self._could)
        free = np.where(self._could, np.maximum(self._free_memory(), 0), 0).max(1)
        sharers = np.where(self._could, c.sharers, 0).sum(1)
        rows = np.flatnonzero(enough)
        most = rows[(-free[rows]).argsort(kind="stable")[:_NODES]]
        fewest = rows[sharers[rows].argsort(kind="stable")[:_NODES]]
        return list(dict.fromkeys([*most.tolist(), *fewest.tolist()]))

    def _shares_on(self, row: int, entries: Iterable[LedgerEntry]) -> _SharesOn:
        node, could = self._fleet.names[row], self._could[row]
        held: dict[int, list[tuple[Charge, LedgerEntry]]] = {}
        for entry in entries:
            for card, charge in entry.charges.items():
                place = self._fleet.locate(node, card)
                if place is not None and could[place[1]]:
                    held.setdefault(place[1], []).append((charge, entry))
        for each in held.values():
            each.sort(key=lambda h: (-h[0].exclusive, -h[0].memory_bytes, -h[0].cores_milli))
        return held

    def _holders(self, row: int, held: _SharesOn) -> tuple[BlockingPod, ...]:
        freed = self._freed(row, held)
        if len(freed) < self._count:
            return ()
        sums: dict[tuple[str, str], Charge] = {}
        for column in sorted(freed, key=lambda column: (freed[column], column))[: self._count]:
            for charge, entry in held.get(column, ())[: freed[column]]:
                key = entry.grant.namespace, entry.grant.name
                sums[key] = sums.get(key, Charge()).plus(charge)
        return tuple(
            BlockingPod(
                namespace=namespace, name=name,
                memory_bytes=charge.memory_bytes + charge.lent_bytes,
                cores_percent=charge.cores_percent,
            )
            for (namespace, name), charge in sums.items()
        )  # fmt: skip

    def _freed(self, row: int, held: _SharesOn) -> dict[int, int]:
        """Column -> how many of its pods have to end until the card would do, where few do."""
        fleet, state = self._fleet, self._fleet.cards.at(row)
        need = self._unit.need(state, fleet.models)
        ids = None if self._ids is None else self._ids[row]
        freed: dict[int, int] = {}
        for gone in range(_PODS + 1):
            by_reason = predicates.predicates(
                self._request, need, state, models=fleet.models, modes=fleet.modes, ids=ids
            )
            for column in np.flatnonzero(predicates.passed(by_reason, self._could[row])).tolist():
                freed.setdefault(column, gone)
            for column, each in held.items():
                if gone < len(each):
                    charge = each[gone][0]
                    state.memory_used[column] -= fleet.memory_cost((row, column), charge)
                    if not charge.best_effort:  # what it leaves, all of it at most, goes with it
                        unused = int(state.unused[column])
                        state.unused[column] -= min(unused, charge.memory_bytes)
                    state.cores_used[column] -= charge.cores_milli
                    state.sharers[column] -= charge.slots
                    state.lent_memory[column] -= charge.lent_bytes
                    state.lent_slots[column] -= charge.lent_slots
                    state.exclusive[column] -= charge.exclusive
        return freed
