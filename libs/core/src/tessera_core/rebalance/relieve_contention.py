"""From contended cards to idle ones, by what hints say.

Somebody waits for GPU time on the card although another card rests: the pod that costs least moves,
if cards that rest have room for it. Where it comes to in the end the scheduler decides, which goes
by the same hints. It promises no gain: what came is measured afterwards.

Which cards rest is found once a round, and a round seeks places for the pods of a bounded number of
contended cards, the worst first. The next round goes on with the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Bools
from tessera_core.fleet.fleet import Fleet
from tessera_core.rebalance.cluster_view import ClusterView
from tessera_core.rebalance.defragment import still_there
from tessera_core.rebalance.joint_fit import place_of
from tessera_core.rebalance.movable_pods import RunningPod
from tessera_core.slices import Slices
from tessera_schema.messages.hints import CardHint
from tessera_schema.plans import PlanKind, PlanSpec, PlanStep
from tessera_schema.reasons import Reason

CardOfNode: TypeAlias = tuple[str, str]
"""Node and card."""


class ContentionRules(Struct, frozen=True, kw_only=True):
    """When a pod moves for others' GPU time."""

    from_percent: float = 40.0
    """Contention of a card, percent of the time, from which somebody leaves it."""
    to_percent: float = 5.0
    """Contention of the cards that it comes to, at most."""
    busy_percent: float = 50.0
    """How busy these may be, at most."""
    confidence: float = 0.7
    """Of the hints, at least."""


class Relief(Struct, frozen=True, kw_only=True):
    """What a round found."""

    plan: PlanSpec | None = None
    """The move that wins most."""
    why: str = ""
    """Why there is none."""
    passed: frozenset[CardOfNode] = frozenset()
    """Contended cards that the next round need not try; empty when it begins with the worst
    again."""


class _IdleCards(Struct, frozen=True):
    """Where pods of contended cards may come to."""

    fleet: Fleet
    """A trial in which every card that does not rest is closed."""
    rows: Bools
    """Nodes with a card that rests, which no plan has changed lately."""


def relieve(
    situation: ClusterView,
    rules: ContentionRules,
    passed: Collection[CardOfNode] = (),
    most: int | None = None,
) -> Slices[Relief]:
    """The move that wins most, or why there is none. Places are sought for pods of `most` contended
    cards that are not among those `passed`; None = of all. A slice reads the hints of one node, or
    seeks one place."""
    why, tried = "no card is contended", set[CardOfNode]()
    contended = yield from _contended(situation, rules)
    idle: _IdleCards | None = None
    for node, hint in contended:
        if (node, hint.card) in passed:
            why = "no other card is contended"
            continue
        if situation.spent.settling.get(node, 0) > situation.now:
            why = f"{node} is left alone after a move"
            continue
        on = _may_leave(situation, node, hint)
        yield
        if isinstance(on, str):
            why = on
            continue
        if len(tried) == most:
            return Relief(why=why, passed=frozenset((*passed, *tried)))
        tried.add((node, hint.card))
        if idle is None:
            idle = yield from _idle_cards(situation, rules)
        spec = yield from _move(situation, rules, (node, hint), on, idle)
        if not isinstance(spec, str):
            return Relief(plan=spec)
        why = spec
    return Relief(why=why)


def stale(situation: ClusterView, rules: ContentionRules, spec: PlanSpec) -> Slices[str]:
    """Why the plan does not hold (any more), in words; empty when it does."""
    there = still_there(situation, spec)
    if isinstance(there, str):
        return there
    problem = situation.stay(there)
    if problem:
        return problem
    card = spec.steps[0].card
    hint = situation.hints.get(there[0].grant.node, {}).get(card)
    if hint is None or hint.contended_percent < rules.from_percent:
        return f"card {card} is no longer contended"
    idle = yield from _idle_cards(situation, rules)
    if _target(situation, idle, there[0]) is None:
        return f"there is no idle card for {there[0].pod.name} any more"
    return ""


def _contended(
    situation: ClusterView, rules: ContentionRules
) -> Slices[list[tuple[str, CardHint]]]:
    """The worst first."""
    found = []
    for node, cards in situation.hints.items():
        found += [
            (node, hint)
            for hint in cards.values()
            if hint.contended_percent >= rules.from_percent and hint.confidence >= rules.confidence
        ]
        yield
    return sorted(found, key=lambda one: (-one[1].contended_percent, one[0], one[1].card))


def _may_leave(situation: ClusterView, node: str, hint: CardHint) -> list[RunningPod] | str:
    """The pods that may be moved from the card, the cheapest first; or why nobody may."""
    on = [
        one
        for one in situation.on(node)
        if any(share.card == hint.card for share in one.grant.shares)
    ]
    if len(on) < 2:
        return f"card {hint.card} has one holder"
    movable = [one for one in on if not situation.stay((one,))]
    movable.sort(key=lambda one: (situation.cost((one,)), one.uid))
    return movable or _nobody_fits(hint)


def _move(
    situation: ClusterView, rules: ContentionRules, where: tuple[str, CardHint],
    movable: list[RunningPod], idle: _IdleCards,
) -> Slices[PlanSpec | str]:  # fmt: skip
    node, hint = where
    worth = situation.rules.worth
    gain = hint.contended_percent / 100 * worth.horizon_s
    for one in movable:
        cost = situation.cost((one,))
        target = _target(situation, idle, one)
        if target is None:
            yield
            continue
        if gain < worth.times * cost:
            return f"moving {one.pod.name} would cost {cost:.0f} card-seconds and gain {gain:.0f}"
        return PlanSpec(
            kind=PlanKind.MOVE,
            reason=f"card {hint.card} on {node} is contended {hint.contended_percent:.0f} % of "
            f"the time; {one.pod.name} holds {one.parts:.2g} cards and fits on {target}, on cards "
            f"contended at most {rules.to_percent:g} %: {cost:.0f} card-seconds are lost, "
            f"{gain:.0f} won within {worth.horizon_s:.0f} s",
            steps=(PlanStep(pod=one.named, to_node=target, card=hint.card),),
            cost=round(cost, 1),
            gain=round(gain, 1),
        )
    return _nobody_fits(hint)


def _nobody_fits(hint: CardHint) -> str:
    return f"nobody who may move from card {hint.card} fits on an idle one"


def _target(situation: ClusterView, idle: _IdleCards, one: RunningPod) -> str | None:
    """A node whose idle cards have room for the pod; None where there is none. It is never the
    pod's own, so what the pod holds there need not be taken off."""
    fleet, rows = idle.fleet, idle.rows.copy()
    for node in (one.grant.node, *situation.kubefit.refusals(one.pod)):
        if node in fleet.rows:
            rows[fleet.rows[node]] = False
    found = place_of(situation, fleet, rows, one) if rows.any() else None
    return None if found is None else found.node


def _idle_cards(situation: ClusterView, rules: ContentionRules) -> Slices[_IdleCards]:
    """A node in each slice. Cards that do not rest take nobody in the trial."""
    fleet = situation.ledger.fleet.snapshot()
    rests: Bools = np.zeros(fleet.cards.blocked.shape, np.bool_)
    for node, hints in situation.hints.items():
        row = fleet.rows.get(node)
        for column, card in enumerate(fleet.facts[row] if row is not None else ()):
            rests[row, column] = _rests(hints, card.id, rules)
        yield
    fleet.cards = fleet.cards.copy("blocked")
    fleet.cards.blocked[(fleet.cards.blocked == 0) & ~rests] = Reason.CARD_CORDONED
    rows: Bools = np.logical_or.reduce(rests, axis=1)
    for node, until in situation.spent.settling.items():
        if until > situation.now and node in fleet.rows:
            rows[fleet.rows[node]] = False
    return _IdleCards(fleet, rows)


def _rests(hints: Mapping[str, CardHint], card: str, rules: ContentionRules) -> bool:
    hint = hints.get(card)
    return (
        hint is not None
        and hint.confidence >= rules.confidence
        and hint.contended_percent <= rules.to_percent
        and hint.busy_percent <= rules.busy_percent
    )
