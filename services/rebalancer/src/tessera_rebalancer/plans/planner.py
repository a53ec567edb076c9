"""What becomes of plans while nobody carries them out: proposed, found stale, approved by policy,
measured, and after a while forgotten."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Final, NoReturn, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.machines.plan import Refuted, advance
from tessera_core.rebalance import plan_gains, proposals
from tessera_core.rebalance.cluster_view import ClusterView
from tessera_core.rebalance.plan_budget import spent
from tessera_core.rebalance.plan_gains import Pause
from tessera_core.usage.smoothed import SmoothContainer
from tessera_rebalancer.plans.cluster_watch import ClusterWatch
from tessera_rebalancer.plans.events import PlanEvents
from tessera_rebalancer.plans.plan_store import PlanGone, PlanObject, PlanStore
from tessera_rebalancer.plans.settings import PlanSettings
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube import timestamps
from tessera_schema.messages.hints import NodeHints
from tessera_schema.plans import PlanKind, PlanPhase, PlanSpec, PlanStatus

T = TypeVar("T")
POLICY: Final = "policy"
"""Who approved a plan that the settings approve."""
_log: Final = logs.named("tessera.rebalancer.plans.judging")


async def _in_pieces(work: Generator[None, None, T]) -> T:
    """What the work comes to; others on the loop have their turns."""
    while True:
        try:
            next(work)
        except StopIteration as e:
            found: T = e.value
            return found
        await asyncio.sleep(0)


class PlannerDependencies(Struct, frozen=True, kw_only=True):
    """What judging stands on."""

    plans: PlanStore
    view: ClusterWatch
    teller: PlanEvents
    clock: Clock
    settings: PlanSettings
    hints: Callable[[], Mapping[str, NodeHints]]
    """Of each node that is measured, the newest."""
    measured: Callable[[], Sequence[SmoothContainer]]
    """Containers of which something was measured lately."""


class RebalancePlanner:
    """Judges in rounds."""

    def __init__(self, means: PlannerDependencies) -> None:
        """Nothing was judged."""
        self.rounds = 0
        self.paused: Pause | None = None
        """Why nothing is proposed; None = it is."""
        self.why_not: Mapping[str, str] = {}
        """Pods and cards for which the last round found no plan, with why."""
        self.proposed: Counter[PlanKind] = Counter()
        self.failures = 0
        """Rounds that the API server kept from being done."""
        self._means = means

    async def run(self) -> NoReturn:
        """Judge, for ever."""
        while True:
            try:
                await self.turn()
            except TesseraError as e:
                self.failures += 1
                _log.warning("round not done", why=str(e))
            await asyncio.sleep(self._means.settings.pace.round_s)

    async def turn(self) -> None:
        """One round. Raises as `Kube.call` does."""
        self.rounds += 1
        await self._forget()
        await self._measure()
        await self._check()
        await self._propose()

    async def stale(self, sight: PlanObject) -> str:
        """Why a plan that has not started does not hold; empty when it does."""
        return self._stale(await self._situation(), sight)

    def _stale(self, situation: ClusterView, sight: PlanObject) -> str:
        rules, formers = self._means.settings.rules, self._means.plans.formers
        plan = rules.plan
        without = spent(formers, plan.move, plan.budget, situation.now, but=sight.name)
        return proposals.stale(replace(situation, spent=without), rules, sight.spec)

    def contention(self, sight: PlanObject) -> float | None:
        """Of the card that the plan is about, percent of the time; None = nobody knows."""
        step = sight.spec.steps[0]
        told = self._means.hints().get(step.pod.node)
        cards = told.cards if told is not None else ()
        return next((c.contended_percent for c in cards if c.card == step.card), None)

    async def _situation(self) -> ClusterView:
        means = self._means
        return await means.view.situation(
            means.settings.rules, means.plans.formers, means.hints(), means.measured()
        )

    # -- open plans

    async def _check(self) -> None:
        """Decline what no longer holds, approve what the policy approves."""
        means = self._means
        open_ = [
            sight for sight in means.plans.in_phase(PlanPhase.PROPOSED)
            if sight.spec.dry_run or not sight.spec.decision  # else it is about to be carried out
        ]  # fmt: skip
        if not open_:
            return
        situation = await self._situation()
        for sight in open_:
            try:
                stale = self._stale(situation, sight)
                if stale:
                    await self._decline(sight, stale)
                elif self._by_policy(sight.spec):
                    await means.plans.approve(sight, POLICY)
            except PlanGone:
                _log.info("plan has changed meanwhile", plan=sight.name)

    async def _decline(self, sight: PlanObject, why: str) -> None:
        now = await self._means.plans.read(sight.name)
        if now.status.phase is not PlanPhase.PROPOSED:
            return  # it was started while we looked
        status = replace(
            now.status, phase=advance(now.status.phase, Refuted()), message=why,
            ended=self._stamp(),
        )  # fmt: skip
        self._means.teller.entered(await self._means.plans.put(now, status, exact=True))

    def _by_policy(self, spec: PlanSpec) -> bool:
        return not spec.decision and not spec.dry_run and spec.kind in self._means.settings.approve

    # -- new plans

    async def _propose(self) -> None:
        means, now = self._means, self._means.clock.time()
        await self._pause(plan_gains.pause(means.plans.formers, means.settings.gain, now))
        if self.paused is not None:
            return
        if not (means.view.pods.waits() or means.hints() or means.measured()):
            self.why_not = {}
            return  # nobody needs anything
        situation = await self._situation()
        known = frozenset(means.plans.known)
        found = await _in_pieces(proposals.proposing(situation, means.settings.rules, known))
        self.why_not = found.why_not
        for name, spec in found.specs.items():
            whole = replace(spec, dry_run=means.settings.dry_run)
            if await means.plans.create(name, whole):
                self.proposed[spec.kind] += 1
                made = means.plans.known[name]
                await self._put(made, made.status)  # for those who list plans by their phase
                means.teller.entered(made)

    async def _pause(self, pause: Pause | None) -> None:
        if pause is not None and self.paused is None:
            until = timestamps.format_time(pause.until)
            _log.alert("nothing is proposed for a while", why=pause.why, until=until)
            last = self._means.plans.known.get(pause.last)
            if last is not None:  # where whoever lists plans sees it
                note = f"{pause.why}: nothing is proposed until {until}"
                await self._put(last, replace(last.status, message=note))
        elif pause is None and self.paused is not None:
            _log.info("plans are proposed again")
        self.paused = pause

    # -- ended plans

    async def _measure(self) -> None:
        means, horizon_s = self._means, self._means.settings.worth.horizon_s
        for sight in means.plans.in_phase(PlanPhase.DONE):
            if not plan_gains.measurable(sight.former):
                continue
            sight = await self._seen_placed(sight)
            gained = self._gained(sight, horizon_s)
            if gained is not None:
                await self._put(sight, replace(sight.status, gained=gained))

    async def _seen_placed(self, sight: PlanObject) -> PlanObject:
        """Write down when the pod for which room was made got its node."""
        waited = sight.spec.for_pod
        pod = None if waited is None else self._means.view.pods.get(waited.uid)
        if pod is None or not pod.node or sight.status.placed:
            return sight
        at = self._stamp()
        return await self._put(sight, replace(sight.status, placed=at))

    def _gained(self, sight: PlanObject, horizon_s: float) -> float | None:
        means, now, former = self._means, self._means.clock.time(), sight.former
        waited = sight.spec.for_pod
        if waited is None:
            return plan_gains.by_contention(former, self.contention(sight), horizon_s, now)
        there = means.view.pods.get(waited.uid) is not None
        placed = timestamps.parse_time(sight.status.placed)
        return plan_gains.by_placement(former, placed, None if there else now, horizon_s, now)

    async def _put(self, sight: PlanObject, status: PlanStatus) -> PlanObject:
        try:
            return await self._means.plans.put(sight, status)
        except PlanGone:
            return sight

    async def _forget(self) -> None:
        """Remove plans that ended long ago."""
        before = self._means.clock.time() - self._means.settings.pace.keep_s
        for sight in list(self._means.plans.known.values()):
            if sight.over and sight.former.ended < before:
                await self._means.plans.delete(sight)

    def _stamp(self) -> str:
        return timestamps.format_time(self._means.clock.time())
