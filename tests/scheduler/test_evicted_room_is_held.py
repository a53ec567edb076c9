"""kube-scheduler evicted pods for another one and nominated their node: until that pod has its
cards, nobody of no higher priority takes what becomes free."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tessera_scheduler.scheduler import Scheduler
from tessera_schema.endpoints.extender import ExtenderPreemptionResult
from tests.scheduler.world import World, leading, standing_by, until

pytestmark = pytest.mark.looptime
WHOLE = 16000


def nominate(world: World, name: str, node: str | None) -> None:
    status = {"status": {"nominatedNodeName": node}}
    world.call("PATCH", f"{world.path(name)}/status", status)


def candidates(world: World, scheduler: Scheduler, name: str, *nodes: str) -> set[str]:
    """Where kube-scheduler may evict nobody's pods for this one."""
    metas = {node: {"Pods": [], "NumPDBViolations": 0} for node in nodes}
    pod = world.call("GET", world.path(name))
    body = msgspec.json.encode({"Pod": pod, "NodeNameToMetaVictims": metas})
    answer = msgspec.json.decode(scheduler.extender.preempt(body), type=ExtenderPreemptionResult)
    return set(answer.node_name_to_meta_victims)


async def test_what_victims_leave_goes_to_the_nominated_pod() -> None:
    world = World(1, cards=2)
    world.pod("victim", WHOLE)
    world.pod("urgent", WHOLE, priority=10)
    for name, priority in (("late", 0), ("equal", 10), ("first", 11)):
        world.pod(name, WHOLE, priority=priority)
    async with leading(world) as scheduler:
        await world.place(scheduler, "victim")
        nominate(world, "urgent", "n0")
        await until(lambda: scheduler.node_reservations)
        for name in ("late", "equal"):
            answer = world.filter(scheduler, name)
            assert answer.failed_and_unresolvable_nodes == {"n0": "NodeReserved"}
        world.delete("victim")
        await asyncio.sleep(1)
        assert world.filter(scheduler, "late").node_names == ()
        assert world.filter(scheduler, "first").node_names == ("n0",)
        assert await world.place(scheduler, "urgent") == "n0"


async def test_what_the_pod_does_not_need_is_open_once_it_has_its_cards() -> None:
    world = World(1, cards=2)
    world.pod("urgent", WHOLE, priority=10)
    world.pod("late", WHOLE)
    async with leading(world) as scheduler:
        nominate(world, "urgent", "n0")
        await until(lambda: scheduler.node_reservations)
        assert world.filter(scheduler, "late").node_names == ()
        assert world.filter(scheduler, "urgent").node_names == ("n0",)
        assert world.filter(scheduler, "late").node_names == ("n0",)


async def test_the_node_opens_when_the_nomination_ends() -> None:
    world = World(2)
    for name in ("urgent", "late"):
        world.pod(name, WHOLE, priority=0)
    async with leading(world) as scheduler:
        nominate(world, "urgent", "n0")
        await until(lambda: scheduler.node_reservations)
        assert world.filter(scheduler, "late", ["n0"]).node_names == ()
        nominate(world, "urgent", "n1")
        await asyncio.sleep(1)
        assert world.filter(scheduler, "late").node_names == ("n0",)
        nominate(world, "urgent", None)
        await until(lambda: not scheduler.node_reservations)


async def test_a_nomination_that_leads_nowhere_holds_a_quarter_of_an_hour() -> None:
    world = World(1)
    world.pod("urgent", WHOLE, priority=10)
    world.pod("late", WHOLE)
    async with leading(world) as scheduler:
        nominate(world, "urgent", "n0")
        await asyncio.sleep(890)
        assert world.filter(scheduler, "late").node_names == ()
        await asyncio.sleep(20)
        world.note(world.path("urgent"), {"looked-at": "again"})
        await asyncio.sleep(1)
        assert world.filter(scheduler, "late").node_names == ("n0",)


async def test_nobody_is_evicted_where_the_room_is_anothers() -> None:
    world = World(2)
    world.pod("urgent", WHOLE, priority=10)
    world.pod("equal", WHOLE, priority=10)
    world.pod("first", WHOLE, priority=11)
    async with leading(world) as scheduler:
        nominate(world, "urgent", "n0")
        await until(lambda: scheduler.node_reservations)
        assert candidates(world, scheduler, "equal", "n0", "n1") == {"n1"}
        assert candidates(world, scheduler, "urgent", "n0", "n1") == {"n0", "n1"}
        assert candidates(world, scheduler, "first", "n0", "n1") == {"n0", "n1"}


async def test_the_next_leader_knows_it_from_the_pod() -> None:
    world = World(1)
    world.pod("urgent", WHOLE, priority=10)
    world.pod("late", WHOLE)
    nominate(world, "urgent", "n0")
    async with standing_by(world) as scheduler:
        await until(lambda: scheduler.leadership.leads)
        assert world.filter(scheduler, "late").node_names == ()


async def test_pods_that_ask_for_no_cards_hold_none() -> None:
    world = World(1)
    world.pod("plain", 0, priority=10)
    world.pod("late", WHOLE)
    async with leading(world) as scheduler:
        nominate(world, "plain", "n0")
        await asyncio.sleep(1)
        assert not scheduler.node_reservations
        assert world.filter(scheduler, "late").node_names == ("n0",)


async def test_room_is_held_for_a_pod_that_its_namespace_allows_more() -> None:
    world = World(1, cards=1)
    world.call("PATCH", "/api/v1/namespaces/default", {
        "metadata": {"labels": {"allow.tessera.dev/host-pid": "true"}}})  # fmt: skip
    world.pod("urgent", WHOLE, priority=10, hostPID=True)
    world.pod("late", WHOLE)
    async with leading(world) as scheduler:
        nominate(world, "urgent", "n0")
        await until(lambda: scheduler.node_reservations)
        assert world.filter(scheduler, "late").node_names == ()
        assert await world.place(scheduler, "urgent") == "n0"
