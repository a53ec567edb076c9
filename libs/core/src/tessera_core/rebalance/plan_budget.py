"""What plans have done of late, and how much more they may do: read from the plans themselves, so
that a restart forgets nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final

from msgspec import Struct

from tessera_core.rebalance.movable_pods import MoveRules, RunningPod
from tessera_schema.plans import PlanPhase, PlanSpec, PlanStatus, PlanStep

HOUR_S: Final = 3600.0
_OPEN: Final = (PlanPhase.PROPOSED, PlanPhase.STARTED)


class BudgetRules(Struct, frozen=True, kw_only=True):
    """How much may be done."""

    an_hour: int = 20
    """Pods that may be moved within an hour."""
    namespace_an_hour: int = 5
    """Of these, pods of one namespace."""
    at_most: int = 3
    """Pods that one plan may move."""
    open: int = 10
    """Plans that may wait for a decision at a time."""
    settle_s: float = 900.0
    """Seconds for which a node from or to which a plan moved pods is left out of moves: what is
    measured there is still of before."""


class Former(Struct, frozen=True, kw_only=True):
    """A plan that there is."""

    name: str
    spec: PlanSpec
    status: PlanStatus = PlanStatus()
    started: float = 0
    """Unix time; 0 = it has not."""
    ended: float = 0


class Spent(Struct, frozen=True, kw_only=True):
    """What plans have used up."""

    moves: int = 0
    by_namespace: Mapping[str, int] = {}
    cooling: Mapping[str, float] = {}
    """Owner's uid -> until when its pods are left alone."""
    settling: Mapping[str, float] = {}
    """Node -> until when no pod is moved from or to it by its measurements; infinity while a plan
    is open."""
    resized: Mapping[str, float] = {}
    """Pod's uid -> until when its shares stay as they are."""
    busy: frozenset[str] = frozenset()
    """Uids of pods that plans are about which are open or ended a moment ago."""
    open: int = 0


def spent(
    plans: Iterable[Former], moves: MoveRules, rules: BudgetRules, now: float, *, but: str = ""
) -> Spent:
    """What all plans together have used up, `but` for the one of this name."""
    others = [plan for plan in plans if plan.name != but]
    open_ = [plan for plan in others if plan.status.phase in _OPEN]
    moved = [(step, plan.ended or plan.started) for plan in others for step in _moved(plan)]
    late = Counter(step.pod.namespace for step, at in moved if at > now - HOUR_S)
    cooling: dict[str, float] = {}
    settling: dict[str, float] = {}
    for step, at in moved:
        _until(cooling, step.pod.owner or step.pod.uid, at + moves.cool_down_s)
        for node in (step.pod.node, step.to_node):
            _until(settling, node, at + rules.settle_s)
    for step in (step for plan in open_ for step in plan.spec.steps):
        _until(settling, step.pod.node, inf)
    resized: dict[str, float] = {}
    for plan in others:
        for step in plan.spec.steps[: plan.status.steps_begun]:
            if step.container:
                _until(resized, step.pod.uid, (plan.ended or plan.started) + rules.settle_s)
    about = (*open_, *_late(others, rules, now))
    return Spent(
        resized=resized, moves=late.total(), by_namespace=late, cooling=cooling, settling=settling,
        busy=frozenset(uid for plan in about for uid in _about(plan)),
        open=len(open_),
    )  # fmt: skip


def _late(plans: Iterable[Former], rules: BudgetRules, now: float) -> Iterator[Former]:
    """Plans that were carried out a moment ago: the pod that they were for is about to have its
    place."""
    return (plan for plan in plans if plan.started and plan.ended > now - rules.settle_s)


def _moved(plan: Former) -> list[PlanStep]:
    """The pods that it has moved, or has begun to."""
    return [step for step in plan.spec.steps[: plan.status.steps_begun] if not step.container]


def _about(plan: Former) -> Iterator[str]:
    yield from (step.pod.uid for step in plan.spec.steps)
    if plan.spec.for_pod is not None:
        yield plan.spec.for_pod.uid


def _until(known: dict[str, float], key: str, until: float) -> None:
    known[key] = max(known.get(key, 0), until)


def overspent(spent: Spent, rules: BudgetRules, pods: Sequence[RunningPod]) -> str:
    """Why these pods together are more than may be moved now, in numbers; empty when not."""
    if len(pods) > rules.at_most:
        return f"{len(pods)} pods would have to move, a plan moves {rules.at_most}"
    if spent.moves + len(pods) > rules.an_hour:
        return f"{spent.moves} of {rules.an_hour} pods were moved within the hour"
    counts: dict[str, int] = {}
    for one in pods:
        counts[one.named.namespace] = counts.get(one.named.namespace, 0) + 1
    for namespace, count in counts.items():
        had = spent.by_namespace.get(namespace, 0)
        if had + count > rules.namespace_an_hour:
            most = rules.namespace_an_hour
            return f"{had} of {most} pods of namespace {namespace} were moved within the hour"
    return ""
