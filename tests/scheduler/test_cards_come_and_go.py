"""Nodes, reports on cards, containers that outlive their pods."""

import asyncio
from collections.abc import Sequence

import pytest

from tessera_runtime.bus.outbox import open_outbox
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Share
from tessera_schema.messages.device_reports import DeviceState, Occupied, encode
from tessera_schema.subjects import DEVICES_BUCKET
from tests.scheduler.fake_cluster import (
    FakeCluster,
    cards_on,
    leading,
)

pytestmark = pytest.mark.looptime


async def report(
    cluster: FakeCluster, node: str, cards: Sequence[Card], occupied: Sequence[Occupied] = ()
) -> None:
    """As the node's agent would."""
    state = DeviceState(node=node, vendor="nvidia", cards=tuple(cards), occupied=tuple(occupied))
    async with open_outbox(cluster.bus, cluster.clock, "agent", node) as outbox:
        outbox.publish_state(DEVICES_BUCKET, f"{node}.nvidia", "dev.tessera.device", encode(state))
    await asyncio.sleep(0.1)


async def test_nodes_come_change_and_go() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 12000)
    cluster.pod("b", 12000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        cluster.make("/api/v1/nodes", {"metadata": {"name": "n9"}})
        cluster.publish("n9", cards_on("n9"))
        cluster.nodes.append("n9")
        await asyncio.sleep(0.1)
        assert cluster.filter(scheduler, "b").node_names == ("n9",)
        cluster.call("DELETE", "/api/v1/nodes/n9")
        await asyncio.sleep(0.1)
        assert cluster.filter(scheduler, "b").failed_and_unresolvable_nodes == {
            "n0": "CardInsufficientMemory", "n9": "NodeUnregistered",
        }  # fmt: skip


async def test_the_bus_takes_cards_away_at_once_and_adds_none() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 1000)
    async with leading(cluster) as scheduler:
        await report(cluster, "n0", cards_on("n0", healthy=False))
        assert cluster.filter(scheduler, "a").failed_and_unresolvable_nodes == {
            "n0": "CardNotHealth"
        }
        await report(cluster, "n0", [])
        assert cluster.filter(scheduler, "a").failed_and_unresolvable_nodes == {
            "n0": "CardNotHealth"
        }
        await report(cluster, "n0", cards_on("n0", 4))
        assert len(scheduler.ledger.fleet.facts[scheduler.ledger.fleet.rows["n0"]]) == 1
        assert cluster.filter(scheduler, "a").node_names == ("n0",)


async def test_the_bus_does_not_bring_back_a_card_that_is_published_unhealthy() -> None:
    cluster = FakeCluster(1)
    cluster.publish("n0", cards_on("n0", healthy=False))
    cluster.pod("a", 1000)
    async with leading(cluster) as scheduler:
        await report(cluster, "n0", cards_on("n0"))
        assert cluster.filter(scheduler, "a").failed_and_unresolvable_nodes == {
            "n0": "CardNotHealth"
        }
        cluster.publish("n0", cards_on("n0"))
        await asyncio.sleep(0.1)
        assert cluster.filter(scheduler, "a").node_names == ("n0",)


async def test_what_the_bus_took_away_comes_back_when_it_falls_silent_or_it_is_published() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 1000)
    async with leading(cluster) as scheduler:
        await report(cluster, "n0", cards_on("n0", healthy=False))
        cluster.bus.away()
        await asyncio.sleep(80)
        assert not cluster.filter(scheduler, "a").node_names
        await asyncio.sleep(15)
        assert cluster.filter(scheduler, "a").node_names == ("n0",)
        cluster.bus.back()
        await report(cluster, "n0", cards_on("n0", healthy=False))
        cluster.publish("n0", cards_on("n0", healthy=False))
        await asyncio.sleep(0.1)
        assert not cluster.filter(scheduler, "a").node_names
        cluster.publish("n0", cards_on("n0"))
        await asyncio.sleep(0.1)
        assert cluster.filter(scheduler, "a").node_names == ("n0",)


async def test_containers_that_outlive_their_pod_keep_its_cards() -> None:
    cluster = FakeCluster(1)
    cluster.pod("b", 12000)
    share = Share(
        container="c", position=0, vendor="nvidia", dialect="hami", card="GPU-n0-0", index=0,
        memory_bytes=12000 * MIB,
    )  # fmt: skip
    left = Occupied(uid="gone", namespace="default", name="a", shares=(share,))
    async with leading(cluster) as scheduler:
        await report(cluster, "n0", cards_on("n0"), [left])
        assert not cluster.filter(scheduler, "b").node_names
        await scheduler.watches.refresh_pods()
        await report(cluster, "n0", cards_on("n0"), [left])
        assert scheduler.ledger.charges_on("n0")["GPU-n0-0"].slots == 1
        await report(cluster, "n0", cards_on("n0"))
        assert await cluster.place(scheduler, "b") == "n0"
