"""From contended cards to idle ones, by what hints say.

Somebody waits for GPU time on the card although another card rests: the pod that costs least moves,
if cards that rest have room for it. Where it comes to in the end the scheduler decides, which goes
by the same hints. It promises no gain: what came is measured afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Bools
from tessera_core.fleet.fleet import Fleet
from tessera_core.rebalance.cluster_view import ClusterView, Seats, take_off
from tessera_core.rebalance.defragment import still_there
from tessera_core.rebalance.joint_fit import place_of
from tessera_core.rebalance.movable_pods import RunningPod
from tessera_schema.messages.hints import CardHint
from tessera_schema.plans import PlanKind, PlanSpec, PlanStep
from tessera_schema.reasons import Reason


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


def relieve(situation: ClusterView, rules: ContentionRules) -> PlanSpec | str:
    """The move that wins most, or why there is none."""
    why = "no card is contended"
    for node, hint in _contended(situation, rules):
        if situation.spent.settling.get(node, 0) > situation.now:
            why = f"{node} is left alone after a move"
            continue
        spec = _move(situation, rules, node, hint)
        if not isinstance(spec, str):
            return spec
        why = spec
    return why


def stale(situation: ClusterView, rules: ContentionRules, spec: PlanSpec) -> str:
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
    if _target(situation, rules, there[0]) is None:
        return f"there is no idle card for {there[0].pod.name} any more"
    return ""


def _contended(situation: ClusterView, rules: ContentionRules) -> Iterator[tuple[str, CardHint]]:
    found = [
        (node, hint)
        for node, cards in situation.hints.items()
        for hint in cards.values()
        if hint.contended_percent >= rules.from_percent and hint.confidence >= rules.confidence
    ]
    yield from sorted(found, key=lambda one: (-one[1].contended_percent, one[0], one[1].card))


def _move(
    situation: ClusterView, rules: ContentionRules, node: str, hint: CardHint
) -> PlanSpec | str:
    on = [
        one
        for one in situation.on(node)
        if any(share.card == hint.card for share in one.grant.shares)
    ]
    if len(on) < 2:
        return f"card {hint.card} has one holder"
    movable = [one for one in on if not situation.stay((one,))]
    worth = situation.rules.worth
    gain = hint.contended_percent / 100 * worth.horizon_s
    for one in sorted(movable, key=lambda m: (situation.cost((m,)), m.uid)):
        cost = situation.cost((one,))
        target = _target(situation, rules, one)
        if target is None:
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
    return f"nobody who may move from card {hint.card} fits on an idle one"


def _target(situation: ClusterView, rules: ContentionRules, one: RunningPod) -> str | None:
    """A node whose idle cards have room for the pod; None where there is none."""
    trial = situation.ledger.fleet.snapshot()
    take_off(trial, situation, (one,))
    rows = Seats(situation, (one,)).rows(trial, one.pod)
    _close(trial, situation, rules)
    if one.grant.node in trial.rows:
        rows[trial.rows[one.grant.node]] = False
    rows &= _settled(trial, situation)
    found = place_of(situation, trial, rows, one)
    return None if found is None else found.node


def _close(trial: Fleet, situation: ClusterView, rules: ContentionRules) -> None:
    """Cards that do not rest take nobody in the trial."""
    trial.cards = trial.cards.copy("blocked")
    shape = trial.cards.blocked.shape
    rests: Bools = np.zeros(shape, np.bool_)
    for node, hints in situation.hints.items():
        row = trial.rows.get(node)
        for column, card in enumerate(trial.facts[row] if row is not None else ()):
            rests[row, column] = _rests(hints, card.id, rules)
    shut = (trial.cards.blocked == 0) & ~rests
    trial.cards.blocked[shut] = Reason.CARD_CORDONED


def _rests(hints: Mapping[str, CardHint], card: str, rules: ContentionRules) -> bool:
    hint = hints.get(card)
    return (
        hint is not None
        and hint.confidence >= rules.confidence
        and hint.contended_percent <= rules.to_percent
        and hint.busy_percent <= rules.busy_percent
    )


def _settled(trial: Fleet, situation: ClusterView) -> Bools:
    rows = np.ones(len(trial.names), np.bool_)
    for node, until in situation.spent.settling.items():
        if until > situation.now and node in trial.rows:
            rows[trial.rows[node]] = False
    return rows
