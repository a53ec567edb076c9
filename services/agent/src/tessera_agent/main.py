"""The agent's process: what `open_agent` needs, and a server for health and metrics."""

from __future__ import annotations

import asyncio
import gc

from tessera_agent import gpu_manager_http
from tessera_agent.agent import AgentEnvironment, open_agent
from tessera_agent.service_info import listed
from tessera_agent.settings import AgentSettings
from tessera_runtime import dialect_config
from tessera_runtime.bus.client import open_bus
from tessera_runtime.clock import SystemClock
from tessera_runtime.http import server
from tessera_runtime.kube.client import open_kube


async def serve(settings: AgentSettings) -> None:
    """Look after one vendor's cards on this node until cancelled."""
    ports, clock = server.PortReporter(settings.process.ports_file), SystemClock()
    registry = await asyncio.to_thread(dialect_config.load, settings.dialects.file)
    async with (
        open_kube(settings.kube, name="tessera-agent") as kube,
        open_bus(settings.bus, "agent", f"{settings.node}.{settings.vendor}") as bus,
        open_agent(
            AgentEnvironment(kube=kube, bus=bus, settings=settings, clock=clock, dialects=registry)
        ) as agent,
    ):
        agent.metrics.of_process()
        app = server.application(settings.http)
        app.add_routes(server.status_routes(ready=agent.problem, metrics=agent.metrics))
        app.add_routes(gpu_manager_http.routes(agent, settings))
        async with (
            server.serving(app, settings.http, name="http", ports=ports),
            listed(bus, clock, agent, settings),
        ):
            gc.collect()
            gc.freeze()  # what was imported stays: collections need not walk over it again
            await asyncio.Event().wait()
