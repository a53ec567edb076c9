"""What an operator sets of plans is read once, and refused where it makes no sense."""

from __future__ import annotations

import pytest

from tessera_rebalancer.settings import RebalancerSettings
from tessera_runtime.errors import BadSettings
from tessera_runtime.settings import load
from tessera_schema.plans import PlanKind


def test_nothing_is_approved_unless_it_is_said() -> None:
    assert load(RebalancerSettings, {}).plans.approve == ()


def test_every_part_can_be_set() -> None:
    plans = load(
        RebalancerSettings,
        {
            "TESSERA_PLANS_APPROVE": "Defragment, Move",
            "TESSERA_PLANS_DRY_RUN": "true",
            "TESSERA_PLANS_KINDS_RESIZE": "false",
            "TESSERA_PLANS_MOVE_SPARED": "kube-system,infra",
            "TESSERA_PLANS_BUDGET_AN_HOUR": "7",
            "TESSERA_PLANS_WORTH_TIMES": "2.5",
            "TESSERA_PLANS_CONTENTION_FROM_PERCENT": "60",
            "TESSERA_PLANS_GAIN_PLANS": "9",
        },
    ).plans
    rules = plans.rules
    assert plans.approve == (PlanKind.DEFRAGMENT, PlanKind.MOVE)
    assert plans.dry_run
    off = {kind for kind in PlanKind if not rules.kinds.on(kind)}
    assert off == {PlanKind.RESIZE, PlanKind.PREEMPT, PlanKind.RECLAIM, PlanKind.DISSOLVE}
    assert rules.plan.move.spared == ("kube-system", "infra")
    assert (rules.plan.budget.an_hour, rules.plan.worth.times) == (7, 2.5)
    assert (rules.contention.from_percent, rules.gain.plans) == (60, 9)


@pytest.mark.parametrize(
    ("name", "value", "reported"),
    [
        ("TESSERA_PLANS_APPROVE", "Burn", "Burn"),
        ("TESSERA_PLANS_PACE_ROUND_S", "0", "TESSERA_PLANS_PACE_ROUND_S"),
        ("TESSERA_PLANS_PACE_KEEP_S", "600", "plans.pace.keep_s: 600: write 25200 or more"),
        ("TESSERA_PLANS_APROVE", "Move", "TESSERA_PLANS_APPROVE"),
    ],
)
def test_what_makes_no_sense_is_reported(name: str, value: str, reported: str) -> None:
    with pytest.raises(BadSettings, match=reported):
        load(RebalancerSettings, {name: value})
