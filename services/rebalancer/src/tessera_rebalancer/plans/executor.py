"""Carries plans out, one at a time, each step written down before it is done.

    Proposed, approved --[does it still hold?]--> Started
    for each step:  room kept for who waits -> stepsBegun + 1 -> the step -> stepsDone + 1
    Done | Failed

A plan that is found Started was interrupted: it goes on where it was. A step that had been begun
is done again, which is harmless: an eviction names the pod's uid, and a pod that is gone is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.machines.plan import Approved, Broken, Event, Finished, Refuted, advance
from tessera_rebalancer.plans.events import PlanEvents
from tessera_rebalancer.plans.eviction import Evictor
from tessera_rebalancer.plans.plan_store import PlanGone, PlanObject, PlanStore
from tessera_rebalancer.plans.reservation import RoomReservation, RoomState
from tessera_rebalancer.plans.resize import ResizeRequester
from tessera_rebalancer.plans.settings import PaceSettings
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.errors import ApiRefused, Transient
from tessera_runtime.kube import timestamps
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.binding import PodKey
from tessera_schema.plans import PlanKind, PlanPhase, PlanStatus, PlanStep

_log: Final = logs.named("tessera.rebalancer.plans.executing")


class ExecutorDependencies(Struct, frozen=True, kw_only=True):
    """What plans are carried out with."""

    kube: Kube
    plans: PlanStore
    teller: PlanEvents
    clock: Clock
    pace: PaceSettings
    stale: Callable[[PlanObject], Awaitable[str]]
    """Why a plan that has not started does not hold; empty when it does."""
    contention: Callable[[PlanObject], float | None]
    """Of the card that a plan is about, percent of the time; None = nobody knows."""


class PlanExecutor:
    """Carries out."""

    def __init__(self, means: ExecutorDependencies) -> None:
        """`run` does it."""
        self._means = means
        self._evicting = Evictor(means.kube, means.pace)
        self._room = RoomReservation(means.kube, means.clock, means.pace)
        self._resizing = ResizeRequester(means.kube, means.pace)

    async def run(self) -> NoReturn:
        """Carry out what has started and what is approved, the oldest first, for ever."""
        plans = self._means.plans
        while True:
            plans.news.clear()
            try:
                await self.turn()
            except (Transient, ApiRefused) as e:
                _log.warning("plan put off", why=str(e))
                await asyncio.sleep(self._means.pace.again_s)
                continue
            await plans.news.wait()

    async def turn(self) -> None:
        """One walk over all plans. Raises as `Kube.call` does."""
        plans = self._means.plans
        for sight in (*plans.in_phase(PlanPhase.STARTED), *plans.in_phase(PlanPhase.PROPOSED)):
            try:
                await self._look_at(sight)
            except PlanGone:
                _log.info("plan is gone, or has changed meanwhile", plan=sight.name)

    async def _look_at(self, sight: PlanObject) -> None:
        if sight.status.phase is PlanPhase.PROPOSED:
            started = await self._decided(sight)
        else:
            started = await self._means.plans.read(sight.name)
            if started.status.phase is not PlanPhase.STARTED:
                return
            self._means.teller.entered(started)
        if started is not None:
            await self._carry_out(started)

    # -- decisions

    async def _decided(self, sight: PlanObject) -> PlanObject | None:
        """The plan, started, if it is to be carried out now."""
        if sight.spec.decision == "declined":
            by = f" by {sight.spec.decided_by}" if sight.spec.decided_by else ""
            await self._enter(sight, Refuted(), f"declined{by}")
            return None
        if sight.spec.decision != "approved" or sight.spec.dry_run:
            return None
        sight = await self._means.plans.read(sight.name)  # a decision may have been taken back
        if sight.spec.decision != "approved" or sight.status.phase is not PlanPhase.PROPOSED:
            return None
        stale = await self._means.stale(sight)
        if stale:
            await self._enter(sight, Refuted(), stale)
            return None
        before = round(self._means.contention(sight) or 0, 1)
        started = replace(sight.status, started=self._stamp(), before=before)
        return await self._enter(replace(sight, status=started), Approved(), "")

    async def _enter(self, sight: PlanObject, event: Event, message: str) -> PlanObject:
        """The plan in its next phase, written and told."""
        phase = advance(sight.status.phase, event)
        status = replace(sight.status, phase=phase, message=message)
        if phase is not PlanPhase.STARTED:
            status = replace(status, ended=self._stamp())
        first = sight.status.phase is PlanPhase.PROPOSED
        entered = await self._means.plans.put(sight, status, exact=first)
        self._means.teller.entered(entered)
        return entered

    # -- steps

    async def _carry_out(self, sight: PlanObject) -> None:
        try:
            await (self._resize(sight) if sight.spec.kind is PlanKind.RESIZE else self._move(sight))
        except PlanGone:
            await self._room.give_up(sight)
            raise

    async def _move(self, sight: PlanObject) -> None:
        steps = sight.spec.steps
        for number in range(sight.status.steps_done, len(steps)):
            kept = await self._room.keep(sight)
            if kept is not RoomState.WAITS:
                await self._needless(sight, kept)
                return
            sight = await self._written(sight, steps_begun=number + 1)
            step = steps[number]
            why = await self._evicting.evict(_key(step))
            if why:
                await self._room.give_up(sight)
                text = f"{step.pod.namespace}/{step.pod.name} is not evicted: {why}"
                await self._enter(sight, Broken(), text)
                return
            sight = await self._written(sight, steps_done=number + 1)
        await self._enter(sight, Finished(), f"{len(steps)} pods have left {steps[0].pod.node}")

    async def _needless(self, sight: PlanObject, kept: RoomState) -> None:
        """The pod for which room was made needs it no more."""
        done = sight.status.steps_begun
        text = f"{kept}; {done} of {len(sight.spec.steps)} steps were done"
        await self._enter(sight, Finished() if done else Refuted(), text)

    async def _resize(self, sight: PlanObject) -> None:
        kept = await self._room.keep(sight)
        if kept is not RoomState.WAITS and not sight.status.steps_begun:
            await self._needless(sight, kept)
            return
        begun = await self._written(sight, steps_begun=len(sight.spec.steps))
        why = await self._resizing.resize(begun)
        if why:
            await self._room.give_up(begun)
            await self._enter(begun, Broken(), why)
        else:
            done = await self._written(begun, steps_done=len(sight.spec.steps))
            await self._enter(done, Finished(), "the scheduler has granted it")

    async def _written(self, sight: PlanObject, **steps: int) -> PlanObject:
        changed: PlanStatus = replace(sight.status, **steps)
        return sight if changed == sight.status else await self._means.plans.put(sight, changed)

    def _stamp(self) -> str:
        return timestamps.format_time(self._means.clock.time())


def _key(step: PlanStep) -> PodKey:
    return PodKey(step.pod.namespace, step.pod.name, step.pod.uid)
