"""Pods of a gang of which the others find no room are evicted, by a plan that is written before."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tessera_embedded.apiserver.faults import Answer
from tessera_schema.plans import PLANS
from tests.scheduler.fake_cluster import leading, until
from tests.scheduler.gangs.gang_cluster import CRDS, WHOLE, GangCluster, starting_whole
from tests.scheduler.preemption.test_pods_are_evicted import PLAN_DEFINITION

pytestmark = pytest.mark.looptime


async def half_a_gang() -> GangCluster:
    """What a scheduler leaves that ends in the middle of a start: `g1` has a node, and another pod
    has taken the place of `g2`."""
    cluster = GangCluster(cards=2)
    cluster.make(CRDS, PLAN_DEFINITION)
    cluster.pod_group("g", 2)
    cluster.member("g1", "g")
    cluster.pod("x", WHOLE)
    async with leading(cluster) as scheduler:
        for name in ("g1", "x"):
            assert await cluster.place(scheduler, name) == "n0"
    cluster.members("g", 2)
    return cluster


def plans(cluster: GangCluster) -> list[dict[str, Any]]:
    body = cluster.store.handle("GET", PLANS).body
    found: list[dict[str, Any]] = msgspec.json.decode(body)["items"]
    return found


def ran_for_long(cluster: GangCluster, name: str) -> None:
    status = {"startTime": "2020-01-01T00:00:00Z"}
    cluster.call("PATCH", f"{cluster.path(name)}/status", {"status": status})


def phases(cluster: GangCluster) -> list[str]:
    return [plan.get("status", {}).get("phase", "Proposed") for plan in plans(cluster)]


def leaving(cluster: GangCluster, name: str) -> bool:
    answer = cluster.store.handle("GET", cluster.path(name))
    return answer.code == 200 and cluster.read(name).metadata.deletion_timestamp is not None


async def test_the_pod_leaves_and_the_gang_starts_as_a_whole_later() -> None:
    """GC4"""
    cluster = await half_a_gang()
    async with starting_whole(cluster):
        await until(lambda: phases(cluster) == ["Proposed"])
        (plan,) = plans(cluster)
        assert plan["spec"]["kind"] == "Dissolve"
        assert plan["spec"]["forGang"] == "volcano/default/g"
        assert [step["pod"]["name"] for step in plan["spec"]["steps"]] == ["g1"]
        await asyncio.sleep(250)
        assert phases(cluster) == ["Proposed"]
        assert not leaving(cluster, "g1")
        await until(lambda: leaving(cluster, "g1"), 100)
        assert phases(cluster) == ["Started"]
        cluster.delete("g1")
        await until(lambda: phases(cluster) == ["Done"])
        assert cluster.bound() == ["x"]
        assert not leaving(cluster, "x")


async def test_its_cards_are_for_others_then() -> None:
    cluster = await half_a_gang()
    async with starting_whole(cluster) as scheduler:
        cluster.pod("y", WHOLE)
        assert cluster.filter(scheduler, "y").node_names == ()
        await until(lambda: leaving(cluster, "g1"), 400)
        cluster.delete("g1")
        await until(lambda: phases(cluster) == ["Done"])
        assert await cluster.place(scheduler, "y") == "n0"


async def test_a_gang_that_finds_room_in_time_loses_nobody() -> None:
    cluster = await half_a_gang()
    async with starting_whole(cluster) as scheduler:
        await until(lambda: phases(cluster) == ["Proposed"])
        cluster.delete("x")
        await cluster.schedule(scheduler, 20)
        assert cluster.bound() == ["g1", "g2"]
        await until(lambda: phases(cluster) == ["Declined"])
        await asyncio.sleep(400)
        assert cluster.bound() == ["g1", "g2"]
        assert not leaving(cluster, "g1")


async def test_declined_nobody_leaves() -> None:
    cluster = await half_a_gang()
    async with starting_whole(cluster):
        await until(lambda: phases(cluster) == ["Proposed"])
        path = f"{PLANS}/{plans(cluster)[0]['metadata']['name']}"
        cluster.call("PATCH", path, {"spec": {"decision": "declined"}})
        await asyncio.sleep(1000)
        assert phases(cluster) == ["Declined"]
        assert not leaving(cluster, "g1")


async def test_a_scheduler_that_takes_over_goes_on_with_the_plan() -> None:
    cluster = await half_a_gang()
    async with starting_whole(cluster):
        await until(lambda: phases(cluster) == ["Proposed"])
    await asyncio.sleep(200)
    ran_for_long(cluster, "g1")
    async with starting_whole(cluster):
        await until(lambda: leaving(cluster, "g1"), 150)
    cluster.delete("g1")
    async with starting_whole(cluster):
        await until(lambda: phases(cluster) == ["Done"])


async def test_a_gang_that_may_have_started_before_is_left_alone() -> None:
    cluster = await half_a_gang()
    ran_for_long(cluster, "g1")
    async with starting_whole(cluster):
        await asyncio.sleep(1000)
        assert plans(cluster) == []


async def test_a_budget_that_does_not_let_a_pod_go_ends_the_plan() -> None:
    cluster = await half_a_gang()
    cluster.fault("POST", r".*/eviction", Answer(429), 1_000)
    async with starting_whole(cluster) as scheduler:
        await until(lambda: phases(cluster) == ["Started"], 400)
        await until(lambda: phases(cluster) == ["Failed"], 400)
        assert "default/g1 is not evicted" in plans(cluster)[0]["status"]["message"]
        # the gang is tried again
        cluster.delete("x")
        await cluster.schedule(scheduler, 30)
        assert cluster.bound() == ["g1", "g2"]


async def test_switched_off_nothing_is_written() -> None:
    cluster = await half_a_gang()
    async with starting_whole(cluster, {"dissolve_s": 0}):
        await asyncio.sleep(1000)
        assert plans(cluster) == []
