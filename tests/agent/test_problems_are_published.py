"""Why containers are not given cards is on the node once it has lasted, and only then."""

import asyncio

import pytest
from msgspec import UNSET

from tessera_agent.devices.node_annotation import CardsAnnotationWriter
from tessera_agent.devices.published_problem import LASTS_S, publish_problem
from tessera_agent.devices.settings import InventorySettings
from tessera_runtime.background import running_in_background
from tessera_schema.node_cards import NodeCardsAnnotation, decode_node_cards
from tessera_testing.builders import a_card
from tessera_testing.kube import FakeKube
from tests.agent.node import NODE, a_cluster, annotation, writes

pytestmark = pytest.mark.looptime

ROUND_S = 20.0
"""Seconds until what the agent says is on the node: a poll, and a write in its turn."""


async def published(kube: FakeKube) -> NodeCardsAnnotation:
    return decode_node_cards(await annotation(kube))


async def test_a_problem_is_published_once_it_has_lasted_and_taken_back_when_it_is_over() -> None:
    kube = await a_cluster()
    writer = CardsAnnotationWriter(kube, InventorySettings(write_s=10), NODE, "nvidia")
    problems = ["the runtime is away"]
    writer.want([a_card("GPU-0")])
    async with (
        running_in_background(writer.keep(), "keep"),
        running_in_background(publish_problem(lambda: problems[0], writer), "problem"),
    ):
        await asyncio.sleep(LASTS_S - 1)
        assert ((await published(kube)).problem, writes(kube)) == (UNSET, 1)
        await asyncio.sleep(ROUND_S)
        assert (await published(kube)).problem == "the runtime is away"
        problems[0] = "the runtime is away, tried 7 times"  # in other words: no write of the node
        await asyncio.sleep(5 * ROUND_S)
        assert (await published(kube)).problem == "the runtime is away"
        assert writes(kube) == 2
        problems[0] = ""
        await asyncio.sleep(ROUND_S)
        assert ((await published(kube)).problem, writes(kube)) == (UNSET, 3)


async def test_a_short_problem_costs_no_write() -> None:
    kube = await a_cluster()
    writer = CardsAnnotationWriter(kube, InventorySettings(write_s=10), NODE, "nvidia")
    problems = [""]
    writer.want([a_card("GPU-0")])
    async with (
        running_in_background(writer.keep(), "keep"),
        running_in_background(publish_problem(lambda: problems[0], writer), "problem"),
    ):
        for _ in range(5):
            problems[0] = "the runtime restarts"
            await asyncio.sleep(LASTS_S / 2)
            problems[0] = ""
            await asyncio.sleep(ROUND_S)
        assert ((await published(kube)).problem, writes(kube)) == (UNSET, 1)
