"""The runtime is answered without asking anybody else."""

import asyncio
from pathlib import Path

from tessera_embedded.apiserver.faults import Hang, InjectedFault
from tessera_kubelet.nri.types import Adjustment, ContainerInfo
from tests.agent.nri.runtime_node import VISIBLE, a_node, a_share, granted, until

FIFTY = [granted(f"job-{i}", a_share(card=i % 2, mib=500)) for i in range(50)]


async def test_fifty_containers_start_while_everything_else_hangs(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node:
        async with node.agent():
            await until((tmp_path / "agent" / "grant-keys.json").exists)
        node.kube.faults.add(InjectedFault(".*", ".*", Hang()))
        node.bus.away()
        said = len(node.bus.said())
        async with node.agent(slots=25) as agent:
            for pod in FIFTY:
                given = await node.run(pod)
                assert given.env[VISIBLE] == pod_card(pod.name)
            assert len(agent.holdings) == 50
            assert len(node.bus.said()) == said


def pod_card(name: str) -> str:
    return f"GPU-{int(name.rpartition('-')[2]) % 2}"


async def test_an_answer_lets_nobody_else_run(tmp_path: Path) -> None:
    """It is one step of the loop: no wait for anything can hide in it."""
    others: list[str] = []
    async with a_node(tmp_path) as node, node.agent(slots=25) as agent:
        asyncio.get_running_loop().call_soon(others.append, "ran")
        asked = len(node.kube.calls)
        for number, pod in enumerate(FIFTY):
            container = ContainerInfo(id=f"c-{number}", sandbox_id=pod.id, name="main")
            assert isinstance(agent.plugin.create_container(pod, container), Adjustment)
            agent.plugin.container_started(pod, container)
        assert len(node.kube.calls) == asked
        assert others == []
