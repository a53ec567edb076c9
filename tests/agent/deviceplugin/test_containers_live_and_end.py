"""What becomes of containers is what the API server shows: they are measured, resized and counted
as where the runtime reports it, and cleared away when they are gone."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tessera_agent.admission.resize import ResizeSettings
from tessera_agent.containers.holdings import ContainerStage
from tessera_core.dialect_kit.readings import ProcessReading
from tessera_core.hook.limits_file import PATH
from tessera_kubelet.device_plugin.types import ContainerAllocation
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Verb
from tessera_schema.cards import MIB
from tessera_schema.grants import GRANT_KEY
from tessera_schema.messages.allocation_events import AllocationRunning, decode_event
from tessera_schema.messages.device_reports import decode_device
from tessera_schema.subjects import DEVICES_BUCKET
from tests.agent.deviceplugin.kubelet_node import (
    ONE,
    TEAM,
    Node,
    a_node,
    container_id,
    ended,
    running,
)
from tests.agent.limitsfile import limits_in
from tests.agent.nri.runtime_node import NODE, a_share, looks, signed, until


def limits_file(given: ContainerAllocation) -> Path:
    return Path(next(m.source for m in given.mounts if m.destination == PATH))


async def test_a_container_that_runs_is_measured(folder: Path) -> None:
    async with a_node(folder) as node, node.agent() as agent:
        await node.bind("job", a_share(mib=4096))
        await node.run("job")
        node.has_process(77, container_id("job"))
        node.reader.run(0, ProcessReading(pid=77, memory_bytes=100 * MIB))

        def processes() -> list[int]:
            usage = agent.measurement.latest
            return (
                [card.processes for one in usage.containers for card in one.cards] if usage else []
            )

        await until(lambda: processes() == [1])
        usage = agent.measurement.latest
        assert usage is not None
        assert [(one.pod, one.container) for one in usage.containers] == [("job", "main")]


async def test_that_it_runs_is_published_once_for_each_run(folder: Path) -> None:
    async with a_node(folder) as node, node.agent() as agent:

        def published() -> list[str]:
            messages = node.bus.said("*.*.*.allocation.>")
            return [type(decode_event(one.data)).__name__ for one in messages]

        uid = await node.bind("job", a_share())
        await node.run("job")
        await until(lambda: published() == ["AllocationPrepared", "AllocationRunning"])
        await node.show("job", {"main": running("job") | {"ready": False}})
        await node.show("job", {"main": ended("job")})
        await until(lambda: [held.stage for held in agent.holdings] == [ContainerStage.ENDED])
        await node.start("job")
        await node.show("job", {"main": running("job", attempt=1)})
        await until(lambda: len(published()) == 4)
        assert decode_event(node.bus.said("*.*.*.allocation.>")[-1].data) == AllocationRunning(
            namespace=TEAM, uid=uid, name="job", node=NODE, container="main"
        )


async def test_an_agent_that_starts_publishes_what_runs_already(folder: Path) -> None:
    async with a_node(folder) as node:
        async with node.agent():
            uid = await node.bind("job", a_share())
            await node.run("job")
            await until(lambda: len(node.bus.said("*.*.*.allocation.>")) == 2)
        async with node.agent() as agent:
            await until(lambda: len(node.bus.said("*.*.*.allocation.>")) == 3)
            await looks(agent, 3)
        assert len(node.bus.said("*.*.*.allocation.>")) == 3
        assert decode_event(node.bus.said("*.*.*.allocation.>")[-1].data) == AllocationRunning(
            namespace=TEAM, uid=uid, name="job", node=NODE, container="main"
        )


async def test_a_late_status_of_an_earlier_run_is_not_believed(folder: Path) -> None:
    """Kubelet starts it again at once; the API server still shows that it ran, and then ended."""
    async with a_node(folder) as node, node.agent() as agent:
        await node.bind("job", a_share())
        await node.run("job")
        await until(lambda: [held.stage for held in agent.holdings] == [ContainerStage.RUNNING])
        await node.start("job")
        for state in (running("job") | {"ready": False}, ended("job")):
            await node.show("job", {"main": state})
            await looks(agent, 3)
            assert [(held.stage, held.id) for held in agent.holdings] == [
                (ContainerStage.CREATED, "")
            ]
        again = running("job", attempt=1) | {"lastState": ended("job")["state"]}
        await node.show("job", {"main": again})
        await until(lambda: [held.stage for held in agent.holdings] == [ContainerStage.RUNNING])


async def test_a_later_grant_changes_its_limits(folder: Path) -> None:
    quick = ResizeSettings(look_s=0.02)
    async with a_node(folder) as node, node.agent(resize=quick) as agent:
        uid = await node.bind("job", a_share(mib=4096))
        file = limits_file((await node.run("job"))["main"])
        await until(lambda: [held.stage for held in agent.holdings] == [ContainerStage.RUNNING])
        later = signed(node.granted("job", a_share(mib=6000), revision=1))
        body = msgspec.json.encode({"metadata": {"annotations": {GRANT_KEY: later}}})
        path = paths.pod(TEAM, "job")
        await node.kube.call(Verb.PATCH, path, body=body, kind=Body.MERGE_PATCH)
        await until(lambda: limits_in(file).cards[0].memory_bytes == 6000 * MIB)
        assert agent.holdings.shares_by_pod()[uid][0].memory_bytes == 6000 * MIB


async def test_what_a_pod_holds_that_was_deleted_by_force_is_published(folder: Path) -> None:
    async with a_node(folder) as node, node.agent() as agent:
        uid = await node.bind("job", a_share(mib=4096))
        await node.run("job")
        await until(lambda: [held.stage for held in agent.holdings] == [ContainerStage.RUNNING])
        node.has_process(5, container_id("job"))

        def occupied() -> list[str]:
            (state,) = node.bus.values(DEVICES_BUCKET).values()
            return [one.uid for one in decode_device(state.data).occupied]

        await node.drop("job")
        await until(lambda: occupied() == [uid])
        node.has_process(5, container_id("job"), ended=True)
        await until(lambda: occupied() == [])
        assert len(agent.holdings) == 0


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_files_and_entries_go_with_the_pod_and_not_before(folder: Path, phase: str) -> None:
    async with a_node(folder) as node, node.agent() as agent:
        await node.bind("job", a_share("main"), a_share("side"), asks={"main": ONE, "side": ONE})
        file = limits_file((await node.run("job"))["main"])
        both = {name: ended("job", name) for name in ("main", "side")}
        await node.show("job", both)
        await until(lambda: {held.stage for held in agent.holdings} == {ContainerStage.ENDED})
        await looks(agent, 5)
        assert file.exists()
        assert len(recorded(node)) == 2
        await node.end("job", phase)
        await until(lambda: not file.parent.parent.exists())
        await until(lambda: recorded(node) == [])


def recorded(node: Node) -> list[Any]:
    """What is written down."""
    found: list[Any] = msgspec.json.decode(node.allocations.read_bytes())["allocations"]
    return found
