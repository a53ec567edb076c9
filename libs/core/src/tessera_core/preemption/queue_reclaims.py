"""Which units go for a preemptor because their queues give back what they borrow.

`tessera_core.gangs.queue_lending` has the rules, in amounts; here they are about units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from tessera_core.gangs.queue_lending import QueueLending, QueueReclaim, Taken
from tessera_core.gangs.queue_usage import QueueOfKind, amounts_in, by_queue, sum_of
from tessera_core.gangs.queues import QueueAmounts
from tessera_core.ledger.ledger import Ledger
from tessera_core.preemption.victim_units import VictimUnit
from tessera_core.slices import Slices
from tessera_schema.kube import Pod

_SLICE: Final = 256
"""Units of one slice: about a millisecond."""
_STAYS: Final = ("quota.scheduling.koordinator.sh/preemptible", "false")
"""Label and value of a pod that Koordinator never takes back: so it may not borrow."""


class QueueReclaims:
    """What queues give back for one preemptor."""

    def __init__(
        self,
        lending: QueueLending,
        ledger: Ledger,
        queue_of: Callable[[Pod], QueueOfKind | None],
        taker: QueueOfKind,
        requested: QueueAmounts,
        *,
        members: Iterable[Pod],
        ending: Iterable[Pod],
    ) -> None:
        """`taker` is the preemptor's queue, `requested` what its members count there. What pods
        have that are `ending` comes back by itself."""
        self._ledger = ledger
        self._queue_of = queue_of
        self._taker = taker
        self._reclaim = QueueReclaim(
            lending, taker, requested,
            leaving=by_queue(ending, taker[0], queue_of, ledger),
            borrows=not any(map(_stays, members)),
        )  # fmt: skip
        self._known: dict[str, tuple[QueueOfKind | None, QueueAmounts]] = {}

    def lender(self, unit: VictimUnit) -> str:
        """Name of the queue that gives the unit back; empty for one of the preemptor's queue, or of
        none of its tree."""
        queue, _ = self._of(unit)
        if queue is None or queue == self._taker or queue[0] != self._taker[0]:
            return ""
        return queue[1]

    def why_not(self, unit: VictimUnit) -> str:
        """Why the unit's queue gives nothing back, as what follows a number of pods; empty when it
        may have to."""
        lender = self.lender(unit)
        return self._reclaim.why_not(lender) if lender else "of another queue"

    def forbidden(self, units: Iterable[VictimUnit]) -> str:
        """Why these may not be taken back together; empty when they may."""
        taken: dict[str, Taken] = {}
        why = (self._reclaim.take(taken, lender, unit) for lender, unit in self._lent(units))
        return next(filter(None, why), "")

    def together(self, units: Sequence[VictimUnit]) -> Slices[list[VictimUnit]]:
        """Of these units, in their order, all that may go with those before them."""
        taken: dict[str, Taken] = {}
        found: list[VictimUnit] = []
        for at, unit in enumerate(units):
            if not at % _SLICE:
                yield
            lender = self.lender(unit)
            if not lender or not self._reclaim.take(taken, lender, self._of(unit)[1]):
                found.append(unit)
        return found

    def cost(self, units: Iterable[VictimUnit]) -> tuple[int, float]:
        """Whether any of them goes for its priority alone (1, or 0), and how far below the largest
        share a queue comes that gives back."""
        units = tuple(units)
        alone = any(not self.lender(unit) for unit in units)
        return int(alone), self._reclaim.levelled(self._lent(units))

    def _lent(self, units: Iterable[VictimUnit]) -> Iterator[tuple[str, QueueAmounts]]:
        """Lender and amounts of those that a queue gives back."""
        for unit in units:
            lender = self.lender(unit)
            if lender:
                yield lender, self._of(unit)[1]

    def _of(self, unit: VictimUnit) -> tuple[QueueOfKind | None, QueueAmounts]:
        key = unit.gang or unit.pods[0].uid
        if key not in self._known:
            amounts = sum_of(amounts_in(self._ledger, victim.pod) for victim in unit.pods)
            self._known[key] = self._queue_of(unit.pods[0].pod), amounts
        return self._known[key]


def _stays(pod: Pod) -> bool:
    key, value = _STAYS
    return pod.metadata.labels.get(key) == value
