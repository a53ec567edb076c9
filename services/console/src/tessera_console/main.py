"""The console as a process.

It is not listed on NATS, as the other services are: it connects as the user `viewer`, who only
reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from operator import attrgetter
from typing import Final

from msgspec import Struct

from tessera_console import metrics
from tessera_console.assets import read_assets
from tessera_console.caller_api import KubeOfCaller, open_callers
from tessera_console.cluster import ConsoleCluster, open_cluster
from tessera_console.handlers import ConsoleHandlers
from tessera_console.rights import Rights
from tessera_console.settings import ConsoleSettings
from tessera_runtime.build import add_build_info
from tessera_runtime.http import profile, server
from tessera_runtime.http.server import NO_PORTS, HttpServer, PortReporter
from tessera_runtime.metrics import MetricsRegistry
from tessera_runtime.service import Service, ServiceEnvironment, ServiceShell


class RunningConsole(Struct, frozen=True):
    """A console that answers."""

    served: HttpServer
    cluster: ConsoleCluster


@asynccontextmanager
async def open_console(
    environment: ServiceEnvironment[ConsoleSettings],
    kube_of: KubeOfCaller,
    ports: PortReporter = NO_PORTS,
) -> AsyncGenerator[RunningConsole]:
    """A console that answers until left. Raises BadSettings."""
    settings = environment.settings
    async with open_cluster(environment) as cluster:
        rights = Rights(environment.kube, settings.rights, cluster.namespaces)
        assets = await asyncio.to_thread(read_assets)
        handlers = ConsoleHandlers(cluster, rights, kube_of, assets, settings, environment.clock)
        registry = MetricsRegistry("console")
        metrics.register(registry, cluster, handlers, rights)
        registry.of_process()
        add_build_info(registry, "tessera-console", settings.process.revision)
        app = server.application(settings.http)
        app.add_routes(server.status_routes(ready=cluster.problem, metrics=registry))
        app.add_routes([profile.route(settings.profile), *handlers.routes()])
        async with server.serving(app, settings.http, name="http", ports=ports) as served:
            yield RunningConsole(served, cluster)


async def serve(environment: ServiceEnvironment[ConsoleSettings], shell: ServiceShell) -> None:
    """Serve the page until cancelled."""
    settings = environment.settings
    async with (
        open_callers(settings.kube, environment.kube) as kube_of,
        open_console(environment, kube_of, shell.ports),
    ):
        await shell.forever()


SERVICE: Final = Service(
    name="console",
    settings=ConsoleSettings,
    serve=serve,
    instance=attrgetter("instance"),
    description="Shows people who holds and uses which card, and why pods wait.",
)
