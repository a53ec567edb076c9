"""Carries plans out, one at a time, each step written down before it is done.

    Proposed, approved --[does it still hold?]--> Started
    for each step:  room reserved for the waiting pod -> stepsBegun + 1 -> the step -> stepsDone + 1
    Done | Failed

A plan that is found Started was interrupted: it goes on where it was. A step that had been begun
is done again, which is harmless: an eviction names the pod's uid, and a pod that is gone is done.
"""

from __future__ import annotations

import asyncio
from typing import Final, NoReturn

from msgspec.structs import replace

from tessera_core.machines.plan import Approved, Broken, Event, Finished, Refuted, advance
from tessera_rebalancer.plan_settings import PaceSettings
from tessera_rebalancer.plans.events import PlanEvents
from tessera_rebalancer.plans.eviction import Evictor
from tessera_rebalancer.plans.planner import RebalancePlanner
from tessera_rebalancer.plans.resize import ResizeRequester
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiRefused, Transient
from tessera_runtime.kube import timestamps
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey
from tessera_runtime.plans.evictions import pods_left
from tessera_runtime.plans.plan_store import PlanGone, PlanObject, PlanStore
from tessera_runtime.plans.room_reservation import RoomReservation, RoomState
from tessera_schema.plans import PlanKind, PlanPhase, PlanStatus, PlanStep

_log: Final = logs.named("tessera.rebalancer.plans.executing")


class PlanExecutor:
    """Carries out plans, one at a time."""

    def __init__(
        self,
        kube: Kube,
        plans: PlanStore,
        planner: RebalancePlanner,
        events: PlanEvents,
        *,
        clock: Clock,
        pace: PaceSettings,
    ) -> None:
        self._plans = plans
        self._planner = planner
        self._events = events
        self._clock = clock
        self._pace = pace
        self._evictor = Evictor(kube, pace)
        self._room = RoomReservation(kube, clock, pace.reserve_s)
        self._resizer = ResizeRequester(kube, pace)

    async def run(self) -> NoReturn:
        """Carry out what has started and what is approved, the oldest first, for ever."""
        while True:
            self._plans.changed.clear()
            try:
                await self.carry_out_all()
            except (Transient, ApiRefused) as e:
                _log.warning("plan put off", why=str(e))
                await asyncio.sleep(self._pace.again_s)
                continue
            await self._plans.changed.wait()

    async def carry_out_all(self) -> None:
        """Go through all plans once. Raises as `Kube.call` does."""
        for plan in (
            *self._plans.in_phase(PlanPhase.STARTED),
            *self._plans.in_phase(PlanPhase.PROPOSED),
        ):
            try:
                await self._advance(plan)
            except PlanGone:
                _log.info("plan is gone, or has changed meanwhile", plan=plan.name)

    async def _advance(self, plan: PlanObject) -> None:
        if plan.status.phase is PlanPhase.PROPOSED:
            started = await self._started(plan)
        else:
            started = await self._plans.read(plan.name)
            if started.status.phase is not PlanPhase.STARTED:
                return
            self._events.publish_phase(started)
        if started is not None:
            await self._carry_out(started)

    # decisions

    async def _started(self, plan: PlanObject) -> PlanObject | None:
        """The plan, started, if it is to be carried out now."""
        if plan.spec.decision == "declined":
            by = f" by {plan.spec.decided_by}" if plan.spec.decided_by else ""
            await self._enter(plan, Refuted(), f"declined{by}")
            return None
        if plan.spec.decision != "approved" or plan.spec.dry_run:
            return None
        plan = await self._plans.read(plan.name)  # a decision may have been taken back
        if plan.spec.decision != "approved" or plan.status.phase is not PlanPhase.PROPOSED:
            return None
        stale = await self._planner.stale(plan)
        if stale:
            await self._enter(plan, Refuted(), stale)
            return None
        before = round(self._planner.contention(plan) or 0, 1)
        started = replace(plan.status, started=self._stamp(), before=before)
        return await self._enter(replace(plan, status=started), Approved(), "")

    async def _enter(self, plan: PlanObject, event: Event, message: str) -> PlanObject:
        """The plan in its next phase, written and published."""
        phase = advance(plan.status.phase, event)
        status = replace(plan.status, phase=phase, message=message)
        if phase is not PlanPhase.STARTED:
            status = replace(status, ended=self._stamp())
        first = plan.status.phase is PlanPhase.PROPOSED
        entered = await self._plans.write_status(plan, status, exact=first)
        self._events.publish_phase(entered)
        return entered

    # steps

    async def _carry_out(self, plan: PlanObject) -> None:
        try:
            await (self._resize(plan) if plan.spec.kind is PlanKind.RESIZE else self._move(plan))
        except PlanGone:
            await self._room.release(plan)
            raise

    async def _move(self, plan: PlanObject) -> None:
        steps = plan.spec.steps
        for number in range(plan.status.steps_done, len(steps)):
            room = await self._room.reserve(plan)
            if room is not RoomState.WAITS:
                await self._end_unneeded(plan, room)
                return
            plan = await self._with_steps(plan, steps_begun=number + 1)
            step = steps[number]
            why = await self._evictor.evict(_key(step))
            if why:
                await self._room.release(plan)
                text = f"{step.pod.namespace}/{step.pod.name} is not evicted: {why}"
                await self._enter(plan, Broken(), text)
                return
            plan = await self._with_steps(plan, steps_done=number + 1)
        await self._enter(plan, Finished(), f"{pods_left(plan.spec)} {steps[0].pod.node}")

    async def _end_unneeded(self, plan: PlanObject, room: RoomState) -> None:
        """End a plan whose waiting pod does not need the room any more."""
        done = plan.status.steps_begun
        text = f"{room}; {done} of {len(plan.spec.steps)} steps were done"
        await self._enter(plan, Finished() if done else Refuted(), text)

    async def _resize(self, plan: PlanObject) -> None:
        room = await self._room.reserve(plan)
        if room is not RoomState.WAITS and not plan.status.steps_begun:
            await self._end_unneeded(plan, room)
            return
        begun = await self._with_steps(plan, steps_begun=len(plan.spec.steps))
        why = await self._resizer.resize(begun)
        if why:
            await self._room.release(begun)
            await self._enter(begun, Broken(), why)
        else:
            done = await self._with_steps(begun, steps_done=len(plan.spec.steps))
            await self._enter(done, Finished(), "the scheduler has granted it")

    async def _with_steps(self, plan: PlanObject, **steps: int) -> PlanObject:
        changed: PlanStatus = replace(plan.status, **steps)
        return plan if changed == plan.status else await self._plans.write_status(plan, changed)

    def _stamp(self) -> str:
        return timestamps.format_time(self._clock.time())


def _key(step: PlanStep) -> PodKey:
    return PodKey(step.pod.namespace, step.pod.name, step.pod.uid)
