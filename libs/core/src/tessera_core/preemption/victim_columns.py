"""What pods hold of cards, in columns, so that a search sees at once where evictions could help.

It is brought up to date before each answer: only pods that came, went or changed since the last one
cost anything, where the pods and the ledger have logs of that; else each is compared. Pods of gangs
are not in it: what goes with them depends on others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.fleet.name_table import NameTable
from tessera_core.gangs.catalog import queue_named
from tessera_core.ledger.change_log import ChangePlace
from tessera_core.ledger.entries import LedgerEntry
from tessera_core.ledger.ledger import Ledger
from tessera_core.preemption.card_lines import CardLines, places_of
from tessera_core.preemption.potential_victims import (
    PotentialVictim,
    PreemptionRules,
    protected,
    settled_s,
)
from tessera_core.preemption.victim_table import PRIORITY, VictimTable
from tessera_core.rebalance.movable_pods import checkpoint_s
from tessera_core.slices import Slices
from tessera_schema.cards import Card
from tessera_schema.kube import Pod

_SLICE: Final = 32
"""Pods that are written in one slice: about a millisecond."""
_COMPARED: Final = 4096
"""Pods that are compared in one slice: about a millisecond."""
_LONG_AGO: Final = 1e12
"""Seconds: at this age nothing protects a pod for being young."""
_ROW, _COLUMN, _MEMORY, _CORES, _SLOTS, _EXCLUSIVE, _PART, _POD, _LINE = range(1, 10)
"""Columns of the lines; the last is their number."""
(
    _NODE, _CARDS, _SINCE, _SETTLED, _CHECKPOINTED, _EVERY, _GRACE, _GROUP, _WIDTH,
) = range(1, 10)  # fmt: skip
"""Columns of the pods."""


class _Written(Struct, frozen=True, gc=False):
    """A pod as it was read; what is the same object has not changed."""

    victim: PotentialVictim
    entry: LedgerEntry | None
    lines: tuple[int, ...] = ()
    pod: int | None = None
    """Its row among the pods; None where it may never go."""
    group: str = ""


class SinglePods(Struct, frozen=True):
    """Pods of no gang that may go, in columns."""

    number: Ints
    """By which `VictimColumns` knows them."""
    priority: Floats
    slow: Bools
    """Whether they may take longer to end than the rules like."""
    card_s: Floats
    """Card-seconds that are lost with each."""
    cards: Floats
    """What they hold."""
    since: Floats
    """Unix times at which their nodes took them."""
    row: Ints
    """Of the fleet; -1 for a node without cards."""

    def only(self, pods: Bools) -> SinglePods:
        """Some of them."""
        return SinglePods(*(getattr(self, name)[pods] for name in self.__struct_fields__))


class VictimColumns:
    """Pods that may go, and a line for each of their cards."""

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
        self._lines, self._pods = VictimTable(_LINE), VictimTable(_WIDTH)
        self._victims: dict[int, PotentialVictim] = {}
        """By their row among the pods."""
        self._groups = NameTable()
        self._like: dict[int, Pod] = {}
        """Number of a group -> a pod of it, with no uid."""
        self._named: dict[int, str] = {}
        """Number of a group -> the group that it stands for there."""

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

    def victim(self, number: int) -> PotentialVictim:
        """One of `singles`."""
        return self._victims[number]

    def groups(self, pods: SinglePods) -> tuple[Ints, Mapping[int, Pod]]:
        """The group of each pod, and something like its pods, for each group: they are of the same
        namespace and name the same queue."""
        return self._pods.column(_GROUP)[pods.number].astype(np.int64), self._like

    def singles(self, priority: int, now: float) -> SinglePods:
        """The pods of lower priority that nothing protects."""
        table, age = self._pods, now - self._pods.column(_SINCE)
        found = np.flatnonzero(table.below(priority) & (age >= table.column(_SETTLED)))
        cards = table.column(_CARDS)[found]
        return SinglePods(
            number=found, priority=table.column(PRIORITY)[found],
            slow=table.column(_GRACE)[found] > self._rules.most_grace_s,
            card_s=cards * self._lost_s(found, now), cards=cards, since=table.column(_SINCE)[found],
            row=table.column(_NODE)[found].astype(np.int64),
        )  # fmt: skip

    def below(self, priority: int, now: float) -> CardLines:
        """What they hold."""
        pods = self.singles(priority, now).number
        going = np.zeros(len(self._pods.column(PRIORITY)), np.bool_)
        going[pods] = True
        lost = np.zeros(len(going))
        lost[pods] = self._lost_s(pods, now)
        table, owner = self._lines, self._lines.column(_POD).astype(np.int64)
        lines = np.flatnonzero(table.below(priority) & going[owner])
        owner = owner[lines]

        def of(column: int) -> Floats:
            return table.column(column)[lines]

        return CardLines(
            row=of(_ROW).astype(np.int64), column=of(_COLUMN).astype(np.int64),
            memory=of(_MEMORY), cores=of(_CORES), slots=of(_SLOTS), exclusive=of(_EXCLUSIVE),
            priority=of(PRIORITY), card_s=of(_PART) * lost[owner], owner=owner,
        )  # fmt: skip

    def _lost_s(self, pods: Ints, now: float) -> Floats:
        """The same as `potential_victims.lost_s`, for these rows."""
        table = self._pods
        age = np.maximum(now - table.column(_SINCE)[pods], 0)
        checkpointed, every = table.column(_CHECKPOINTED)[pods], table.column(_EVERY)[pods]
        half = np.where(np.isnan(every), np.inf, every / 2)
        most = np.where(np.isnan(checkpointed), half, np.maximum(now - checkpointed, 0))
        lost: Floats = self._rules.start_s + np.minimum(age, most)
        return lost

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
        written = _Written(victim, entry)
        if victim.ending:
            self._ending[uid] = victim.pod
        elif entry is not None and uid not in self._gangs:
            self._on.setdefault(entry.grant.node, {})[uid] = victim
            if not protected(victim, self._rules, victim.since + _LONG_AGO):
                written = self._put(victim, entry, ledger)
        self._written[uid] = written

    def _put(self, victim: PotentialVictim, entry: LedgerEntry, ledger: Ledger) -> _Written:
        priority, nan = victim.pod.spec.priority or 0, float("nan")
        every, saved = checkpoint_s(victim.pod), victim.checkpointed_at
        cards = sum(use.parts for use in entry.uses.values())
        group = _group(victim.pod)
        number = self._groups.take(group)
        if self._named.get(number) != group:
            meta = victim.pod.metadata
            self._named[number] = group
            self._like[number] = replace(victim.pod, metadata=replace(meta, uid=""))
        pod = self._pods.put((
            priority, ledger.fleet.rows.get(entry.grant.node, -1), cards, victim.since,
            settled_s(victim, self._rules), nan if saved is None else saved,
            nan if every is None else every, victim.grace_s, number,
        ))  # fmt: skip
        self._victims[pod] = victim
        part = cards / max(len(entry.charges), 1)
        lines = tuple(
            self._lines.put((
                priority, row, column, memory, charge.cores_milli, charge.slots,
                charge.exclusive, part, pod,
            ))
            for row, column, memory, charge in places_of(ledger, entry.grant.node, entry.charges)
        )  # fmt: skip
        return _Written(victim, entry, lines, pod, group)

    def _drop(self, uid: str) -> None:
        known = self._written.pop(uid, None)
        if known is None:
            return
        self._lines.drop(known.lines)
        if known.pod is not None:
            self._pods.drop((known.pod,))
            del self._victims[known.pod]
            self._groups.drop(known.group)
        self._ending.pop(uid, None)
        if known.entry is not None:
            self._on.get(known.entry.grant.node, {}).pop(uid, None)


def _group(pod: Pod) -> str:
    """What pods have in common whose queue is found in the same way."""
    return "\0".join((pod.metadata.namespace, *queue_named(pod)))
