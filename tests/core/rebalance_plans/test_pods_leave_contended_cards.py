"""A card is contended while others rest: one of its pods moves, if hints are to be trusted."""

from __future__ import annotations

from typing import Any

import pytest

from tessera_core.rebalance.cluster_view import ClusterView, PlanRules, WorthRules
from tessera_core.rebalance.plan_budget import Spent
from tessera_core.rebalance.relieve_contention import ContentionRules
from tessera_schema.messages.hints import CardHint
from tessera_schema.plans import PlanKind, PlanSpec
from tests.core.rebalance_plans.clusters import HOUR_S, NOW, Cluster, lapsed, relieve

RULES = ContentionRules()


def hints(**facts: tuple[float, float, float]) -> list[tuple[str, CardHint]]:
    """Node -> contended, busy, confidence, of its first card."""
    return [
        (node, CardHint(
            card=f"{node}-0", contended_percent=contended, busy_percent=busy, confidence=trust
        ))
        for node, (contended, busy, trust) in facts.items()
    ]  # fmt: skip


CONTENDED = hints(n0=(80, 100, 1), n1=(0, 5, 1))


def crowded() -> Cluster:
    """Two pods on n0, nobody on n1."""
    cluster = Cluster({"n0": 1, "n1": 1})
    cluster.runs("a", "n0", 0, 4000)
    cluster.runs("b", "n0", 0, 4000, age_s=HOUR_S)
    return cluster


def test_the_pod_that_costs_less_moves_to_the_idle_card() -> None:
    spec = relieve(crowded().situation(hints=CONTENDED), RULES)
    assert isinstance(spec, PlanSpec)
    assert spec.kind is PlanKind.MOVE
    assert [(s.pod.name, s.pod.node, s.to_node) for s in spec.steps] == [("b", "n0", "n1")]
    assert spec.for_pod is None
    assert spec.gain == 0.8 * HOUR_S
    assert "card n0-0 on n0 is contended 80 % of the time" in spec.reason


@pytest.mark.parametrize(
    ("reported", "why"),
    [
        (hints(n0=(39, 100, 1), n1=(0, 5, 1)), "no card is contended"),
        (hints(n0=(80, 100, 0.5), n1=(0, 5, 1)), "no card is contended"),
        (hints(n0=(80, 100, 1), n1=(6, 5, 1)), "fits on an idle one"),
        (hints(n0=(80, 100, 1), n1=(0, 60, 1)), "fits on an idle one"),
        (hints(n0=(80, 100, 1), n1=(0, 5, 0.3)), "fits on an idle one"),
        (hints(n0=(80, 100, 1)), "fits on an idle one"),
        ([], "no card is contended"),
    ],
)
def test_without_trustworthy_hints_nobody_moves(
    reported: list[tuple[str, CardHint]], why: str
) -> None:
    found = relieve(crowded().situation(hints=reported), RULES)
    assert isinstance(found, str)
    assert why in found


def test_the_only_holder_of_a_card_stays() -> None:
    cluster = Cluster({"n0": 1, "n1": 1})
    cluster.runs("a", "n0", 0)
    assert relieve(cluster.situation(hints=CONTENDED), RULES) == "card n0-0 has one holder"


def test_nobody_moves_where_there_is_no_room() -> None:
    cluster = crowded()
    cluster.runs("c", "n1", 0, 14000)
    found = relieve(cluster.situation(hints=CONTENDED), RULES)
    assert found == "nobody who may move from card n0-0 fits on an idle one"


def test_what_would_cost_more_than_it_wins_is_not_proposed() -> None:
    rules = PlanRules(worth=WorthRules(times=10))
    found = relieve(crowded().situation(rules, CONTENDED), RULES)
    assert isinstance(found, str)
    assert "card-seconds and gain 2880" in found


def settling(cluster: Cluster, **more: Any) -> ClusterView:
    return cluster.situation(hints=CONTENDED, spent=Spent(settling=more))


def test_after_a_move_its_nodes_are_left_alone() -> None:
    assert relieve(settling(crowded(), n0=NOW + 1), RULES) == "n0 is left alone after a move"
    assert isinstance(relieve(settling(crowded(), n1=NOW + 1), RULES), str)
    assert isinstance(relieve(settling(crowded(), n0=NOW - 1, n1=NOW - 1), RULES), PlanSpec)


def test_a_move_holds_while_the_card_is_contended_and_another_rests() -> None:
    cluster = crowded()
    spec = relieve(cluster.situation(hints=CONTENDED), RULES)
    assert isinstance(spec, PlanSpec)
    assert lapsed(cluster.situation(hints=CONTENDED), RULES, spec) == ""
    calm = hints(n0=(10, 50, 1), n1=(0, 5, 1))
    assert "card n0-0 is no longer contended" in lapsed(cluster.situation(hints=calm), RULES, spec)
    busy = hints(n0=(80, 100, 1), n1=(50, 100, 1))
    assert "no idle card" in lapsed(cluster.situation(hints=busy), RULES, spec)


def test_a_trial_leaves_the_ledger_alone() -> None:
    cluster = crowded()
    relieve(cluster.situation(hints=CONTENDED), RULES)
    assert not cluster.ledger.fleet.cards.blocked.any()
