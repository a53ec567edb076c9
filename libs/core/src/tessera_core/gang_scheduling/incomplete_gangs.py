"""Which gangs are given up: a part of their pods has a node, the others find none, and the gang has
never started.

Its missing members go before all other gangs. If they find no room all the same, the pods that
have a node hold cards and do nothing: they leave, and the gang waits as a whole again. The rule is
KAI's, which evicts stale gangs. A gang that has started once is left alone, since many frameworks
go on with fewer pods.

A plan is written as soon as a gang is seen to be incomplete. It is the record for a scheduler that
takes over, which cannot see from the pods alone whether there were more of them once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct

from tessera_core.gang_scheduling.attempt import KnownBundle
from tessera_core.gang_scheduling.registry import GangBundle
from tessera_core.machines.gang import GangPhase
from tessera_schema.kube import Pod
from tessera_schema.plans import Decision, PlanKind, PlanPhase, PlanSpec, PlanStep, PodOfPlan

WRITTEN_AFTER_S: Final = 10.0
"""Seconds for which a gang is incomplete before a plan says so: most of them are whole by then."""
LATELY_S: Final = 120.0
"""A gang of which no pod started earlier has not started before: the other ones would be there."""
AGAIN_S: Final = 300.0
"""Seconds after the end of a plan in which no other one is made for the same pods."""
MOST_STEPS: Final = 256
"""Pods of one plan, as its definition allows."""
_OPEN: Final = (PlanPhase.PROPOSED, PlanPhase.STARTED)


class DissolvePlan(Struct, frozen=True, kw_only=True):
    """A plan of the kind that there is."""

    name: str
    gang: str
    """Id of the gang."""
    pods: frozenset[str]
    """Uids of its steps."""
    created: float
    """Unix time."""
    ended: float = 0
    phase: PlanPhase = PlanPhase.PROPOSED
    decision: Decision = ""


class Propose(Struct, frozen=True):
    """Write a plan."""

    spec: PlanSpec


class Withdraw(Struct, frozen=True):
    """Nobody leaves."""

    plan: str
    why: str


class Begin(Struct, frozen=True):
    """The plan's pods leave now."""

    plan: str


DissolveStep = Propose | Withdraw | Begin


class GangDissolving:
    """Decides about all gangs."""

    def __init__(self, after_s: float, started_lately: Callable[[Pod], bool]) -> None:
        """Pods leave `after_s` after their plan was written; 0 = never. `started_lately` says
        whether a pod that has a node started within `LATELY_S`, or has not yet."""
        self._after_s = after_s
        self._started_lately = started_lately

    def next_steps(
        self,
        bundles: Iterable[KnownBundle],
        plans: Iterable[DissolvePlan],
        now: float,
        wall: float,
    ) -> Iterator[DissolveStep]:
        """What is to be done. `now` is the time of the coordinator's clock, `wall` Unix time."""
        by_gang: dict[str, list[DissolvePlan]] = {}
        for plan in plans:
            by_gang.setdefault(plan.gang, []).append(plan)
        for known in bundles:
            found = [plan for each in known.attempt.ids for plan in by_gang.pop(each, ())]
            if known.attempt.phase is GangPhase.BROKEN:
                yield from self._of_broken(known, found, now, wall)
            elif not known.attempt.under_way:
                yield from _withdrawn(found, f"the gang is {known.attempt.phase}")
        for left in by_gang.values():
            yield from _withdrawn(left, "the gang has no pods any more")

    def _of_broken(
        self, known: KnownBundle, plans: list[DissolvePlan], now: float, wall: float
    ) -> Iterator[DissolveStep]:
        pods = pods_with_nodes(known.bundle)
        uids = {pod.metadata.uid for pod in pods}
        if not self._after_s:
            yield from _withdrawn(plans, "gangs that are incomplete stay as they are")
            return
        for plan in _proposed(plans):
            yield from self._of_proposed(plan, uids, wall)
        waits = now < known.attempt.since + WRITTEN_AFTER_S
        if waits or any(_settles(plan, uids, wall) for plan in plans):
            return
        if self._never_started(known, pods, plans):
            yield Propose(_spec(known.bundle, pods, self._after_s))

    def _of_proposed(
        self, plan: DissolvePlan, uids: set[str], wall: float
    ) -> Iterator[DissolveStep]:
        if plan.decision == "declined":
            yield Withdraw(plan.name, "declined")
        elif not uids <= plan.pods:
            yield Withdraw(plan.name, "more of its pods have a node by now")
        elif plan.decision == "approved" or wall >= plan.created + self._after_s:
            yield Begin(plan.name)

    def _never_started(
        self, known: KnownBundle, pods: list[Pod], plans: list[DissolvePlan]
    ) -> bool:
        """Whether the gang has certainly not started before: this scheduler saw how its start
        failed, a plan says so, or no pod of it has run for long and no object says that it has."""
        if known.attempt.started:
            return False
        uids = {pod.metadata.uid for pod in pods}
        failed = any(plan.phase is PlanPhase.FAILED and uids <= plan.pods for plan in plans)
        if known.attempt.incomplete or failed:
            return True
        said = any(members.gang.started for members in known.bundle.gangs)
        return not said and all(map(self._started_lately, pods))


def _withdrawn(plans: Iterable[DissolvePlan], why: str) -> Iterator[Withdraw]:
    return (Withdraw(plan.name, why) for plan in _proposed(plans))


def _proposed(plans: Iterable[DissolvePlan]) -> list[DissolvePlan]:
    return [plan for plan in plans if plan.phase is PlanPhase.PROPOSED]


def _settles(plan: DissolvePlan, uids: set[str], wall: float) -> bool:
    """Whether no other plan is made: there is one, or for the same pods a person has said no, or it
    was tried a moment ago."""
    if plan.phase in _OPEN:
        return True
    tried = plan.decision == "declined" or wall < plan.ended + AGAIN_S
    return tried and uids <= plan.pods


def pods_with_nodes(bundle: GangBundle) -> list[Pod]:
    """The gangs' pods that have a node and have not ended, in the order of their names."""
    found = (member.pod for members in bundle.gangs for member in members.bound)
    return sorted(found, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))


def _spec(bundle: GangBundle, pods: list[Pod], after_s: float) -> PlanSpec:
    least = sum(members.gang.min for members in bundle.gangs)
    return PlanSpec(
        kind=PlanKind.DISSOLVE, for_gang=bundle.key,
        reason=f"gang {bundle.name} has not started: {len(pods)} of {least} members have a node, "
        f"and the others find no room; if that is so for {after_s:g} s these leave, and all wait "
        "for room together",
        steps=tuple(PlanStep(pod=_named(pod)) for pod in pods[:MOST_STEPS]),
    )  # fmt: skip


def _named(pod: Pod) -> PodOfPlan:
    meta = pod.metadata
    return PodOfPlan(
        namespace=meta.namespace or "default", name=meta.name, uid=meta.uid, node=pod.spec.node_name
    )
