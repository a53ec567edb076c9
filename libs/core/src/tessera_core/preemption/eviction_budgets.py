"""How many pods preemption may evict, and which pods it evicts none for yet: counted from its
plans, which are kept, so that a restart forgets nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from tessera_core.rebalance.plan_budget import HOUR_S, Former
from tessera_schema.plans import PlanPhase, PlanSpec, PodOfPlan

BARS_S: Final = (300.0, 900.0, 3600.0)
"""Seconds after its first, second and each further plan in which nobody is evicted for a pod that
still waits."""


class EvictionBudget(Struct, frozen=True, kw_only=True):
    """Evictions that are allowed."""

    owner_an_hour: int = 2
    """Pods of one controller within an hour; a gang that goes whole counts as one."""
    namespace_an_hour: int = 10
    cluster_an_hour: int = 60
    of_a_plan: int = 32
    plans: int = 4
    """Plans that are carried out at a time."""


def barred(plans: Iterable[Former], whose: str, now: float) -> str:
    """Why nobody is evicted for this pod (uid) or gang (id) just now: it had what was evicted for
    it, and did not start. Empty when somebody may be."""
    own = [plan for plan in plans if preemptor_of(plan.spec) == whose]
    if any(plan.status.phase in (PlanPhase.PROPOSED, PlanPhase.STARTED) for plan in own):
        return "pods are being evicted for it"
    ends = sorted(plan.ended for plan in own if plan.status.steps_begun)
    if not ends:
        return ""
    until = ends[-1] + BARS_S[min(len(ends), len(BARS_S)) - 1]
    if now >= until:
        return ""
    times = "once" if len(ends) == 1 else f"{len(ends)} times"
    return f"pods were evicted for it {times} and it still waits: none for {until - now:.0f} s"


def preemptor_of(spec: PlanSpec) -> str:
    """The id of the gang, or the uid of the pod, that the plan is for; empty for nobody."""
    return spec.for_gang or ("" if spec.for_pod is None else spec.for_pod.uid)


def overspent(
    plans: Sequence[Former], victims: Sequence[PodOfPlan], budget: EvictionBudget, now: float
) -> str:
    """Why these pods together are more than may go now, in numbers; empty when they are not."""
    if len(victims) > budget.of_a_plan:
        return f"{len(victims)} pods would go, {budget.of_a_plan} may at a time"
    open_ = sum(plan.status.phase is PlanPhase.STARTED for plan in plans)
    if open_ >= budget.plans:
        return f"{open_} plans are being carried out, {budget.plans} may be at a time"
    late = [pod for plan in plans for pod in _evicted(plan, now)]
    if len(late) + len(victims) > budget.cluster_an_hour:
        return f"{len(late)} of {budget.cluster_an_hour} pods were evicted within the hour"
    namespaces, owners = _units_by_namespace(late), _units_by_owner(late)
    for namespace, count in _units_by_namespace(victims).items():
        if namespaces[namespace] + count > budget.namespace_an_hour:
            had, most = namespaces[namespace], budget.namespace_an_hour
            return f"{had} of {most} pods of namespace {namespace} were evicted within the hour"
    for owner in {pod.owner for pod in victims if pod.owner}:
        if owners[owner] >= budget.owner_an_hour:
            name = next(pod.name for pod in victims if pod.owner == owner)
            most = budget.owner_an_hour
            return f"the controller of {name} has lost {most} pods within the hour"
    return ""


def _units_by_namespace(pods: Iterable[PodOfPlan]) -> Counter[str]:
    """What counts as one is a pod, or a gang that goes whole."""
    return Counter(where for where, _ in {(pod.namespace, pod.gang or pod.uid) for pod in pods})


def _units_by_owner(pods: Iterable[PodOfPlan]) -> Counter[str]:
    return Counter(
        who for who, _ in {(pod.owner, pod.gang or pod.uid) for pod in pods if pod.owner}
    )


def _evicted(plan: Former, now: float) -> Iterator[PodOfPlan]:
    """The pods that it evicted, or was about to, within the hour."""
    if plan.started and max(plan.started, plan.ended) > now - HOUR_S and plan.status.steps_begun:
        yield from (step.pod for step in plan.spec.steps)
