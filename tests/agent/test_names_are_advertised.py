"""Resource names that nobody else advertises: put on the node, kept there, taken away."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.containers.holdings import ContainerRegistry, Holding
from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.devices.extended_resources import ExtendedResources
from tessera_core.hook.limits_file import HookLimits
from tessera_core.inventory.extended_resources import FORMER, amounts_of, names_of
from tessera_core.kube.quantity import quantity_value
from tessera_core.registry.registry import load
from tessera_core.vendors.nvidia import MONITORING
from tessera_embedded.apiserver.faults import Answer, InjectedFault
from tessera_kubelet.nri.types import PodSandbox
from tessera_runtime.kube.api import Body, Verb
from tessera_schema.annotation_keys import CARDS_PREFIX
from tessera_schema.cards import MIB, Card
from tessera_schema.node_cards import decode_node_cards
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
from tests.agent.test_others_on_the_node import listening

pytestmark = pytest.mark.looptime
REGISTRY = load()
NAMES = names_of(REGISTRY, "nvidia")
STATUS = f"{PATH}/status"
SOON_S = SETTINGS.inventory.write_s * 2 + 3
"""For the record in the inventory, and then the write."""


def amounts(cards: Sequence[Card]) -> dict[str, int]:
    return amounts_of(REGISTRY, "nvidia", cards)


ONE = amounts(
    [
        Card(
            id="GPU-0",
            index=0,
            vendor="nvidia",
            memory_bytes=1 << 34,
            slots=SETTINGS.inventory.slots,
        )
    ]
)
TWO = {name: 2 * amount for name, amount in ONE.items()}


class Running(Struct):
    script: Script
    holdings: ContainerRegistry


@asynccontextmanager
async def advertising(
    kube: FakeKube, *, on: bool = True, cards: int = 1, plugins: Path | None = None
) -> AsyncGenerator[Running]:
    """An agent that looks after its cards and advertises them until the block ends. `plugins` is
    kubelet's folder with the socket of another plugin."""
    own = replace(SETTINGS.inventory, advertise=on)
    if plugins is not None:
        own = replace(own, kubelet_folder=str(plugins))
    settings, script = replace(SETTINGS, inventory=own), Script(*(a_card(i) for i in range(cards)))
    async with running(kube, script, MONITORING, settings) as agent:
        made = Running(script, ContainerRegistry())
        work = ExtendedResources(
            kube, own, NODE, amounts, inventory=agent.inventory, devices=agent.devices,
            holdings=made.holdings,
        )  # fmt: skip
        async with asyncio.TaskGroup() as group:
            task = group.create_task(work.keep(), name="advertising")
            yield made
            task.cancel()


def a_holding() -> Holding:
    pod = PodSandbox(id="s", name="p", uid="u", namespace="team")
    limits = HookLimits(container="team/p/main", cards=())
    return Holding(
        key=ContainerKey(uid="u", container="main"),
        id="c",
        pod=pod,
        shares=(),
        limits=limits,
        since=0,
    )


def status(kube: FakeKube) -> Mapping[str, Mapping[str, str]]:
    """As the API server has it."""
    found: Mapping[str, Mapping[str, str]] = node(kube)["status"]
    return found


def node(kube: FakeKube) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(kube.store.handle(Verb.GET, PATH).body)
    return found


def capacity(kube: FakeKube) -> dict[str, int]:
    return {name: quantity_value(text) for name, text in status(kube).get("capacity", {}).items()}


def recorded(kube: FakeKube) -> dict[str, int]:
    """What the inventory says is the agent's."""
    notes = node(kube)["metadata"]["annotations"]
    return dict(decode_node_cards(notes[f"{CARDS_PREFIX}nvidia"]).advertises or {})


def kubelet_says(kube: FakeKube, **amounts: str | None) -> None:
    """Somebody else writes the node's capacity."""
    amounts = {name.replace("__", "/").replace("_", "."): v for name, v in amounts.items()}
    patch = msgspec.json.encode({"status": {"capacity": amounts, "allocatable": amounts}})
    assert kube.store.handle(Verb.PATCH, STATUS, {}, patch, Body.MERGE_PATCH).code == 200


def patches(kube: FakeKube) -> int:
    return sum((verb, path) == (Verb.PATCH, STATUS) for verb, path in kube.calls)


async def test_every_name_of_every_dialect_is_there_soon_with_what_the_cards_amount_to() -> None:
    kube = await a_cluster(capacity={"cpu": "4"}, allocatable={"cpu": "3"})
    async with advertising(kube, cards=2):
        await asyncio.sleep(SOON_S)
    assert capacity(kube) == {"cpu": 4, **TWO}
    assert {name: quantity_value(a) for name, a in status(kube)["allocatable"].items()} == {
        "cpu": 3,
        **TWO,
    }
    assert TWO.keys() == NAMES
    assert "iluvatar.ai/vgpu" not in NAMES
    wanted = {
        "nvidia.com/gpu": 20, "nvidia.com/gpumem": 2 * (1 << 34) // MIB, "nvidia.com/gpucores": 200,
        "nvidia.com/gpumem-percentage": 200, "volcano.sh/vgpu-number": 20,
        "volcano.sh/gpu-number": 2, "koordinator.sh/gpu-memory": 2 << 34,
        "tencent.com/vcuda-core": 200, "tencent.com/vcuda-memory": 128,
    }  # fmt: skip
    assert wanted.items() <= capacity(kube).items()
    assert patches(kube) == 1


async def test_a_name_is_recorded_before_it_is_written() -> None:
    """Else its amount would be taken for cards that another system counts."""
    kube = await a_cluster()
    async with advertising(kube):
        for _ in range(round(SOON_S * 10)):
            await asyncio.sleep(0.1)
            there = capacity(kube)
            assert not there or there.keys() <= recorded(kube).keys()
    assert recorded(kube) == ONE


async def test_a_device_plugins_amount_is_left_alone() -> None:
    kube = await a_cluster(capacity={"nvidia.com/gpu": "8"})
    async with advertising(kube):
        await asyncio.sleep(100)
        assert capacity(kube)["nvidia.com/gpu"] == 8
        assert capacity(kube)["nvidia.com/gpumem"] == ONE["nvidia.com/gpumem"]
        assert "nvidia.com/gpu" not in recorded(kube)
        kubelet_says(kube, nvidia_com__gpumem="11")
        await asyncio.sleep(100)
    assert capacity(kube)["nvidia.com/gpumem"] == 11
    assert not recorded(kube).keys() & {"nvidia.com/gpu", "nvidia.com/gpumem"}
    assert patches(kube) == 1


async def test_what_vanished_is_put_back_at_the_next_read_of_the_node() -> None:
    kube = await a_cluster()
    async with advertising(kube):
        await asyncio.sleep(SOON_S)
        kubelet_says(kube, nvidia_com__gpu=None)
        await asyncio.sleep(SETTINGS.inventory.verify_s + SOON_S)
    assert capacity(kube) == ONE


async def test_amounts_follow_the_cards() -> None:
    kube = await a_cluster()
    async with advertising(kube) as agent:
        await asyncio.sleep(SOON_S)
        agent.script.show(a_card(0), a_card(1))
        await asyncio.sleep(SOON_S)
        assert capacity(kube) == TWO
    assert recorded(kube) == TWO


@pytest.mark.parametrize("held", [True, False])
async def test_an_amount_falls_only_while_no_share_is_taken(*, held: bool) -> None:
    """Kubelet adds up what all pods ask, those on the card that is gone included."""
    kube = await a_cluster()
    async with advertising(kube, cards=2):
        await asyncio.sleep(SOON_S)
    async with advertising(kube, cards=1) as agent:
        if held:
            agent.holdings.put(a_holding())
        await asyncio.sleep(2 * SETTINGS.health.forget_s)
    assert capacity(kube) == (TWO if held else ONE)


async def test_an_agent_that_starts_again_knows_its_own_amounts() -> None:
    kube = await a_cluster()
    for _ in range(2):
        async with advertising(kube):
            await asyncio.sleep(SOON_S)
    assert capacity(kube) == recorded(kube) == ONE
    assert patches(kube) == 1


async def test_what_the_first_release_wrote_is_replaced() -> None:
    kube = await a_cluster(capacity=dict.fromkeys(NAMES, FORMER))
    async with advertising(kube):
        await asyncio.sleep(SOON_S)
    assert capacity(kube) == ONE


async def test_a_node_that_was_created_again_is_advertised_again() -> None:
    """Its kubelet begins with none of everything."""
    kube = await a_cluster(capacity=dict.fromkeys(NAMES, "0"))
    async with advertising(kube):
        await asyncio.sleep(SOON_S)
    assert capacity(kube) == ONE


async def test_a_plugin_without_devices_is_not_fought() -> None:
    kube = await a_cluster()
    async with advertising(kube):
        for _ in range(4):
            await asyncio.sleep(100)
            kubelet_says(kube, nvidia_com__gpu="0")
        await asyncio.sleep(100)
    assert capacity(kube)["nvidia.com/gpu"] == 0
    assert patches(kube) <= 2


async def test_next_to_a_plugin_that_hands_out_the_cards_nothing_is_written(tmp_path: Path) -> None:
    kube = await a_cluster(capacity={"nvidia.com/gpu": "10"})
    with listening(tmp_path / "device-plugins/nvidia-gpu.sock"):
        async with advertising(kube, plugins=tmp_path):
            await asyncio.sleep(100)
    assert capacity(kube) == {"nvidia.com/gpu": 10}
    assert patches(kube) == 0


async def test_what_was_written_goes_when_such_a_plugin_comes(tmp_path: Path) -> None:
    kube = await a_cluster()
    async with advertising(kube, plugins=tmp_path):
        await asyncio.sleep(SOON_S)
        assert capacity(kube) == ONE
        with listening(tmp_path / "device-plugins/nvidia-gpu.sock"):
            kubelet_says(kube, nvidia_com__gpu="80")
            await asyncio.sleep(3 * SETTINGS.inventory.verify_s)
    assert capacity(kube) == {"nvidia.com/gpu": 80}
    assert recorded(kube) == {}


async def test_a_node_without_cards_advertises_none() -> None:
    kube = await a_cluster()
    async with advertising(kube, cards=0):
        await asyncio.sleep(100)
    assert patches(kube) == 0


async def test_switched_off_it_takes_its_own_away_and_nothing_else() -> None:
    kube = await a_cluster(capacity={"cpu": "4", "nvidia.com/gpu": "8"})
    async with advertising(kube):
        await asyncio.sleep(SOON_S)
    async with advertising(kube, on=False):
        await asyncio.sleep(100)
    assert capacity(kube) == {"cpu": 4, "nvidia.com/gpu": 8}
    assert not status(kube)["allocatable"].keys() & ONE.keys() - {"nvidia.com/gpu"}
    assert recorded(kube) == {}
    assert patches(kube) == 2


@pytest.mark.parametrize("answer", [Answer(403), Answer(409), Answer(500)])
async def test_a_write_that_fails_is_tried_again_at_leisure(answer: Any) -> None:
    kube = await a_cluster()
    kube.faults.add(InjectedFault(Verb.PATCH, ".*/status", answer, 3))
    async with advertising(kube):
        await asyncio.sleep(20)
        assert patches(kube) <= 2
        await asyncio.sleep(200)
    assert capacity(kube) == ONE
    assert patches(kube) == 4
