"""Nothing goes wrong any more: in bounded time no plan is open, nothing is promised, whatever fits
has a node, and nobody was evicted twice for the same."""

from __future__ import annotations

from typing import Final

from tessera_core.preemption.eviction_budgets import BARS_S
from tests.machine.evictions.eviction_simulation import (
    PREEMPTION,
    SLOWEST_S,
    EvictionSimulation,
)
from tests.machine.evictions.invariants import EvictionInvariants
from tests.machine.evictions.jobs import Job, waits

LEAD_S: Final = 120.0
STILL_S: Final = BARS_S[0] + 30
"""Seconds without a plan after which none is made any more."""
MOST_S: Final = 3000
"""Seconds within which it is quiet: a plan takes 300 s at most, and few are made."""


class Quiet:
    """The end of a walk."""

    def __init__(self, world: EvictionSimulation, invariants: EvictionInvariants) -> None:
        self._world = world
        self._invariants = invariants

    async def comes(self) -> None:
        """Raises AssertionError."""
        self._world.mend()
        await self._world.until("somebody leads", lambda: self._world.leader is not None, LEAD_S)
        await self._world.advance(PREEMPTION.promise_s + SLOWEST_S + PREEMPTION.evict_s)
        self._invariants.check()
        before = self._invariants.began.copy()
        still_s, left = 0, MOST_S
        while still_s < STILL_S:
            await self._world.advance(1)
            self._world.come_again()
            self._invariants.check()
            still_s = 0 if self._under_way() else still_s + 1
            left -= 1
            assert left, f"evictions do not end: {self._under_way()}"
        twice = {
            pair for pair, times in self._invariants.began.items() if times - before[pair] > 1
        }  # fmt: skip
        assert not twice, f"evicted again for the same: {twice}"
        self._check_all_have_started()

    def _under_way(self) -> str:
        """The plans and promises that are not over; empty when there are none."""
        plans = [plan for plan in self._invariants.rooms.plans() if not plan.over]
        leader = self._world.leader
        promises = () if leader is None or leader.scheduler is None else (
            leader.scheduler.ledger.promises
        )  # fmt: skip
        named = [*(plan.name for plan in plans), *(promise.plan for promise in promises)]
        return ", ".join(sorted(set(named)))

    def _check_all_have_started(self) -> None:
        """I4, of pods by themselves: no room is left that one of them would fit into."""
        truth, cards = self._world.cluster.truth, self._world.cluster.cards
        free = {(node, card): 2 for node, found in cards.items() for card in found}
        for pod, bound in truth.living():
            job = self._world.job_of(pod.metadata.uid)
            for share in bound.grant.shares if job else ():
                assert isinstance(job, Job)
                free[bound.grant.node, share.card] -= job.halves
        waiting = [
            job for uid, pod in truth.pods.items()
            if waits(pod) and (job := self._world.job_of(uid)) is not None and not job.least
        ]  # fmt: skip
        fits = [job for job in waiting if any(halves >= job.halves for halves in free.values())]
        assert not fits, f"I4: {fits} fit, {free} halves are free"
