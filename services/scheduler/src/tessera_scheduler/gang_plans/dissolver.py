"""Gives gangs up that could not start as a whole, by plans that the replica that leads writes down
and carries out. `tessera_core.gang_scheduling.incomplete_gangs` decides."""

from __future__ import annotations

import asyncio
from hashlib import blake2b
from typing import Final, NoReturn

from msgspec.structs import replace

from tessera_core.gang_scheduling.attempt import KnownBundle
from tessera_core.gang_scheduling.incomplete_gangs import (
    LATELY_S,
    Begin,
    DissolvePlan,
    GangDissolving,
    Propose,
    Withdraw,
)
from tessera_core.machines.gang import GangPhase
from tessera_core.machines.plan import Approved, Broken, Event, Finished, Refuted, advance
from tessera_runtime import logs
from tessera_runtime.errors import ApiConflict, ApiNotFound, ApiRefused, TesseraError, Transient
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.kube.events import of_pod
from tessera_runtime.kube.timestamps import format_time, parse_time
from tessera_runtime.plans.evictions import create_eviction, pods_left
from tessera_runtime.plans.plan_store import PlanGone, PlanObject, PlanStore
from tessera_scheduler.environment import SchedulerEnvironment
from tessera_scheduler.events import SchedulerPlanEvents
from tessera_scheduler.gangs.scheduling import GangScheduling
from tessera_scheduler.leadership.leader import Leadership
from tessera_scheduler.plan_rounds import KEEP_S, run_rounds
from tessera_schema.kube import Pod
from tessera_schema.plans import PlanKind, PlanPhase, PlanSpec, PodOfPlan

EVICT_S: Final = 300.0
"""Seconds from the start of a plan for which an eviction is tried again."""
_log: Final = logs.named("tessera.scheduler.gangs")


def open_gang_dissolver(
    environment: SchedulerEnvironment,
    gangs: GangScheduling | None,
    leadership: Leadership,
    plan_events: SchedulerPlanEvents,
) -> GangDissolver | None:
    """What gives gangs up; None where pods of gangs go one by one."""
    if gangs is None:
        return None
    return GangDissolver(environment, gangs, leadership, plan_events)


class GangDissolver:
    """Writes plans and carries them out, in rounds."""

    def __init__(
        self,
        environment: SchedulerEnvironment,
        gangs: GangScheduling,
        leadership: Leadership,
        plan_events: SchedulerPlanEvents,
    ) -> None:
        """Rounds begin with `run`."""
        self._kube = environment.kube
        self._calls = environment.settings.kube
        self._clock = environment.clock
        self._recorder = environment.recorder
        self._gangs = gangs
        self._leadership = leadership
        self._plans = PlanStore(environment.kube, (PlanKind.DISSOLVE,), plan_events.entered)
        self._rules = GangDissolving(environment.settings.gangs.dissolve_s, self._started_lately)
        self._term = ""
        """Of the Lease, under which the plans were listed."""

    async def run(self) -> NoReturn:
        """Watch plans and go on with them, until cancelled."""
        await run_rounds(self._kube, self._plans, self._calls, self._round)

    async def _round(self, _: asyncio.TaskGroup) -> None:
        if not self._leads:
            self._term = ""
            return
        if self._term != self._leadership.term():
            await self._plans.list_now()
            self._term = self._leadership.term()
        for plan in self._plans.in_phase(PlanPhase.STARTED):
            await self._evict(plan)
        await self._plans.delete_ended(self._clock.time() - KEEP_S)
        await self._decide()

    @property
    def _leads(self) -> bool:
        return self._leadership.fence() >= self._calls.call_s

    def _started_lately(self, pod: Pod) -> bool:
        start = parse_time(pod.status.start_time)
        return start is None or start > self._clock.time() - LATELY_S

    # -- decisions

    async def _decide(self) -> None:
        known = [_as_known(plan) for plan in self._plans.known.values()]
        now, wall = self._gangs.clock.time(), self._clock.time()
        bundles = self._gangs.coordinator.bundles()
        for step in list(self._rules.next_steps(bundles, known, now, wall)):
            match step:
                case Propose(spec):
                    await self._plans.create(_name(spec, wall), spec)
                case Withdraw(plan, why):
                    await self._end(self._plans.known[plan], Refuted(), why)
                case Begin(plan):
                    await self._begin(self._plans.known[plan])

    async def _begin(self, plan: PlanObject) -> None:
        """Written down first: the replica that leads next goes on with it."""
        known = self._bundle(plan.spec.for_gang)
        if known is None or known.attempt.phase is not GangPhase.BROKEN:
            return
        known.attempt.dissolving = True
        status = replace(
            plan.status, phase=advance(plan.status.phase, Approved()),
            started=format_time(self._clock.time()), steps_begun=len(plan.spec.steps),
        )  # fmt: skip
        try:
            begun = await self._plans.write_status(plan, status, exact=True)
        except (TesseraError, PlanGone):
            known.attempt.dissolving = False
            raise
        await self._evict(begun)

    async def _end(self, plan: PlanObject, event: Event, message: str) -> None:
        phase, ended = advance(plan.status.phase, event), format_time(self._clock.time())
        status = replace(plan.status, phase=phase, message=message, ended=ended)
        await self._plans.write_status(plan, status)
        _log.info("plan to dissolve a gang", plan=plan.name, phase=phase, why=message)

    # -- evictions

    async def _evict(self, plan: PlanObject) -> None:
        """Evict the pods that are still there; one that a disruption budget does not let go is
        tried again."""
        known = self._bundle(plan.spec.for_gang)
        if known is not None:
            if known.attempt.phase is GangPhase.STARTED:
                await self._end(plan, Broken(), "the gang has started meanwhile")
            if known.attempt.phase is GangPhase.STARTED or known.attempt.under_way:
                return
            known.attempt.dissolving = known.attempt.phase is GangPhase.BROKEN
        left = [step.pod for step in plan.spec.steps if self._is_there(step.pod)]
        if not left:
            await self._end(plan, Finished(), pods_left(plan.spec))
            return
        refused = [why for pod in left if (why := await self._evicted(plan, pod))]
        started = parse_time(plan.status.started) or self._clock.time()
        if self._clock.time() > started + EVICT_S:
            if known is not None:
                known.attempt.dissolving = False
            why = refused[0] if refused else f"{_called(left[0])} does not end"
            await self._end(plan, Broken(), why)

    async def _evicted(self, plan: PlanObject, pod: PodOfPlan) -> str:
        """Why the pod does not go; empty when it does, and where another replica leads."""
        member = self._gangs.registry.pod(pod.uid)
        if member is None or member.metadata.deletion_timestamp or not self._leads:
            return ""
        key = PodKey(pod.namespace, pod.name, pod.uid)
        try:
            await create_eviction(self._kube, key)
        except (ApiNotFound, ApiConflict):
            return ""  # gone, or another pod by that name
        except (ApiRefused, Transient) as e:
            return f"{_called(pod)} is not evicted: {e}"
        text = f"evicted by plan {plan.name}: {plan.spec.reason}"
        self._recorder.record(of_pod(key), "GangDissolving", text, warning=True)
        return ""

    def _is_there(self, pod: PodOfPlan) -> bool:
        return self._gangs.registry.pod(pod.uid) is not None

    def _bundle(self, gang: str) -> KnownBundle | None:
        bundles = self._gangs.coordinator.bundles()
        return next((known for known in bundles if gang in known.attempt.ids), None)


def _as_known(plan: PlanObject) -> DissolvePlan:
    return DissolvePlan(
        name=plan.name, gang=plan.spec.for_gang, created=plan.created, ended=plan.former.ended,
        pods=frozenset(step.pod.uid for step in plan.spec.steps), phase=plan.status.phase,
        decision=plan.spec.decision,
    )  # fmt: skip


def _name(spec: PlanSpec, now: float) -> str:
    """Another name for each time that the gang is given up."""
    text = f"{spec.for_gang}/{now:.0f}"
    return f"dissolve-{blake2b(text.encode(), digest_size=5).hexdigest()}"


def _called(pod: PodOfPlan) -> str:
    return f"{pod.namespace}/{pod.name}"
