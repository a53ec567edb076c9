"""Kubelet asks for so many of a resource, and never names the pod: each gets what is its own."""

from pathlib import Path

import pytest

from tessera_agent.device_plugin.settings import PluginSettings
from tessera_core.hook.limits_file import PATH, decode_limits
from tessera_embedded.apiserver.faults import Cut, InjectedFault
from tessera_kubelet.device_plugin.types import ContainerAllocation
from tessera_kubelet.errors import NotAdmitted
from tessera_schema.cards import MIB
from tests.agent.deviceplugin.kubelet_node import GPU, ONE, a_node
from tests.agent.nri.runtime_node import a_share, metric, until

IMPATIENT = PluginSettings(wait_s=0.3)
PATIENT = PluginSettings(wait_s=8)
"""Half of it passes until a container counts as asked for once more."""


def cards(given: ContainerAllocation) -> list[str]:
    """Ids of the cards."""
    return [name.removeprefix("nvidia.com/gpu=") for name in given.cdi_devices]


def mib(given: ContainerAllocation) -> list[int]:
    """What it may use of each."""
    file = Path(next(m.source for m in given.mounts if m.destination == PATH))
    return [card.memory_bytes // MIB for card in decode_limits(file.read_bytes()).cards]


async def test_equal_pods_one_after_the_other(folder: Path) -> None:
    async with a_node(folder) as node, node.agent():
        for i in range(3):
            await node.bind(f"job-{i}", a_share(card=i % 2, mib=1000 + i))
            given = (await node.run(f"job-{i}"))["main"]
            assert (cards(given), mib(given)) == ([f"GPU-{i % 2}"], [1000 + i])


async def test_containers_of_a_pod_in_kubelets_order(folder: Path) -> None:
    asks = {"prepare": {GPU: 2}, "fetch": ONE, "main": ONE, "side": ONE}
    shares = (
        a_share("prepare", 0, mib=1), a_share("prepare", 1, mib=2), a_share("fetch", 1, mib=3),
        a_share("main", 0, mib=4), a_share("side", 1, mib=5),
    )  # fmt: skip
    async with a_node(folder) as node, node.agent():
        await node.bind("job", *shares, asks=asks, first=("prepare", "fetch"))
        given = await node.admit("job")
        assert {name: (cards(one), mib(one)) for name, one in given.items()} == {
            "prepare": (["GPU-0", "GPU-1"], [1, 2]), "fetch": (["GPU-1"], [3]),
            "main": (["GPU-0"], [4]), "side": (["GPU-1"], [5]),
        }  # fmt: skip


async def test_pods_are_admitted_in_another_order_than_bound(folder: Path) -> None:
    async with a_node(folder) as node, node.agent():
        await node.bind("small", a_share(card=1, mib=1))
        two = a_share(mib=2), a_share(card=1, mib=2)
        await node.bind("large", *two, asks={"main": {GPU: 2}})
        await node.bind("other", a_share(mib=3), asks={"main": {"volcano.sh/vgpu-number": 1}})
        assert mib((await node.admit("other"))["main"]) == [3]
        assert mib((await node.admit("large"))["main"]) == [2, 2]
        assert mib((await node.admit("small"))["main"]) == [1]


async def test_a_pod_that_is_not_known_here_yet_is_waited_for(folder: Path) -> None:
    async with a_node(folder) as node, node.agent():
        node.kube.event_delay_s = 0.5
        await node.bind("job", a_share(mib=7))
        assert mib((await node.admit("job"))["main"]) == [7]


async def test_no_pod_requests_so_much(folder: Path) -> None:
    async with a_node(folder) as node, node.agent(plugin=IMPATIENT):
        await node.bind("job", a_share())
        with pytest.raises(NotAdmitted, match=r"no pod that is bound to this node asks for 2 of"):
            await node.kubelet.pods.admit("team", "job", {"main": {GPU: 2}})


async def test_two_could_be_meant_so_none_gets_anything(folder: Path) -> None:
    async with a_node(folder) as node, node.agent(plugin=IMPATIENT) as agent:
        uids = [await node.bind(name, a_share(mib=1)) for name in ("one", "other")]
        await until(lambda: all(map(agent.pods.get, uids)))
        with pytest.raises(NotAdmitted, match=r"2 pods ask for 1 of nvidia.com/gpu at once"):
            await node.admit("one")
        assert metric(agent, 'tessera_agent_alarms_total{what="AllocationAmbiguous"}') == 2
        await until(lambda: len(node.events("AllocationAmbiguous")) == 2)


async def test_one_that_has_failed_unseen_does_not_stand_for_its_successor(folder: Path) -> None:
    """Kubelet and scheduler have seen the pod, the agent has not yet."""
    async with a_node(folder) as node, node.agent() as agent:
        first = await node.bind("first", a_share(mib=1))
        await until(lambda: agent.pods.get(first))
        node.kube.event_delay_s = 0.5
        await node.show("first", {}, "Failed")
        await node.bind("second", a_share(mib=2))
        assert mib((await node.admit("second"))["main"]) == [2]


async def test_while_the_api_server_is_away_the_last_state_has_to_do(folder: Path) -> None:
    async with a_node(folder) as node, node.agent() as agent:
        uid = await node.bind("job", a_share(mib=3))
        await until(lambda: agent.pods.get(uid))
        node.kube.faults.add(InjectedFault("GET", r".*/pods.*", Cut()))
        assert mib((await node.admit("job"))["main"]) == [3]


async def test_a_pod_without_a_grant_gets_nothing(folder: Path) -> None:
    async with a_node(folder) as node, node.agent():
        await node.bind("stray", grant=False)
        with pytest.raises(NotAdmitted, match=r"pod team/stray, container main, .* has no grant"):
            await node.admit("stray")


async def test_a_forged_grant_gives_nothing(folder: Path) -> None:
    async with a_node(folder) as node, node.agent() as agent:
        await node.bind("thief", grant='{"version":1}')
        with pytest.raises(NotAdmitted, match="ForgedGrant: "):
            await node.admit("thief")
        assert metric(agent, 'tessera_agent_alarms_total{what="ForgedGrant"}') == 1
        assert len(agent.holdings) == 0


async def test_a_container_that_was_granted_nothing_sees_nothing(folder: Path) -> None:
    asks = {"main": ONE, "side": ONE}
    async with a_node(folder) as node, node.agent() as agent:
        await node.bind("job", a_share("main"), asks=asks)
        given = await node.admit("job")
        assert given["side"].cdi_devices == ()
        assert given["side"].env["NVIDIA_VISIBLE_DEVICES"] == "void"
        assert [held.key.container for held in agent.holdings] == ["main"]
        await node.start("job", "side")


async def test_a_container_whose_record_kubelet_lost_is_given_the_same_again(folder: Path) -> None:
    async with a_node(folder) as node, node.agent(plugin=PATIENT) as agent:
        uid = await node.bind("job", a_share(mib=5))
        before = (await node.run("job"))["main"]
        await node.show("job", {"main": {"state": {"terminated": {"exitCode": 1}}}})
        node.kubelet.pods.ended("team", "job")
        await until(lambda: (pod := agent.pods.get(uid)) and not pod.containers[0].runs)
        assert (await node.admit("job"))["main"] == before
        await node.start("job")
