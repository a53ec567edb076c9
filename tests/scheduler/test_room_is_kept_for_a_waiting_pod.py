"""A plan makes room for a pod: until it has its place, nobody of no higher priority takes it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tessera_scheduler.scheduler import Scheduler
from tessera_schema.annotation_keys import RESERVE_KEY
from tessera_schema.decisions import DecisionRecord
from tessera_schema.plans import Reservation, encode_reservation
from tests.scheduler.world import World, leading, standing_by, until

pytestmark = pytest.mark.looptime
WHOLE = 16000


def reserve(world: World, name: str, node: str, for_s: float = 300, plan: str = "p1") -> None:
    held = Reservation(node=node, until=world.clock.time() + for_s, plan=plan)
    world.note(world.path(name), {RESERVE_KEY: encode_reservation(held)})


def why(scheduler: Scheduler, uid: str) -> DecisionRecord:
    record = scheduler.decisions.record(uid, scheduler.ledger.fleet)
    assert record is not None
    return record


async def a_world(nodes: int = 1, **more: Any) -> World:
    world = World(nodes)
    world.pod("w", WHOLE, **more)
    return world


async def test_others_leave_the_node_to_the_pod_and_are_told_why() -> None:
    world = await a_world()
    uid = world.pod("x", 1000)
    async with leading(world) as scheduler:
        reserve(world, "w", "n0")
        await until(lambda: scheduler.node_reservations)
        answer = world.filter(scheduler, "x")
        assert answer.failed_and_unresolvable_nodes == {"n0": "NodeReserved"}
        record = why(scheduler, uid)
        assert [(r.node, r.reason.wire) for r in record.reasons] == [("n0", "NodeReserved")]
        assert record.reasons[0].message == (
            "room is being made there by plan p1 for default/w, of priority 0"
        )
        assert await world.place(scheduler, "w") == "n0"


async def test_others_go_to_other_nodes() -> None:
    world = await a_world(2)
    world.pod("x", 1000)
    async with leading(world) as scheduler:
        reserve(world, "w", "n0")
        await until(lambda: scheduler.node_reservations)
        assert world.filter(scheduler, "x").node_names == ("n1",)


async def test_the_node_opens_when_the_pod_has_its_place() -> None:
    world = await a_world()
    world.pod("x", 300)
    async with leading(world) as scheduler:
        reserve(world, "w", "n0")
        await until(lambda: scheduler.node_reservations)
        assert world.filter(scheduler, "x").node_names == ()
        assert await world.place(scheduler, "w") == "n0"
        await until(lambda: not scheduler.node_reservations)
        assert world.filter(scheduler, "x").node_names == ("n0",)


async def test_the_node_opens_when_the_pod_is_gone_or_the_plan_takes_it_back() -> None:
    world = await a_world()
    world.pod("x", 300)
    async with leading(world) as scheduler:

        def take_back() -> None:
            world.note(world.path("w"), {RESERVE_KEY: None})

        def delete() -> None:
            world.delete("w")

        for end in (take_back, delete):
            reserve(world, "w", "n0")
            await until(lambda: scheduler.node_reservations)
            assert world.filter(scheduler, "x").node_names == ()
            end()
            await until(lambda: not scheduler.node_reservations)
        assert world.filter(scheduler, "x").node_names == ("n0",)


async def test_the_node_opens_by_itself_and_those_who_wait_are_woken() -> None:
    world = await a_world()
    world.pod("x", 300)
    async with leading(world) as scheduler:
        reserve(world, "w", "n0", for_s=60)
        await until(lambda: scheduler.node_reservations)
        world.filter(scheduler, "x")
        before = world.call("GET", "/api/v1/nodes/n0")["metadata"]["resourceVersion"]
        await asyncio.sleep(65)
        assert not scheduler.node_reservations
        after = world.call("GET", "/api/v1/nodes/n0")["metadata"]
        assert "tessera.dev/wake" in after["annotations"]
        assert after["resourceVersion"] != before
        assert world.filter(scheduler, "x").node_names == ("n0",)


async def test_no_reservation_holds_longer_than_a_quarter_of_an_hour() -> None:
    world = await a_world()
    world.pod("x", 300)
    async with leading(world) as scheduler:
        reserve(world, "w", "n0", for_s=1e9)
        await until(lambda: scheduler.node_reservations)
        await asyncio.sleep(905)
        assert world.filter(scheduler, "x").node_names == ("n0",)


async def test_who_matters_more_is_not_kept_off() -> None:
    world = await a_world()
    world.pod("x", 300, priority=10)
    async with leading(world) as scheduler:
        reserve(world, "w", "n0")
        await until(lambda: scheduler.node_reservations)
        assert world.filter(scheduler, "x").node_names == ("n0",)


async def test_what_was_reserved_on_the_node_and_not_bound_yields() -> None:
    world = await a_world(2)
    world.pod("x", 1000)
    async with leading(world) as scheduler:
        (node,) = world.filter(scheduler, "x").node_names or ()
        reserve(world, "w", node)
        await until(lambda: scheduler.node_reservations)
        (other,) = world.filter(scheduler, "x").node_names or ()
        assert other != node


async def test_a_pod_that_wishes_where_to_be_is_kept_off_too() -> None:
    world = await a_world(2)
    wish: dict[str, Any] = {"preference": {"matchExpressions": []}, "weight": 1}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    world.pod("x", 1000, affinity=affinity)
    async with leading(world) as scheduler:
        assert len(world.filter(scheduler, "x").node_names or ()) == 2
        reserve(world, "w", "n0")
        await until(lambda: scheduler.node_reservations)
        problem = await world.bind(scheduler, "x", "n0")
        assert "room is being made there by plan p1" in problem
        assert world.filter(scheduler, "x").node_names == ("n1",)


async def test_the_next_leader_knows_it_from_the_pod() -> None:
    world = await a_world()
    world.pod("x", 300)
    reserve(world, "w", "n0")
    async with standing_by(world) as scheduler:
        await until(lambda: scheduler.leadership.leads)
        assert world.filter(scheduler, "x").node_names == ()


async def test_nonsense_closes_nothing() -> None:
    world = await a_world()
    world.pod("x", 300)
    world.pod("none", 0)
    async with leading(world) as scheduler:
        for text in ("{", '{"node":"n0"}', '{"node":"","until":9e9}', '{"node":"n0","until":1}'):
            world.note(world.path("w"), {RESERVE_KEY: text})
            await asyncio.sleep(1)
            assert not scheduler.node_reservations
        reserve(world, "none", "n0")
        await asyncio.sleep(1)
        assert world.filter(scheduler, "x").node_names == ("n0",)
