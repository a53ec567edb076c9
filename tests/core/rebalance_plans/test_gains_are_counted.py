"""What plans gained, when they are proposed no more, and what they have used up."""

from __future__ import annotations

import pytest

from tessera_core.machines.plan import (
    LEGAL,
    OVER,
    Approved,
    Broken,
    Finished,
    Refuted,
    advance,
)
from tessera_core.machines.state_machine import IllegalTransition
from tessera_core.rebalance.movable_pods import MoveRules
from tessera_core.rebalance.plan_budget import BudgetRules, Former, spent
from tessera_core.rebalance.plan_gains import GainRules, by_contention, by_placement, pause
from tessera_core.rebalance.proposals import ProposalRules, plan_name, propose
from tessera_schema.plans import (
    PlanKind,
    PlanPhase,
    PlanSpec,
    PlanStatus,
    PlanStep,
    PodOfPlan,
)
from tests.core.rebalance_plans.clusters import HOUR_S, NOW, Cluster

POD = PodOfPlan(namespace="team", name="a", uid="u-a", node="n0", owner="rs")
RULES = GainRules(plans=3, share=0.5, pause_s=HOUR_S)


def a_plan(
    *, gain: float = 100, gained: float | None = None, ended: float = NOW, begun: int = 1,
    phase: PlanPhase = PlanPhase.DONE, before: float = 0, name: str = "p",
) -> Former:  # fmt: skip
    spec = PlanSpec(
        kind=PlanKind.MOVE, reason="r", steps=(PlanStep(pod=POD, to_node="n1"),), gain=gain
    )
    status = PlanStatus(phase=phase, steps_begun=begun, gained=gained, before=before)
    return Former(name=name, spec=spec, status=status, started=ended - 10, ended=ended)


@pytest.mark.parametrize(
    ("placed", "left", "now", "gained"),
    [
        (None, None, NOW + 10, None), (None, None, NOW + 1001, 0.0), (None, NOW + 5, NOW + 5, 0.0),
        (NOW, None, NOW + 500, None), (NOW, None, NOW + 1000, 100.0),
        (NOW + 250, None, NOW + 1000, 75.0), (NOW, NOW + 300, NOW + 300, 30.0),
        (NOW - 50, None, NOW + 2000, 100.0), (NOW, NOW + 5000, NOW + 9000, 100.0),
    ],
)  # fmt: skip
def test_who_was_placed_gained_from_then_on(
    placed: float | None, left: float | None, now: float, gained: float | None
) -> None:
    assert by_placement(a_plan(), placed, left, 1000, now) == gained


@pytest.mark.parametrize(
    ("before", "after", "gained"),
    [(80, 20, 75.0), (80, 80, 0.0), (80, 100, 0.0), (80, None, 0.0), (0, 0, 0.0)],
)
def test_a_move_gained_as_much_as_contention_fell(
    before: float, after: float | None, gained: float
) -> None:
    plan = a_plan(before=before)
    assert by_contention(plan, after, 1000, NOW + 999) is None
    assert by_contention(plan, after, 1000, NOW + 1000) == gained


def test_proposing_stops_when_gains_do_not_come_and_begins_again() -> None:
    plans = [a_plan(gained=gained, ended=NOW - n) for n, gained in enumerate((50, 50, 49))]
    stopped = pause(plans, RULES, NOW + 10)
    assert stopped is not None
    assert stopped.why == "the last 3 plans gained 149 of 300 card-seconds, 50% was asked"
    assert stopped.until == NOW + HOUR_S
    assert pause(plans, RULES, NOW + HOUR_S) is None


def test_few_plans_or_good_ones_stop_nothing() -> None:
    bad = [a_plan(gained=0) for _ in range(2)]
    assert pause(bad, RULES, NOW) is None
    assert pause([*bad, a_plan()], RULES, NOW) is None
    assert pause([a_plan(gained=50) for _ in range(3)], RULES, NOW) is None
    old = [a_plan(gained=0, ended=NOW - 100) for _ in range(3)]
    assert pause([*old, *(a_plan(gained=90) for _ in range(3))], RULES, NOW) is None


def test_what_was_moved_counts_for_an_hour_and_cools_down() -> None:
    moves, rules = MoveRules(cool_down_s=7200), BudgetRules(settle_s=100)
    recent, old = a_plan(ended=NOW - 60), a_plan(ended=NOW - 7000, name="old")
    used = spent([recent, old], moves, rules, NOW)
    assert (used.moves, used.by_namespace, used.open) == (1, {"team": 1}, 0)
    assert used.cooling == {"rs": NOW - 60 + 7200}
    assert used.settling == {"n0": NOW + 40, "n1": NOW + 40}
    assert used.busy == {"u-a"}
    assert spent([recent], moves, rules, NOW, but="p") == spent([], moves, rules, NOW)


def test_what_was_never_begun_costs_nothing() -> None:
    declined = a_plan(begun=0, phase=PlanPhase.DECLINED)
    used = spent([declined], MoveRules(), BudgetRules(), NOW)
    assert (used.moves, used.cooling) == (0, {})


def test_an_open_plan_keeps_others_off_its_pods() -> None:
    used = spent([a_plan(begun=0, phase=PlanPhase.PROPOSED)], MoveRules(), BudgetRules(), NOW)
    assert (used.open, used.moves) == (1, 0)
    assert used.busy == {"u-a"}


def test_a_round_proposes_what_is_not_known_yet() -> None:
    cluster = Cluster({"n0": 1, "n1": 1})
    cluster.runs("a", "n0", 0, age_s=HOUR_S)
    cluster.runs("b", "n1", 0, age_s=HOUR_S)
    cluster.waits("w", 16000)
    found = propose(cluster.situation(), ProposalRules())
    ((name, spec),) = found.specs.items()
    assert name == plan_name(spec)
    assert name.startswith("defragment-")
    again = propose(cluster.situation(), ProposalRules(), {name})
    assert again.specs == {}
    assert again.why_not["default/w"] == f"plan {name} was proposed before"


def test_with_enough_open_plans_none_is_proposed() -> None:
    cluster = Cluster({"n0": 1})
    used = spent([], MoveRules(), BudgetRules(), NOW)
    full = type(used)(open=10)
    assert propose(cluster.situation(spent=full), ProposalRules()).why_not == {
        "": "10 plans are open"
    }


def test_nothing_leads_out_of_an_end() -> None:
    for phase in OVER:
        for event in (Approved(), Refuted(), Finished(), Broken()):
            with pytest.raises(IllegalTransition):
                advance(phase, event)
    assert {advance(phase, kind()) for phase, kind in LEGAL} == set(PlanPhase) - {
        PlanPhase.PROPOSED
    }
