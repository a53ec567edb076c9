"""What plans promise, in the ledger: read from the plans, so the next leader promises the same.

A promise holds from the start of its plan, while the pod waits, until the plan fails or time is
over. When all that leave have gone it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tessera_core.ledger.ledger import Ledger
from tessera_core.ledger.promises import CardPromise
from tessera_runtime.plans.plan_store import PlanObject
from tessera_scheduler.cache.pod_reader import PodSummary
from tessera_scheduler.preemption.running_pods import RunningPods
from tessera_schema.grants import Grant
from tessera_schema.plans import PlanPhase, PlanSeat

_PROMISING: Final = (PlanPhase.STARTED, PlanPhase.DONE)


class PlanPromises:
    """Keeps the ledger in step with the plans."""

    def __init__(
        self, ledger: Ledger, pods: RunningPods, freed: Callable[[], object], promise_s: float
    ) -> None:
        """A promise holds for `promise_s` at most; `freed` is called when one ends."""
        self._ledger = ledger
        self._pods = pods
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
        promise, waits = plan.spec.promise, plan.spec.for_pod
        if promise is None or plan.status.phase not in _PROMISING:
            return False
        if now >= plan.former.started + self._promise_s:
            return False
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
    spec = plan.spec
    promise, waits = spec.promise, spec.for_pod
    if promise is None or waits is None:
        raise AssertionError("it promises something")
    return CardPromise(
        plan=plan.name, to=waits.uid, named=f"{waits.namespace}/{waits.name}",
        priority=promise.priority, seats=tuple(map(_grant, promise.seats)),
        leaving=frozenset(step.pod.uid for step in spec.steps),
    )  # fmt: skip


def _grant(seat: PlanSeat) -> Grant:
    pod = seat.pod
    return Grant(
        uid=pod.uid, namespace=pod.namespace, name=pod.name, node=pod.node, shares=seat.shares
    )
