"""What queues lend each other, and which of them may take it back.

Only the dimensions of cards that a taker requests entitle it, and condemn a lender: a queue that
uses too much CPU loses nothing because cards are short. A taker that stays within what its queue
deserves takes from every queue that uses more than it deserves; one that borrows itself takes only
from queues that end no less beyond what they deserve than its own (Kueue's fair sharing). Among
queues of a tree this is decided on the branches below the parent that they have in common, and on
each level of the lender's branch. The rules of Volcano's `reclaim`, of KAI and of Kueue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from tessera_core.gangs.fair_shares import QueueShare, share_of
from tessera_core.gangs.queue_tree import MOST_LEVELS
from tessera_core.gangs.queue_turns import counted_totals
from tessera_core.gangs.queue_usage import ClusterQueues, QueueOfKind, sum_of
from tessera_core.gangs.queues import (
    KOORDINATOR_QUOTA,
    QueueAmounts,
    QueueDimension,
    QueueOrigin,
    QueueSpec,
)

GRACE_S: Final[Mapping[QueueOrigin, float]] = {KOORDINATOR_QUOTA: 120.0}
"""Seconds that somebody waits before queues of a kind give back: Koordinator's `delayEvictTime`;
others give back at once."""
_MORE: Final = 1 + 1e-9
"""Sums of parts in another order may differ by so much."""


class Taken(Struct, frozen=True):
    """What a queue gives back, with those below it."""

    total: QueueAmounts
    largest: QueueAmounts
    """By dimension, the most that one unit has."""

    def plus(self, unit: QueueAmounts) -> Taken:
        """With one more unit."""
        total, largest = dict(self.total), dict(self.largest)
        for dim, amount in unit.items():
            total[dim] = total.get(dim, 0) + amount
            largest[dim] = max(largest.get(dim, 0), amount)
        return Taken(total, largest)


_NOTHING: Final = Taken({}, {})


class QueueLending(Struct, frozen=True, kw_only=True):
    """What all queues of a cluster use, and what they deserve."""

    queues: ClusterQueues
    deserved: Mapping[QueueOfKind, QueueAmounts] = {}
    """Of queues that do not say it themselves: their parts by weight."""
    totals: QueueAmounts
    """All that the cluster has."""


class QueueReclaim:
    """What may be taken back for one pod or gang of a queue."""

    def __init__(
        self,
        lending: QueueLending,
        taker: QueueOfKind,
        requested: QueueAmounts,
        *,
        leaving: Mapping[str, QueueAmounts],
        borrows: bool,
    ) -> None:
        """`leaving` is what pods have, by queue, that are being deleted. Without `borrows` the
        taker has to stay within what its queue deserves."""
        origin, name = taker
        self._lending = lending
        self._origin = origin
        self._requested = requested
        self._leaving = leaving
        self._borrows = borrows
        self._tree = lending.queues.tree(origin)
        takes = not self._tree.problem(name)
        self._path = [queue.name for queue in self._tree.path(name)] if takes else []
        totals = counted_totals(self._tree.queues.values(), lending.totals)
        self._totals = {
            dim: total for dim, total in totals.items() if dim.vendor and requested.get(dim, 0) > 0
        }
        self._used: dict[str, QueueAmounts] = {}
        self._deserved: dict[str, QueueAmounts] = {}
        self._why: dict[str, str] = {}
        self._branches: dict[str, list[str]] = {}
        self._within: dict[str, bool] = {}
        self._most = max((self._share(q, {}).beyond for q in self._tree.queues), default=0.0)

    def why_not(self, lender: str) -> str:
        """Why the queue gives nothing back to the taker, as what follows a number of pods: "3 of a
        queue ..."; empty when it may have to."""
        if lender not in self._why:
            self._why[lender] = self._why_not(lender)
        return self._why[lender]

    def _why_not(self, lender: str) -> str:
        branch = self._branch(lender)
        if not self._path or not branch or not self._totals:
            return "of another queue"
        if not all(self._tree.queues[name].reclaimable for name in branch):
            return "of a queue that gives nothing back (reclaimable: false)"
        if not all(self._is_beyond(name, {}) for name in branch):
            return "of a queue that uses no more than it deserves"
        return "" if self._is_within(lender) else self._why_not_borrow(lender)

    def _why_not_borrow(self, lender: str) -> str:
        if not self._borrows:
            return "of another queue, whose cards would be more than its own deserves"
        if self._is_ahead(lender, {}):
            return "of a queue that would be less beyond what it deserves than its own"
        return ""

    def take(self, taken: dict[str, Taken], lender: str, unit: QueueAmounts) -> str:
        """Add a unit of a lender to what is taken, by queue; why it may not go with that, in which
        case nothing is added. The last unit of a queue may bring it below what it deserves, because
        it cannot be divided; none brings it below what it is guaranteed."""
        branch = self._branch(lender)
        for name in branch:
            why = self._too_much(name, taken.get(name, _NOTHING), unit)
            if why:
                return why
        more = {name: taken.get(name, _NOTHING).plus(unit) for name in branch}
        if not self._is_within(lender) and self._is_ahead(lender, more[branch[-1]].total):
            return f"its queue would be further beyond what it deserves than {lender}"
        taken.update(more)
        return ""

    def _too_much(self, name: str, taken: Taken, unit: QueueAmounts) -> str:
        """Why the queue does not give the unit as well."""
        queue, used = self._tree.queues[name], self._uses(name)
        for dim, least in queue.guarantee.items():
            amount = unit.get(dim, 0)
            if amount > 0 and used.get(dim, 0) - taken.total.get(dim, 0) - amount < least:
                return f"{queue.where} would have less than it is guaranteed"
        before_last = {
            dim: taken.total.get(dim, 0) + amount - max(taken.largest.get(dim, 0), amount)
            for dim in self._totals
            for amount in (unit.get(dim, 0),)
        }
        if not self._is_beyond(name, before_last):
            return f"{queue.where} would give back more than it borrows"
        return ""

    def levelled(self, units: Iterable[tuple[str, QueueAmounts]]) -> float:
        """How far below the largest share of the tree a lender comes that gives these: the less,
        the more is taken from those that are furthest beyond what they deserve."""
        taken: dict[str, Taken] = {}
        for lender, unit in units:
            top = self._branch(lender)[-1]
            taken[top] = taken.get(top, _NOTHING).plus(unit)
        shares = (self._share(top, each.total).beyond for top, each in taken.items())
        return round(self._most - min(shares, default=self._most), 9)

    # -- branches

    def _branch(self, lender: str) -> list[str]:
        """The queue and those above it that are not above the taker as well."""
        if lender not in self._branches:
            path = [queue.name for queue in self._tree.path(lender)]
            self._branches[lender] = [name for name in path if name not in self._path]
        return self._branches[lender]

    def _own_branch(self, lender: str) -> list[str]:
        of_lender = {queue.name for queue in self._tree.path(lender)}
        return [name for name in self._path if name not in of_lender]

    # -- what queues have

    def _uses(self, name: str) -> QueueAmounts:
        """What the queue and those below it use, without what leaves anyway."""
        if name not in self._used:
            used = dict(self._lending.queues.used(self._origin, name, below=True))
            for each in self._tree.below(name):
                for dim, amount in self._leaving.get(each, {}).items():
                    used[dim] = used.get(dim, 0) - amount
            self._used[name] = used
        return self._used[name]

    def _deserves(self, name: str) -> QueueAmounts:
        if name not in self._deserved:
            self._deserved[name] = self._worked_out(self._tree.queues[name], MOST_LEVELS)
        return self._deserved[name]

    def _worked_out(self, queue: QueueSpec, levels: int) -> dict[QueueDimension, float]:
        """What the queue deserves; one that does not say it, what those below it do together."""
        own = self._lending.deserved.get((self._origin, queue.name), queue.deserved)
        children = [each for each in self._tree.queues.values() if each.parent == queue.name]
        below = sum_of(self._worked_out(each, levels - 1) for each in children) if levels else {}
        return {dim: own.get(dim, below.get(dim, 0)) for dim in self._totals}

    def _is_beyond(self, name: str, less: QueueAmounts) -> bool:
        """Whether the queue uses more than it deserves, with so much less, of what is requested."""
        used, deserved = self._uses(name), self._deserves(name)
        return any(
            used.get(dim, 0) - less.get(dim, 0) > deserved[dim] * _MORE for dim in self._totals
        )

    def _is_within(self, lender: str) -> bool:
        """Whether the taker stays within what it deserves, on each level of its own branch."""
        if lender not in self._within:
            self._within[lender] = all(
                self._uses(name).get(dim, 0) + self._requested[dim] <= deserved[dim] * _MORE
                for name in self._own_branch(lender)
                for deserved in (self._deserves(name),)
                for dim in self._totals
            )
        return self._within[lender]

    def _is_ahead(self, lender: str, less: QueueAmounts) -> bool:
        """Whether the taker would be further beyond what it deserves than the lender is, or those
        above it, with so much less."""
        top, own = self._branch(lender)[-1], self._own_branch(lender)[-1]
        added = {dim: -amount for dim, amount in self._requested.items()}
        return self._share(own, added).beyond > self._share(top, less).beyond * _MORE

    def _share(self, name: str, less: QueueAmounts) -> QueueShare:
        queue, used = self._tree.queues[name], self._uses(name)
        left = {dim: used.get(dim, 0) - less.get(dim, 0) for dim in self._totals}
        return share_of(left, self._deserves(name), self._totals, queue.weight)[0]
