"""The agent of a vendor whose own plugin gives the cards observes, and reports its errors."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tessera_agent.agent import Agent
from tessera_kubelet.nri.types import NriDevice
from tessera_runtime.kube.api import Body, Verb
from tessera_schema.grants import Share
from tests.agent.nri.runtime_node import NODE, Node, a_node, a_share, granted, metric, until

OTHER = "OtherCardsGiven"
VARIABLE = {
    "iluvatar": "ILUVATAR_COREX_VISIBLE_DEVICES", "mthreads": "MTHREADS_VISIBLE_DEVICES",
}  # fmt: skip
CAPACITY = {
    "iluvatar": {"iluvatar.ai/vcuda-core": "200", "iluvatar.ai/vcuda-memory": "128"},
    "mthreads": {"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"},
}
VENDORS = pytest.mark.parametrize("vendor", list(VARIABLE))


def a_part(vendor: str, card: int) -> Share:
    share = a_share(card=card, mib=64, vendor=vendor, dialect=vendor)
    return replace(share, card=f"{NODE}-{vendor}-{card}")


async def ready(node: Node, agent: Agent, vendor: str) -> None:
    """Its plugin has published how many cards there are, and the runtime asks."""
    status = {"capacity": CAPACITY[vendor], "allocatable": CAPACITY[vendor]}
    patch = msgspec.json.encode({"status": status})
    path = f"/api/v1/nodes/{NODE}/status"
    await node.kube.call(Verb.PATCH, path, body=patch, kind=Body.MERGE_PATCH)
    await until(lambda: agent.devices.cards and not agent.problem() and node.runtime.plugins)


async def create(node: Node, vendor: str, name: str, number: str, **more: Any) -> None:
    """A pod that was granted card 1 is created with this in its variable."""
    await node.run(granted(name, a_part(vendor, 1)), env={VARIABLE[vendor]: number}, **more)


@VENDORS
async def test_another_card_is_reported_and_counted_and_runs(vendor: str, tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(vendor, ready=False) as agent:
        await ready(node, agent, vendor)
        await create(node, vendor, "right", "1")
        await create(node, vendor, "wrong", "0")
        await until(lambda: node.events(OTHER))
        (event,) = node.events(OTHER)
        assert f"was granted card 1 ({NODE}-{vendor}-1), and {VARIABLE[vendor]}=0" in event
        assert "delete the pod" in event
        assert [h.pod.name for h in agent.holdings] == ["right", "wrong"]
        assert metric(agent, f'tessera_agent_alarms_total{{what="{OTHER}"}}') == 1


async def test_a_device_node_of_another_card_is_reported(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent("iluvatar", ready=False) as agent:
        await ready(node, agent, "iluvatar")
        device = NriDevice(path="/dev/iluvatar0", major=508, minor=0)
        await node.run(granted("wrong", a_part("iluvatar", 1)), devices=(device,))
        await until(lambda: node.events(OTHER))
        assert "/dev/iluvatar0 gives it card 0" in node.events(OTHER)[0]


@VENDORS
async def test_what_was_started_while_the_agent_was_away_is_checked(
    vendor: str, tmp_path: Path
) -> None:
    async with a_node(tmp_path) as node:
        pod = granted("wrong", a_part(vendor, 1))
        node.slip_in(pod, env={VARIABLE[vendor]: "0"})
        async with node.agent(vendor, ready=False) as agent:
            await ready(node, agent, vendor)
            await until(lambda: node.events(OTHER))


async def test_where_our_agent_gives_nothing_is_compared(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent() as agent:
        await node.run(granted("job", a_share(mib=64)), env={"NVIDIA_VISIBLE_DEVICES": "GPU-1"})
        assert len(agent.holdings) == 1
        assert node.events(OTHER) == []
