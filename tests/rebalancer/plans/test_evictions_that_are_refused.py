"""An eviction may be refused for now, or for good: the plan waits within bounds, then fails, and
nobody else is evicted."""

from __future__ import annotations

import asyncio

import pytest

from tessera_embedded.apiserver.faults import Answer, Cut, InjectedFault
from tessera_rebalancer.plan_settings import PaceSettings
from tessera_schema.plans import PlanFailed, PlanKind, PlanPhase
from tests.rebalancer.plans.cluster import Cluster, planning, settings, until
from tests.rebalancer.plans.test_a_plan_that_was_interrupted import two_to_move

pytestmark = pytest.mark.looptime
BY_POLICY = (PlanKind.DEFRAGMENT,)


def guarded(allowed: int) -> Cluster:
    """Two pods of one application are to move; its budget lets so many go."""
    cluster = Cluster({"n0": 1, "n1": 1, "n2": 1})
    labels = {"labels": {"app": "a"}}
    cluster.runs("a", "n0", mib=6000, meta=labels)
    cluster.runs("b", "n0", mib=6000, meta=labels)
    cluster.runs("c", "n1", mib=10000, age_s=60)
    cluster.runs("d", "n2", mib=10000, age_s=60)
    cluster.waits("w")
    cluster.budget(allowed, labels["labels"])
    return cluster


async def test_what_a_budget_forbids_is_not_proposed() -> None:
    cluster = guarded(1)
    async with planning(cluster, settings(approve=BY_POLICY)):
        await asyncio.sleep(300)
        assert cluster.plans() == []
        cluster.budget(2, {"app": "a"})
        await until(lambda: cluster.plans() and cluster.status().phase is PlanPhase.DONE)


async def test_a_budget_that_forbids_it_now_is_waited_for() -> None:
    cluster = guarded(2)
    async with planning(cluster):
        await until(cluster.plans)
        cluster.kube.faults.add(InjectedFault("POST", ".*/eviction", Answer(429), 3))
        cluster.decide("approved")
        await until(lambda: cluster.status().phase is PlanPhase.DONE)
    assert len(cluster.evictions()) == 5


async def test_a_budget_that_forbids_it_for_long_ends_the_plan() -> None:
    cluster = guarded(2)
    config = settings(approve=BY_POLICY, pace=PaceSettings(evict_s=60))
    async with planning(cluster, config, kubelet=False):
        await until(lambda: cluster.plans() and cluster.status().steps_begun == 1)
        assert cluster.reserved("w") is not None
        first = cluster.evictions()[0]
        cluster.budget(0, {"app": "a"})
        cluster.end(first)
        await until(lambda: cluster.status().phase is PlanPhase.FAILED)
        second = cluster.evictions()[-1]
        assert {first, second} == {"a", "b"}
        assert cluster.pod(second) is not None
        assert cluster.reserved("w") is None
    status = cluster.status()
    assert status.message.startswith(f"default/{second} is not evicted: given up after 60 s: ")
    assert "would violate the pod's disruption budget" in status.message
    assert (status.steps_begun, status.steps_done) == (2, 1)
    assert isinstance(cluster.published()[-1], PlanFailed)
    assert ("w", "RebalanceFailed") in cluster.reasons()


async def test_an_owner_may_object_at_the_last_moment() -> None:
    cluster = two_to_move()
    async with planning(cluster, settings(approve=BY_POLICY), kubelet=False):
        await until(lambda: cluster.plans() and cluster.status().steps_begun == 1)
        (first,) = cluster.evictions()
        (second,) = {"a", "b"} - {first}
        cluster.note(second, {"tessera.dev/rebalance": "false"})
        cluster.end(first)
        await until(lambda: cluster.status().phase is PlanPhase.FAILED)
    assert "its owner does not want it" in cluster.status().message
    assert cluster.evictions() == [first]


async def test_an_account_that_may_not_evict_ends_the_plan() -> None:
    cluster = two_to_move()
    cluster.kube.faults.add(InjectedFault("POST", ".*/eviction", Answer(403), 100))
    async with planning(cluster, settings(approve=BY_POLICY)):
        await until(lambda: cluster.plans() and cluster.status().phase is PlanPhase.FAILED)
    assert "403" in cluster.status().message
    assert cluster.reserved("w") is None


@pytest.mark.parametrize("after", [False, True])
async def test_answers_that_are_lost_change_nothing(*, after: bool) -> None:
    cluster = two_to_move()
    for path in (".*/eviction", ".*/rebalanceplans.*", "/api/v1/namespaces/default/pods/w"):
        for verb in ("POST", "PATCH", "GET"):
            cluster.kube.faults.add(InjectedFault(verb, path, Cut(after=after), 1))
    async with planning(cluster, settings(approve=BY_POLICY)):
        await until(lambda: cluster.plans() and cluster.status().phase is PlanPhase.DONE)
    assert sorted(set(cluster.evictions())) == ["a", "b"]
    assert cluster.status().steps_done == 2


async def test_a_pod_that_does_not_end_ends_the_plan() -> None:
    cluster = two_to_move()
    config = settings(approve=BY_POLICY, pace=PaceSettings(gone_s=120))
    async with planning(cluster, config, kubelet=False):
        await until(lambda: cluster.plans() and cluster.status().phase is PlanPhase.FAILED)
    assert "has not ended within 120 s" in cluster.status().message
    assert len(set(cluster.evictions())) == 1


async def test_another_pod_by_that_name_is_not_evicted() -> None:
    cluster = two_to_move()
    async with planning(cluster):
        await until(cluster.plans)
        name = cluster.the_plan()[1].steps[0].pod.name
        cluster.end(name)
        cluster.runs(name, "n0", mib=6000)
        cluster.decide("approved")
        await until(lambda: cluster.plans()[0][2].phase is PlanPhase.DECLINED)
    assert cluster.evictions() == []
