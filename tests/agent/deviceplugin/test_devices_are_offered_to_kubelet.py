"""What kubelet, the API server and operators see where a device plugin gives the cards."""

import asyncio
import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tessera_agent.device_plugin.device_list import MOST_IDS, amounts
from tessera_agent.devices.competing_plugins import competing_plugins_on
from tessera_agent.settings import AgentSettings
from tessera_core.inventory.extended_resources import names_of
from tessera_core.vendors.nvidia import MONITORING
from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.api import Verb
from tessera_runtime.settings import load
from tessera_schema.cards import MIB, Card
from tessera_schema.node_cards import ALLOCATE, decode_node_cards
from tessera_testing.readers import a_reading
from tests.agent.deviceplugin.kubelet_node import DIALECTS, GPU, NAMES, Node, a_node
from tests.agent.nri.runtime_node import NODE, looks, until
from tests.agent.test_others_on_the_node import listening

CARDS = "cards.tessera.dev/nvidia"
NEEDED = {"TESSERA_NODE": NODE, "TESSERA_VENDOR": "nvidia"}


def node_of(node: Node) -> dict[str, dict[str, dict[str, str]]]:
    """As the API server has it."""
    body = node.kube.store.handle(Verb.GET, f"/api/v1/nodes/{NODE}").body
    found: dict[str, dict[str, dict[str, str]]] = msgspec.json.decode(body)
    return found


async def test_every_name_by_which_cards_are_allocated_is_registered(folder: Path) -> None:
    async with a_node(folder) as node, node.agent():
        assert {resource for resource, _ in node.kubelet.registrations} == NAMES
        assert len(node.kubelet.devices(GPU)) == 16  # 2 cards of 4 slots, and as many to spare
        await until(lambda: node_of(node)["status"].get("capacity"))
        assert node_of(node)["status"]["capacity"].keys() == names_of(DIALECTS, "nvidia") - NAMES


async def test_the_node_shows_the_scheduler_that_kubelet_gives_the_cards(folder: Path) -> None:
    async with a_node(folder) as node, node.agent():
        await until(lambda: CARDS in node_of(node)["metadata"].get("annotations", {}))
        text = node_of(node)["metadata"]["annotations"][CARDS]
        assert decode_node_cards(text).giving == ALLOCATE


async def test_an_unhealthy_card_takes_no_ids_away_and_no_card_at_all_does(folder: Path) -> None:
    async with a_node(folder) as node, node.agent() as agent:
        node.reader.fail(0)
        await until(lambda: [card.healthy for card in agent.devices.latest.cards] == [False, True])
        lists = node.kubelet.hosted(GPU).lists
        node.reader.fail(1)
        await node.kubelet.until_offered(GPU, 0)
        assert node.kubelet.hosted(GPU).lists == lists + 1
        assert len(node.kubelet.devices(GPU)) == 16


async def test_nothing_is_offered_before_a_card_is_known(folder: Path) -> None:
    async with a_node(folder) as node:
        node.reader.be_silent("the driver is not loaded")
        async with node.agent(ready=False) as agent:
            await until(lambda: node.kube.watching >= 2)
            assert node.kubelet.registrations == []
            assert re.match(r"kubelet does not ask for \S+: not offered yet", agent.problem())
            node.reader.show(a_reading(0))
            await node.kubelet.until_offered(GPU, 8)


async def test_our_own_plugin_is_nobody_elses(folder: Path) -> None:
    async with a_node(folder) as node, node.agent() as agent:
        assert list((folder / "device-plugins").glob("tessera-*.sock"))
        every = replace(MONITORING.competing_plugins[0], socket="device-plugins/*gpu*.sock")
        assert await asyncio.to_thread(competing_plugins_on, str(folder), [every]) == ()
        assert not agent.devices.left_to_others


async def test_another_plugins_names_are_not_taken_over(folder: Path) -> None:
    async with a_node(folder) as node:
        with listening(folder / "device-plugins" / "nvidia-gpu.sock"):
            async with node.agent(ready=False) as agent:
                await until(lambda: agent.devices.left_to_others and agent.pods.listed)
                await looks(agent, 5)
                assert node.kubelet.registrations == []
                assert "not offered" in agent.problem()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TESSERA_GIVING", "nri"), ("TESSERA_PLUGIN_NUMA", "1"),
        ("TESSERA_PLUGIN_WAIT_S", "0"), ("TESSERA_PLUGIN_WAIT_S", "60"),
        ("TESSERA_PLUGIN_CALL_S", "-1"), ("TESSERA_PLUGIN_LOOK_S", "0"),
    ],
)  # fmt: skip
def test_settings_without_sense_are_refused(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=r"write "):
        load(AgentSettings, NEEDED | {name: value})


def test_amounts_are_those_of_the_cards_and_as_many_to_spare() -> None:
    card = Card(id="c", index=0, vendor="nvidia", memory_bytes=16384 * MIB, slots=10)
    found = amounts(DIALECTS, "nvidia", NAMES, [card, replace(card, id="d", index=1)])
    assert found == {
        "nvidia.com/gpu": 40, "volcano.sh/vgpu-number": 40, "volcano.sh/gpu-number": 4,
        "volcano.sh/gpu-memory": 64, "koordinator.sh/gpu.shared": 40,
        "tencent.com/vcuda-core": 400, "inspur.com/vcuda-core": 400, "aliyun.com/gpu-mem": 64,
        "nvidia.com/gpu.shared": 40, "tessera.dev/gpu-fraction": 40,
    }  # fmt: skip


async def test_kubelet_reads_the_longest_list(folder: Path) -> None:
    async with a_node(folder) as node:
        node.reader.show(a_reading(0, mib=1 << 30))
        async with node.agent(ready=False):
            await node.kubelet.until_offered("volcano.sh/gpu-memory", MOST_IDS)
