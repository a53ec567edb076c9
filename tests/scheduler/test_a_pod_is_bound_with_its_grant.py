"""The way of a pod when all is well."""

import asyncio
import re

import pytest

from tessera_core.machines.allocation import AllocationPhase
from tessera_schema.cards import MIB
from tessera_schema.messages.allocation_events import (
    AllocationGranted,
    AllocationReleased,
    decode_event,
)
from tests.scheduler.fake_cluster import BINDING, FakeCluster, leading, phase, the_entry, until

pytestmark = pytest.mark.looptime


async def test_one_write_places_it_and_records_its_cards() -> None:
    cluster = FakeCluster()
    uid = cluster.pod("a")
    async with leading(cluster) as scheduler:
        assert await cluster.place(scheduler, "a") == "n0"
        pod = cluster.read("a")
        grant = cluster.granted("a", scheduler.keys.verifier)
        assert (pod.spec.node_name, grant.node, grant.uid) == ("n0", "n0", uid)
        assert [s.memory_bytes for s in grant.shares] == [4000 * MIB]
        assert [s.card for s in grant.shares] == ["GPU-n0-0"]
        assert "hami.io/vgpu-devices-allocated" in pod.metadata.annotations
        assert "CUDA_DEVICE_MEMORY_LIMIT_0" in grant.given["c"].env
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        assert the_entry(scheduler, uid).grant.given == {}


async def test_a_pod_that_leaves_frees_its_cards_at_once() -> None:
    cluster = FakeCluster(1)
    for name in ("a", "b"):
        cluster.pod(name, 12000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        assert cluster.filter(scheduler, "b").failed_and_unresolvable_nodes == {
            "n0": "CardInsufficientMemory"
        }
        cluster.delete("a")
        await asyncio.sleep(0.1)
        assert await cluster.place(scheduler, "b") == "n0"


async def test_a_pod_that_has_ended_frees_its_cards_at_once() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        cluster.finish("a")
        await asyncio.sleep(0.1)
        assert phase(scheduler, uid) is None


async def test_what_happened_is_published_on_the_bus() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a")
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        cluster.delete("a")
        await until(lambda: len(cluster.bus.said("tessera.v1.*.allocation.>")) == 2)
    granted, released = (
        decode_event(n.data) for n in cluster.bus.said("tessera.v1.*.allocation.>")
    )
    assert isinstance(granted, AllocationGranted)
    assert granted.grant.uid == uid
    assert released == AllocationReleased(namespace="default", uid=uid, node="n0")


async def test_binding_twice_is_binding_once() -> None:
    cluster = FakeCluster()
    cluster.pod("a")
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        bindings = len([c for c in cluster.kube.calls if re.fullmatch(BINDING, c[1])])
        assert await cluster.bind(scheduler, "a", "n0") == ""
        assert "are on n0, not on n1" in await cluster.bind(scheduler, "a", "n1")
        assert len([c for c in cluster.kube.calls if re.fullmatch(BINDING, c[1])]) == bindings


async def test_only_the_node_that_was_reserved_is_bound() -> None:
    cluster = FakeCluster()
    cluster.pod("a")
    async with leading(cluster) as scheduler:
        assert cluster.filter(scheduler, "a").node_names == ("n0",)
        assert "are on n0, not on n1" in await cluster.bind(scheduler, "a", "n1")
        assert cluster.read("a").spec.node_name == ""
        assert await cluster.bind(scheduler, "a", "n0") == ""


async def test_a_pod_that_nobody_filtered_is_sent_back() -> None:
    cluster = FakeCluster()
    cluster.pod("a")
    async with leading(cluster) as scheduler:
        assert "filter it again" in await cluster.bind(scheduler, "a", "n0")


async def test_a_reservation_runs_out_and_others_get_the_cards() -> None:
    cluster = FakeCluster(1)
    for name in ("a", "b"):
        cluster.pod(name, 12000)
    async with leading(cluster) as scheduler:
        cluster.filter(scheduler, "a")
        await asyncio.sleep(29)
        assert not cluster.filter(scheduler, "b").node_names
        await asyncio.sleep(3)
        assert await cluster.place(scheduler, "b") == "n0"
        assert "no room" in await cluster.bind(scheduler, "a", "n0")


async def test_a_bind_after_the_reservation_ran_out_gets_cards_if_there_are_any() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.filter(scheduler, "a")
        await asyncio.sleep(40)
        assert phase(scheduler, uid) is None
        assert await cluster.bind(scheduler, "a", "n0") == ""
        assert phase(scheduler, uid) is AllocationPhase.BOUND


async def test_a_pod_that_is_deleted_between_filter_and_bind_holds_nothing() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.filter(scheduler, "a")
        cluster.delete("a")
        answer = await cluster.bind(scheduler, "a", "n0", uid)
        assert answer == "the pod is gone"
        assert phase(scheduler, uid) is None
        await asyncio.sleep(1)
        cluster.pod("b", 12000)
        assert await cluster.place(scheduler, "b") == "n0"


async def test_a_pod_of_the_same_name_is_another_pod() -> None:
    cluster = FakeCluster(1)
    former = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.filter(scheduler, "a")
        cluster.delete("a")
        other = cluster.pod("a", 1000)
        assert await cluster.bind(scheduler, "a", "n0", former) == "the pod is gone"
        assert cluster.read("a").spec.node_name == ""
        assert phase(scheduler, other) is None


async def test_a_pod_with_too_many_annotations_is_refused() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", annotations={"note": "x" * 204_500})
    async with leading(cluster) as scheduler:
        cluster.filter(scheduler, "a")
        answer = await cluster.bind(scheduler, "a", "n0")
        assert "metadata.annotations: " in answer
        assert "move what is large to a ConfigMap" in answer
        assert phase(scheduler, uid) is None
        assert cluster.read("a").spec.node_name == ""
