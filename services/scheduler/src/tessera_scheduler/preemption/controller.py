"""Decides which pods others are evicted for, and has it done: the leading replica, and nobody else.

A plan is the record of a decision: it is written before the first eviction, a replica that takes
over goes on with it, and budgets and pauses are counted from those that are there.
"""

from __future__ import annotations

import asyncio
from typing import Final, NoReturn

from msgspec.structs import replace

from tessera_core.gangs.queue_lending import GRACE_S
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.plan import Approved, Refuted, advance
from tessera_core.preemption.eviction_budgets import (
    EvictionBudget,
    barred,
    overspent,
)
from tessera_core.preemption.messages import sentence
from tessera_core.preemption.preemption import Preemption
from tessera_core.scheduling.pod_request import card_request
from tessera_runtime import logs
from tessera_runtime.errors import ApiRefused, TesseraError, Transient
from tessera_runtime.kube import timestamps
from tessera_runtime.kube.binding import PodKey, read_back
from tessera_runtime.plans.plan_store import PlanGone, PlanObject, PlanStore
from tessera_scheduler.plan_rounds import KEEP_S, ROUND_S, run_rounds
from tessera_scheduler.preemption.advisor import PreemptionAdvisor
from tessera_scheduler.preemption.environment import PreemptionEnvironment
from tessera_scheduler.preemption.executor import NotLeadingAnyMore, PreemptionExecutor
from tessera_scheduler.preemption.pending_gangs import PendingGangs
from tessera_scheduler.preemption.pending_preemptors import (
    PendingPreemptor,
    PendingPreemptors,
    due,
)
from tessera_scheduler.preemption.plan_specs import plan_name, plan_spec
from tessera_scheduler.preemption.promises import PlanPromises
from tessera_schema.plans import (
    PlanKind,
    PlanPhase,
    PlanSpec,
    PlanStatus,
    PodOfPlan,
)

LATER_S: Final = 60.0
"""Seconds after which a pod for which nobody could be evicted is tried again."""
_BY: Final = "TESSERA_PREEMPTION_MODE"
_log: Final = logs.named("tessera.scheduler.preemption")


class PreemptionController:
    """Decides, in rounds."""

    def __init__(
        self,
        environment: PreemptionEnvironment,
        *,
        ledger: Ledger,
        waiting: PendingPreemptors,
        advisor: PreemptionAdvisor,
        executor: PreemptionExecutor,
        plans: PlanStore,
        promises: PlanPromises,
        gangs: PendingGangs | None,
    ) -> None:
        """`plans` are of the kind that preemption makes; without `gangs` none starts whole."""
        self._kube = environment.kube
        self._registry = environment.registry
        self._clock = environment.clock
        self._settings = environment.settings
        self._calls = environment.calls
        self._ledger = ledger
        self._waiting = waiting
        self._advisor = advisor
        self._executor = executor
        self._plans = plans
        self._promises = promises
        self._gangs = gangs
        self._leadership = environment.leadership
        self._budget = EvictionBudget()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._term = ""
        """Of the Lease, under which the plans were listed."""

    async def run(self) -> NoReturn:
        """Watch plans and decide, until cancelled."""
        await run_rounds(self._kube, self._plans, self._calls, self._round)

    async def restore(self) -> None:
        """Promise what the plans of a former leader promise: a replica does it before it answers
        for any pod."""
        while True:
            try:
                await self._plans.list_now()
            except ApiRefused as e:  # plans are not installed, or may not be read
                _log.warning("promises not read", why=str(e))
            except Transient as e:
                _log.warning("promises not read", why=str(e))
                await asyncio.sleep(ROUND_S)
                continue
            self._follow()
            return

    def _follow(self) -> None:
        self._promises.follow(self._plans.known.values(), self._clock.time())

    async def _round(self, group: asyncio.TaskGroup) -> None:
        self._tasks = {name: task for name, task in self._tasks.items() if not task.done()}
        if not self._leadership.leads:
            for task in self._tasks.values():
                task.cancel()
            self._term = ""
            self._promises.follow((), self._clock.time())
            return
        if self._term != self._leadership.term():
            await self._plans.list_now()
            self._term = self._leadership.term()
        self._follow()
        await self._go_on(group)
        await self._plans.delete_ended(self._clock.time() - KEEP_S)
        now = self._clock.time()
        gangs = () if self._gangs is None else self._gangs.all(now)
        for waits in due((*self._waiting.all(), *gangs), now, self._settings.after_s):
            waits.not_before = now + LATER_S
            plan = await self._decide(waits)
            if plan is not None:
                self._begin(group, plan)
                return

    async def _go_on(self, group: asyncio.TaskGroup) -> None:
        """Take up plans that nobody carries out, and remove those that ended long ago."""
        for plan in list(self._plans.known.values()):
            if plan.status.phase is PlanPhase.STARTED and plan.name not in self._tasks:
                self._begin(group, plan)
            elif plan.status.phase is PlanPhase.PROPOSED and plan.name not in self._tasks:
                stamp = timestamps.format_time(self._clock.time())
                status = replace(
                    plan.status, phase=advance(plan.status.phase, Refuted()), ended=stamp,
                    message="the replica that made it has ended",
                )  # fmt: skip
                await self._written(plan, status)

    async def _written(self, plan: PlanObject, status: PlanStatus) -> None:
        try:
            await self._plans.write_status(plan, status)
        except PlanGone:
            _log.info("plan is gone", plan=plan.name)

    def _begin(self, group: asyncio.TaskGroup, plan: PlanObject) -> None:
        self._tasks[plan.name] = group.create_task(self._carried_out(plan), name=plan.name)

    async def _carried_out(self, plan: PlanObject) -> None:
        try:
            await self._executor.carry_out(plan)
        except (NotLeadingAnyMore, PlanGone, TesseraError) as e:
            _log.warning("preemption plan put off", plan=plan.name, why=str(e) or "not leading")
            await asyncio.sleep(ROUND_S)

    # -- decisions

    async def _decide(self, waiting: PendingPreemptor) -> PlanObject | None:
        """A plan for the pod or gang, started; None where nobody is evicted for it now."""
        now, formers = self._clock.time(), self._plans.formers
        why = barred(formers, waiting.whose, now)
        if why:
            self._not(waiting, why)
            return None
        pod = await read_back(self._kube, waiting.key)
        request = card_request(self._registry, self._ledger, pod)
        if pod is None or request is None or pod.spec.node_name or pod.metadata.deletion_timestamp:
            self._waiting.forget(waiting.key.uid)
            return None
        if self._ledger.entry(waiting.key.uid) is not None:
            return None
        found, unread = await self._advisor.find(pod, request)
        if not isinstance(found, Preemption) or not found.units or unread:
            self._not(waiting, unread or sentence(found))
            return None
        spec = plan_spec(waiting, found)
        why = self._too_early(waiting, found, now)
        why = why or overspent(formers, [step.pod for step in spec.steps], self._budget, now)
        why = why or await self._executor.dry_run([_key(step.pod) for step in spec.steps])
        if why or not self._leadership.leads:
            self._not(waiting, why)
            return None
        return await self._started(spec)

    def _too_early(self, waiting: PendingPreemptor, found: Preemption, now: float) -> str:
        """Why queues give nothing back yet; empty when they do, or nobody goes because of that. One
        plan at a time takes back: what it promises does not count as used before it is used."""
        if not found.lenders:
            return ""
        grace_s = GRACE_S.get(found.kind, 0.0) if found.kind is not None else 0.0
        if now < waiting.since + grace_s:
            waiting.not_before = waiting.since + grace_s
            return f"queues give back after {grace_s:g} s of waiting"
        promising = {promise.plan for promise in self._ledger.promises}
        for plan in self._plans.known.values():
            if plan.spec.kind is PlanKind.RECLAIM and plan.name in promising:
                waiting.not_before = now + self._settings.after_s
                return f"plan {plan.name} takes cards back first"
        return ""

    async def _started(self, spec: PlanSpec) -> PlanObject | None:
        name = plan_name(spec, self._clock.time())
        if not await self._plans.create(name, spec):
            return None
        plan = self._plans.known[name]
        stamp = timestamps.format_time(self._clock.time())
        status = replace(plan.status, phase=advance(plan.status.phase, Approved()), started=stamp)
        try:
            begun = await self._plans.write_status(plan, status, exact=True)
        except PlanGone:
            return None
        self._follow()
        return begun

    def _not(self, waiting: PendingPreemptor, why: str) -> None:
        name = f"{waiting.key.namespace}/{waiting.key.name}"
        _log.info("nobody is evicted", pod=name, gang=waiting.gang, why=why)


def _key(pod: PodOfPlan) -> PodKey:
    return PodKey(pod.namespace, pod.name, pod.uid)
