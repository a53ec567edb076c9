"""Where a vendor's own plugin gives the cards, each container gets those of its own grant.

Real kubelet, containerd and kube-scheduler, our scheduler and agents, doubles of the plugins. What
a container was given is read from its process: kubelet's lists hold ids without a meaning.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from tessera_schema.grants import GRANT_KEY, decode_grant
from tests.contract.client import Json
from tests.node.agents import NODE, Agent
from tests.node.conftest import OpenCluster
from tests.node.kubelet import Node
from tests.node.vendorplugin import (
    FOLDER,
    GIVEN_MEMORY,
    ILUVATAR,
    MTHREADS,
    Place,
    VendorPlugin,
    a_vendor_plugin,
)

UNITS = {"iluvatar": (4, 8, 12, 16, 20, 24), "mthreads": (2, 4, 8, 16, 32)}
"""Of memory, pod by pod: all else that they ask for is equal."""
ADMIN = "admin"
"""The users that the plugins are to the API server."""
ALERT = 'tessera_agent_alarms_total{what="OtherCardsGiven"}'


def asking(vendor: str, memory: int) -> dict[str, str]:
    if vendor == "iluvatar":
        return {
            "iluvatar.ai/vgpu": "1", "iluvatar.ai/vcuda-core": "25",
            "iluvatar.ai/vcuda-memory": str(memory),
        }  # fmt: skip
    return {
        "mthreads.com/vgpu": "1", "mthreads.com/sgpu-core": "4",
        "mthreads.com/sgpu-memory": str(memory),
    }  # fmt: skip


def granted(pod: Json) -> str:
    """The number of the card that the pod's grant has."""
    (share,) = decode_grant(pod["metadata"]["annotations"][GRANT_KEY]).shares
    return str(share.index)


def place(node: Node) -> Place:
    cluster = node.cluster
    return Place(cluster.admin, NODE, node.runtime.island.outside(FOLDER), cluster.until)


async def see_their_cards(node: Node, vendors: Sequence[str]) -> None:
    async def published() -> bool:
        found = (await node.cluster.admin.get(f"/api/v1/nodes/{NODE}")).done
        notes = found["metadata"]["annotations"]
        return all('"id"' in notes.get(f"cards.tessera.dev/{vendor}", "") for vendor in vendors)

    await node.cluster.until(published, "the vendors' cards are published")


async def see_each_has_its_own(node: Node, plugin: VendorPlugin, pods: Mapping[str, int]) -> None:
    """In their processes, and by what other tools read on the pods."""
    cards = set()
    for name, memory in pods.items():
        env = await (await node.running(name)).env()
        pod = await node.get(name)
        notes = pod["metadata"]["annotations"]
        assert env[plugin.make.variable] == granted(pod), name
        assert env[GIVEN_MEMORY] == str(memory), name
        assert env["NVIDIA_VISIBLE_DEVICES"] == "void", name
        assert notes["hami.io/bind-phase"] == "allocating", name
        for key, value in plugin.make.settles.items():
            assert notes[key] == value, name
        cards.add(granted(pod))
    assert cards == {"0", "1"}, "one card alone shows nothing"
    assert all(len(found) == 1 for found in plugin.candidates), plugin.candidates


async def see_a_wrong_card_reported(node: Node, plugin: VendorPlugin, agent: Agent) -> None:
    vendor = plugin.make.vendor
    assert await agent.metric(ALERT) == 0
    plugin.is_wrong = True
    await node.pod(f"{vendor}-wrong", asking(vendor, 2))
    pod = await node.get(f"{vendor}-wrong")
    env = await (await node.running(f"{vendor}-wrong")).env()
    assert env[plugin.make.variable] != granted(await node.get(f"{vendor}-wrong"))

    async def is_reported() -> bool:
        events = await node.cluster.admin.get(node.cluster.pods_path().replace("pods", "events"))
        return any(
            event["reason"] == "OtherCardsGiven"
            and event["involvedObject"]["uid"] == pod["metadata"]["uid"]
            for event in events.done["items"]
        )

    await node.cluster.until(is_reported, "an event on the pod with the wrong card")
    assert await agent.metric(ALERT) >= 1


async def test_a_burst_of_equal_pods_is_not_mixed_up_and_a_wrong_card_is_reported(
    open_cluster_node: OpenCluster,
) -> None:
    async with (
        open_cluster_node(settings={"TESSERA_WEBHOOK_WRITERS": ADMIN}) as node,
        a_vendor_plugin(ILUVATAR, place(node)) as iluvatar,
        a_vendor_plugin(MTHREADS, place(node)) as mthreads,
        node.agent_of("iluvatar") as agent_of_iluvatar,
        node.agent_of("mthreads") as agent_of_mthreads,
    ):
        await see_their_cards(node, list(UNITS))
        await agent_of_iluvatar.ready()
        await agent_of_mthreads.ready()
        before = time.monotonic()
        burst = {
            vendor: {f"{vendor}-{i}": memory for i, memory in enumerate(UNITS[vendor])}
            for vendor in UNITS
        }
        for vendor, pods in burst.items():
            for name, memory in pods.items():
                await node.pod(name, asking(vendor, memory))
        for plugin in (iluvatar, mthreads):
            await see_each_has_its_own(node, plugin, burst[plugin.make.vendor])
        print(f"{sum(map(len, UNITS.values()))} pods run after {time.monotonic() - before:.1f} s")  # noqa: T201  (a figure)
        await see_a_wrong_card_reported(node, iluvatar, agent_of_iluvatar)
        await see_a_wrong_card_reported(node, mthreads, agent_of_mthreads)
