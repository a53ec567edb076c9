"""Open a node: `async with open_node(kubeconfig, folder, description) as node: ...`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tessera_embedded.node.container import ContainerRunner
from tessera_embedded.node.node import EmbeddedNode
from tessera_embedded.node.pods import NodePod, read_pod
from tessera_embedded.node.settings import BadDescription, NodeDescription
from tessera_embedded.node.vendor_toolkits import load_toolkits
from tessera_embedded.runtime.runtime import open_runtime
from tessera_kubelet.nri.settings import RuntimeSettings
from tessera_runtime.clock import SystemClock
from tessera_runtime.kube import paths
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.reflector import ListWatch, Reflector
from tessera_runtime.kube.settings import KubeSettings

SOCKET: Final = "nri.sock"
_PATIENCE_S: Final = 30.0
"""Seconds that an agent has for an answer. A runtime gives two, and a container that it could not
ask about gets through without the agent; where one machine plays a whole cluster, any may be late.
"""


@asynccontextmanager
async def open_node(
    kubeconfig: Path, folder: Path, description: NodeDescription
) -> AsyncGenerator[EmbeddedNode]:
    """A node until the context ends; then its containers' processes are ended too, as nobody else
    here would. A node whose process dies leaves them, and the next one takes them over.

    `folder` is the node's own: `nri.sock`, `pods/`, `machines/`. Raises BadDescription.
    """
    carrier = ContainerRunner(description, folder, load_toolkits())
    await asyncio.to_thread(carrier.end_unrecorded)
    await asyncio.to_thread(carrier.recall)
    for vendor, words in description.machines.items():
        await make_machine(carrier.machine(vendor), words, description)
    settings = KubeSettings(kubeconfig=str(kubeconfig), retry_most_s=2)
    runtime_settings = RuntimeSettings(
        request_s=_PATIENCE_S,
        required_plugins=description.required_plugins,
        tolerate_missing_annotation=description.tolerate_annotation,
    )
    async with (
        open_kube(settings) as kube,
        open_runtime(folder / SOCKET, runtime_settings, state=carrier.state) as runtime,
    ):
        node = EmbeddedNode(kube, carrier, SystemClock())
        node.runtime = runtime
        query = {"fieldSelector": f"spec.nodeName={description.name}"}
        pods = Reflector(kube, ListWatch(paths.PODS, read_pod, query), node, settings=settings)
        try:
            async with asyncio.TaskGroup() as tasks:
                inner = tasks.create_task(_carry(node, pods), name=description.name)
                try:
                    yield node
                finally:
                    inner.cancel()
        finally:
            await node.sweep(frozenset())  # what nobody has taken over yet


async def _carry(node: EmbeddedNode, pods: Reflector[NodePod]) -> None:
    async with asyncio.TaskGroup() as tasks:
        await node.run(tasks)
        tasks.create_task(pods.run(), name="pod watcher")


async def make_machine(state: Path, words: str, description: NodeDescription) -> None:
    """Have the simulated driver make a machine with these cards, unless it is there already.

    Any first client makes it; this one asks for nothing. Raises BadDescription.
    """
    if await asyncio.to_thread(state.exists):
        return
    await asyncio.to_thread(state.parent.mkdir, parents=True, exist_ok=True)
    program = next(iter(description.programs.values()), ("tessera-work",))
    env = {
        "PATH": os.defpath, "LD_LIBRARY_PATH": description.driver_folder,
        "TESSERA_SIM_STATE": str(state), "TESSERA_SIM_CONFIG": words,
        "WORK_BUSY": "0", "WORK_SECONDS": "1", "WORK_MEMORY_PERCENT": "0",
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *program, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    if process.returncode:
        said = output.decode(errors="replace").strip()[:400]
        raise BadDescription(f"machines: {words!r}: {said}")
