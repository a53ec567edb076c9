"""Resource names that nobody else advertises: put on the node, kept there, taken away."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tessera_agent.advertising import About, Advertising
from tessera_core.advertised import GENEROUS, names_of
from tessera_core.registry import load
from tessera_embedded.apiserver.faults import Answer, Fault
from tessera_runtime.kube.api import Body, Verb
from tessera_testing.kube import FakeKube
from tests.agent.node import (
    NODE,
    PATH,
    SETTINGS,
    Script,
    a_card,
    a_cluster,
    running,
)

pytestmark = pytest.mark.looptime
NAMES = names_of(load(), "nvidia")
STATUS = f"{PATH}/status"


@asynccontextmanager
async def advertising(
    kube: FakeKube, *, on: bool = True, cards: int = 1, left: bool = False
) -> AsyncGenerator[None]:
    """An agent that looks after its cards and advertises them until the block ends."""
    settings = replace(SETTINGS.inventory, advertise=on)
    async with running(kube, Script(*(a_card(i) for i in range(cards)))) as agent:
        about = About(
            node=NODE, names=NAMES, shown=lambda: agent.inventory.node,
            has_cards=lambda: bool(agent.devices.seen.cards), left_to_others=lambda: left,
        )  # fmt: skip
        async with asyncio.TaskGroup() as group:
            task = group.create_task(Advertising(kube, settings, about).keep(), name="advertising")
            yield
            task.cancel()


def status(kube: FakeKube) -> Mapping[str, Mapping[str, str]]:
    """As the API server has it."""
    found: Mapping[str, Mapping[str, str]] = msgspec.json.decode(
        kube.store.handle(Verb.GET, PATH).body
    )["status"]
    return found


def capacity(kube: FakeKube) -> dict[str, str]:
    return dict(status(kube).get("capacity", {}))


def kubelet_says(kube: FakeKube, **amounts: str | None) -> None:
    """Somebody else writes the node's capacity."""
    amounts = {name.replace("__", "/").replace("_", "."): v for name, v in amounts.items()}
    patch = msgspec.json.encode({"status": {"capacity": amounts, "allocatable": amounts}})
    assert kube.store.handle(Verb.PATCH, STATUS, {}, patch, Body.MERGE_PATCH).code == 200


def patches(kube: FakeKube) -> int:
    return sum((verb, path) == (Verb.PATCH, STATUS) for verb, path in kube.calls)


async def test_every_name_of_every_dialect_of_the_vendor_is_there_soon() -> None:
    kube = await a_cluster(capacity={"cpu": "4"}, allocatable={"cpu": "3"})
    async with advertising(kube):
        await asyncio.sleep(5)
    ours = dict.fromkeys(NAMES, GENEROUS)
    assert status(kube)["capacity"] == {"cpu": "4", **ours}
    assert status(kube)["allocatable"] == {"cpu": "3", **ours}
    assert {"nvidia.com/gpu", "volcano.sh/vgpu-number", "koordinator.sh/gpu"} <= NAMES
    assert "iluvatar.ai/vgpu" not in NAMES
    assert patches(kube) == 1


async def test_a_device_plugins_amount_is_left_alone() -> None:
    kube = await a_cluster(capacity={"nvidia.com/gpu": "8"})
    async with advertising(kube):
        await asyncio.sleep(100)
        assert capacity(kube)["nvidia.com/gpu"] == "8"
        assert capacity(kube)["nvidia.com/gpumem"] == GENEROUS
        kubelet_says(kube, nvidia_com__gpumem="10")
        await asyncio.sleep(100)
    assert capacity(kube)["nvidia.com/gpumem"] == "10"
    assert patches(kube) == 1


async def test_what_vanished_is_put_back_within_the_next_look_at_the_node() -> None:
    kube = await a_cluster()
    async with advertising(kube):
        await asyncio.sleep(5)
        kubelet_says(kube, nvidia_com__gpu=None)
        await asyncio.sleep(SETTINGS.inventory.verify_s + 2)
        assert capacity(kube)["nvidia.com/gpu"] == GENEROUS


async def test_a_node_that_was_made_anew_is_advertised_again() -> None:
    """Its kubelet begins with none of everything."""
    kube = await a_cluster(capacity=dict.fromkeys(NAMES, "0"))
    async with advertising(kube):
        await asyncio.sleep(5)
    assert capacity(kube) == dict.fromkeys(NAMES, GENEROUS)


async def test_a_plugin_without_devices_is_not_fought() -> None:
    kube = await a_cluster()
    async with advertising(kube):
        for _ in range(4):
            kubelet_says(kube, nvidia_com__gpu="0")
            await asyncio.sleep(100)
    assert capacity(kube)["nvidia.com/gpu"] == "0"
    assert patches(kube) == 1


async def test_a_plugin_that_was_found_is_not_taken_over_at_all() -> None:
    kube = await a_cluster(capacity={"nvidia.com/gpu": "0"})
    async with advertising(kube, left=True):
        await asyncio.sleep(100)
    assert capacity(kube)["nvidia.com/gpu"] == "0"


async def test_a_node_without_cards_advertises_none() -> None:
    kube = await a_cluster()
    async with advertising(kube, cards=0):
        await asyncio.sleep(100)
    assert patches(kube) == 0


async def test_switched_off_it_takes_its_own_away_and_nothing_else() -> None:
    kube = await a_cluster(capacity={"cpu": "4", "nvidia.com/gpu": "8"})
    async with advertising(kube):
        await asyncio.sleep(5)
    async with advertising(kube, on=False):
        await asyncio.sleep(100)
    assert capacity(kube) == {"cpu": "4", "nvidia.com/gpu": "8"}
    assert GENEROUS not in status(kube)["allocatable"].values()
    assert patches(kube) == 2


@pytest.mark.parametrize("answer", [Answer(403), Answer(409), Answer(500)])
async def test_a_write_that_fails_is_tried_again_at_leisure(answer: Any) -> None:
    kube = await a_cluster()
    kube.faults.add(Fault(Verb.PATCH, ".*/status", answer, 3))
    async with advertising(kube):
        await asyncio.sleep(20)
        assert patches(kube) <= 2
        await asyncio.sleep(200)
    assert capacity(kube) == dict.fromkeys(NAMES, GENEROUS)
    assert patches(kube) == 4
