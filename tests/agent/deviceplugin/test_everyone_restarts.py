"""Agent and kubelet may be killed at any time: what was given is known again, and enforced."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from tessera_agent.containers.holdings import ContainerStage
from tessera_agent.device_plugin.allocations import AllocationStep
from tessera_core.hook.limits_file import PATH
from tessera_kubelet.device_plugin.types import ContainerAllocation
from tessera_kubelet.errors import ContainerRefused, NodeError
from tests.agent.deviceplugin.kubelet_node import GPU, TEAM, a_node, running
from tests.agent.nri.runtime_node import a_share, metric, until


def limits_file(given: ContainerAllocation) -> Path:
    return Path(next(m.source for m in given.mounts if m.destination == PATH))


async def test_what_was_given_is_known_again(folder: Path) -> None:
    async with a_node(folder) as node:
        async with node.agent() as agent:
            written_of = Path()
            for i, name in enumerate(("runs", "starts", "waits")):
                await node.bind(name, a_share(card=i % 2, mib=5000))
                written_of = limits_file((await node.admit(name))["main"])
                if name != "waits":
                    await node.start(name)
            await node.show("runs", {"main": running("runs")})
            await until(lambda: ContainerStage.RUNNING in {held.stage for held in agent.holdings})
            before = {held.key: (held.shares, held.stage, held.id) for held in agent.holdings}
            written = written_of.read_bytes()
        async with node.agent() as agent:
            await until(lambda: ContainerStage.RUNNING in {held.stage for held in agent.holdings})
            after = {held.key: (held.shares, held.stage, held.id) for held in agent.holdings}
            assert after == before
            assert written_of.read_bytes() == written
            await node.start("waits")
            await until(lambda: agent.holdings.synchronized)
            assert written_of.exists()


async def test_what_was_not_answered_was_not_given(folder: Path) -> None:
    async with a_node(folder) as node:
        async with node.agent():
            await node.bind("job", a_share(mib=5000))
            await node.admit("job")
        kept = msgspec.json.decode(node.allocations.read_bytes())
        (entry,) = kept["allocations"]
        entry["step"] = AllocationStep.PREPARING  # the agent was killed in between
        node.allocations.write_bytes(msgspec.json.encode(kept))
        async with node.agent() as agent:
            assert len(agent.holdings) == 0
            with pytest.raises(ContainerRefused, match="we to nobody"):
                await node.start("job")
            node.kubelet.pods.ended(TEAM, "job")
            assert (await node.admit("job"))["main"].cdi_devices == ("nvidia.com/gpu=GPU-0",)
            await node.start("job")


@pytest.mark.parametrize(
    "text", [b'{"version":1,"alloca', b"", b'{"version":9,"allocations":[]}', b"[1]"]
)
async def test_a_file_that_cannot_be_read_is_made_up_for(folder: Path, text: bytes) -> None:
    """Kubelet knows whose its ids are, and the files of containers lie where they were made."""
    async with a_node(folder) as node:
        async with node.agent():
            await node.bind("runs", a_share(mib=9000))
            await node.run("runs")
            await node.bind("waits", a_share(card=1, mib=9000))
            given = (await node.admit("waits"))["main"]
        node.allocations.write_bytes(text)
        async with node.agent() as agent:
            assert node.allocations.with_suffix(".unreadable").read_bytes() == text
            await until(lambda: ContainerStage.RUNNING in {held.stage for held in agent.holdings})
            assert {held.key.uid: held.stage for held in agent.holdings} == {
                node.uids["runs"]: ContainerStage.RUNNING,
                node.uids["waits"]: ContainerStage.ALLOCATED,
            }
            await node.start("waits")
            assert limits_file(given).exists()
            await node.bind("next", a_share(mib=9000))
            await node.admit("next")
            with pytest.raises(ContainerRefused, match="CardOverfull"):
                await node.start("next")
        async with node.agent() as agent:
            await until(lambda: len(agent.holdings) == 3)


async def test_without_the_api_server_a_container_starts_again(folder: Path) -> None:
    async with a_node(folder) as node:
        async with node.agent():
            await node.bind("job", a_share(mib=9000))
            await node.run("job")
        node.kube.pause()
        async with node.agent(ready=False) as agent:
            await until(lambda: not agent.problem())  # it is asked, and not the one before it
            await node.kubelet.until_offered(GPU, 16)
            await node.start("job")
            assert [held.stage for held in agent.holdings] == [ContainerStage.CREATED]
        node.kube.resume()


async def test_files_of_those_that_went_meanwhile_are_cleared_away(folder: Path) -> None:
    async with a_node(folder) as node:
        async with node.agent():
            await node.bind("stays", a_share(mib=1))
            kept = (await node.run("stays"))["main"]
            await node.bind("goes", a_share(mib=1))
            lost = (await node.run("goes"))["main"]
        await node.end("goes")
        async with node.agent() as agent:
            await until(lambda: not limits_file(lost).exists())
            assert limits_file(kept).exists()
            await until(lambda: len(msgspec.json.decode(node.allocations.read_bytes())
                                    ["allocations"]) == 1)  # fmt: skip
            assert [held.key.uid for held in agent.holdings] == [node.uids["stays"]]


async def test_kubelet_restarts(folder: Path) -> None:
    async with a_node(folder) as node, node.agent() as agent:
        await node.bind("job", a_share(mib=1))
        await node.run("job")
        await node.kubelet.kill()
        await until(lambda: "kubelet does not ask for" in agent.problem())
        await node.kubelet.start()
        await node.kubelet.until_offered(GPU, 16)
        await until(lambda: not agent.problem())
        await node.start("job")
        await node.bind("next", a_share(card=1, mib=2))
        assert (await node.run("next"))["main"].cdi_devices == ("nvidia.com/gpu=GPU-1",)


async def test_a_pod_whose_agent_goes_during_the_call_is_admitted_by_the_next(
    folder: Path,
) -> None:
    async with a_node(folder) as node:

        async def refused() -> None:
            with pytest.raises(NodeError):
                await node.admit("one")

        async with asyncio.TaskGroup() as group, node.agent():
            await node.bind("one", a_share(mib=1))
            await node.bind("other", a_share(mib=2))  # so it is waited for
            group.create_task(refused(), name="admission")
            await asyncio.sleep(0.2)
        await node.drop("other")
        async with node.agent() as agent:
            assert (await node.run("one"))["main"].cdi_devices == ("nvidia.com/gpu=GPU-0",)
            assert metric(agent, "tessera_agent_prepared_total") == 1


async def test_a_container_that_the_runtime_gave_its_cards_is_known_too(folder: Path) -> None:
    """The node was moved over to a device plugin while it ran."""
    async with a_node(folder) as node:
        async with node.agent():
            await node.bind("job", a_share(mib=9000))
            await node.run("job")
        node.allocations.unlink()
        node.kubelet.pods.ended(TEAM, "job")
        async with node.agent() as agent:
            await until(lambda: [held.stage for held in agent.holdings] == [ContainerStage.RUNNING])
            await node.bind("next", a_share(mib=9000))
            await node.admit("next")
            with pytest.raises(ContainerRefused, match="CardOverfull"):
                await node.start("next")
