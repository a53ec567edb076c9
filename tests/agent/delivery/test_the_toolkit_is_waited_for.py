"""Until the operator's toolkit is ready, nobody has this agent to ask, and no card is published."""

import asyncio
from pathlib import Path

import pytest

from tessera_agent.delivery.injector import load_injector
from tessera_agent.delivery.settings import CardDelivery, DeliverySettings, ToolkitSettings
from tessera_agent.delivery.toolkit import ToolkitGate, ToolkitNotReady
from tessera_agent.devices.gated_reader import GatedReader
from tessera_agent.readers import CardReader, DriverSilent
from tessera_core.dialect_kit.readings import Readings
from tessera_testing.readers import FakeReader, a_reading
from tests.agent.deviceplugin.kubelet_node import GPU
from tests.agent.deviceplugin.kubelet_node import a_node as a_kubelet_node
from tests.agent.nri.runtime_node import a_node, until

READY = "validations/toolkit-ready"
WHY = "the container toolkit is not ready: {} is not there: see the operator's pods on this node"


def appears(file: Path) -> None:
    file.parent.mkdir(exist_ok=True)
    file.touch()


async def test_the_runtime_does_not_have_the_agent_before(tmp_path: Path) -> None:
    file = tmp_path / READY
    async with a_node(tmp_path) as node:
        toolkit = ToolkitSettings(file=str(file))
        async with node.agent(ready=False, toolkit=toolkit) as agent:
            await until(lambda: agent.devices.silent_polls > 3 and agent.pods.listed)
            assert agent.problem() == WHY.format(file)
            assert not node.runtime.plugins
            assert not agent.devices.latest.complete
            appears(file)
            await until(lambda: bool(node.runtime.plugins) and not agent.problem())
            file.unlink()  # the operator checks the node again
            polls = node.reader.polls
            await until(lambda: node.reader.polls > polls + 3)
            assert (agent.problem(), agent.devices.latest.silent) == ("", "")


async def test_kubelet_does_not_have_the_agent_before(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("a")
    file = folder / READY
    async with a_kubelet_node(folder) as node:
        toolkit = ToolkitSettings(file=str(file))
        async with node.agent(ready=False, toolkit=toolkit) as agent:
            await until(lambda: agent.devices.silent_polls > 3 and agent.pods.listed)
            assert agent.problem() == WHY.format(file)
            assert node.kubelet.registrations == []
            appears(file)
            await node.kubelet.until_offered(GPU, 16)


async def test_an_agent_that_waits_too_long_ends_and_says_why(tmp_path: Path) -> None:
    toolkit = ToolkitSettings(file=str(tmp_path / READY), wait_s=0.1)
    async with a_node(tmp_path) as node:
        with pytest.raises(ExceptionGroup) as ended:
            async with node.agent(ready=False, toolkit=toolkit):
                await asyncio.Event().wait()
    (why,) = ended.value.exceptions
    assert isinstance(why, ToolkitNotReady)
    assert str(why).startswith(WHY.format(tmp_path / READY))
    assert "waited for 0.1 s" in str(why)


async def a_reader(reader: CardReader, gate: ToolkitGate, root: Path) -> GatedReader:
    injector = await load_injector("nvidia", CardDelivery.RUNTIME, DeliverySettings(), root)
    return GatedReader(reader, gate, injector)


class NoDriver:
    """A reader in a container without a driver."""

    async def poll(self, *, times_only: bool = False) -> DriverSilent:
        return DriverSilent(why="libnvidia-ml.so.1 is not there", missing=True)


@pytest.mark.looptime
@pytest.mark.parametrize("waited", [True, False])
async def test_a_container_older_than_the_toolkit_is_started_again(
    tmp_path: Path, *, waited: bool
) -> None:
    file = tmp_path / "ready"
    gate = ToolkitGate(ToolkitSettings(file=str(file)))
    reader = await a_reader(NoDriver(), gate, tmp_path)
    if waited:
        answer = await reader.poll()
        assert answer == DriverSilent(why=WHY.format(file))
    file.touch()
    answer = await reader.poll()
    assert isinstance(answer, DriverSilent)
    assert answer.missing
    if waited:
        with pytest.raises(ToolkitNotReady, match="is started again"):
            await gate.run()
    else:  # another start would change nothing
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await gate.run()


async def test_a_container_that_has_its_driver_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "ready"
    gate = ToolkitGate(ToolkitSettings(file=str(file)))
    reader = await a_reader(FakeReader(a_reading()), gate, tmp_path)
    assert isinstance(await reader.poll(), DriverSilent)
    file.touch()
    assert isinstance(await reader.poll(), Readings)
    assert gate.problem() == ""
