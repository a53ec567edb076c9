"""What plans promise, in the ledger: read from the plans, so the next leader promises the same.

A promise holds from the start of its plan, while the pod or gang waits, until the plan fails or
time is over. When all that leave have gone it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tessera_core.gang_scheduling.registry import GangRegistry
from tessera_core.ledger.ledger import Ledger
from tessera_core.ledger.promises import CardPromise
from tessera_core.preemption.eviction_budgets import preemptor_of
from tessera_runtime.plans.plan_store import PlanObject
from tessera_scheduler.cache.pod_reader import PodSummary
from tessera_scheduler.preemption.pending_gangs import why_over
from tessera_scheduler.preemption.running_pods import RunningPods
from tessera_schema.grants import Grant
from tessera_schema.plans import PlanPhase, PlanSeat, PlanSpec

_PROMISING: Final = (PlanPhase.STARTED, PlanPhase.DONE)


class PlanPromises:
    """Keeps the ledger in step with the plans."""

    def __init__(
        self,
        ledger: Ledger,
        pods: RunningPods,
        gangs: GangRegistry | None,
        *,
        freed: Callable[[], object],
        promise_s: float,
    ) -> None:
        """A promise holds for `promise_s` at most; `freed` is called when one ends. Without `gangs`
        none starts whole."""
        self._ledger = ledger
        self._pods = pods
        self._gangs = gangs
        self._freed = freed
        self._promise_s = promise_s
        self._waiting: set[str] = set()
        """Uids of pods without a node."""

    def follow(self, plans: Iterable[PlanObject], now: float) -> None:
        """These are all plans; `now` is Unix time."""
        open_ = sorted((plan for plan in plans if self._holds(plan, now)), key=lambda p: p.name)
        promises = tuple(map(_promise, open_))
        before = self._ledger.promises
        if self._ledger.set_promises(promises):
            leaving = (uid for each in promises for uid in each.leaving)
            self._pods.set_leaving(frozenset(leaving))
            if {each.plan for each in before} - {each.plan for each in promises}:
                self._freed()

    def _holds(self, plan: PlanObject, now: float) -> bool:
        waits, gang = plan.spec.for_pod, plan.spec.for_gang
        if plan.spec.promise is None or plan.status.phase not in _PROMISING:
            return False
        if now >= plan.former.started + self._promise_s:
            return False
        if gang:
            return self._gangs is not None and not why_over(self._gangs, gang)
        return waits is not None and waits.uid in self._waiting

    # -- what watches show

    def on_pod_list(self, items: Sequence[PodSummary]) -> None:
        """Take all pods."""
        self._waiting = {item.uid for item in items if _waits(item)}

    def on_pod(self, item: PodSummary) -> None:
        """Take a pod that was added or modified."""
        if _waits(item):
            self._waiting.add(item.uid)
        else:
            self._waiting.discard(item.uid)

    def on_pod_gone(self, item: PodSummary) -> None:
        """Take a pod that was deleted, or has ended."""
        self._waiting.discard(item.uid)


def _waits(item: PodSummary) -> bool:
    return not item.node and not item.ended


def _promise(plan: PlanObject) -> CardPromise:
    spec, promise = plan.spec, plan.spec.promise
    if promise is None:
        raise AssertionError("it promises something")
    return CardPromise(
        plan=plan.name, to=preemptor_of(spec), named=named(spec), priority=promise.priority,
        seats=tuple(map(_grant, promise.seats)),
        leaving=frozenset(step.pod.uid for step in spec.steps),
    )  # fmt: skip


def named(spec: PlanSpec) -> str:
    """The pod or gang that the plan is for, as messages name it."""
    if spec.for_gang:
        return f"gang {spec.for_gang.partition('/')[2]}"
    return "a pod" if spec.for_pod is None else f"{spec.for_pod.namespace}/{spec.for_pod.name}"


def _grant(seat: PlanSeat) -> Grant:
    pod = seat.pod
    return Grant(
        uid=pod.uid, namespace=pod.namespace, name=pod.name, node=pod.node, shares=seat.shares
    )
