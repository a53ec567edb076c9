"""A pod waits, a plan is proposed, somebody decides, pods move, the pod gets its place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tessera_core.rebalance.proposals import EnabledPlanKinds
from tessera_rebalancer.plan_settings import PaceSettings
from tessera_schema.plans import (
    PlanDeclined,
    PlanDone,
    PlanKind,
    PlanPhase,
    PlanProposed,
    PlanStarted,
)
from tests.rebalancer.plans.cluster import (
    CRDS,
    DEFINITION,
    Cluster,
    planning,
    settings,
    two_half_full,
    until,
)

pytestmark = pytest.mark.looptime


async def test_nothing_is_done_before_somebody_approves() -> None:
    cluster = two_half_full()
    async with planning(cluster):
        await until(cluster.plans)
        await asyncio.sleep(600)
    name, spec, status = cluster.the_plan()
    assert (spec.kind, spec.decision, status.phase) == (
        PlanKind.DEFRAGMENT, "", PlanPhase.PROPOSED,
    )  # fmt: skip
    assert [step.pod.name for step in spec.steps] == ["b"]
    assert spec.steps[0].pod.owner == "rs-b"
    assert spec.for_pod is not None
    assert spec.for_pod.name == "w"
    assert cluster.evictions() == []
    assert cluster.reserved("w") is None
    (reported,) = cluster.published()
    assert isinstance(reported, PlanProposed)
    assert (reported.plan, reported.message) == (name, spec.reason)
    assert set(cluster.reasons()) == {("b", "RebalanceProposed"), ("w", "RebalanceProposed")}


async def test_an_approved_plan_moves_the_pod_and_keeps_the_room() -> None:
    cluster = two_half_full()
    async with planning(cluster):
        await until(cluster.plans)
        cluster.decide("approved")
        await until(lambda: cluster.status().phase is PlanPhase.DONE)
        assert cluster.evictions() == ["b"]
        assert cluster.pod("b") is None
        held = cluster.reserved("w")
        assert held is not None
        assert (held.node, held.plan) == ("n1", cluster.the_plan()[0])
        status = cluster.status()
        assert (status.steps_begun, status.steps_done) == (1, 1)
        assert "" not in (status.started, status.ended)
    assert [type(reported) for reported in cluster.published()] == [
        PlanProposed,
        PlanStarted,
        PlanDone,
    ]
    assert {("b", "RebalanceStarted"), ("w", "RebalanceDone")} <= set(cluster.reasons())


async def test_what_the_policy_approves_needs_nobody() -> None:
    cluster = two_half_full()
    async with planning(cluster, settings(approve=(PlanKind.DEFRAGMENT,))):
        await until(lambda: cluster.plans() and cluster.status().phase is PlanPhase.DONE)
    _, spec, _ = cluster.the_plan()
    assert (spec.decision, spec.decided_by) == ("approved", "policy")
    assert cluster.evictions() == ["b"]


async def test_the_policy_approves_only_the_kinds_that_it_names() -> None:
    cluster = two_half_full()
    async with planning(cluster, settings(approve=(PlanKind.MOVE, PlanKind.RESIZE))):
        await until(cluster.plans)
        await asyncio.sleep(300)
    assert cluster.status().phase is PlanPhase.PROPOSED


async def test_a_declined_plan_is_not_proposed_again() -> None:
    cluster = two_half_full()
    async with planning(cluster):
        await until(cluster.plans)
        cluster.decide("declined")
        await until(lambda: cluster.status().phase is PlanPhase.DECLINED)
        await asyncio.sleep(600)
    assert cluster.status().message == "declined by ada"
    assert cluster.evictions() == []
    assert isinstance(cluster.published()[-1], PlanDeclined)


@pytest.mark.parametrize("approve", [(), (PlanKind.DEFRAGMENT,)])
async def test_a_dry_run_is_only_displayed(approve: tuple[PlanKind, ...]) -> None:
    cluster = two_half_full()
    async with planning(cluster, settings(dry_run=True, approve=approve)):
        await until(cluster.plans)
        assert cluster.the_plan()[1].dry_run
        if not approve:
            cluster.decide("approved")
        await asyncio.sleep(300)
    assert cluster.status().phase is PlanPhase.PROPOSED
    assert cluster.evictions() == []


async def test_a_plan_that_no_longer_holds_is_declined_with_the_reason() -> None:
    cluster = two_half_full()
    async with planning(cluster):
        await until(cluster.plans)
        cluster.node("n9", 1)
        await until(lambda: cluster.status().phase is PlanPhase.DECLINED)
    assert cluster.status().message == "default/w fits without it"


async def test_a_plan_that_stopped_holding_just_before_it_was_approved_does_nothing() -> None:
    cluster = two_half_full()
    async with planning(cluster):
        await until(cluster.plans)
        cluster.end("w")
        cluster.decide("approved")
        await until(lambda: cluster.status().phase is PlanPhase.DECLINED)
    assert cluster.status().message == "default/w no longer waits"
    assert cluster.evictions() == []


async def test_who_has_just_begun_to_wait_gets_no_plan() -> None:
    cluster = Cluster()
    cluster.runs("a", "n0")
    cluster.runs("b", "n1")
    async with planning(cluster, settings()):
        await asyncio.sleep(20)
        cluster.waits("w")
        await asyncio.sleep(1)
        assert cluster.plans() == []
        await until(cluster.plans)


@pytest.mark.parametrize(
    "pod",
    [
        {"tried": "SchedulingGated"}, {"tried": ""}, {"schedulerName": "somebody-elses"},
        {"nodeSelector": {"disk": "none"}},
    ],
    ids=["gated", "not tried", "another scheduler's", "no node"],
)  # fmt: skip
async def test_who_waits_for_something_else_gets_no_plan(pod: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.runs("a", "n0")
    cluster.runs("b", "n1")
    cluster.waits("w", **pod)
    async with planning(cluster):
        await asyncio.sleep(120)
    assert cluster.plans() == []


async def test_kinds_can_be_switched_off() -> None:
    cluster = two_half_full()
    async with planning(cluster, settings(kinds=EnabledPlanKinds(defragment=False))):
        await asyncio.sleep(300)
    assert cluster.plans() == []


async def test_all_of_it_can_be_switched_off() -> None:
    cluster = two_half_full()
    async with planning(cluster, settings(on=False)) as plans:
        await asyncio.sleep(300)
        assert plans.problem() == ""
    assert cluster.plans() == []
    assert cluster.kube.watches_opened == 3  # of keys, nodes and pods, for hints


async def test_plans_begin_when_their_definition_is_installed() -> None:
    cluster = Cluster(defined=False)
    cluster.runs("a", "n0")
    cluster.runs("b", "n1")
    cluster.waits("w")
    async with planning(cluster) as plans:
        await asyncio.sleep(100)
        assert "RebalancePlan is not installed" in plans.problem()
        cluster.make(CRDS, DEFINITION)
        await until(cluster.plans)
        assert plans.problem() == ""


async def test_ended_plans_are_forgotten_after_a_while() -> None:
    cluster = two_half_full()
    async with planning(cluster, settings(pace=PaceSettings(keep_s=600))):
        await until(cluster.plans)
        cluster.decide("declined")
        await until(lambda: cluster.status().phase is PlanPhase.DECLINED)
        cluster.end("w")
        await asyncio.sleep(500)
        assert cluster.plans()
        await until(lambda: not cluster.plans())
