"""A round of proposals: what would be worth changing now, the most urgent first.

Pure: the caller writes the plans down. Equal situations give equal plans with equal names, so
that one that was written without an answer is not written twice, and one that was declined is not
proposed again while it is kept.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Container, Iterator, Mapping
from hashlib import blake2b

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.rebalance import defragment, resize_proposals
from tessera_core.rebalance import relieve_contention as contention
from tessera_core.rebalance.cluster_view import (
    ClusterView,
    Movable,
    PlanRules,
    WaitingPod,
    movable,
)
from tessera_core.rebalance.plan_gains import GainRules
from tessera_core.rebalance.relieve_contention import CardOfNode, ContentionRules
from tessera_core.rebalance.resize_proposals import ResizeRules
from tessera_core.slices import Slices, at_once
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
            case PlanKind.PREEMPT | PlanKind.RECLAIM | PlanKind.DISSOLVE:
                return False


class ProposalRules(Struct, frozen=True, kw_only=True):
    """Everything that proposals go by."""

    plan: PlanRules = PlanRules()
    contention: ContentionRules = ContentionRules()
    resizes: ResizeRules = ResizeRules()
    gain: GainRules = GainRules()
    kinds: EnabledPlanKinds = EnabledPlanKinds()
    shapes: int = 4
    """Shapes of waiting pods for which room is sought in one round."""
    cards: int = 20
    """Contended cards from which a pod is moved away if it fits elsewhere, in one round."""


class ProposalRound(Struct, frozen=True, kw_only=True):
    """What a round found."""

    specs: Mapping[str, PlanSpec]
    """By name."""
    why_not: Mapping[str, str]
    """Waiting pods, and cards, for which there is no plan, with why."""
    passed: frozenset[CardOfNode] = frozenset()
    """Contended cards that the next round need not try."""


def propose(
    situation: ClusterView, rules: ProposalRules, known: Container[str] = ()
) -> ProposalRound:
    """At most one plan: the next round sees what this one has spent. `known` are the names of plans
    that there are. All contended cards are tried."""
    return at_once(proposing(situation, replace(rules, cards=sys.maxsize), known))


def proposing(
    situation: ClusterView, rules: ProposalRules, known: Container[str] = (),
    passed: Collection[CardOfNode] = (),
) -> Slices[ProposalRound]:  # fmt: skip
    """The same in slices. `passed` are the contended cards that rounds before this one have
    tried."""
    before = frozenset(passed)
    if situation.spent.open >= rules.plan.budget.open:
        why = f"{situation.spent.open} plans are open"
        return ProposalRound(specs={}, why_not={"": why}, passed=before)
    why_not: dict[str, str] = {}
    able, urgent = (yield from movable(situation)), (yield from _urgent(situation, rules))
    resizes = rules.kinds.resize and any(True for _ in situation.measured)
    yield
    for about, search in _searches(situation, rules, able, urgent, resizes=resizes):
        found = _unless_known((yield from search), known)
        yield
        if not isinstance(found, str):
            return ProposalRound(specs=_named(found), why_not=why_not, passed=before)
        why_not[about] = found
    if not (rules.kinds.move and situation.hints):
        return ProposalRound(specs={}, why_not=why_not)
    relief = yield from contention.relieve(situation, rules.contention, before, rules.cards)
    moved = relief.why if relief.plan is None else _unless_known(relief.plan, known)
    if not isinstance(moved, str):
        return ProposalRound(specs=_named(moved), why_not=why_not)
    return ProposalRound(specs={}, why_not={**why_not, "cards": moved}, passed=relief.passed)


def stale(situation: ClusterView, rules: ProposalRules, spec: PlanSpec) -> Slices[str]:
    """Why a plan that has not started does not hold any more; empty when it does. The situation
    must not count the plan itself."""
    match spec.kind:
        case PlanKind.DEFRAGMENT:
            return (yield from defragment.stale(situation, spec))
        case PlanKind.MOVE:
            return (yield from contention.stale(situation, rules.contention, spec))
        case PlanKind.RESIZE:
            return resize_proposals.stale(situation, spec)
        case PlanKind.PREEMPT | PlanKind.RECLAIM | PlanKind.DISSOLVE:
            return "it is the scheduler's to carry out"


def plan_name(spec: PlanSpec) -> str:
    """The object's name: the same for the same change of the same pods."""
    about = [step.pod.uid + step.container + step.card for step in spec.steps]
    if spec.for_pod is not None:
        about.append(spec.for_pod.uid)
    text = "/".join([*about, *(f"{s.memory}:{s.cores}" for s in spec.steps if s.container)])
    return f"{spec.kind.lower()}-{blake2b(text.encode(), digest_size=5).hexdigest()}"


def _named(spec: PlanSpec) -> dict[str, PlanSpec]:
    return {plan_name(spec): spec}


def _unless_known(found: PlanSpec | str, known: Container[str]) -> PlanSpec | str:
    if isinstance(found, str) or plan_name(found) not in known:
        return found
    return f"plan {plan_name(found)} was proposed before"


def _searches(
    situation: ClusterView, rules: ProposalRules, able: Movable, urgent: list[WaitingPod], *,
    resizes: bool,
) -> Iterator[tuple[str, Slices[PlanSpec | str]]]:  # fmt: skip
    """What each search is about, and the search."""
    for waits in urgent:
        if resizes:
            yield waits.pod.name, resize_proposals.give_back(situation, rules.resizes, waits)
        if rules.kinds.defragment:
            yield waits.pod.name, defragment.defragment(situation, waits, able)
    if resizes:
        yield "containers", resize_proposals.grow(situation, rules.resizes)


def _urgent(situation: ClusterView, rules: ProposalRules) -> Slices[list[WaitingPod]]:
    """Waiting pods, one of each shape: what matters most, then who has waited longest. A pod in
    each slice."""
    first: dict[object, tuple[tuple[float, float, str], WaitingPod]] = {}
    for waits in situation.waiting.values():
        if situation.now - waits.since >= rules.plan.worth.wait_s:
            shape = waits.request.namespace, waits.request.containers
            place = -waits.priority, waits.since, waits.pod.metadata.uid
            if shape not in first or place < first[shape][0]:
                first[shape] = place, waits
        yield
    ranked = sorted(first.values(), key=lambda each: each[0])
    return [waits for _, waits in ranked[: rules.shapes]]
