"""The runtime gets a container's devices by the strategy that the agent is set to."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_agent.delivery.settings import DeliverySettings, DeviceFeature, DeviceListStrategy
from tessera_agent.readers import ReaderSettings
from tessera_kubelet.errors import ContainerRefused
from tessera_kubelet.nri.types import NriDevice
from tessera_testing.readers import a_reading
from tests.agent.delivery.machine_files import with_nodes
from tests.agent.nri.runtime_node import VISIBLE, a_node, a_pod, a_share, granted, metric, until

MOUNTS = "/var/run/nvidia-container-devices"
POD = granted("job", a_share(), a_share(card=1))


async def test_names_that_the_runtime_looks_up(tmp_path: Path) -> None:
    by_name = DeliverySettings(strategy=DeviceListStrategy.CDI)
    async with a_node(tmp_path) as node, node.agent(delivery=by_name):
        given = await node.create(POD, env={VISIBLE: "all"})
        assert given.cdi == ("nvidia.com/gpu=GPU-0", "nvidia.com/gpu=GPU-1")
        assert given.env[VISIBLE] == "void"
        assert (await node.create(a_pod("other"))).cdi == ()


async def test_names_in_an_annotation(tmp_path: Path) -> None:
    by_note = DeliverySettings(strategy=DeviceListStrategy.CDI_ANNOTATIONS)
    async with a_node(tmp_path) as node, node.agent(delivery=by_note):
        given = await node.create(POD)
        names = "nvidia.com/gpu=GPU-0,nvidia.com/gpu=GPU-1"
        assert given.annotations == {"cdi.k8s.io/tessera_nvidia": names}
        assert (given.cdi, given.env[VISIBLE]) == ((), "void")


async def test_names_of_mounts_and_those_of_the_pod_are_refused_all_the_same(
    tmp_path: Path,
) -> None:
    by_mount = DeliverySettings(strategy=DeviceListStrategy.VOLUME_MOUNTS)
    async with a_node(tmp_path) as node:
        async with node.agent(delivery=by_mount):
            given = await node.run(POD)
            named = {m.destination: m.source for m in given.mounts if m.source == "/dev/null"}
            assert named == {f"{MOUNTS}/GPU-{i}": "/dev/null" for i in (0, 1)}
            assert given.env[VISIBLE] == MOUNTS
            with pytest.raises(ContainerRefused, match="CardsByMount"):
                await node.create(granted("thief", a_share()), mounts=given.mounts)
        async with node.agent(delivery=by_mount) as agent:
            await until(lambda: len(agent.holdings) == 1)
            assert metric(agent, 'tessera_agent_alarms_total{what="CardsWithoutGrant"}') == 0


async def test_device_nodes_with_their_numbers(tmp_path: Path) -> None:
    nodes = DeliverySettings(nodes=True, features=(DeviceFeature.GDRCOPY,))
    with_nodes(tmp_path / "host", "/dev/nvidia0", "/dev/nvidiactl", "/dev/gdrdrv")
    async with a_node(tmp_path) as node:
        node.reader.show(replace(a_reading(0), minor=0), replace(a_reading(1), minor=1))
        root = ReaderSettings(root=tmp_path / "host")
        async with node.agent(delivery=nodes, reader=root) as agent:
            given = await node.create(granted("job", a_share()))
            assert given.devices == tuple(
                NriDevice(path=path, major=1, minor=3)  # /dev/null's
                for path in ("/dev/nvidia0", "/dev/nvidiactl", "/dev/gdrdrv")
            )
            assert given.env == {VISIBLE: "GPU-0", "NVIDIA_GDRCOPY": "enabled"}
            with pytest.raises(ContainerRefused, match=r"/dev/nvidia1 is not there: show the ag"):
                await node.create(granted("next", a_share(card=1)))
            assert len(agent.holdings) == 1


async def test_what_is_switched_on_and_not_there_is_said_on_the_node(tmp_path: Path) -> None:
    gds = DeliverySettings(strategy=DeviceListStrategy.CDI, features=(DeviceFeature.GDS,))
    (tmp_path / "host").mkdir()
    root = ReaderSettings(root=tmp_path / "host")
    async with a_node(tmp_path) as node, node.agent(delivery=gds, reader=root):
        given = await node.create(granted("job", a_share()))
        assert given.cdi == ("nvidia.com/gpu=GPU-0",)
        await until(lambda: node.events("Cards"))
        assert any("GPUDirect Storage is switched on" in line for line in node.events("Cards"))


async def test_a_channel_that_is_required_is_waited_for(tmp_path: Path) -> None:
    channel = DeliverySettings(imex_channels=(0,), imex_required=True)
    (tmp_path / "host").mkdir()
    root = ReaderSettings(root=tmp_path / "host")
    async with a_node(tmp_path) as node, node.agent(delivery=channel, reader=root) as agent:
        with pytest.raises(ContainerRefused, match=r"ContainerNotPrepared: IMEX channel /dev/"):
            await node.create(granted("job", a_share()))
        assert len(agent.holdings) == 0
