"""The quota monitor's process: what `open_quota` needs, and a server for health and metrics."""

from __future__ import annotations

import asyncio

from tessera_quota.monitor import QuotaEnvironment, open_quota
from tessera_quota.service_info import listed
from tessera_quota.settings import QuotaSettings
from tessera_runtime import dialect_config
from tessera_runtime.bus.client import open_bus
from tessera_runtime.clock import SystemClock
from tessera_runtime.http import server
from tessera_runtime.kube.client import open_kube


async def serve(settings: QuotaSettings) -> None:
    """Judge quotas until cancelled."""
    ports, clock = server.PortReporter(settings.process.ports_file), SystemClock()
    registry = await asyncio.to_thread(dialect_config.load, settings.dialects.file)
    async with (
        open_kube(settings.kube, name="tessera-quota") as kube,
        open_bus(settings.bus, "quota", settings.instance) as bus,
        open_quota(
            QuotaEnvironment(kube=kube, bus=bus, settings=settings, clock=clock, registry=registry)
        ) as quota,
    ):
        quota.metrics.of_process()
        app = server.application(settings.http)
        app.add_routes(server.status_routes(ready=quota.problem, metrics=quota.metrics))
        async with (
            server.serving(app, settings.http, name="http", ports=ports),
            listed(bus, clock, quota, settings.instance),
        ):
            await asyncio.Event().wait()
