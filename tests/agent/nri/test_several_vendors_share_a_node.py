"""Each vendor's agent answers for its own cards, and no two set the same thing."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from tessera_runtime.kube.api import Body, Verb
from tessera_schema.cards import MIB
from tessera_schema.injections import Injection
from tests.agent.nri.runtime_node import NODE, VISIBLE, Node, a_node, a_pod, a_share, granted, until

OTHER = replace(a_share(vendor="iluvatar", dialect="iluvatar", mib=64), card=f"{NODE}-iluvatar-0")


async def with_another_plugin(node: Node) -> None:
    """The other vendor's plugin publishes how many cards there are."""
    status = {"iluvatar.ai/vcuda-core": "100", "iluvatar.ai/vcuda-memory": "64"}
    patch = msgspec.json.encode({"status": {"capacity": status, "allocatable": status}})
    path = f"/api/v1/nodes/{NODE}/status"
    await node.kube.call(Verb.PATCH, path, body=patch, kind=Body.MERGE_PATCH)


async def test_a_pod_of_both_gets_both(tmp_path: Path) -> None:
    given = {"main": Injection(env={"CUDA_DEVICE_SM_LIMIT": "10"})}
    pod = granted("job", a_share(mib=1024), OTHER, given=given)
    async with a_node(tmp_path) as node:
        await with_another_plugin(node)
        async with node.agent() as nvidia, node.agent("iluvatar", ready=False) as iluvatar:
            await until(lambda: iluvatar.devices.cards and not iluvatar.problem())
            await until(lambda: node.runtime.plugins == ("10-tessera", "10-tessera-iluvatar"))
            answer = await node.run(pod)
            assert answer.env == {VISIBLE: "GPU-0", "CUDA_DEVICE_SM_LIMIT": "10"}
            assert [h.shares[0].vendor for h in nvidia.holdings] == ["nvidia"]
            assert [h.shares[0].memory_bytes for h in iluvatar.holdings] == [64 * MIB]
            assert (await node.create(a_pod("plain"))).env == {VISIBLE: "void"}
