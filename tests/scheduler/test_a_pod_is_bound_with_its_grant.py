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
from tests.scheduler.world import BINDING, World, leading, phase, the_entry, until

pytestmark = pytest.mark.looptime


async def test_one_write_places_it_and_records_its_cards() -> None:
    world = World()
    uid = world.pod("a")
    async with leading(world) as scheduler:
        assert await world.place(scheduler, "a") == "n0"
        pod = world.read("a")
        grant = world.granted("a", scheduler.keys.verifier)
        assert (pod.spec.node_name, grant.node, grant.uid) == ("n0", "n0", uid)
        assert [s.memory_bytes for s in grant.shares] == [4000 * MIB]
        assert [s.card for s in grant.shares] == ["GPU-n0-0"]
        assert "hami.io/vgpu-devices-allocated" in pod.metadata.annotations
        assert "CUDA_DEVICE_MEMORY_LIMIT_0" in grant.given["c"].env
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        assert the_entry(scheduler, uid).grant.given == {}


async def test_a_pod_that_leaves_frees_its_cards_at_once() -> None:
    world = World(1)
    for name in ("a", "b"):
        world.pod(name, 12000)
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
        assert world.filter(scheduler, "b").failed_and_unresolvable_nodes == {
            "n0": "CardInsufficientMemory"
        }
        world.delete("a")
        await asyncio.sleep(0.1)
        assert await world.place(scheduler, "b") == "n0"


async def test_a_pod_that_has_ended_frees_its_cards_at_once() -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
        world.finish("a")
        await asyncio.sleep(0.1)
        assert phase(scheduler, uid) is None


async def test_what_happened_is_told_on_the_bus() -> None:
    world = World(1)
    uid = world.pod("a")
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
        world.delete("a")
        await until(lambda: len(world.bus.said("tessera.v1.*.allocation.>")) == 2)
    granted, released = (decode_event(n.data) for n in world.bus.said("tessera.v1.*.allocation.>"))
    assert isinstance(granted, AllocationGranted)
    assert granted.grant.uid == uid
    assert released == AllocationReleased(namespace="default", uid=uid, node="n0")


async def test_binding_twice_is_binding_once() -> None:
    world = World()
    world.pod("a")
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
        bindings = len([c for c in world.kube.calls if re.fullmatch(BINDING, c[1])])
        assert await world.bind(scheduler, "a", "n0") == ""
        assert "are on n0, not on n1" in await world.bind(scheduler, "a", "n1")
        assert len([c for c in world.kube.calls if re.fullmatch(BINDING, c[1])]) == bindings


async def test_only_the_node_that_was_reserved_is_bound() -> None:
    world = World()
    world.pod("a")
    async with leading(world) as scheduler:
        assert world.filter(scheduler, "a").node_names == ("n0",)
        assert "are on n0, not on n1" in await world.bind(scheduler, "a", "n1")
        assert world.read("a").spec.node_name == ""
        assert await world.bind(scheduler, "a", "n0") == ""


async def test_a_pod_that_nobody_filtered_is_sent_back() -> None:
    world = World()
    world.pod("a")
    async with leading(world) as scheduler:
        assert "filter it again" in await world.bind(scheduler, "a", "n0")


async def test_a_reservation_runs_out_and_others_get_the_cards() -> None:
    world = World(1)
    for name in ("a", "b"):
        world.pod(name, 12000)
    async with leading(world) as scheduler:
        world.filter(scheduler, "a")
        await asyncio.sleep(29)
        assert not world.filter(scheduler, "b").node_names
        await asyncio.sleep(3)
        assert await world.place(scheduler, "b") == "n0"
        assert "no room" in await world.bind(scheduler, "a", "n0")


async def test_a_bind_after_the_reservation_ran_out_gets_cards_if_there_are_any() -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.filter(scheduler, "a")
        await asyncio.sleep(40)
        assert phase(scheduler, uid) is None
        assert await world.bind(scheduler, "a", "n0") == ""
        assert phase(scheduler, uid) is AllocationPhase.BOUND


async def test_a_pod_that_is_deleted_between_filter_and_bind_holds_nothing() -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.filter(scheduler, "a")
        world.delete("a")
        answer = await world.bind(scheduler, "a", "n0", uid)
        assert answer == "the pod is gone"
        assert phase(scheduler, uid) is None
        await asyncio.sleep(1)
        world.pod("b", 12000)
        assert await world.place(scheduler, "b") == "n0"


async def test_a_pod_of_the_same_name_is_another_pod() -> None:
    world = World(1)
    former = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.filter(scheduler, "a")
        world.delete("a")
        other = world.pod("a", 1000)
        assert await world.bind(scheduler, "a", "n0", former) == "the pod is gone"
        assert world.read("a").spec.node_name == ""
        assert phase(scheduler, other) is None


async def test_a_pod_with_too_many_annotations_is_refused() -> None:
    world = World(1)
    uid = world.pod("a", annotations={"note": "x" * 204_500})
    async with leading(world) as scheduler:
        world.filter(scheduler, "a")
        answer = await world.bind(scheduler, "a", "n0")
        assert "metadata.annotations: " in answer
        assert "move what is large to a ConfigMap" in answer
        assert phase(scheduler, uid) is None
        assert world.read("a").spec.node_name == ""
