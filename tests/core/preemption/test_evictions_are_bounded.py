"""How many pods preemption evicts, and how often for the same pod, by the plans that are there."""

from __future__ import annotations

import pytest

from tessera_core.preemption.eviction_budgets import BARS_S, EvictionBudget, barred, overspent
from tessera_core.rebalance.plan_budget import Former
from tessera_schema.plans import (
    PlanKind,
    PlanPhase,
    PlanSpec,
    PlanStatus,
    PlanStep,
    PodOfPlan,
)

NOW = 1_790_000_000.0
TAKER = PodOfPlan(namespace="a", name="taker", uid="taker")
BUDGET = EvictionBudget()


def a_pod(name: str, namespace: str = "a", owner: str = "", gang: str = "") -> PodOfPlan:
    return PodOfPlan(namespace=namespace, name=name, uid=name, owner=owner, gang=gang)


def a_plan(
    *pods: PodOfPlan, ago_s: float, phase: PlanPhase = PlanPhase.DONE, begun: bool = True
) -> Former:
    """Of so many seconds ago."""
    over = phase is not PlanPhase.STARTED
    return Former(
        name="p", started=NOW - ago_s, ended=NOW - ago_s if over else 0,
        spec=PlanSpec(
            kind=PlanKind.PREEMPT, reason="r", for_pod=TAKER,
            steps=tuple(PlanStep(pod=pod) for pod in pods),
        ),
        status=PlanStatus(phase=phase, steps_begun=len(pods) if begun else 0),
    )  # fmt: skip


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_each_plan_that_did_not_help_bars_the_pod_for_longer(times: int) -> None:
    plans = [a_plan(a_pod("v"), ago_s=0) for _ in range(times)]
    bar_s = BARS_S[min(times, 3) - 1]
    assert "still waits" in barred(plans, "taker", NOW + bar_s - 1)
    assert barred(plans, "taker", NOW + bar_s) == ""
    assert barred(plans, "other", NOW) == ""


def test_an_open_plan_of_the_pod_comes_first() -> None:
    plans = [a_plan(a_pod("v"), ago_s=9000, phase=PlanPhase.STARTED)]
    assert barred(plans, "taker", NOW) == "pods are being evicted for it"


def test_a_plan_that_evicted_nobody_counts_for_nothing() -> None:
    plans = [a_plan(a_pod("v", owner="o"), ago_s=1, phase=PlanPhase.DECLINED, begun=False)] * 9
    assert barred(plans, "taker", NOW) == ""
    assert overspent(plans, [a_pod("w", owner="o")], BUDGET, NOW) == ""


def test_a_plan_evicts_only_so_many() -> None:
    pods = [a_pod(f"v{i}", namespace=str(i)) for i in range(33)]
    assert overspent([], pods[:32], BUDGET, NOW) == ""
    assert overspent([], pods, BUDGET, NOW) == "33 pods would go, 32 may at a time"


def test_only_so_many_plans_go_on_at_a_time() -> None:
    open_ = [a_plan(a_pod("v"), ago_s=9000, phase=PlanPhase.STARTED)] * 4
    assert "4 plans are being carried out" in overspent(open_, [a_pod("w")], BUDGET, NOW)
    assert overspent(open_[:3], [a_pod("w")], BUDGET, NOW) == ""


def test_a_controller_loses_only_so_many_within_an_hour() -> None:
    lost = [a_plan(a_pod(f"v{i}", owner="o"), ago_s=60) for i in range(2)]
    why = overspent(lost, [a_pod("w", owner="o")], BUDGET, NOW)
    assert why == "the controller of w has lost 2 pods within the hour"
    assert overspent(lost, [a_pod("w", owner="p")], BUDGET, NOW) == ""
    assert overspent(lost, [a_pod("w", owner="o")], BUDGET, NOW + 3600) == ""


def test_a_namespace_loses_only_so_many_within_an_hour() -> None:
    lost = [a_plan(*(a_pod(f"v{i}") for i in range(9)), ago_s=60)]
    assert overspent(lost, [a_pod("w")], BUDGET, NOW) == ""
    why = overspent(lost, [a_pod("w"), a_pod("x")], BUDGET, NOW)
    assert why == "9 of 10 pods of namespace a were evicted within the hour"


def test_a_gang_that_goes_whole_counts_as_one() -> None:
    def gang(name: str, pods: int) -> list[PodOfPlan]:
        return [a_pod(f"{name}{n}", owner="o", gang=f"a/{name}") for n in range(pods)]

    assert overspent([], gang("g", 12), BUDGET, NOW) == ""
    lost = [a_plan(*gang("g", 12), ago_s=60)]
    assert overspent(lost, gang("h", 12), BUDGET, NOW) == ""
    lost.append(a_plan(*gang("h", 12), ago_s=60))
    why = overspent(lost, gang("i", 12), BUDGET, NOW)
    assert why == "the controller of i0 has lost 2 pods within the hour"
    assert "33 pods would go" in overspent([], gang("g", 33), BUDGET, NOW)


def test_the_cluster_loses_only_so_many_within_an_hour() -> None:
    lost = [a_plan(*(a_pod(f"v{i}", namespace=str(i)) for i in range(30)), ago_s=60)] * 2
    why = overspent(lost, [a_pod("w", namespace="w")], BUDGET, NOW)
    assert why == "60 of 60 pods were evicted within the hour"
