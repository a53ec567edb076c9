"""The move off a contended card, sought in the plainest way: every card's hint is read again for
every pod, and each trial is a copy of the fleet of its own."""

from __future__ import annotations

import numpy as np

from tessera_core.rebalance.cluster_view import ClusterView, Seats, take_off
from tessera_core.rebalance.joint_fit import place_of
from tessera_core.rebalance.movable_pods import RunningPod
from tessera_core.rebalance.relieve_contention import ContentionRules
from tessera_schema.messages.hints import CardHint
from tessera_schema.reasons import Reason

Move = tuple[str, str, str, float, float]
"""Pod, the card that it leaves, the node that it comes to, cost and gain."""


def move_of(view: ClusterView, rules: ContentionRules) -> Move | None:
    """The move that wins most; None where there is none."""
    for node, hint in _contended(view, rules):
        if view.spent.settling.get(node, 0) > view.now:
            continue
        found = _from_card(view, rules, node, hint)
        if found is not None:
            return found
    return None


def _contended(view: ClusterView, rules: ContentionRules) -> list[tuple[str, CardHint]]:
    every = [(node, hint) for node, cards in view.hints.items() for hint in cards.values()]
    return sorted(
        (
            (node, hint) for node, hint in every
            if hint.contended_percent >= rules.from_percent and hint.confidence >= rules.confidence
        ),
        key=lambda one: (-one[1].contended_percent, one[0], one[1].card),
    )  # fmt: skip


def _from_card(view: ClusterView, rules: ContentionRules, node: str, hint: CardHint) -> Move | None:
    on = [
        one for one in view.running.values()
        if one.grant.node == node and any(share.card == hint.card for share in one.grant.shares)
    ]  # fmt: skip
    movable = [one for one in on if len(on) > 1 and not view.stay((one,))]
    for one in sorted(movable, key=lambda m: (view.cost((m,)), m.uid)):
        target = _target(view, rules, one)
        if target is not None:
            gain = hint.contended_percent / 100 * view.rules.worth.horizon_s
            cost = view.cost((one,))
            worth = gain >= view.rules.worth.times * cost
            return (one.named.name, hint.card, target, round(cost, 1), gain) if worth else None
    return None


def _target(view: ClusterView, rules: ContentionRules, one: RunningPod) -> str | None:
    trial = view.ledger.fleet.snapshot()
    take_off(trial, view, (one,))
    rows = Seats(view, (one,)).rows(trial, one.pod)
    trial.cards = trial.cards.copy("blocked")
    for node, row in trial.rows.items():
        for column, card in enumerate(trial.facts[row]):
            hint = view.hints.get(node, {}).get(card.id)
            if not _rests(hint, rules) and trial.cards.blocked[row, column] == 0:
                trial.cards.blocked[row, column] = Reason.CARD_CORDONED
    settling = (node for node, until in view.spent.settling.items() if until > view.now)
    for node in (one.grant.node, *settling):
        if node in trial.rows:
            rows[np.intp(trial.rows[node])] = False
    found = place_of(view, trial, rows, one)
    return None if found is None else found.node


def _rests(hint: CardHint | None, rules: ContentionRules) -> bool:
    return (
        hint is not None
        and hint.confidence >= rules.confidence
        and hint.contended_percent <= rules.to_percent
        and hint.busy_percent <= rules.busy_percent
    )
