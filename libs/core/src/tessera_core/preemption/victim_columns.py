"""What pods hold of cards, in columns, so that a search sees at once where evictions could help.

It is brought up to date before each answer: only pods that came, went or changed since the last one
cost anything, where the pods and the ledger have logs of that; else each is compared. Pods of gangs
are not in it: what goes with them depends on others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.fleet.charges import Charge
from tessera_core.ledger.change_log import ChangePlace
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

_SLICE: Final = 32
"""Pods that are written in one slice: about a millisecond."""
_COMPARED: Final = 4096
"""Pods that are compared in one slice: about a millisecond."""
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


class _Written(Struct, frozen=True, gc=False):
    """A pod as it was read; what is the same object has not changed."""

    victim: PotentialVictim
    entry: LedgerEntry | None
    lines: tuple[int, ...] = ()


class VictimColumns:
    """Lines of pods that may go, one for each of their cards."""

    def __init__(self, rules: PreemptionRules) -> None:
        """Of no pods yet."""
        self._rules = rules
        self._ending: dict[str, Pod] = {}
        self._gangs: frozenset[str] = frozenset()
        self._read: tuple[ChangePlace | None, ChangePlace | None] = None, None
        """How far the pods and the ledger were read."""
        self._stale: set[str] = set()
        """Uids of pods that are to be written again."""
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
        self,
        bound: Mapping[str, PotentialVictim],
        ledger: Ledger,
        gangs: Mapping[str, str],
        *,
        bound_at: ChangePlace | None = None,
    ) -> Slices[None]:
        """Take these pods, by uid, instead of those before, without those of gangs (pod's uid ->
        gang). `bound_at` is the place of `bound` in the log of their changes, if there is one. When
        it is given up, the next one does the rest."""
        self._stale |= self._in_gangs(gangs)
        yield
        for node in self._moved(ledger):
            self._stale.update(self._on.get(node, ()))
        yield
        (pods, pages), ledger_at = self._read, ledger.changes
        pods_changed = None if bound_at is None else bound_at.since(pods)
        pages_changed = ledger_at.since(pages)
        if pods_changed is None or pages_changed is None:
            self._stale |= yield from self._compared(bound, ledger)
        else:
            self._stale |= pods_changed | pages_changed
        self._read = bound_at, ledger_at
        count = 0
        while self._stale:
            if not count % _SLICE:
                yield
            count += 1
            self._write(self._stale.pop(), bound, ledger)

    def _compared(self, bound: Mapping[str, PotentialVictim], ledger: Ledger) -> Slices[set[str]]:
        """The pods that are others than before, found without a log."""
        changed: set[str] = set()
        for at, uid in enumerate(self._written.keys() | bound.keys()):
            if not at % _COMPARED:
                yield
            known = self._written.get(uid)
            if known is None or (
                known.victim is not bound.get(uid) or known.entry is not ledger.entry(uid)
            ):
                changed.add(uid)
        return changed

    def _in_gangs(self, gangs: Mapping[str, str]) -> Set[str]:
        """Pods that are in gangs since the last answer, or no longer."""
        changed = self._gangs ^ gangs.keys()
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
        table = self._table
        old = now - table[:, _SINCE] >= self._rules.protect_s
        lines = np.flatnonzero((table[:, _PRIORITY] < priority) & old)
        columns = [table[:, n][lines] for n in range(_WIDTH)]
        age = np.maximum(now - columns[_SINCE], 0)
        since_checkpoint = np.maximum(now - columns[_CHECKPOINTED], 0)
        half = np.where(np.isnan(columns[_EVERY]), np.inf, columns[_EVERY] / 2)
        most = np.where(np.isnan(columns[_CHECKPOINTED]), half, since_checkpoint)
        work = self._rules.start_s + np.minimum(age, most)
        return CardLines(
            row=columns[_ROW].astype(np.int64), column=columns[_COLUMN].astype(np.int64),
            memory=columns[_MEMORY], cores=columns[_CORES], slots=columns[_SLOTS],
            exclusive=columns[_EXCLUSIVE], priority=columns[_PRIORITY],
            card_s=columns[_PART] * work,
        )  # fmt: skip

    def _moved(self, ledger: Ledger) -> set[str]:
        """Nodes whose cards are elsewhere than before."""
        fleet, before = ledger.fleet, self._nodes
        if (fleet.layout, fleet.facts) == (self._layout, self._facts):  # mostly by identity
            return set()
        self._layout, self._facts = fleet.layout, list(fleet.facts)
        self._nodes = {name: (row, fleet.facts[row]) for name, row in fleet.rows.items()}
        nowhere = -1, ()
        return {
            name
            for name in before.keys() | self._nodes.keys()
            if before.get(name, nowhere)[0] != self._nodes.get(name, nowhere)[0]
            or before.get(name, nowhere)[1] is not self._nodes.get(name, nowhere)[1]
        }

    def _write(self, uid: str, bound: Mapping[str, PotentialVictim], ledger: Ledger) -> None:
        """Take the pod as it is now."""
        self._drop(uid)
        victim, entry = bound.get(uid), ledger.entry(uid)
        if victim is None:
            return
        lines: tuple[int, ...] = ()
        if victim.ending:
            self._ending[uid] = victim.pod
        elif entry is not None and uid not in self._gangs:
            self._on.setdefault(entry.grant.node, {})[uid] = victim
            if not protected(victim, self._rules, victim.since + _LONG_AGO):
                lines = tuple(self._put(victim, entry, ledger))
        self._written[uid] = _Written(victim, entry, lines)

    def _put(self, victim: PotentialVictim, entry: LedgerEntry, ledger: Ledger) -> Iterator[int]:
        priority, nan = victim.pod.spec.priority or 0, float("nan")
        part = sum(use.parts for use in entry.uses.values()) / max(len(entry.charges), 1)
        every, saved = checkpoint_s(victim.pod), victim.checkpointed_at
        for row, column, charge in _places(ledger, entry.grant.node, entry.charges):
            line = self._line()
            self._table[line] = (
                row, column, charge.memory_bytes, charge.cores_milli, charge.slots,
                charge.exclusive, priority, part, victim.since,
                nan if saved is None else saved, nan if every is None else every,
            )  # fmt: skip
            yield line

    def _drop(self, uid: str) -> None:
        known = self._written.pop(uid, None)
        if known is None:
            return
        self._table[list(known.lines), _PRIORITY] = np.inf
        self._free += known.lines
        self._ending.pop(uid, None)
        if known.entry is not None:
            self._on.get(known.entry.grant.node, {}).pop(uid, None)

    def _line(self) -> int:
        if not self._free:
            size = len(self._table)
            table: Floats = np.zeros((2 * size, _WIDTH), np.float64, "F")
            table[:size], table[size:, _PRIORITY] = self._table, np.inf
            self._table = table
            self._free = list(range(size, 2 * size))
        return self._free.pop()


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
    parts = [part for part in parts if len(part.row)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
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
