"""GPU Manager's query port: the tree of cards and what containers use, in its shapes and units."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import ClientError, ClientSession

from tessera_agent.containers.holdings import ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.gpu_manager_http import GpuManagerView, graph, usage
from tessera_agent.main import SERVICE
from tessera_agent.nri_plugin.settings import NriSettings
from tessera_agent.settings import AgentSettings
from tessera_core.dialect_kit.readings import CardReading, ProcessReading
from tessera_core.hook.limits_file import HookLimits
from tessera_embedded.apiserver import open_apiserver
from tessera_kubelet.nri.types import PodSandbox
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.http.server import HttpSettings
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.process import ProcessSettings
from tessera_runtime.service import serve
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Share
from tessera_schema.messages.device_reports import CardHeld, CardUse, ContainerUse

GIB = 1024 * MIB
SAME_SWITCH, OTHER_SOCKET = 50, 10


class Owned:
    """Owners as a test says."""

    def __init__(self, owners: Mapping[int, str]) -> None:
        self.owners = owners

    def container_of(self, pid: int) -> str:
        return self.owners.get(pid, "")


def card(index: int, links: Mapping[int, int], *, healthy: bool = True) -> Card:
    return Card(
        id=f"GPU-{index}", index=index, vendor="v", memory_bytes=GIB, healthy=healthy,
        links={f"GPU-{other}": close for other, close in links.items()},
    )  # fmt: skip


THREE = (
    card(0, {1: SAME_SWITCH, 2: OTHER_SOCKET}),
    card(1, {0: SAME_SWITCH, 2: OTHER_SOCKET}),
    card(2, {0: OTHER_SOCKET, 1: OTHER_SOCKET}),
)


def holding(name: str, index: int = 0, stage: ContainerStage = ContainerStage.RUNNING) -> Holding:
    share = Share(
        container=name, position=0, vendor="v", dialect="d", card=f"GPU-{index}", index=index,
        memory_bytes=256 * MIB, cores_percent=50,
    )  # fmt: skip
    pod = PodSandbox(
        id="s", name="p", uid="u", namespace="ns", annotations={"clusterName": "north"}
    )
    return Holding(
        key=ContainerKey("u", name),
        id=f"id-{name}",
        pod=pod,
        shares=(share,),
        limits=HookLimits(container=f"ns/p/{name}", cards=()),
        since=0,
        stage=stage,
    )


def used(container: str) -> ContainerUse:
    use = CardUse(card="GPU-0", memory_bytes=100 * MIB, cores_percent=20)
    return ContainerUse(namespace="ns", pod="p", uid="u", container=container, cards=(use,))


def test_the_tree_shows_what_is_free_of_each_card_and_in_use_of_it() -> None:
    busy = CardReading(
        id="GPU-0",
        index=0,
        memory_used_bytes=7,
        processes=(ProcessReading(pid=12), ProcessReading(pid=9)),
    )
    held = CardHeld(card="GPU-0", containers=1, memory_bytes=256 * MIB, cores_percent=50)
    lines = graph(GpuManagerView(cards=THREE, readings=(busy,), held=(held,))).splitlines()
    assert lines[0] == "ROOT:2"
    assert [line.partition(" (")[0] for line in lines[1:]] == [
        "|---SYS", "|   |---GPU2", "|   |---PIX", "|   |   |---GPU0", "|   |   |---GPU1",
    ]  # fmt: skip
    assert lines[3].startswith("|   |---PIX (aval: 1, ")
    assert lines[4].endswith(
        f"(pids: [9 12], usedMemory: 7, totalMemory: {GIB}, allocatableCores: 50, "
        f"allocatableMemory: {768 * MIB})"
    )


def test_a_whole_card_has_nothing_left_and_an_unhealthy_one_is_not_available() -> None:
    held = CardHeld(card="GPU-0", containers=1, memory_bytes=GIB, cores_percent=100)
    text = graph(GpuManagerView(cards=(card(0, {}), card(1, {}, healthy=False)), held=(held,)))
    assert text.startswith("ROOT:0\n")
    assert "allocatableCores: 0, allocatableMemory: 0)" in text.splitlines()[1]


def test_a_node_without_cards_is_drawn() -> None:
    assert graph(GpuManagerView()) == "ROOT:0\n"


def test_usage_is_answered_by_pod_and_container() -> None:
    reading = CardReading(
        id="GPU-0",
        index=0,
        bus="0000:17:00.0",
        processes=(ProcessReading(pid=12), ProcessReading(pid=9), ProcessReading(pid=1)),
    )
    view = GpuManagerView(
        cards=THREE, readings=(reading,), holdings=(holding("a"), holding("b", 1)),
        uses=(used("a"),),
    )  # fmt: skip
    answer = usage(view, Owned({12: "id-a", 9: "id-a", 1: "id-b"}))
    assert answer == {
        "usage": {
            "u": {
                "project": "ns", "user": "", "cluster": "north",
                "stat": {
                    "a": {
                        "dev": [
                            {
                                "id": "0000:17:00.0", "card_idx": "0", "gpu": 20, "mem": 100,
                                "pids": [9, 12], "device_mem": 1024,
                            }
                        ]
                    }
                },
                "spec": {"a": {"gpu": 0.5, "mem": 256}, "b": {"gpu": 0.5, "mem": 256}},
            }
        }
    }  # fmt: skip


def test_pods_of_which_nothing_is_measured_or_that_have_ended_are_left_out() -> None:
    ended = holding("a", stage=ContainerStage.ENDED)
    assert usage(GpuManagerView(cards=THREE, holdings=(ended,), uses=(used("a"),)), Owned({})) == {
        "usage": {}
    }
    assert usage(GpuManagerView(cards=THREE, holdings=(holding("a"),)), Owned({})) == {"usage": {}}


async def body(session: ClientSession, url: str) -> str:
    """The body, once it is there."""
    async with asyncio.timeout(60):
        while True:
            try:
                async with session.get(url) as response:
                    assert response.status == 200
                    return await response.text()
            except ClientError:
                await asyncio.sleep(0.05)


async def answer(session: ClientSession, url: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await body(session, url))
    return found


async def port(file: Path) -> int:
    """The agent's, once it serves."""
    async with asyncio.timeout(60):
        while not file.exists():  # noqa: ASYNC240  (another task's file)
            await asyncio.sleep(0.05)
    found: int = json.loads(file.read_bytes())["http"]  # noqa: ASYNC240  (the test's own file)
    return found


async def test_the_agent_serves_them(tmp_path: Path) -> None:
    node, ports = "worker", tmp_path / "ports"
    capacity = {"mthreads.com/sgpu-core": "32", "mthreads.com/sgpu-memory": "192"}
    async with (
        open_apiserver(tmp_path / "api", keep=False) as server,
        open_kube(KubeSettings(kubeconfig=str(server.kubeconfig))) as kube,
        ClientSession() as session,
    ):
        made = {"metadata": {"name": node}, "status": {"capacity": capacity}}
        await kube.call(Verb.POST, paths.NODES, body=msgspec.json.encode(made))
        settings = AgentSettings(
            node=node, vendor="mthreads", folder=str(tmp_path / "agent"),
            kube=KubeSettings(kubeconfig=str(server.kubeconfig)),
            bus=BusSettings(url="nats://127.0.0.1:1", arrange=False),
            nri=NriSettings(socket=tmp_path / "nobody.sock"),
            http=HttpSettings(host="127.0.0.1", port=0),
            process=ProcessSettings(ports_file=ports),
        )  # fmt: skip
        async with asyncio.TaskGroup() as group:
            agent = group.create_task(serve(SERVICE, settings), name="agent")
            url = f"http://127.0.0.1:{await port(ports)}"
            async with asyncio.timeout(60):
                while "GPU1" not in (drawn := (await answer(session, f"{url}/graph"))["graph"]):
                    await asyncio.sleep(0.05)
            assert drawn.startswith("ROOT:2\n")
            assert await answer(session, f"{url}/usage") == {"usage": {}}
            assert (await answer(session, f"{url}/version"))["version"].startswith("tessera")
            scraped = await body(session, f"{url}/metric")
            assert "# TYPE container_gpu_utilization gauge" in scraped
            hamis = await body(session, f"{url}/hami/metrics?legacy=true")
            assert 'hami_build_info{version="' in hamis
            assert "# TYPE hami_host_gpu_memory_used_bytes gauge" in hamis
            assert "# TYPE HostGPUMemoryUsage gauge" in hamis
            agent.cancel()
