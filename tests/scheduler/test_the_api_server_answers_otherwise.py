"""Bindings that are definitely not written: what is tried again, and what is given back."""

import asyncio
import json
import re

import pytest

from tessera_core.machines.allocation import AllocationPhase
from tessera_embedded.apiserver.faults import Answer, Hang
from tessera_runtime.kube.binding import PodKey
from tessera_scheduler.binding.request import BindingTarget
from tessera_schema.grants import Grant
from tests.scheduler.fake_cluster import BINDING, FakeCluster, leading, phase

pytestmark = pytest.mark.looptime


def bindings(cluster: FakeCluster) -> int:
    return len([path for _, path in cluster.kube.calls if re.fullmatch(BINDING, path)])


async def test_a_conflict_is_read_again_and_tried_again_in_the_same_call() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a")
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Answer(409), times=2)
        cluster.filter(scheduler, "a")
        assert await cluster.bind(scheduler, "a", "n0") == ""
        assert (phase(scheduler, uid), bindings(cluster)) == (AllocationPhase.BOUND, 3)


async def test_a_conflict_without_end_gives_the_cards_back() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a")
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Answer(409), times=100)
        cluster.filter(scheduler, "a")
        assert "409" in await cluster.bind(scheduler, "a", "n0")
        assert (phase(scheduler, uid), bindings(cluster)) == (None, 5)


async def test_a_pod_that_somebody_else_has_bound_gives_its_cards_back() -> None:
    cluster = FakeCluster(2)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.kube.event_delay_s = 1000
        cluster.filter(scheduler, "a")
        cluster.bind_elsewhere("a", "n1")
        assert await cluster.bind(scheduler, "a", "n0") == "the pod is bound by somebody else"
        assert phase(scheduler, uid) is None
        assert scheduler.ledger.charges_on("n0") == {}


async def test_a_reservation_of_a_pod_that_somebody_else_bound_is_dropped() -> None:
    cluster = FakeCluster(2)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.filter(scheduler, "a")
        cluster.bind_elsewhere("a", "n1")
        await asyncio.sleep(0.1)
        assert phase(scheduler, uid) is None


async def test_a_pod_that_is_being_deleted_gives_its_cards_back() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    cluster.call("PATCH", cluster.path("a"), {"metadata": {"finalizers": ["x.y/z"]}})
    async with leading(cluster) as scheduler:
        cluster.filter(scheduler, "a")
        cluster.delete("a")
        answer = await cluster.bind(scheduler, "a", "n0")
        assert answer == "the pod is being deleted, and not bound"
        assert phase(scheduler, uid) is None


async def test_a_busy_server_is_waited_for() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a")
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Answer(429, retry_after_s=1), times=2)
        cluster.filter(scheduler, "a")
        assert await cluster.bind(scheduler, "a", "n0") == ""
        assert phase(scheduler, uid) is AllocationPhase.BOUND


async def test_a_server_that_stays_busy_gives_the_cards_back() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a")
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Answer(429, retry_after_s=60))
        cluster.filter(scheduler, "a")
        assert "fault" in await cluster.bind(scheduler, "a", "n0")
        assert phase(scheduler, uid) is None


@pytest.mark.parametrize("code", [400, 403, 422])
async def test_a_refusal_gives_the_cards_back(code: int) -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a")
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Answer(code))
        cluster.filter(scheduler, "a")
        assert "fault" in await cluster.bind(scheduler, "a", "n0")
        assert (phase(scheduler, uid), bindings(cluster)) == (None, 1)
        assert await cluster.place(scheduler, "a") == "n0"


async def test_a_second_call_meanwhile_is_refused() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a")
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Hang())
        cluster.filter(scheduler, "a")
        async with asyncio.TaskGroup() as group:
            first = group.create_task(cluster.bind(scheduler, "a", "n0"), name="first")
            await asyncio.sleep(1)
            assert phase(scheduler, uid) is AllocationPhase.BINDING
            assert "under way" in await cluster.bind(scheduler, "a", "n0")
        assert "its cards are kept" in first.result()


async def test_a_call_that_is_cut_off_keeps_the_cards() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a")
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Hang())
        cluster.filter(scheduler, "a")
        async with asyncio.TaskGroup() as group:
            call = group.create_task(cluster.bind(scheduler, "a", "n0"), name="cut off")
            await asyncio.sleep(1)
            call.cancel()
        assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        assert await cluster.bind(scheduler, "a", "n0") == ""


async def test_a_pod_that_somebody_else_bound_to_the_very_node_gets_no_grant() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.filter(scheduler, "a")
        cluster.bind_elsewhere("a", "n0")
        await asyncio.sleep(0.1)
        assert phase(scheduler, uid) is None
        assert scheduler.ledger.charges_on("n0") == {}


def test_the_uid_is_always_a_precondition_and_the_version_where_the_pod_was_read() -> None:
    grant = Grant(uid="u", namespace="team", name="a", node="n0", shares=())
    target = BindingTarget(name=PodKey("team", "a", "u"), grant=grant, annotations={"k": "v"})
    first, again = (json.loads(target.body(version))["metadata"] for version in ("", "77"))
    assert first == {"name": "a", "namespace": "team", "uid": "u", "annotations": {"k": "v"}}
    assert again == {**first, "resourceVersion": "77"}
