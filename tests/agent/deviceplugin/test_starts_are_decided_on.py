"""Before each start kubelet says who has what: what was given to the wrong one does not run, and
what has no room waits."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tessera_agent.containers.holdings import ContainerStage
from tessera_kubelet.errors import CallFailed, ContainerRefused
from tessera_kubelet.pod_resources import PodHolding
from tests.agent.deviceplugin.kubelet_node import GPU, ONE, TEAM, Node, a_node, ended, running
from tests.agent.nri.runtime_node import a_share, metric, until


def holding(name: str, containers: Mapping[str, frozenset[str]]) -> PodHolding:
    """A pod of which kubelet says so."""
    has = {container: {GPU: ids} for container, ids in containers.items()}
    return PodHolding(namespace=TEAM, name=name, containers=has)


def ids_of(node: Node, name: str, container: str = "main") -> frozenset[str]:
    """The ids that a container was allocated."""
    (found,) = (h for h in node.kubelet.pods.holdings() if h.name == name)
    return found.containers[container][GPU]


async def test_what_kubelet_and_agent_agree_upon_starts(folder: Path) -> None:
    async with a_node(folder) as node, node.agent() as agent:
        await node.bind("job", a_share(mib=9000))
        await node.admit("job")
        assert [held.stage for held in agent.holdings] == [ContainerStage.ALLOCATED]
        assert agent.holdings.by_card() == ()
        await node.start("job")
        assert [held.stage for held in agent.holdings] == [ContainerStage.CREATED]
        assert [card.memory_bytes >> 20 for card in agent.holdings.by_card()] == [9000]


async def test_what_kubelet_counts_for_another_does_not_start(folder: Path) -> None:
    async with a_node(folder) as node, node.agent() as agent:
        await node.bind("job", a_share())
        await node.bind("other", a_share(), a_share(card=1), asks={"main": {GPU: 2}})
        await node.admit("job")
        await node.admit("other")
        ids = ids_of(node, "job")
        node.kubelet.pods.ended(TEAM, "job")
        node.kubelet.pods.remember(holding("other", {"main": ids}))
        said = r"kubelet gave them to pod team/other, container main, we to pod team/job, container"
        with pytest.raises(ContainerRefused, match=said):
            await node.start("other")
        assert metric(agent, 'tessera_agent_alarms_total{what="AllocatedToAnother"}') == 2
        await until(lambda: len(node.events("AllocatedToAnother")) == 2)


async def test_a_container_of_the_same_pod_is_another_one_too(folder: Path) -> None:
    async with a_node(folder) as node, node.agent():
        await node.bind("job", a_share("a"), a_share("b", 1), asks={"a": ONE, "b": ONE})
        await node.admit("job")
        a, b = ids_of(node, "job", "a"), ids_of(node, "job", "b")
        node.kubelet.pods.remember(holding("job", {"a": b, "b": a}))
        with pytest.raises(ContainerRefused, match=r"gave them to pod team/job, container a, we"):
            await node.start("job", "a")


async def test_ids_of_which_nothing_is_known_start_nothing(folder: Path) -> None:
    async with a_node(folder) as node, node.agent():
        node.kubelet.pods.remember(holding("job", {"main": frozenset({"7"})}))
        with pytest.raises(ContainerRefused, match="container main, we to nobody"):
            await node.start("job")


async def test_a_pod_that_was_created_again_under_its_name_is_not_the_same(folder: Path) -> None:
    async with a_node(folder) as node, node.agent() as agent:
        uid = await node.bind("job", a_share())
        await node.run("job")
        await until(lambda: ContainerStage.RUNNING in {held.stage for held in agent.holdings})
        node.has_process(10, agent.holdings.of_pod(uid)[0].id)  # so it is not forgotten yet
        await node.drop("job")
        await node.bind("job", a_share(card=1), asks={"main": {GPU: 2}})
        await until(lambda: agent.pods.get(uid) is None)
        with pytest.raises(ContainerRefused, match=rf"pod team/job \({uid}\), which is gone"):
            await node.start("job")


async def test_an_init_containers_ids_are_used_again_in_its_pod(folder: Path) -> None:
    """Kubelet does not name it, and gives its ids to the ones after it."""
    asks = {"prepare": {GPU: 2}, "main": ONE}
    shares = a_share("prepare"), a_share("prepare", 1), a_share("main")
    async with a_node(folder) as node, node.agent() as agent:
        await node.bind("job", *shares, asks=asks, first=("prepare",))
        await node.admit("job")
        ids = ids_of(node, "job", "prepare")
        plugin = node.kubelet.hosted(GPU)
        node.kubelet.pods.remember(holding("job", {"main": ids_of(node, "job")}))
        await plugin.pre_start(sorted(ids))
        await node.show("job", {"prepare": running("job", "prepare")}, "Pending",
                        "initContainerStatuses")  # fmt: skip
        await until(lambda: ContainerStage.RUNNING in {held.stage for held in agent.holdings})
        await node.show("job", {"prepare": ended("job", "prepare")}, "Pending",
                        "initContainerStatuses")  # fmt: skip
        await until(lambda: ContainerStage.ENDED in {held.stage for held in agent.holdings})
        await node.start("job")
        stages = {held.key.container: held.stage for held in agent.holdings}
        assert stages == {"prepare": ContainerStage.ENDED, "main": ContainerStage.CREATED}


async def test_what_has_no_room_waits_until_it_has(folder: Path) -> None:
    """A pod was deleted by force, and its container runs on."""
    async with a_node(folder) as node, node.agent() as agent:
        uid = await node.bind("old", a_share(mib=10_000))
        await node.run("old")
        await until(lambda: ContainerStage.RUNNING in {held.stage for held in agent.holdings})
        runs = agent.holdings.of_pod(uid)[0].id
        node.has_process(10, runs)
        await node.drop("old")
        await node.bind("new", a_share(mib=10_000))
        await node.admit("new")
        with pytest.raises(ContainerRefused, match=r"CardOverfull: .*10000 MiB wanted, 10000 of"):
            await node.start("new")
        node.has_process(10, runs, ended=True)
        await until(lambda: not agent.holdings.of_pod(uid))
        await node.start("new")


async def test_a_restart_is_decided_on_as_a_start_is(folder: Path) -> None:
    async with a_node(folder) as node, node.agent() as agent:
        await node.bind("job", a_share(mib=10_000))
        await node.run("job")
        await until(lambda: ContainerStage.RUNNING in {held.stage for held in agent.holdings})
        first = next(iter(agent.holdings)).id
        await node.show("job", {"main": ended("job")})
        await until(lambda: ContainerStage.ENDED in {held.stage for held in agent.holdings})
        await node.bind("other", a_share(mib=10_000))
        await node.run("other")
        with pytest.raises(ContainerRefused, match="CardOverfull"):
            await node.start("job")
        await node.end("other")
        await until(lambda: len(agent.holdings) == 1)
        await node.start("job")
        assert [held.stage for held in agent.holdings] == [ContainerStage.CREATED]
        await node.show("job", {"main": running("job", attempt=1)})
        await until(lambda: ContainerStage.RUNNING in {held.stage for held in agent.holdings})
        assert next(iter(agent.holdings)).id != first


async def test_while_kubelet_says_nothing_nothing_starts(folder: Path) -> None:
    async with a_node(folder) as node, node.agent():
        await node.bind("job", a_share())
        await node.admit("job")
        plugin, ids = node.kubelet.hosted(GPU), sorted(ids_of(node, "job"))
        (folder / "pod-resources" / "kubelet.sock").rename(folder / "aside.sock")
        with pytest.raises(CallFailed, match="kubelet does not say whose these are"):
            await plugin.pre_start(ids)
