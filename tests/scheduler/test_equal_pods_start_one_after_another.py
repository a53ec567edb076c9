"""Where kubelet asks a device plugin, it does not say for whom: equal pods start one by one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tessera_embedded.apiserver.faults import Answer
from tessera_scheduler.scheduler import Scheduler
from tessera_schema.decisions import DecisionRecord
from tessera_schema.node_cards import ALLOCATE, NodeCardsAnnotation, encode_node_cards
from tessera_testing.builders import a_card
from tests.scheduler.world import BINDING, CARDS, World, cards_on, leading, settings, until

pytestmark = pytest.mark.looptime
CLOSED = "NodeStartingEqualPod"
ADMITTED = {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"}
RUNS = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
MT_CARDS = "cards.tessera.dev/mthreads"
A_PART = {"mthreads.com/vgpu": "1", "mthreads.com/sgpu-memory": "2"}


def allocating(world: World, *nodes: str) -> None:
    """The agents of these nodes give cards through kubelet."""
    for node in nodes:
        text = encode_node_cards(NodeCardsAnnotation(cards=tuple(cards_on(node)), giving=ALLOCATE))
        world.note(f"/api/v1/nodes/{node}", {CARDS: text})


def a_world(nodes: int = 1) -> World:
    world = World(nodes)
    allocating(world, *world.nodes)
    return world


def asking(world: World, name: str, limits: dict[str, str]) -> str:
    """A pod of one container; its uid."""
    container = {"name": "c", "image": "i", "resources": {"limits": limits}}
    made = world.make(
        "/api/v1/namespaces/default/pods",
        {"metadata": {"name": name}, "spec": {"containers": [container]}},
    )
    uid: str = made["metadata"]["uid"]
    return uid


def report(world: World, name: str, status: dict[str, Any]) -> None:
    """As kubelet does."""
    world.call("PATCH", f"{world.path(name)}/status", {"status": status})


def why(scheduler: Scheduler, uid: str) -> DecisionRecord:
    record = scheduler.decisions.record(uid, scheduler.ledger.fleet)
    assert record is not None
    return record


async def test_an_equal_pod_goes_to_another_node_and_the_next_one_waits() -> None:
    world = a_world(2)
    for name in ("a", "b"):
        world.pod(name, 300)
    uid = world.pod("c", 500)
    async with leading(world) as scheduler:
        first, second = await world.place(scheduler, "a"), await world.place(scheduler, "b")
        assert {first, second} == {"n0", "n1"}
        answer = world.filter(scheduler, "c")
        assert answer.failed_and_unresolvable_nodes == {"n0": CLOSED, "n1": CLOSED}
        record = why(scheduler, uid)
        assert record.message == f"0/2 nodes have room: 2 {CLOSED}"
        told = {r.node: r.message for r in record.reasons}
        assert told[first].startswith("default/a is starting there and asks for as much")
        assert told[second].startswith("default/b is starting there and asks for as much")
        assert "nvidia.com/gpu: 1" in told[first]


async def test_a_pod_that_asks_for_another_amount_does_not_wait() -> None:
    world = World(1, 2)
    text = encode_node_cards(NodeCardsAnnotation(cards=tuple(cards_on("n0", 2)), giving=ALLOCATE))
    world.note("/api/v1/nodes/n0", {CARDS: text})
    world.pod("a", 300)
    asking(world, "b", {"nvidia.com/gpu": "2", "nvidia.com/gpumem": "300"})
    async with leading(world) as scheduler:
        assert await world.place(scheduler, "a") == "n0"
        assert await world.place(scheduler, "b") == "n0"


async def test_where_the_runtime_asks_nobody_waits() -> None:
    world = World(1)
    async with leading(world) as scheduler:
        for name in ("a", "b", "c"):
            world.pod(name, 300)
            assert await world.place(scheduler, name) == "n0"


async def test_the_node_opens_when_kubelet_has_admitted_the_pod_and_others_are_woken() -> None:
    world = a_world()
    for name in ("a", "b"):
        world.pod(name, 300)
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
        assert world.filter(scheduler, "b").node_names == ()
        await asyncio.sleep(5)
        assert world.filter(scheduler, "b").node_names == ()
        before = world.call("GET", "/api/v1/nodes/n0")["metadata"]["resourceVersion"]
        report(world, "a", ADMITTED)
        await asyncio.sleep(5)
        after = world.call("GET", "/api/v1/nodes/n0")["metadata"]
        assert "tessera.dev/wake" in after["annotations"]
        assert after["resourceVersion"] != before
        assert world.filter(scheduler, "b").node_names == ("n0",)


async def test_a_vendors_own_plugin_needs_until_a_container_starts() -> None:
    world = World(1)
    cards = (a_card("MT-0", vendor="mthreads", mib=49152),)
    world.note("/api/v1/nodes/n0", {MT_CARDS: encode_node_cards(NodeCardsAnnotation(cards=cards))})
    for name in ("a", "b"):
        asking(world, name, A_PART)
    async with leading(world) as scheduler:
        assert await world.place(scheduler, "a") == "n0"
        report(world, "a", ADMITTED)
        await asyncio.sleep(1)
        assert world.filter(scheduler, "b").failed_and_unresolvable_nodes == {"n0": CLOSED}
        report(world, "a", RUNS)
        await asyncio.sleep(1)
        assert world.filter(scheduler, "b").node_names == ("n0",)


@pytest.mark.parametrize("end", ["deleted", "ends"])
async def test_the_node_opens_when_the_pod_is_gone(end: str) -> None:
    world = a_world()
    for name in ("a", "b"):
        world.pod(name, 300)
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
        if end == "deleted":
            world.delete("a")
        else:
            world.finish("a")
        await asyncio.sleep(1)
        assert world.filter(scheduler, "b").node_names == ("n0",)


async def test_a_reservation_closes_the_node_until_it_has_run_out() -> None:
    world = a_world()
    for name in ("a", "b"):
        world.pod(name, 300)
    async with leading(world) as scheduler:
        assert world.filter(scheduler, "a").node_names == ("n0",)
        assert world.filter(scheduler, "a").node_names == ("n0",)  # it does not wait for itself
        assert world.filter(scheduler, "b").node_names == ()
        await asyncio.sleep(35)
        assert world.filter(scheduler, "b").node_names == ("n0",)


async def test_a_binding_whose_outcome_is_not_known_closes_the_node() -> None:
    world = a_world()
    for name in ("a", "b"):
        world.pod(name, 300)
    async with leading(world) as scheduler:
        assert world.filter(scheduler, "a").node_names == ("n0",)
        world.fault("POST", BINDING, Answer(500), 9)
        assert "is not known" in await world.bind(scheduler, "a", "n0")
        assert world.filter(scheduler, "b").node_names == ()


async def test_the_next_leader_knows_it_from_the_pods() -> None:
    world = a_world()
    for name in ("a", "b"):
        world.pod(name, 300)
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
    async with leading(world) as scheduler:
        assert world.filter(scheduler, "b").failed_and_unresolvable_nodes == {"n0": CLOSED}
        report(world, "a", ADMITTED)
        await asyncio.sleep(1)
        assert world.filter(scheduler, "b").node_names == ("n0",)


async def test_a_pod_that_was_offered_several_nodes_is_not_bound_to_a_closed_one() -> None:
    world = a_world(2)
    world.pod("a", 300)
    wish: dict[str, Any] = {"preference": {"matchExpressions": []}, "weight": 1}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}
    world.pod("b", 300, affinity=affinity)
    world.pod("c", 300, affinity=affinity)
    async with leading(world) as scheduler:
        for name in ("b", "c"):
            assert len(world.filter(scheduler, name).node_names or ()) == 2
        node = await world.place(scheduler, "a")
        (other,) = {"n0", "n1"} - {node}
        assert "default/a is starting there" in await world.bind(scheduler, "b", node)
        assert world.filter(scheduler, "b").node_names == (other,)
        assert await world.bind(scheduler, "b", other) == ""
        assert "default/b is starting there" in await world.bind(scheduler, "c", other)


async def test_a_node_that_begins_to_allocate_is_closed_for_what_is_on_its_way() -> None:
    world = World(2)
    for name in ("a", "b", "c"):
        world.pod(name, 300)
    async with leading(world) as scheduler:
        (reserved,) = world.filter(scheduler, "a").node_names or ()
        bound = await world.place(scheduler, "b")
        assert reserved == bound  # nothing keeps them apart yet
        allocating(world, *world.nodes)
        await asyncio.sleep(1)
        (other,) = {"n0", "n1"} - {bound}
        assert world.filter(scheduler, "c").node_names == (other,)
        world.delete("b")
        await asyncio.sleep(1)
        assert await world.bind(scheduler, "a", reserved) == ""


async def test_a_node_that_is_given_by_the_runtime_again_is_open() -> None:
    world = a_world()
    for name in ("a", "b"):
        world.pod(name, 300)
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
        assert world.filter(scheduler, "b").node_names == ()
        world.publish("n0", cards_on("n0"))
        await asyncio.sleep(1)
        assert world.filter(scheduler, "b").node_names == ("n0",)


def events(world: World) -> list[str]:
    found = world.call("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
    return [event["note"] for event in found if event["reason"] == "StartsTooLong"]


async def test_a_pod_that_takes_too_long_is_told_of_and_no_longer_waited_for() -> None:
    world = a_world()
    cards = (a_card("MT-0", vendor="mthreads", mib=49152),)
    world.note("/api/v1/nodes/n0", {MT_CARDS: encode_node_cards(NodeCardsAnnotation(cards=cards))})
    for name in ("a", "b"):
        asking(world, name, A_PART)
    async with leading(world, config=settings(start_s=60)) as scheduler:
        await world.place(scheduler, "a")
        report(world, "a", ADMITTED)
        await asyncio.sleep(50)
        assert world.filter(scheduler, "b").node_names == ()
        await until(lambda: events(world), 30)
        (told,) = events(world)
        assert "has not started on n0 within 60 s of its binding" in told
        assert "others no longer wait for it" in told
        assert world.filter(scheduler, "b").node_names == ("n0",)


async def test_one_that_kubelet_never_reported_is_told_of_and_waited_for() -> None:
    world = a_world()
    for name in ("a", "b"):
        world.pod(name, 300)
    async with leading(world, config=settings(start_s=60)) as scheduler:
        await world.place(scheduler, "a")
        await until(lambda: events(world), 90)
        (told,) = events(world)
        assert "kubelet has not reported it" in told
        assert world.filter(scheduler, "b").node_names == ()
        measured = scheduler.metrics.alerts.labels("StartsTooLong")
        assert measured._value.get() == 1


ASKS = {
    "hami.io": {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "300"},
    "volcano.sh": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "300"},
}


@pytest.mark.parametrize("giving", ["", ALLOCATE])
@pytest.mark.parametrize("system", list(ASKS))
async def test_what_other_tools_wait_for_is_written_where_our_agent_gives(
    giving: str, system: str
) -> None:
    world = a_world() if giving else World(1)
    asking(world, "a", ASKS[system])
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
        notes = world.read("a").metadata.annotations
        assert notes[f"{system}/bind-phase"] == "success"


async def test_where_a_plugin_of_theirs_gives_it_is_left_to_that() -> None:
    world = World(1)
    register = "GPU-n0-0,10,16384,100,NVIDIA-A10,0,true,0,hami-core:"
    world.note("/api/v1/nodes/n0", {CARDS: None, "hami.io/node-nvidia-register": register})
    world.pod("a", 300)
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
        notes = world.read("a").metadata.annotations
        assert notes["hami.io/bind-phase"] == "allocating"
