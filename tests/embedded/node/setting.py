"""A node with one simulated card, its API server, and an agent that a test writes."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tessera_embedded.apiserver.server import open_apiserver
from tessera_embedded.node.node import EmbeddedNode
from tessera_embedded.node.open import SOCKET, open_node
from tessera_embedded.node.settings import NodeDescription
from tessera_kubelet.nri.plugin import serve
from tessera_kubelet.nri.settings import NriPluginSettings
from tessera_kubelet.nri.types import Adjustment, ContainerInfo, CreationRefused, PodSandbox
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.injections import Mount
from tests.agent.machine import BUILD, built

CARD = "GPU-00a2f344-95e6-3788-d92a-7bcc1d6ebf10"


def build() -> None:
    """The hook, the simulated driver and the program that pods run."""
    built("tessera-work")


class AnAgent:
    """Gives the card, or what `give` says; remembers what it was sent."""

    def __init__(self) -> None:
        self.give: Callable[[ContainerInfo], Adjustment | CreationRefused] = lambda _: Adjustment()
        self.reported: list[str] = []
        self.found: list[str] = []

    def synchronize(self, pods: Sequence[PodSandbox], containers: Sequence[ContainerInfo]) -> None:
        del pods
        self.found = [c.name for c in containers]

    def create_container(
        self, pod: PodSandbox, container: ContainerInfo
    ) -> Adjustment | CreationRefused:
        del pod
        return self.give(container)

    def container_started(self, pod: PodSandbox, container: ContainerInfo) -> None:
        self.reported.append(f"started {container.name}")

    def container_stopped(self, pod: PodSandbox, container: ContainerInfo) -> None:
        self.reported.append(f"stopped {container.name}")

    def container_removed(self, pod: PodSandbox, container: ContainerInfo) -> None:
        self.reported.append(f"removed {container.name}")

    def pod_stopped(self, pod: PodSandbox) -> None:
        self.reported.append(f"pod stopped {pod.name}")

    def pod_removed(self, pod: PodSandbox) -> None:
        self.reported.append(f"pod removed {pod.name}")


def share_of(folder: Path, mib: int, permille: int) -> Adjustment:
    """What a real agent gives: the card, the hook, the hook's two files."""
    made = folder / "files"
    made.mkdir(exist_ok=True)
    subprocess.run(
        [
            BUILD / "tessera-limits",
            made / "limits",
            f"card={CARD}",
            f"memory={mib}",
            f"permille={permille}",
        ],
        check=True,
    )
    (made / "usage").touch()
    (made / "preload").write_text("/usr/local/tessera/lib/libtessera.so\n")
    hook = "/usr/local/tessera"
    return Adjustment(
        env={"NVIDIA_VISIBLE_DEVICES": CARD},
        mounts=(
            Mount(destination=f"{hook}/lib/libtessera.so", source=str(BUILD / "libtessera.so")),
            Mount(destination="/etc/ld.so.preload", source=str(made / "preload")),
            Mount(destination=f"{hook}/limits", source=str(made / "limits")),
            Mount(destination=f"{hook}/usage", source=str(made / "usage"), read_only=False),
        ),
    )


class NodeUnderTest:
    """What a test acts on."""

    def __init__(self, folder: Path, kube: Kube, kubeconfig: Path) -> None:
        self.folder = folder
        self.kube = kube
        self.agent = AnAgent()
        self.kubeconfig = kubeconfig

    @asynccontextmanager
    async def node(self, **facts: Any) -> AsyncGenerator[EmbeddedNode]:
        """The node, with the agent connected to it."""
        description = NodeDescription(
            name="n1", machines={"nvidia": "cards=1 memory=16g"}, driver_folder=str(BUILD / "sim"),
            programs={
                "work": (str(BUILD / "tessera-work"),), "true": ("true",), "false": ("false",),
                "sleep": ("sleep", "1000"),
            },
            backoff_first_s=0.05, required_plugins=("tessera",), **facts,
        )  # fmt: skip
        self.folder.mkdir(exist_ok=True)
        async with AsyncExitStack() as stack:
            node = await stack.enter_async_context(
                open_node(self.kubeconfig, self.folder, description)
            )
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            plugin = tasks.create_task(
                serve(self.folder / SOCKET, self.agent, NriPluginSettings(), lambda _: None),
                name="agent",
            )
            try:
                yield node
            finally:
                plugin.cancel()

    async def pod(self, name: str, *images: str, init: Sequence[str] = (), **spec: Any) -> None:
        """A pod that is bound to the node."""

        def containers(of: Sequence[str], prefix: str) -> list[Any]:
            return [{"name": f"{prefix}{i}", "image": image} for i, image in enumerate(of)]

        body = {
            "metadata": {"name": name},
            "spec": {
                "nodeName": "n1",
                "terminationGracePeriodSeconds": 2,
                "containers": containers(images, "c"),
                "initContainers": containers(init, "i"),
                **spec,
            },
        }
        path = paths.in_core("default", "pods")
        await self.kube.call(Verb.POST, path, body=msgspec.json.encode(body))

    async def read(self, name: str) -> Any:
        return msgspec.json.decode(await self.kube.call(Verb.GET, paths.pod("default", name)))

    async def delete(self, name: str, *, at_once: bool = False) -> None:
        """`at_once`: without waiting for the node's word."""
        body = b'{"gracePeriodSeconds":0}' if at_once else b""
        await self.kube.call(Verb.DELETE, paths.pod("default", name), body=body)

    async def until(self, name: str, holds: Callable[[Any], object]) -> Any:
        """The pod, as soon as this holds of it."""
        while True:
            pod = await self.read(name)
            if holds(pod):
                return pod
            await asyncio.sleep(0.02)

    async def phase(self, name: str, phase: str) -> Any:
        return await self.until(name, lambda pod: pod["status"].get("phase") == phase)

    def log(self, uid: str, container: str = "c0") -> list[Any]:
        """What the program printed, a JSON value a line; the last may be half written."""
        text = (self.folder / "pods" / uid / container / "log").read_text()
        lines = text.splitlines(keepends=True)
        return [msgspec.json.decode(line) for line in lines if line.endswith("\n")]


@asynccontextmanager
async def a_cluster(folder: Path) -> AsyncGenerator[NodeUnderTest]:
    async with open_apiserver(folder / "api", keep=False) as server:
        settings = KubeSettings(kubeconfig=str(server.kubeconfig))
        async with open_kube(settings) as kube, asyncio.timeout(120):
            yield NodeUnderTest(folder / "node", kube, server.kubeconfig)
