"""Nodes, news of cards, containers that outlive their pods."""

import asyncio
from collections.abc import Sequence

import pytest

from tessera_runtime.bus.outbox import open_outbox
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Share
from tessera_schema.messages.device_reports import DeviceState, Occupied, encode
from tessera_schema.subjects import DEVICES_BUCKET
from tests.scheduler.world import (
    World,
    cards_on,
    leading,
)

pytestmark = pytest.mark.looptime


async def tell(
    world: World, node: str, cards: Sequence[Card], occupied: Sequence[Occupied] = ()
) -> None:
    """As the node's agent would."""
    state = DeviceState(node=node, vendor="nvidia", cards=tuple(cards), occupied=tuple(occupied))
    async with open_outbox(world.bus, world.clock, "agent", node) as outbox:
        outbox.publish_state(DEVICES_BUCKET, f"{node}.nvidia", "dev.tessera.device", encode(state))
    await asyncio.sleep(0.1)


async def test_nodes_come_change_and_go() -> None:
    world = World(1)
    world.pod("a", 12000)
    world.pod("b", 12000)
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
        world.make("/api/v1/nodes", {"metadata": {"name": "n9"}})
        world.publish("n9", cards_on("n9"))
        world.nodes.append("n9")
        await asyncio.sleep(0.1)
        assert world.filter(scheduler, "b").node_names == ("n9",)
        world.call("DELETE", "/api/v1/nodes/n9")
        await asyncio.sleep(0.1)
        assert world.filter(scheduler, "b").failed_and_unresolvable_nodes == {
            "n0": "CardInsufficientMemory", "n9": "NodeUnregistered",
        }  # fmt: skip


async def test_the_bus_takes_cards_away_at_once_and_adds_none() -> None:
    world = World(1)
    world.pod("a", 1000)
    async with leading(world) as scheduler:
        await tell(world, "n0", cards_on("n0", healthy=False))
        assert world.filter(scheduler, "a").failed_and_unresolvable_nodes == {"n0": "CardNotHealth"}
        await tell(world, "n0", [])
        assert world.filter(scheduler, "a").failed_and_unresolvable_nodes == {"n0": "CardNotHealth"}
        await tell(world, "n0", cards_on("n0", 4))
        assert len(scheduler.ledger.fleet.facts[scheduler.ledger.fleet.rows["n0"]]) == 1
        assert world.filter(scheduler, "a").node_names == ("n0",)


async def test_the_bus_does_not_bring_back_a_card_that_is_published_sick() -> None:
    world = World(1)
    world.publish("n0", cards_on("n0", healthy=False))
    world.pod("a", 1000)
    async with leading(world) as scheduler:
        await tell(world, "n0", cards_on("n0"))
        assert world.filter(scheduler, "a").failed_and_unresolvable_nodes == {"n0": "CardNotHealth"}
        world.publish("n0", cards_on("n0"))
        await asyncio.sleep(0.1)
        assert world.filter(scheduler, "a").node_names == ("n0",)


async def test_what_the_bus_took_away_comes_back_when_it_falls_silent_or_it_is_published() -> None:
    world = World(1)
    world.pod("a", 1000)
    async with leading(world) as scheduler:
        await tell(world, "n0", cards_on("n0", healthy=False))
        world.bus.away()
        await asyncio.sleep(80)
        assert not world.filter(scheduler, "a").node_names
        await asyncio.sleep(15)
        assert world.filter(scheduler, "a").node_names == ("n0",)
        world.bus.back()
        await tell(world, "n0", cards_on("n0", healthy=False))
        world.publish("n0", cards_on("n0", healthy=False))
        await asyncio.sleep(0.1)
        assert not world.filter(scheduler, "a").node_names
        world.publish("n0", cards_on("n0"))
        await asyncio.sleep(0.1)
        assert world.filter(scheduler, "a").node_names == ("n0",)


async def test_containers_that_outlive_their_pod_keep_its_cards() -> None:
    world = World(1)
    world.pod("b", 12000)
    share = Share(
        container="c", position=0, vendor="nvidia", dialect="hami", card="GPU-n0-0", index=0,
        memory_bytes=12000 * MIB,
    )  # fmt: skip
    left = Occupied(uid="gone", namespace="default", name="a", shares=(share,))
    async with leading(world) as scheduler:
        await tell(world, "n0", cards_on("n0"), [left])
        assert not world.filter(scheduler, "b").node_names
        await scheduler.watches.refresh_pods()
        await tell(world, "n0", cards_on("n0"), [left])
        assert scheduler.ledger.held("n0")["GPU-n0-0"].slots == 1
        await tell(world, "n0", cards_on("n0"))
        assert await world.place(scheduler, "b") == "n0"
