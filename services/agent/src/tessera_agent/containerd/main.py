"""The component `containerd` as a process on one node."""

from __future__ import annotations

import asyncio
from random import Random
from typing import NoReturn

from tessera_agent.containerd.agent_probe import open_probe
from tessera_agent.containerd.host import ContainerdHost, SystemdUnit
from tessera_agent.containerd.node import ContainerdNode
from tessera_agent.containerd.node_files import StoredFiles
from tessera_agent.containerd.settings import DropInSettings
from tessera_agent.containerd.turn import NodeTurn
from tessera_core.node.containerd_config import ConfigPaths
from tessera_runtime.build import add_build_info
from tessera_runtime.clock import SystemClock
from tessera_runtime.http import server
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.events import open_events
from tessera_runtime.metrics import MetricsRegistry

NAME = "tessera-containerd"


async def serve(settings: DropInSettings) -> None:
    """Keep the node as wanted until cancelled; a change under way comes to its end first."""
    clock, metrics = SystemClock(), MetricsRegistry("containerd")
    paths = ConfigPaths(config=settings.config, folder=settings.folder)
    metrics.of_process()
    add_build_info(metrics, NAME, settings.process.revision)
    async with (
        open_kube(settings.kube, name=NAME) as kube,
        open_events(
            kube, settings.events, component=NAME, clock=clock, node=settings.node
        ) as events,
        open_probe(settings.agents) as agent,
    ):
        node = ContainerdNode(
            settings,
            StoredFiles(settings.root, paths, settings.state),
            ContainerdHost(SystemdUnit(settings.unit), settings.root, settings.config),
            NodeTurn(kube, settings.namespace, settings.lease, settings.node, clock),
            agent,
            events,
        )
        ports = server.PortReporter(settings.process.ports_file)
        app = server.application(settings.http)
        app.add_routes(server.status_routes(ready=lambda: node.problem, metrics=metrics))
        async with server.serving(app, settings.http, name="http", ports=ports):
            await keep(node, settings)


async def keep(node: ContainerdNode, settings: DropInSettings) -> NoReturn:
    """Compare the node again and again. Many nodes wait for one turn: each less often, the longer
    it has waited."""
    random, wait_s = Random(), settings.poll_s  # noqa: S311  (spreads load)
    while True:
        before = node.problem
        await _to_its_end(node)
        longer_s = min(wait_s * 2, settings.wait_most_s)
        wait_s = longer_s if node.problem == before else settings.poll_s
        await asyncio.sleep(wait_s * (1 - random.random() / 2))


async def _to_its_end(node: ContainerdNode) -> None:
    """One step, also if it is cancelled meanwhile: no node is left between two configurations."""
    step = asyncio.create_task(node.step(), name="step")  # noqa: TID251  (awaited in any case)
    try:
        await asyncio.shield(step)
    except asyncio.CancelledError:
        await step
        raise
