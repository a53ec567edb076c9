"""Plans while they are not carried out: proposed, found stale, approved by policy, measured, and
deleted `keep_s` after their end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn, Protocol

from msgspec.structs import replace

from tessera_core.machines.plan import Refuted, advance
from tessera_core.rebalance import plan_gains, proposals
from tessera_core.rebalance.cluster_view import ClusterView
from tessera_core.rebalance.plan_budget import spent
from tessera_core.rebalance.plan_gains import Pause
from tessera_core.rebalance.relieve_contention import CardOfNode
from tessera_core.usage.smoothed import SmoothContainer
from tessera_rebalancer.plan_settings import PlanSettings
from tessera_rebalancer.plans.cluster_watch import ClusterWatch
from tessera_rebalancer.plans.events import PlanEvents
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube import timestamps
from tessera_runtime.plans.plan_store import PlanGone, PlanObject, PlanStore
from tessera_runtime.slice_runner import in_slices
from tessera_schema.messages.hints import NodeHints
from tessera_schema.plans import PlanKind, PlanPhase, PlanSpec, PlanStatus

POLICY: Final = "policy"
"""`decidedBy` of a plan that the settings approve."""
_log: Final = logs.named("tessera.rebalancer.plans.judging")


class MeasuredCluster(Protocol):
    """What usage says of the cluster."""

    @property
    def hints(self) -> Mapping[str, NodeHints]:
        """The newest of each node that is measured."""
        ...

    @property
    def measured(self) -> Iterable[SmoothContainer]:
        """Containers of which something was measured lately, at each time that they are read."""
        ...


class RebalancePlanner:
    """Proposes, approves, declines and measures plans, in rounds."""

    def __init__(
        self,
        *,
        plans: PlanStore,
        watch: ClusterWatch,
        usage: MeasuredCluster,
        events: PlanEvents,
        clock: Clock,
        settings: PlanSettings,
    ) -> None:
        self.rounds = 0
        self.paused: Pause | None = None
        """Why nothing is proposed; None = it is."""
        self.why_not: Mapping[str, str] = {}
        """Pods and cards for which the last round found no plan, with why."""
        self.proposed: Counter[PlanKind] = Counter()
        self.failures = 0
        """Rounds that the API server kept from being done."""
        self._passed: frozenset[CardOfNode] = frozenset()
        """Contended cards that were tried since the round that began with the worst."""
        self._plans = plans
        self._watch = watch
        self._usage = usage
        self._events = events
        self._clock = clock
        self._settings = settings

    async def run(self) -> NoReturn:
        """A round every `pace.round_s` seconds, for ever."""
        while True:
            try:
                await self.run_round()
            except TesseraError as e:
                self.failures += 1
                _log.warning("round not done", why=str(e))
            await asyncio.sleep(self._settings.pace.round_s)

    async def run_round(self) -> None:
        """One round. Raises as `Kube.call` does."""
        self.rounds += 1
        await self._delete_old()
        await self._measure()
        await self._check()
        await self._propose()

    async def stale(self, plan: PlanObject) -> str:
        """Why a plan that has not started does not hold; empty when it does."""
        return await self._stale(await self._cluster_view(), plan)

    async def _stale(self, view: ClusterView, plan: PlanObject) -> str:
        rules, formers = self._settings.rules, self._plans.formers
        without = spent(formers, rules.plan.move, rules.plan.budget, view.now, but=plan.name)
        return await in_slices(proposals.stale(replace(view, spent=without), rules, plan.spec))

    def contention(self, plan: PlanObject) -> float | None:
        """How contended the plan's card is, percent of the time; None = not measured."""
        step = plan.spec.steps[0]
        hints = self._usage.hints.get(step.pod.node)
        cards = hints.cards if hints is not None else ()
        return next((c.contended_percent for c in cards if c.card == step.card), None)

    async def _cluster_view(self, measured: Iterable[SmoothContainer] = ()) -> ClusterView:
        """Only proposals go by what was `measured`."""
        rules, formers = self._settings.rules, self._plans.formers
        view = self._watch.cluster_view(rules, formers, self._usage.hints, measured)
        return await in_slices(view)

    # open plans

    async def _check(self) -> None:
        """Decline what no longer holds, approve what the policy approves."""
        open_ = [
            plan for plan in self._plans.in_phase(PlanPhase.PROPOSED)
            if plan.spec.dry_run or not plan.spec.decision  # else it is about to be carried out
        ]  # fmt: skip
        if not open_:
            return
        view = await self._cluster_view()
        for plan in open_:
            try:
                stale = await self._stale(view, plan)
                if stale:
                    await self._decline(plan, stale)
                elif self._by_policy(plan.spec):
                    await self._plans.approve(plan, POLICY)
            except PlanGone:
                _log.info("plan has changed meanwhile", plan=plan.name)

    async def _decline(self, plan: PlanObject, why: str) -> None:
        now = await self._plans.read(plan.name)
        if now.status.phase is not PlanPhase.PROPOSED:
            return  # it was started meanwhile
        status = replace(
            now.status, phase=advance(now.status.phase, Refuted()), message=why,
            ended=self._stamp(),
        )  # fmt: skip
        self._events.publish_phase(await self._plans.write_status(now, status, exact=True))

    def _by_policy(self, spec: PlanSpec) -> bool:
        return not spec.decision and not spec.dry_run and spec.kind in self._settings.approve

    # new plans

    async def _propose(self) -> None:
        now = self._clock.time()
        await self._pause(plan_gains.pause(self._plans.formers, self._settings.gain, now))
        if self.paused is not None:
            return
        measured = self._usage.measured
        any_measured = any(True for _ in measured)
        if not (self._watch.pods.any_waits() or self._usage.hints or any_measured):
            self.why_not = {}
            return  # no pod waits, and nothing is measured
        view = await self._cluster_view(measured)
        known, rules = frozenset(self._plans.known), self._settings.rules
        found = await in_slices(proposals.proposing(view, rules, known, self._passed))
        self.why_not, self._passed = found.why_not, found.passed
        for name, spec in found.specs.items():
            whole = replace(spec, dry_run=self._settings.dry_run)
            if await self._plans.create(name, whole):
                self.proposed[spec.kind] += 1
                made = self._plans.known[name]
                # A status that says nothing new, so that lists of plans can be selected by phase.
                await self._write_status(made, made.status)
                self._events.publish_phase(made)

    async def _pause(self, pause: Pause | None) -> None:
        if pause is not None and self.paused is None:
            until = timestamps.format_time(pause.until)
            _log.alert("nothing is proposed for a while", why=pause.why, until=until)
            last = self._plans.known.get(pause.last)
            if last is not None:  # a list of plans shows it
                note = f"{pause.why}: nothing is proposed until {until}"
                await self._write_status(last, replace(last.status, message=note))
        elif pause is None and self.paused is not None:
            _log.info("plans are proposed again")
        self.paused = pause

    # ended plans

    async def _measure(self) -> None:
        horizon_s = self._settings.worth.horizon_s
        for plan in self._plans.in_phase(PlanPhase.DONE):
            if not plan_gains.measurable(plan.former):
                continue
            plan = await self._record_placement(plan)
            gained = self._gained(plan, horizon_s)
            if gained is not None:
                await self._write_status(plan, replace(plan.status, gained=gained))

    async def _record_placement(self, plan: PlanObject) -> PlanObject:
        """Write down when the pod for which room was made got its node."""
        waited = plan.spec.for_pod
        pod = None if waited is None else self._watch.pods.get(waited.uid)
        if pod is None or not pod.node or plan.status.placed:
            return plan
        at = self._stamp()
        return await self._write_status(plan, replace(plan.status, placed=at))

    def _gained(self, plan: PlanObject, horizon_s: float) -> float | None:
        now, former = self._clock.time(), plan.former
        waited = plan.spec.for_pod
        if waited is None:
            return plan_gains.by_contention(former, self.contention(plan), horizon_s, now)
        there = self._watch.pods.get(waited.uid) is not None
        placed = timestamps.parse_time(plan.status.placed)
        return plan_gains.by_placement(former, placed, None if there else now, horizon_s, now)

    async def _write_status(self, plan: PlanObject, status: PlanStatus) -> PlanObject:
        try:
            return await self._plans.write_status(plan, status)
        except PlanGone:
            return plan

    async def _delete_old(self) -> None:
        """Remove plans that ended long ago."""
        before = self._clock.time() - self._settings.pace.keep_s
        for plan in list(self._plans.known.values()):
            if plan.over and plan.former.ended < before:
                await self._plans.delete(plan)

    def _stamp(self) -> str:
        return timestamps.format_time(self._clock.time())
