"""What the node shows of the agent's Lease: it changes when the agent is back, because that has
kube-scheduler try the pods again that wait."""

import asyncio

import pytest

from tessera_agent.devices.node_annotation import CardsAnnotationWriter
from tessera_agent.devices.settings import InventorySettings
from tessera_runtime.background import running_in_background
from tessera_schema.node_cards import NodeCardsAnnotation, decode_node_cards
from tessera_testing.builders import a_card
from tessera_testing.kube import FakeKube
from tests.agent.node import NODE, a_cluster, annotation, writes

pytestmark = pytest.mark.looptime

CARDS = [a_card("GPU-0"), a_card("GPU-1", 1)]


def a_writer(kube: FakeKube) -> CardsAnnotationWriter:
    return CardsAnnotationWriter(kube, InventorySettings(write_s=10), NODE, "nvidia")


async def published(kube: FakeKube) -> NodeCardsAnnotation:
    return decode_node_cards(await annotation(kube))


async def test_the_node_changes_at_once_when_the_agent_is_back() -> None:
    kube = await a_cluster()
    writer = a_writer(kube)
    async with running_in_background(writer.keep(), "keep"):
        writer.want(CARDS[:1])
        await asyncio.sleep(0.1)
        writer.want(CARDS)  # waits its turn
        await asyncio.sleep(0.1)
        assert len((await published(kube)).cards) == 1
        for since_s in (1000, 2000):
            writer.announce(45, since_s)
            await asyncio.sleep(0.1)
            there = await published(kube)
            assert (there.heartbeat_s, there.renewed_since_s) == (45, since_s)
        assert (len((await published(kube)).cards), writes(kube)) == (2, 3)
        writer.want(CARDS[1:] + CARDS[:1])  # its turn comes 10 s after what could not wait
        await asyncio.sleep(5)
        assert writes(kube) == 3


async def test_what_a_former_agent_announced_stays_until_the_lease_is_renewed() -> None:
    kube = await a_cluster()
    for since_s in (1000, 2000):
        writer = a_writer(kube)
        async with running_in_background(writer.keep(), "keep"):
            writer.want(CARDS[: since_s // 1000])
            await asyncio.sleep(15)
            if since_s == 2000:
                assert (await published(kube)).renewed_since_s == 1000
            writer.announce(45, since_s)
            await asyncio.sleep(0.1)
            assert (await published(kube)).renewed_since_s == since_s
