"""What pods hold of cards, in columns, so that a search sees at once where evictions could help.

It is brought up to date before each answer: only pods that came, went or changed since the last one
cost more than a comparison. Pods of gangs are not in it: what goes with them depends on others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.fleet.charges import Charge
from tessera_core.ledger.entries import LedgerEntry
from tessera_core.ledger.ledger import Ledger
from tessera_core.preemption.eviction_costs import EvictionCosts
from tessera_core.preemption.potential_victims import (
    PotentialVictim,
    PreemptionRules,
    protected,
)
from tessera_core.preemption.victim_units import VictimUnit
from tessera_core.rebalance.movable_pods import checkpoint_s
from tessera_core.slices import Slices
from tessera_schema.cards import Card
from tessera_schema.kube import Pod

T = TypeVar("T")
_SLICE: Final = 32
"""Pods that are written in one slice: about a millisecond."""
_COMPARED: Final = 4096
"""Pods that are compared in one slice: less than a millisecond."""
_FIRST: Final = 1024
"""Lines at the beginning."""
_LONG_AGO: Final = 1e12
"""Seconds: at this age nothing protects a pod for being young."""
(
    _ROW, _COLUMN, _MEMORY, _CORES, _SLOTS, _EXCLUSIVE, _PRIORITY, _PART, _SINCE, _CHECKPOINTED,
    _EVERY, _WIDTH,
) = range(12)  # fmt: skip


class CardLines(Struct, frozen=True):
    """What pods that may go hold: a line for each pod and card."""

    row: Ints
    """Of the fleet."""
    column: Ints
    memory: Floats
    """Bytes."""
    cores: Floats
    slots: Floats
    exclusive: Floats
    priority: Floats
    card_s: Floats
    """Card-seconds that are lost with the pod, in equal parts for its cards."""

    def only(self, lines: Bools) -> CardLines:
        """Some of the lines."""
        return CardLines(*(getattr(self, name)[lines] for name in self.__struct_fields__))


class _Written(Struct):
    node: str
    lines: tuple[int, ...]


class VictimColumns:
    """Lines of pods that may go, one for each of their cards."""

    def __init__(self, rules: PreemptionRules) -> None:
        """Of no pods yet."""
        self._rules = rules
        self._victims: dict[str, PotentialVictim] = {}
        self._ending: dict[str, Pod] = {}
        self._gangs: frozenset[str] = frozenset()
        self._seen: dict[int, PotentialVictim] = {}
        """By identity, as the pages are: what is the same object has not changed."""
        self._pages: dict[int, LedgerEntry] = {}
        self._written: dict[str, _Written] = {}
        self._on: dict[str, dict[str, PotentialVictim]] = {}
        self._nodes: dict[str, tuple[int, tuple[Card, ...]]] = {}
        """Row and cards of nodes, by which lines were written."""
        self._layout = -1
        self._facts: list[tuple[Card, ...]] = []
        self._table: Floats = np.zeros((_FIRST, _WIDTH), np.float64, "F")
        self._table[:, _PRIORITY] = np.inf
        self._free = list(range(_FIRST))

    def follow(
        self, bound: Sequence[PotentialVictim], ledger: Ledger, gangs: Mapping[str, str]
    ) -> Slices[None]:
        """Take these pods instead of those before, without those of gangs (pod's uid -> gang)."""
        changed = self._in_gangs(gangs)
        yield
        moved = self._moved(ledger)
        if moved:
            changed.update(uid for uid, line in self._written.items() if line.node in moved)
        yield from self._take_victims((yield from _by_identity(bound)), changed)
        yield from self._take_pages((yield from _by_identity(ledger.entries())), changed)
        for at, uid in enumerate(changed):
            if not at % _SLICE:
                yield
            self._drop(uid)
            if uid in self._victims and uid not in self._gangs:
                self._put(self._victims[uid], ledger)

    def _take_victims(self, seen: dict[int, PotentialVictim], changed: set[str]) -> Slices[None]:
        for each in self._seen.keys() - seen.keys():
            uid = self._seen[each].uid
            changed.add(uid)
            self._victims.pop(uid, None)
            self._ending.pop(uid, None)
        for at, each in enumerate(seen.keys() - self._seen.keys()):
            if not at % _COMPARED:
                yield
            victim = seen[each]
            changed.add(victim.uid)
            self._victims[victim.uid] = victim
            if victim.ending:
                self._ending[victim.uid] = victim.pod
        self._seen = seen

    def _take_pages(self, pages: dict[int, LedgerEntry], changed: set[str]) -> Slices[None]:
        changed.update(self._pages[each].grant.uid for each in self._pages.keys() - pages.keys())
        for at, each in enumerate(pages.keys() - self._pages.keys()):
            if not at % _COMPARED:
                yield
            changed.add(pages[each].grant.uid)
        self._pages = pages

    def _in_gangs(self, gangs: Mapping[str, str]) -> set[str]:
        """Pods that are in gangs since the last answer, or no longer."""
        changed = set(self._gangs ^ gangs.keys())
        if changed:
            self._gangs = frozenset(gangs)
        return changed

    @property
    def ending(self) -> Sequence[Pod]:
        """Pods that are being deleted."""
        return tuple(self._ending.values())

    def on(self, node: str) -> Sequence[PotentialVictim]:
        """The pods that hold cards of the node, but for those of gangs and those ending."""
        return tuple(self._on.get(node, {}).values())

    def below(self, priority: int, now: float) -> CardLines:
        """What pods of lower priority hold that nothing but their age may protect."""
        table = self._table[self._table[:, _PRIORITY] < priority]
        age = np.maximum(now - table[:, _SINCE], 0)
        since_checkpoint = np.maximum(now - table[:, _CHECKPOINTED], 0)
        half = np.where(np.isnan(table[:, _EVERY]), np.inf, table[:, _EVERY] / 2)
        most = np.where(np.isnan(table[:, _CHECKPOINTED]), half, since_checkpoint)
        work = self._rules.start_s + np.minimum(age, most)
        lines = CardLines(
            row=table[:, _ROW].astype(np.int64), column=table[:, _COLUMN].astype(np.int64),
            memory=table[:, _MEMORY], cores=table[:, _CORES], slots=table[:, _SLOTS],
            exclusive=table[:, _EXCLUSIVE], priority=table[:, _PRIORITY],
            card_s=table[:, _PART] * work,
        )  # fmt: skip
        return lines.only(age >= self._rules.protect_s)

    def _moved(self, ledger: Ledger) -> set[str]:
        """Nodes whose cards are elsewhere than before."""
        fleet, before = ledger.fleet, self._nodes
        if (fleet.layout, fleet.facts) == (self._layout, self._facts):  # mostly by identity
            return set()
        self._layout, self._facts = fleet.layout, list(fleet.facts)
        self._nodes = {name: (row, fleet.facts[row]) for name, row in fleet.rows.items()}
        return {
            name
            for name, (row, facts) in before.items()
            if name not in self._nodes
            or self._nodes[name][0] != row
            or self._nodes[name][1] is not facts
        }

    def _put(self, victim: PotentialVictim, ledger: Ledger) -> None:
        entry = ledger.entry(victim.uid)
        if entry is None:
            return
        lines: list[int] = []
        goes = not victim.ending and not protected(victim, self._rules, victim.since + _LONG_AGO)
        if goes:
            node, priority = entry.grant.node, victim.pod.spec.priority or 0
            part = sum(use.parts for use in entry.uses.values()) / max(len(entry.charges), 1)
            every, saved = checkpoint_s(victim.pod), victim.checkpointed_at
            nan = float("nan")
            for row, column, charge in _places(ledger, node, entry.charges):
                lines.append(self._line())
                self._table[lines[-1]] = (
                    row, column, charge.memory_bytes, charge.cores_milli, charge.slots,
                    charge.exclusive, priority, part, victim.since,
                    nan if saved is None else saved, nan if every is None else every,
                )  # fmt: skip
        if not victim.ending:
            self._on.setdefault(entry.grant.node, {})[victim.uid] = victim
        self._written[victim.uid] = _Written(entry.grant.node, tuple(lines))

    def _drop(self, uid: str) -> None:
        known = self._written.pop(uid, None)
        if known is None:
            return
        self._table[list(known.lines), _PRIORITY] = np.inf
        self._free += known.lines
        self._on.get(known.node, {}).pop(uid, None)

    def _line(self) -> int:
        if not self._free:
            size = len(self._table)
            table: Floats = np.zeros((2 * size, _WIDTH), np.float64, "F")
            table[:size], table[size:, _PRIORITY] = self._table, np.inf
            self._table = table
            self._free = list(range(size, 2 * size))
        return self._free.pop()


def _by_identity(items: Iterable[T]) -> Slices[dict[int, T]]:
    found: dict[int, T] = {}
    left = iter(items)
    while part := tuple(islice(left, _COMPARED)):
        yield
        found.update(zip(map(id, part), part, strict=True))
    return found


def lines_of(units: Iterable[VictimUnit], ledger: Ledger, costs: EvictionCosts) -> CardLines:
    """The same of these units, each pod at the priority of its unit."""
    found: list[tuple[float, ...]] = []
    for unit in units:
        for victim in unit.pods:
            entry = ledger.entry(victim.uid)
            if entry is None:
                continue
            lost = costs.of_pod(victim)[0] / max(len(entry.charges), 1)
            found += [
                (row, column, c.memory_bytes, c.cores_milli, c.slots, c.exclusive, unit.priority,
                 lost)
                for row, column, c in _places(ledger, entry.grant.node, entry.charges)
            ]  # fmt: skip
    table = np.array(found, np.float64).reshape(len(found), 8)
    return CardLines(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), *(table[:, 2:].T))


def joined(parts: Sequence[CardLines]) -> CardLines:
    """All lines together."""
    return CardLines(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in CardLines.__struct_fields__
        )
    )


def _places(
    ledger: Ledger, node: str, charges: Mapping[str, Charge]
) -> Iterator[tuple[int, int, Charge]]:
    for card, charge in charges.items():
        place = ledger.fleet.locate(node, card)
        if place is not None:
            yield *place, charge
