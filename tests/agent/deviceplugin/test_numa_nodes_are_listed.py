"""Kubelet's TopologyManager is shown NUMA nodes where that is switched on; cards that are elsewhere
than it chose are reported."""

from collections import Counter
from pathlib import Path

from msgspec.structs import replace

from tessera_agent.device_plugin.device_ids import numa_devices, numa_nodes_of, plain_devices
from tessera_agent.device_plugin.settings import PluginSettings
from tessera_kubelet.device_plugin.types import PluginDevice
from tessera_testing.readers import a_reading
from tests.agent.deviceplugin.kubelet_node import GPU, a_node
from tests.agent.nri.runtime_node import a_share, metric, until

NUMA = PluginSettings(wait_s=30, look_s=0.02, numa=True)
ALERT = 'tessera_agent_alarms_total{what="NumaNotAligned"}'


def test_an_id_says_its_numa_node_and_a_plain_one_says_none() -> None:
    devices = numa_devices({0: 2, 1: 1}, [1], 100)
    assert devices == [
        PluginDevice("0.0", healthy=False, numa=(0,)),
        PluginDevice("0.1", healthy=False, numa=(0,)),
        PluginDevice("1.0", healthy=True, numa=(1,)),
    ]
    assert numa_nodes_of(device.id for device in devices) == {0, 1}
    assert numa_nodes_of(device.id for device in plain_devices(50, healthy=True)) == frozenset()


def test_what_kubelet_cannot_read_is_cut_from_all_nodes_alike() -> None:
    found = Counter(device.numa[0] for device in numa_devices({0: 900, 1: 300}, [0, 1], 400))
    assert found == {0: 300, 1: 100}
    assert numa_devices({}, [], 400) == []


async def test_each_node_has_the_ids_of_its_cards(folder: Path) -> None:
    async with a_node(folder) as node:
        node.reader.show(a_reading(0), replace(a_reading(1), numa=1), replace(a_reading(2), numa=1))
        async with node.agent(plugin=NUMA):
            found = Counter(device.numa for device in node.kubelet.devices(GPU))
            assert found == {(0,): 8, (1,): 16}  # 4 slots a card, and as many to spare


async def test_a_node_whose_cards_are_unhealthy_is_not_chosen(folder: Path) -> None:
    async with a_node(folder) as node:
        node.reader.show(a_reading(0), replace(a_reading(1), numa=1))
        async with node.agent(plugin=NUMA):
            node.reader.fail(1)
            await node.kubelet.until_offered(GPU, 8)
            healthy = {device.numa for device in node.kubelet.devices(GPU) if device.healthy}
            assert healthy == {(0,)}


async def test_cards_elsewhere_than_kubelet_chose_are_reported(folder: Path) -> None:
    async with a_node(folder) as node:
        node.reader.show(a_reading(0), replace(a_reading(1), numa=1))
        async with node.agent(plugin=NUMA) as agent:
            await node.bind("near", a_share())
            await node.admit("near")
            assert metric(agent, ALERT) == 0
            await node.bind("far", a_share(card=1))
            await node.admit("far")  # it has the next ids of node 0
            assert metric(agent, ALERT) == 1
            await until(lambda: node.events("NumaNotAligned"))
            (event,) = node.events("NumaNotAligned")
            assert "its cards are on NUMA node 1, and kubelet aligned it with 0" in event


async def test_no_node_is_listed_unless_it_is_switched_on(folder: Path) -> None:
    async with a_node(folder) as node:
        node.reader.show(a_reading(0), replace(a_reading(1), numa=1))
        async with node.agent() as agent:
            assert {device.numa for device in node.kubelet.devices(GPU)} == {()}
            await node.bind("far", a_share(card=1))
            await node.admit("far")
            assert metric(agent, ALERT) == 0
