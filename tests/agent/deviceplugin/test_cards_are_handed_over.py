"""What kubelet is answered for a container's cards, by each strategy, and limited."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_agent.delivery.settings import DeliverySettings, DeviceIdStrategy, DeviceListStrategy
from tessera_core.hook.limits_file import PATH
from tessera_core.hook.paths import HOOK_LIBRARY, PRELOAD
from tessera_core.hook.usage_file import PATH as USAGE_PATH
from tessera_kubelet.device_plugin.types import ContainerAllocation
from tessera_kubelet.errors import NotAdmitted
from tessera_testing.readers import a_reading
from tests.agent.deviceplugin.kubelet_node import GPU, a_node
from tests.agent.nri.runtime_node import VISIBLE, a_share, metric

OWN = {HOOK_LIBRARY, PRELOAD, PATH, USAGE_PATH}
MOUNTS = "/var/run/nvidia-container-devices"


async def given(
    folder: Path, strategy: DeviceListStrategy = DeviceListStrategy.AUTO,
    ids: DeviceIdStrategy = DeviceIdStrategy.UUID,
) -> ContainerAllocation:  # fmt: skip
    async with a_node(folder) as node:
        node.reader.show(replace(a_reading(0), minor=0), replace(a_reading(1), minor=1))
        async with node.agent(delivery=DeliverySettings(strategy=strategy, ids=ids)):
            await node.bind("job", a_share(), a_share(card=1), asks={"main": {GPU: 2}})
            return (await node.admit("job"))["main"]


async def test_by_name_and_the_vendors_runtime_gives_nothing(folder: Path) -> None:
    answer = await given(folder)
    assert answer.cdi_devices == ("nvidia.com/gpu=GPU-0", "nvidia.com/gpu=GPU-1")
    assert answer.env[VISIBLE] == "void"
    assert {m.destination for m in answer.mounts} == OWN
    assert answer.devices == ()


async def test_by_name_in_an_annotation(folder: Path) -> None:
    answer = await given(folder, DeviceListStrategy.CDI_ANNOTATIONS, DeviceIdStrategy.INDEX)
    assert answer.annotations == {"cdi.k8s.io/tessera_nvidia": "nvidia.com/gpu=0,nvidia.com/gpu=1"}
    assert (answer.cdi_devices, answer.env[VISIBLE]) == ((), "void")


async def test_by_the_vendors_variable(folder: Path) -> None:
    answer = await given(folder, DeviceListStrategy.ENVVAR)
    assert answer.env[VISIBLE] == "GPU-0,GPU-1"
    assert (answer.cdi_devices, answer.devices) == ((), ())


async def test_by_the_names_of_mounts(folder: Path) -> None:
    answer = await given(folder, DeviceListStrategy.VOLUME_MOUNTS)
    assert answer.env[VISIBLE] == MOUNTS
    named = {m.destination: m.source for m in answer.mounts if m.destination not in OWN}
    assert named == {f"{MOUNTS}/GPU-0": "/dev/null", f"{MOUNTS}/GPU-1": "/dev/null"}


async def test_as_device_nodes_and_the_vendors_runtime_gives_the_driver(folder: Path) -> None:
    answer = await given(folder, DeviceListStrategy.NODES)
    assert [d.path for d in answer.devices if d.path[-1].isdecimal()] == [
        "/dev/nvidia0", "/dev/nvidia1",
    ]  # fmt: skip
    assert answer.env[VISIBLE] == "none"
    assert answer.cdi_devices == ()


async def test_a_card_whose_device_node_is_not_known_is_not_given_so(folder: Path) -> None:
    nodes = DeliverySettings(strategy=DeviceListStrategy.NODES)
    async with a_node(folder) as node, node.agent(delivery=nodes) as agent:
        await node.bind("job", a_share())
        with pytest.raises(NotAdmitted, match=r"device node of card GPU-0 is not known.*STRATEGY"):
            await node.admit("job")
        assert metric(agent, 'tessera_agent_refusals_total{why="ContainerNotPrepared"}') == 1
        assert len(agent.holdings) == 0


async def test_what_an_image_may_set_is_emptied(folder: Path) -> None:
    """Kubelet does not say what it sets."""
    async with a_node(folder) as node, node.agent():
        await node.bind("job", a_share())
        env = (await node.admit("job"))["main"].env
        assert (env["CUDA_DISABLE_CONTROL"], env["CUDA_OVERSUBSCRIBE"]) == ("", "")


@pytest.mark.parametrize(
    ("name", "value"), [(VISIBLE, "all"), (VISIBLE, None), ("CUDA_DISABLE_CONTROL", "true")]
)
async def test_a_pod_whose_own_variable_would_stand_is_refused(
    folder: Path, name: str, value: str | None
) -> None:
    async with a_node(folder) as node, node.agent() as agent:
        await node.bind("job", a_share(), env={name: value})
        with pytest.raises(NotAdmitted, match=rf"VariableSetTwice: variable {name} is set by the"):
            await node.admit("job")
        assert metric(agent, 'tessera_agent_refusals_total{why="VariableSetTwice"}') == 1
        assert len(agent.holdings) == 0


async def test_variables_of_the_pod_reach_the_limits(folder: Path) -> None:
    env = {"GPU_CORE_UTILIZATION_POLICY": "disable", "CUDA_TASK_PRIORITY": "1"}
    async with a_node(folder) as node:
        async with node.agent() as agent:
            await node.bind("job", a_share(cores_percent=50), env=env)
            await node.admit("job")
            (before,) = agent.holdings
            assert (before.limits.cards[0].priority, before.terms.priority) == (1, 1)
        async with node.agent() as agent:
            (after,) = agent.holdings
            assert (after.limits, after.terms) == (before.limits, before.terms)
