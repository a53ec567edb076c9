"""A round of proposals: what would be worth changing now, the most urgent first.

Pure: the caller writes the plans down. Equal situations give equal plans with equal names, so
that one that was written without an answer is not written twice, and one that was declined is not
proposed again while it is kept.
"""

from __future__ import annotations

from collections.abc import Container, Generator, Iterator, Mapping
from hashlib import blake2b

from msgspec import Struct

from tessera_core.rebalance import defragment, resize_proposals
from tessera_core.rebalance import relieve_contention as contention
from tessera_core.rebalance.cluster_view import (
    ClusterView,
    Movable,
    PlanRules,
    WaitingPod,
    at_once,
    movable,
)
from tessera_core.rebalance.plan_gains import GainRules
from tessera_core.rebalance.relieve_contention import ContentionRules
from tessera_core.rebalance.resize_proposals import ResizeRules
from tessera_schema.plans import PlanKind, PlanSpec


class EnabledPlanKinds(Struct, frozen=True, kw_only=True):
    """Which kinds of plans are proposed."""

    defragment: bool = True
    move: bool = True
    resize: bool = True

    def on(self, kind: PlanKind) -> bool:
        """Whether this one is."""
        match kind:
            case PlanKind.DEFRAGMENT:
                return self.defragment
            case PlanKind.MOVE:
                return self.move
            case PlanKind.RESIZE:
                return self.resize


class ProposalRules(Struct, frozen=True, kw_only=True):
    """Everything that proposals go by."""

    plan: PlanRules = PlanRules()
    contention: ContentionRules = ContentionRules()
    resizes: ResizeRules = ResizeRules()
    gain: GainRules = GainRules()
    kinds: EnabledPlanKinds = EnabledPlanKinds()
    shapes: int = 4
    """Shapes of waiting pods for which room is sought in one round."""


class ProposalRound(Struct, frozen=True, kw_only=True):
    """What a round found."""

    specs: Mapping[str, PlanSpec]
    """By name."""
    why_not: Mapping[str, str]
    """Waiting pods, and cards, for which there is no plan, with why."""


def propose(
    situation: ClusterView, rules: ProposalRules, known: Container[str] = ()
) -> ProposalRound:
    """At most one plan: the next round sees what this one has spent. `known` are the names of plans
    that there are."""
    return at_once(proposing(situation, rules, known))


def proposing(
    situation: ClusterView, rules: ProposalRules, known: Container[str] = ()
) -> Generator[None, None, ProposalRound]:
    """The same; it pauses now and then, for a caller that has other things to do. What changes
    meanwhile is seen when the plan is looked at next."""
    why_not: dict[str, str] = {}
    if situation.spent.open >= rules.plan.budget.open:
        return ProposalRound(specs={}, why_not={"": f"{situation.spent.open} plans are open"})
    able = yield from movable(situation)
    for about, found in _tried(situation, rules, able):
        if isinstance(found, str):
            why_not[about] = found
        elif plan_name(found) in known:
            why_not[about] = f"plan {plan_name(found)} was proposed before"
        else:
            return ProposalRound(specs={plan_name(found): found}, why_not=why_not)
        yield
    return ProposalRound(specs={}, why_not=why_not)


def stale(situation: ClusterView, rules: ProposalRules, spec: PlanSpec) -> str:
    """Why a plan that has not started does not hold any more; empty when it does. The situation
    must not count the plan itself."""
    match spec.kind:
        case PlanKind.DEFRAGMENT:
            return defragment.stale(situation, spec)
        case PlanKind.MOVE:
            return contention.stale(situation, rules.contention, spec)
        case PlanKind.RESIZE:
            return resize_proposals.stale(situation, spec)


def plan_name(spec: PlanSpec) -> str:
    """The object's name: the same for the same change of the same pods."""
    about = [step.pod.uid + step.container + step.card for step in spec.steps]
    if spec.for_pod is not None:
        about.append(spec.for_pod.uid)
    text = "/".join([*about, *(f"{s.memory}:{s.cores}" for s in spec.steps if s.container)])
    return f"{spec.kind.lower()}-{blake2b(text.encode(), digest_size=5).hexdigest()}"


def _tried(
    situation: ClusterView, rules: ProposalRules, able: Movable
) -> Iterator[tuple[str, PlanSpec | str]]:
    for waits in _urgent(situation, rules):
        if rules.kinds.resize and situation.measured:
            yield waits.pod.name, resize_proposals.give_back(situation, rules.resizes, waits)
        if rules.kinds.defragment:
            yield waits.pod.name, defragment.defragment(situation, waits, able)
    if rules.kinds.resize and situation.measured:
        yield "containers", resize_proposals.grow(situation, rules.resizes)
    if rules.kinds.move and situation.hints:
        yield "cards", contention.relieve(situation, rules.contention)


def _urgent(situation: ClusterView, rules: ProposalRules) -> list[WaitingPod]:
    """Waiting pods, one of each shape: what matters most, then who has waited longest."""
    patient = [
        waits
        for waits in situation.waiting.values()
        if situation.now - waits.since >= rules.plan.worth.wait_s
    ]
    patient.sort(key=lambda w: (-w.priority, w.since, w.pod.metadata.uid))
    shapes: dict[object, WaitingPod] = {}
    for waits in patient:
        shapes.setdefault((waits.request.namespace, waits.request.containers), waits)
    return list(shapes.values())[: rules.shapes]
