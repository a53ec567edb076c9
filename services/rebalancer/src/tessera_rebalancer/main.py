"""The rebalancer's process: what `open_rebalancer` needs, and a server for health and metrics."""

from __future__ import annotations

import asyncio

from tessera_rebalancer.rebalancer import RebalancerEnvironment, open_rebalancer
from tessera_rebalancer.service_info import listed
from tessera_rebalancer.settings import RebalancerSettings
from tessera_runtime import dialect_config
from tessera_runtime.bus.client import open_bus
from tessera_runtime.clock import SystemClock
from tessera_runtime.http import server
from tessera_runtime.kube.client import open_kube


async def serve(settings: RebalancerSettings) -> None:
    """Tell hints until cancelled."""
    ports, clock = server.PortReporter(settings.process.ports_file), SystemClock()
    registry = await asyncio.to_thread(dialect_config.load, settings.dialects.file)
    async with (
        open_kube(settings.kube, name="tessera-rebalancer") as kube,
        open_bus(settings.bus, "rebalancer", settings.instance) as bus,
        open_rebalancer(
            RebalancerEnvironment(
                kube=kube, bus=bus, settings=settings, clock=clock, registry=registry
            )
        ) as rebalancer,
    ):
        rebalancer.metrics.of_process()
        app = server.application(settings.http)
        app.add_routes(server.status_routes(ready=rebalancer.problem, metrics=rebalancer.metrics))
        async with (
            server.serving(app, settings.http, name="http", ports=ports),
            listed(bus, clock, rebalancer, settings.instance),
        ):
            await asyncio.Event().wait()
