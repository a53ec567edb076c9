"""A plan makes room for a pod: until it has its place, nobody of no higher priority takes it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tessera_scheduler.scheduler import Scheduler
from tessera_schema.annotation_keys import RESERVE_KEY
from tessera_schema.decisions import DecisionRecord
from tessera_schema.plans import Reservation, encode_reservation
from tests.scheduler.fake_cluster import FakeCluster, leading, standing_by, until

pytestmark = pytest.mark.looptime
WHOLE = 16000


def reserve(
    cluster: FakeCluster, name: str, node: str, for_s: float = 300, plan: str = "p1"
) -> None:
    held = Reservation(node=node, until=cluster.clock.time() + for_s, plan=plan)
    cluster.note(cluster.path(name), {RESERVE_KEY: encode_reservation(held)})


def why(scheduler: Scheduler, uid: str) -> DecisionRecord:
    record = scheduler.decisions.record(uid, scheduler.ledger.fleet)
    assert record is not None
    return record


async def a_cluster(nodes: int = 1, **more: Any) -> FakeCluster:
    cluster = FakeCluster(nodes)
    cluster.pod("w", WHOLE, **more)
    return cluster


async def test_others_leave_the_node_to_the_pod_with_a_reason() -> None:
    cluster = await a_cluster()
    uid = cluster.pod("x", 1000)
    async with leading(cluster) as scheduler:
        reserve(cluster, "w", "n0")
        await until(lambda: scheduler.node_reservations)
        answer = cluster.filter(scheduler, "x")
        assert answer.failed_and_unresolvable_nodes == {"n0": "NodeReserved"}
        record = why(scheduler, uid)
        assert [(r.node, r.reason.wire) for r in record.reasons] == [("n0", "NodeReserved")]
        assert record.reasons[0].message == (
            "room is being made there by plan p1 for default/w, of priority 0"
        )
        assert await cluster.place(scheduler, "w") == "n0"


async def test_others_go_to_other_nodes() -> None:
    cluster = await a_cluster(2)
    cluster.pod("x", 1000)
    async with leading(cluster) as scheduler:
        reserve(cluster, "w", "n0")
        await until(lambda: scheduler.node_reservations)
        assert cluster.filter(scheduler, "x").node_names == ("n1",)


async def test_the_node_opens_when_the_pod_has_its_place() -> None:
    cluster = await a_cluster()
    cluster.pod("x", 300)
    async with leading(cluster) as scheduler:
        reserve(cluster, "w", "n0")
        await until(lambda: scheduler.node_reservations)
        assert cluster.filter(scheduler, "x").node_names == ()
        assert await cluster.place(scheduler, "w") == "n0"
        await until(lambda: not scheduler.node_reservations)
        assert cluster.filter(scheduler, "x").node_names == ("n0",)


async def test_the_node_opens_when_the_pod_is_gone_or_the_plan_takes_it_back() -> None:
    cluster = await a_cluster()
    cluster.pod("x", 300)
    async with leading(cluster) as scheduler:

        def take_back() -> None:
            cluster.note(cluster.path("w"), {RESERVE_KEY: None})

        def delete() -> None:
            cluster.delete("w")

        for end in (take_back, delete):
            reserve(cluster, "w", "n0")
            await until(lambda: scheduler.node_reservations)
            assert cluster.filter(scheduler, "x").node_names == ()
            end()
            await until(lambda: not scheduler.node_reservations)
        assert cluster.filter(scheduler, "x").node_names == ("n0",)


async def test_the_node_opens_by_itself_and_those_who_wait_are_woken() -> None:
    cluster = await a_cluster()
    cluster.pod("x", 300)
    async with leading(cluster) as scheduler:
        reserve(cluster, "w", "n0", for_s=60)
        await until(lambda: scheduler.node_reservations)
        cluster.filter(scheduler, "x")
        before = cluster.call("GET", "/api/v1/nodes/n0")["metadata"]["resourceVersion"]
        await asyncio.sleep(65)
        assert not scheduler.node_reservations
        after = cluster.call("GET", "/api/v1/nodes/n0")["metadata"]
        assert "tessera.dev/wake" in after["annotations"]
        assert after["resourceVersion"] != before
        assert cluster.filter(scheduler, "x").node_names == ("n0",)


async def test_no_reservation_holds_longer_than_a_quarter_of_an_hour() -> None:
    cluster = await a_cluster()
    cluster.pod("x", 300)
    async with leading(cluster) as scheduler:
        reserve(cluster, "w", "n0", for_s=1e9)
        await until(lambda: scheduler.node_reservations)
        await asyncio.sleep(905)
        assert cluster.filter(scheduler, "x").node_names == ("n0",)


async def test_a_higher_priority_is_not_excluded() -> None:
    cluster = await a_cluster()
    cluster.pod("x", 300, priority=10)
    async with leading(cluster) as scheduler:
        reserve(cluster, "w", "n0")
        await until(lambda: scheduler.node_reservations)
        assert cluster.filter(scheduler, "x").node_names == ("n0",)


async def test_what_was_reserved_on_the_node_and_not_bound_yields() -> None:
    cluster = await a_cluster(2)
    cluster.pod("x", 1000)
    async with leading(cluster) as scheduler:
        (node,) = cluster.filter(scheduler, "x").node_names or ()
        reserve(cluster, "w", node)
        await until(lambda: scheduler.node_reservations)
        (other,) = cluster.filter(scheduler, "x").node_names or ()
        assert other != node


async def test_a_pod_with_preferences_is_excluded_too() -> None:
    cluster = await a_cluster(2)
    wish: dict[str, Any] = {"preference": {"matchExpressions": []}, "weight": 1}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    cluster.pod("x", 1000, affinity=affinity)
    async with leading(cluster) as scheduler:
        assert len(cluster.filter(scheduler, "x").node_names or ()) == 2
        reserve(cluster, "w", "n0")
        await until(lambda: scheduler.node_reservations)
        problem = await cluster.bind(scheduler, "x", "n0")
        assert "room is being made there by plan p1" in problem
        assert cluster.filter(scheduler, "x").node_names == ("n1",)


async def test_the_next_leader_knows_it_from_the_pod() -> None:
    cluster = await a_cluster()
    cluster.pod("x", 300)
    reserve(cluster, "w", "n0")
    async with standing_by(cluster) as scheduler:
        await until(lambda: scheduler.leadership.leads)
        assert cluster.filter(scheduler, "x").node_names == ()


async def test_nonsense_closes_nothing() -> None:
    cluster = await a_cluster()
    cluster.pod("x", 300)
    cluster.pod("none", 0)
    async with leading(cluster) as scheduler:
        for text in ("{", '{"node":"n0"}', '{"node":"","until":9e9}', '{"node":"n0","until":1}'):
            cluster.note(cluster.path("w"), {RESERVE_KEY: text})
            await asyncio.sleep(1)
            assert not scheduler.node_reservations
        reserve(cluster, "none", "n0")
        await asyncio.sleep(1)
        assert cluster.filter(scheduler, "x").node_names == ("n0",)
