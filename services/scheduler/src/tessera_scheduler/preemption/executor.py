"""Carries one preemption plan out, each step written down before it is done.

    Started:  does what is promised still suffice? -> stepsBegun -> evictions -> all of them gone
              -> Done

A plan that is found Started was interrupted: it goes on where it was. An eviction that was done is
done again, which is harmless: it names the pod's uid, and a pod that is gone is done.
"""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec.structs import replace

from tessera_core.gang_scheduling.registry import GangRegistry
from tessera_core.ledger.ledger import Ledger
from tessera_core.ledger.promises import CardPromise, short_of
from tessera_core.machines.plan import Broken, Event, Finished, Refuted, advance
from tessera_runtime import logs
from tessera_runtime.errors import ApiBusy, ApiConflict, ApiNotFound, ApiRefused, Transient
from tessera_runtime.kube import timestamps
from tessera_runtime.kube.binding import PodKey, read_back
from tessera_runtime.kube.events import of_pod
from tessera_runtime.plans.evictions import create_eviction, pods_left
from tessera_runtime.plans.plan_store import PlanObject, PlanStore
from tessera_scheduler.preemption.environment import PreemptionEnvironment
from tessera_scheduler.preemption.pending_gangs import why_over
from tessera_scheduler.preemption.promises import named
from tessera_schema.plans import PlanKind, PlanStep, PodOfPlan

AT_ONCE: Final = 16
"""Evictions that are under way at a time."""
AGAIN_S: Final = 1.0
_log: Final = logs.named("tessera.scheduler.preemption")


class NotLeadingAnyMore(Exception):
    """Another replica goes on with the plan."""


class PreemptionExecutor:
    """Carries out plans."""

    def __init__(
        self,
        environment: PreemptionEnvironment,
        *,
        ledger: Ledger,
        plans: PlanStore,
        gangs: GangRegistry | None,
    ) -> None:
        """No call begins with less than a call's time of the Lease left."""
        self._kube = environment.kube
        self._recorder = environment.recorder
        self._clock = environment.clock
        self._settings = environment.settings
        self._call_s = environment.calls.call_s
        self._ledger = ledger
        self._plans = plans
        self._gangs = gangs
        self._leadership = environment.leadership

    async def dry_run(self, victims: list[PodKey]) -> str:
        """Why the API server would not let one of these go now; empty when it would let each."""
        for victim in victims:
            try:
                await create_eviction(self._kube, victim, dry_run=True)
            except (ApiRefused, Transient) as e:
                return f"{victim.namespace}/{victim.name} would not be evicted: {e}"
        return ""

    async def carry_out(self, plan: PlanObject) -> None:
        """Carry out a plan that has started. Raises NotLeadingAnyMore, PlanGone, and as `Kube.call`
        does."""
        self._check_leading()
        over = await self._over(plan)
        if over:
            await self._end(plan, Finished() if plan.status.steps_begun else Refuted(), over)
            return
        if not plan.status.steps_begun:
            stale = self._stale(plan)
            if stale:
                await self._end(plan, Refuted(), stale)
                return
            begun = replace(plan.status, steps_begun=len(plan.spec.steps))
            plan = await self._plans.write_status(plan, begun)
        refused = await self._evict_all(plan)
        if refused:
            await self._end(plan, Broken(), refused)
            return
        left = await self._all_gone(plan)
        done = replace(plan.status, steps_done=len(plan.spec.steps) - len(left))
        plan = replace(plan, status=done)
        if left:
            text = f"{left[0].pod.namespace}/{left[0].pod.name} was evicted and does not end"
            await self._end(plan, Broken(), text)
        else:
            text = f"{pods_left(plan.spec)} for {named(plan.spec)}"
            await self._end(plan, Finished(), text)

    async def _over(self, plan: PlanObject) -> str:
        """Why nobody has to go any more; empty while the pod or gang waits."""
        waits, gang = plan.spec.for_pod, plan.spec.for_gang
        if gang:
            return why_over(self._gangs, gang) if self._gangs else "gangs do not start whole"
        if waits is None:
            return "it is for nobody"
        pod = await read_back(self._kube, _key(waits))
        if pod is None or pod.metadata.deletion_timestamp:
            return "the pod that waited is gone"
        return "the pod that waited has a node" if pod.spec.node_name else ""

    def _stale(self, plan: PlanObject) -> str:
        """Why the evictions would not make room any more; empty while they do."""
        mine = self._promised(plan)
        if mine is None:
            return "nothing is promised by it any more"
        fleet = self._ledger.fleet.snapshot()
        short = short_of(self._ledger.promises, mine, fleet, self._ledger.entry)
        return f"the pods that would go do not leave enough room any more: {short}" if short else ""

    def _promised(self, plan: PlanObject) -> CardPromise | None:
        """What is promised by the plan; None once nobody waits for it, or time is over."""
        return next((each for each in self._ledger.promises if each.plan == plan.name), None)

    # -- evictions

    async def _evict_all(self, plan: PlanObject) -> str:
        """Evict all victims; why one of them does not go, empty when all do. Once one does not,
        nobody else goes."""
        steps = list(plan.spec.steps)
        while steps:
            now, steps = steps[:AT_ONCE], steps[AT_ONCE:]
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._evict(plan, step)) for step in now]
            outcomes = [task.result() for task in tasks]
            if None in outcomes:
                raise NotLeadingAnyMore
            refused = next(filter(None, outcomes), "")
            if refused:
                return refused
        return ""

    async def _evict(self, plan: PlanObject, step: PlanStep) -> str | None:
        """Why the pod does not go; empty when it does, None where another replica leads."""
        pod, until = step.pod, self._clock.time() + self._settings.evict_s
        while self._leads:
            if self._promised(plan) is None:
                return f"nobody waits for it any more: {pod.namespace}/{pod.name} stays"
            try:
                await create_eviction(self._kube, _key(pod))
            except (ApiNotFound, ApiConflict):
                return ""  # gone, or another pod by that name
            except ApiRefused as e:
                return f"{pod.namespace}/{pod.name} is not evicted: {e}"
            except Transient as e:
                why, wait_s = str(e), e.retry_after_s if isinstance(e, ApiBusy) else 0
            else:
                text = f"evicted for {named(plan.spec)} by plan {plan.name}"
                reclaimed = plan.spec.kind is PlanKind.RECLAIM
                reason = "Reclaimed" if reclaimed else "Preempted"
                self._recorder.record(of_pod(_key(pod)), reason, text, warning=True)
                return ""
            if self._clock.time() + max(wait_s, AGAIN_S) > until:
                return f"{pod.namespace}/{pod.name} is not evicted: {why}"
            await asyncio.sleep(max(wait_s, AGAIN_S))
        return None

    async def _all_gone(self, plan: PlanObject) -> list[PlanStep]:
        """Wait until all victims have left the ledger; those that have not by the end of the
        promise."""
        until = self._ends(plan)
        while True:
            self._check_leading()
            left = [s for s in plan.spec.steps if self._ledger.entry(s.pod.uid) is not None]
            if not left or self._clock.time() > until:
                return left
            await asyncio.sleep(AGAIN_S)

    def _ends(self, plan: PlanObject) -> float:
        """When the promise ends, Unix time."""
        started = timestamps.parse_time(plan.status.started) or self._clock.time()
        return started + self._settings.promise_s

    # -- the plan

    async def _end(self, plan: PlanObject, event: Event, message: str) -> None:
        stamp = timestamps.format_time(self._clock.time())
        phase = advance(plan.status.phase, event)
        status = replace(plan.status, phase=phase, message=message, ended=stamp)
        await self._plans.write_status(plan, status)
        _log.info("preemption plan", plan=plan.name, phase=phase, why=message)
        if plan.spec.for_pod is not None:
            about = of_pod(_key(plan.spec.for_pod))
            self._recorder.record(about, f"Preemption{phase}", f"plan {plan.name}: {message}")

    @property
    def _leads(self) -> bool:
        return self._leadership.fence() >= self._call_s

    def _check_leading(self) -> None:
        if not self._leads:
            raise NotLeadingAnyMore


def _key(pod: PodOfPlan) -> PodKey:
    return PodKey(pod.namespace, pod.name, pod.uid)
