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
from tests.scheduler.world import BINDING, World, leading, phase

pytestmark = pytest.mark.looptime


def bindings(world: World) -> int:
    return len([path for _, path in world.kube.calls if re.fullmatch(BINDING, path)])


async def test_a_conflict_is_read_again_and_tried_again_in_the_same_call() -> None:
    world = World(1)
    uid = world.pod("a")
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Answer(409), times=2)
        world.filter(scheduler, "a")
        assert await world.bind(scheduler, "a", "n0") == ""
        assert (phase(scheduler, uid), bindings(world)) == (AllocationPhase.BOUND, 3)


async def test_a_conflict_without_end_gives_the_cards_back() -> None:
    world = World(1)
    uid = world.pod("a")
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Answer(409), times=100)
        world.filter(scheduler, "a")
        assert "409" in await world.bind(scheduler, "a", "n0")
        assert (phase(scheduler, uid), bindings(world)) == (None, 5)


async def test_a_pod_that_somebody_else_has_bound_gives_its_cards_back() -> None:
    world = World(2)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.kube.event_delay_s = 1000
        world.filter(scheduler, "a")
        world.bind_elsewhere("a", "n1")
        assert await world.bind(scheduler, "a", "n0") == "the pod is bound by somebody else"
        assert phase(scheduler, uid) is None
        assert scheduler.ledger.held("n0") == {}


async def test_a_reservation_of_a_pod_that_somebody_else_bound_is_dropped() -> None:
    world = World(2)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.filter(scheduler, "a")
        world.bind_elsewhere("a", "n1")
        await asyncio.sleep(0.1)
        assert phase(scheduler, uid) is None


async def test_a_pod_that_is_being_deleted_gives_its_cards_back() -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    world.call("PATCH", world.path("a"), {"metadata": {"finalizers": ["x.y/z"]}})
    async with leading(world) as scheduler:
        world.filter(scheduler, "a")
        world.delete("a")
        answer = await world.bind(scheduler, "a", "n0")
        assert answer == "the pod is being deleted, and not bound"
        assert phase(scheduler, uid) is None


async def test_a_busy_server_is_waited_for() -> None:
    world = World(1)
    uid = world.pod("a")
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Answer(429, retry_after_s=1), times=2)
        world.filter(scheduler, "a")
        assert await world.bind(scheduler, "a", "n0") == ""
        assert phase(scheduler, uid) is AllocationPhase.BOUND


async def test_a_server_that_stays_busy_gives_the_cards_back() -> None:
    world = World(1)
    uid = world.pod("a")
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Answer(429, retry_after_s=60))
        world.filter(scheduler, "a")
        assert "fault" in await world.bind(scheduler, "a", "n0")
        assert phase(scheduler, uid) is None


@pytest.mark.parametrize("code", [400, 403, 422])
async def test_a_refusal_gives_the_cards_back(code: int) -> None:
    world = World(1)
    uid = world.pod("a")
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Answer(code))
        world.filter(scheduler, "a")
        assert "fault" in await world.bind(scheduler, "a", "n0")
        assert (phase(scheduler, uid), bindings(world)) == (None, 1)
        assert await world.place(scheduler, "a") == "n0"


async def test_a_second_call_meanwhile_is_asked_to_come_back() -> None:
    world = World(1)
    uid = world.pod("a")
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Hang())
        world.filter(scheduler, "a")
        async with asyncio.TaskGroup() as group:
            first = group.create_task(world.bind(scheduler, "a", "n0"), name="first")
            await asyncio.sleep(1)
            assert phase(scheduler, uid) is AllocationPhase.BINDING
            assert "under way" in await world.bind(scheduler, "a", "n0")
        assert "its cards are kept" in first.result()


async def test_a_call_that_is_cut_off_keeps_the_cards() -> None:
    world = World(1)
    uid = world.pod("a")
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Hang())
        world.filter(scheduler, "a")
        async with asyncio.TaskGroup() as group:
            call = group.create_task(world.bind(scheduler, "a", "n0"), name="cut off")
            await asyncio.sleep(1)
            call.cancel()
        assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        assert await world.bind(scheduler, "a", "n0") == ""


async def test_a_pod_that_somebody_else_bound_to_the_very_node_is_not_ours() -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.filter(scheduler, "a")
        world.bind_elsewhere("a", "n0")
        await asyncio.sleep(0.1)
        assert phase(scheduler, uid) is None
        assert scheduler.ledger.held("n0") == {}


def test_the_uid_is_always_a_precondition_and_the_version_where_the_pod_was_read() -> None:
    grant = Grant(uid="u", namespace="team", name="a", node="n0", shares=())
    target = BindingTarget(name=PodKey("team", "a", "u"), grant=grant, annotations={"k": "v"})
    first, again = (json.loads(target.body(version))["metadata"] for version in ("", "77"))
    assert first == {"name": "a", "namespace": "team", "uid": "u", "annotations": {"k": "v"}}
    assert again == {**first, "resourceVersion": "77"}
