"""kube-scheduler evicted pods for another one and nominated their node: until that pod has its
cards, nobody of no higher priority takes what becomes free."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tessera_scheduler.scheduler import Scheduler
from tessera_schema.endpoints.extender import ExtenderPreemptionResult
from tests.scheduler.fake_cluster import FakeCluster, leading, standing_by, until

pytestmark = pytest.mark.looptime
WHOLE = 16000


def nominate(cluster: FakeCluster, name: str, node: str | None) -> None:
    status = {"status": {"nominatedNodeName": node}}
    cluster.call("PATCH", f"{cluster.path(name)}/status", status)


def candidates(cluster: FakeCluster, scheduler: Scheduler, name: str, *nodes: str) -> set[str]:
    """Where kube-scheduler may evict nobody's pods for this one."""
    metas = {node: {"Pods": [], "NumPDBViolations": 0} for node in nodes}
    pod = cluster.call("GET", cluster.path(name))
    body = msgspec.json.encode({"Pod": pod, "NodeNameToMetaVictims": metas})
    answer = msgspec.json.decode(scheduler.extender.preempt(body), type=ExtenderPreemptionResult)
    return set(answer.node_name_to_meta_victims)


async def test_what_victims_leave_goes_to_the_nominated_pod() -> None:
    cluster = FakeCluster(1, cards=2)
    cluster.pod("victim", WHOLE)
    cluster.pod("urgent", WHOLE, priority=10)
    for name, priority in (("late", 0), ("equal", 10), ("first", 11)):
        cluster.pod(name, WHOLE, priority=priority)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "victim")
        nominate(cluster, "urgent", "n0")
        await until(lambda: scheduler.node_reservations)
        for name in ("late", "equal"):
            answer = cluster.filter(scheduler, name)
            assert answer.failed_and_unresolvable_nodes == {"n0": "NodeReserved"}
        cluster.delete("victim")
        await asyncio.sleep(1)
        assert cluster.filter(scheduler, "late").node_names == ()
        assert cluster.filter(scheduler, "first").node_names == ("n0",)
        assert await cluster.place(scheduler, "urgent") == "n0"


async def test_what_the_pod_does_not_need_is_open_once_it_has_its_cards() -> None:
    cluster = FakeCluster(1, cards=2)
    cluster.pod("urgent", WHOLE, priority=10)
    cluster.pod("late", WHOLE)
    async with leading(cluster) as scheduler:
        nominate(cluster, "urgent", "n0")
        await until(lambda: scheduler.node_reservations)
        assert cluster.filter(scheduler, "late").node_names == ()
        assert cluster.filter(scheduler, "urgent").node_names == ("n0",)
        assert cluster.filter(scheduler, "late").node_names == ("n0",)


async def test_the_node_opens_when_the_nomination_ends() -> None:
    cluster = FakeCluster(2)
    for name in ("urgent", "late"):
        cluster.pod(name, WHOLE, priority=0)
    async with leading(cluster) as scheduler:
        nominate(cluster, "urgent", "n0")
        await until(lambda: scheduler.node_reservations)
        assert cluster.filter(scheduler, "late", ["n0"]).node_names == ()
        nominate(cluster, "urgent", "n1")
        await asyncio.sleep(1)
        assert cluster.filter(scheduler, "late").node_names == ("n0",)
        nominate(cluster, "urgent", None)
        await until(lambda: not scheduler.node_reservations)


async def test_a_nomination_that_leads_nowhere_holds_a_quarter_of_an_hour() -> None:
    cluster = FakeCluster(1)
    cluster.pod("urgent", WHOLE, priority=10)
    cluster.pod("late", WHOLE)
    async with leading(cluster) as scheduler:
        nominate(cluster, "urgent", "n0")
        await asyncio.sleep(890)
        assert cluster.filter(scheduler, "late").node_names == ()
        await asyncio.sleep(20)
        cluster.note(cluster.path("urgent"), {"looked-at": "again"})
        await asyncio.sleep(1)
        assert cluster.filter(scheduler, "late").node_names == ("n0",)


async def test_nobody_is_evicted_where_the_room_is_anothers() -> None:
    cluster = FakeCluster(2)
    cluster.pod("urgent", WHOLE, priority=10)
    cluster.pod("equal", WHOLE, priority=10)
    cluster.pod("first", WHOLE, priority=11)
    async with leading(cluster) as scheduler:
        nominate(cluster, "urgent", "n0")
        await until(lambda: scheduler.node_reservations)
        assert candidates(cluster, scheduler, "equal", "n0", "n1") == {"n1"}
        assert candidates(cluster, scheduler, "urgent", "n0", "n1") == {"n0", "n1"}
        assert candidates(cluster, scheduler, "first", "n0", "n1") == {"n0", "n1"}


async def test_the_next_leader_knows_it_from_the_pod() -> None:
    cluster = FakeCluster(1)
    cluster.pod("urgent", WHOLE, priority=10)
    cluster.pod("late", WHOLE)
    nominate(cluster, "urgent", "n0")
    async with standing_by(cluster) as scheduler:
        await until(lambda: scheduler.leadership.leads)
        assert cluster.filter(scheduler, "late").node_names == ()


async def test_pods_without_requests_reserve_no_node() -> None:
    cluster = FakeCluster(1)
    cluster.pod("plain", 0, priority=10)
    cluster.pod("late", WHOLE)
    async with leading(cluster) as scheduler:
        nominate(cluster, "plain", "n0")
        await asyncio.sleep(1)
        assert not scheduler.node_reservations
        assert cluster.filter(scheduler, "late").node_names == ("n0",)


async def test_room_is_reserved_for_a_pod_that_its_namespace_allows_more() -> None:
    cluster = FakeCluster(1, cards=1)
    cluster.call("PATCH", "/api/v1/namespaces/default", {
        "metadata": {"labels": {"allow.tessera.dev/host-pid": "true"}}})  # fmt: skip
    cluster.pod("urgent", WHOLE, priority=10, hostPID=True)
    cluster.pod("late", WHOLE)
    async with leading(cluster) as scheduler:
        nominate(cluster, "urgent", "n0")
        await until(lambda: scheduler.node_reservations)
        assert cluster.filter(scheduler, "late").node_names == ()
        assert await cluster.place(scheduler, "urgent") == "n0"
