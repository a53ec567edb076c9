"""What queues have, in cards, and what a reclaim leaves them: sums of what grants say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from tessera_runtime.plans.plan_store import PlanObject
from tessera_schema.plans import PlanSpec
from tests.machine.evictions.eviction_simulation import EvictionSimulation
from tests.machine.evictions.jobs import Job, job_of
from tests.machine.gangs.delivered import Delivered
from tests.machine.replicas import Replica

_ALIKE: Final = 1e-9
"""Quotients of the same may differ by so much."""


class QueueShares:
    """Of one cluster."""

    def __init__(self, world: EvictionSimulation) -> None:
        self._world = world
        self._delivered: dict[str, Delivered] = {}
        """By the scheduler's name."""

    def follow(self, replica: Replica) -> None:
        """Take down what the API server shows the scheduler."""
        shown = self._delivered[replica.name] = Delivered(self._world.loop.time)
        replica.line.on_page, replica.line.on_frame = shown.page, shown.frame

    def why_not(self, replica: Replica, taker: Job, spec: PlanSpec, leaving: set[str]) -> str:
        """Why these may not be taken back for the taker, in cards, as far as the scheduler that
        plans it can know; empty when they may. `leaving` are the victims of other plans."""
        after = self._known(replica, {*leaving, *(step.pod.uid for step in spec.steps)})
        promised = () if spec.promise is None else spec.promise.seats
        after[taker.queue] += sum(len(seat.shares) for seat in promised)
        units: Counter[tuple[str, str]] = Counter()
        for step in spec.steps:
            job = self._world.jobs[job_of(step.pod.name)]
            units[job.queue, step.pod.gang or step.pod.uid] += 1
        for lender in {queue for queue, _ in units} - {taker.queue}:
            last = max(count for (queue, _), count in units.items() if queue == lender)
            if self._beyond(lender, after[lender] + last) <= 0:
                return f"{lender} gives back more than it borrows: {after[lender]} + {last} stay"
            if why := self._ahead(taker.queue, lender, after):
                return why
        return ""

    def levelled(self, taker: Job, plan: PlanObject) -> str:
        """Why the taker is ahead of a lender now that the plan's victims have gone, by the API
        server's objects; empty when it is not."""
        has: Counter[str] = Counter()
        promised = () if plan.spec.promise is None else plan.spec.promise.seats
        has[taker.queue] += sum(len(seat.shares) for seat in promised)
        seats = {seat.pod.uid for seat in promised}
        for pod, bound in self._world.cluster.truth.living():
            job = self._world.job_of(pod.metadata.uid)
            leaves = pod.metadata.deletion_timestamp is not None
            if job is not None and pod.metadata.uid not in seats and not leaves:
                has[job.queue] += len(bound.grant.shares)
        lenders = {self._world.jobs[job_of(step.pod.name)].queue for step in plan.spec.steps}
        found = (self._ahead(taker.queue, each, has) for each in lenders - {taker.queue})
        return next(filter(None, found), "")

    def _ahead(self, taker: str, lender: str, cards: Counter[str]) -> str:
        own, left = self._beyond(taker, cards[taker]), self._beyond(lender, cards[lender])
        if own <= left + _ALIKE:
            return ""
        return (
            f"{taker} would have {cards[taker]} cards, {own:g} beyond what it deserves, "
            f"{lender} {cards[lender]}, {left:g} beyond"
        )

    def _beyond(self, queue: str, cards: float) -> float:
        """How far a queue with so many cards is beyond what it deserves, by weight."""
        world = self._world
        return max(cards - world.deserved[queue], 0) / world.weights[queue]

    def _known(self, replica: Replica, without: Iterable[str]) -> Counter[str]:
        """Queue -> cards that its pods have by the scheduler's ledger, but for these uids and for
        those that it was shown to leave."""
        left = {
            pod.metadata.uid for pod in self._delivered[replica.name].pods()
            if pod.metadata.deletion_timestamp
        }  # fmt: skip
        left.update(without)
        total: Counter[str] = Counter()
        assert replica.scheduler is not None
        for entry in replica.scheduler.ledger.entries():
            job = self._world.jobs.get(job_of(entry.grant.name))
            if job is not None and entry.grant.uid not in left:
                total[job.queue] += len(entry.grant.shares)
        return total
