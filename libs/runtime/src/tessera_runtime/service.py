"""One service of Tessera: what is the same in all of them is opened here, once.

    SERVICE = Service(
        name="quota", settings=QuotaSettings, serve=serve, instance=attrgetter("instance"),
        description="Reports what namespaces use of their quotas.",
    )

    async def serve(environment: ServiceEnvironment[QuotaSettings], shell: ServiceShell) -> None:
        async with (
            open_quota(environment) as quota,
            shell.serving(ready=quota.problem, metrics=quota.metrics, info=lambda: info(quota)),
        ):
            await shell.forever()

    sys.exit(run_service(SERVICE, os.environ, sys.argv[1:]))

Opened in this order: the Kubernetes client, the dialects, the bus, what the service itself opens,
the server of health and metrics, the listing on NATS. Nothing depends on the listing.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, Generic, NoReturn, TypeVar

import msgspec
from aiohttp import web
from msgspec import Struct

from tessera_core.registry.registry import DialectRegistry
from tessera_runtime import dialect_config, process
from tessera_runtime.build import add_build_info
from tessera_runtime.bus.api import Bus
from tessera_runtime.bus.client import NatsBus, open_bus
from tessera_runtime.bus.micro_service import MicroService, open_micro
from tessera_runtime.bus.outbox import Outbox, open_outbox
from tessera_runtime.clock import Clock, SystemClock
from tessera_runtime.garbage import TICK_S, GarbageCollector, open_garbage_collector
from tessera_runtime.http import profile, server
from tessera_runtime.http.profile import ProfileSettings
from tessera_runtime.http.server import HttpSettings, PortReporter
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.events import EventRecorder, open_events
from tessera_runtime.metrics import MetricsRegistry
from tessera_runtime.service_settings import ServiceSettings
from tessera_schema.subjects import token
from tessera_schema.version import VERSION

_encode: Final = msgspec.json.Encoder().encode

S = TypeVar("S", bound=ServiceSettings)


class ServiceEnvironment(Struct, Generic[S], frozen=True, kw_only=True):
    """What a service stands on. Tests put doubles in."""

    kube: Kube
    bus: Bus
    settings: S
    clock: Clock
    registry: DialectRegistry


async def dialects_of_file(_: Kube, settings: ServiceSettings) -> DialectRegistry:
    """The dialects as their file configures them. Raises BadSettings."""
    return await asyncio.to_thread(dialect_config.load, settings.dialects.file)


@asynccontextmanager
async def open_publishers(
    environment: ServiceEnvironment[S], name: str, instance: str
) -> AsyncGenerator[tuple[Outbox, EventRecorder]]:
    """Where a service publishes: the bus, and the Kubernetes Events of the objects concerned."""
    settings = environment.settings
    async with (
        open_outbox(
            environment.bus, environment.clock, name, instance, settings=settings.outbox
        ) as outbox,
        open_events(
            environment.kube,
            settings.events,
            component=f"tessera-{name}",
            clock=environment.clock,
        ) as events,
    ):
        yield outbox, events


class Service(Struct, Generic[S], frozen=True, kw_only=True):
    """What one service is."""

    name: str
    """Without `tessera-`: directory, client name, subject and metrics prefix."""
    settings: type[S]
    serve: Callable[[ServiceEnvironment[S], ServiceShell], Coroutine[object, object, None]]
    """Opens the service and runs until cancelled."""
    instance: Callable[[S], str]
    """This process's name in messages; another one for each process of the service."""
    description: str
    """A sentence for `nats service ls`."""
    dialects: Callable[[Kube, S], Awaitable[DialectRegistry]] = dialects_of_file


class ServiceShell:
    """The status server and the listing on NATS of one process, and its garbage."""

    def __init__(
        self, bus: NatsBus, clock: Clock, http: HttpSettings, ports: PortReporter,
        listing: MicroService, revision: str, profiling: ProfileSettings, garbage: GarbageCollector,
    ) -> None:  # fmt: skip
        """`revision` is the program's commit, empty where it is not known."""
        self.ports = ports
        self._revision = revision
        self._profiling = profiling
        self._bus = bus
        self._clock = clock
        self._http = http
        self._listing = listing
        self._garbage = garbage

    @asynccontextmanager
    async def serving(
        self,
        *,
        ready: Callable[[], str],
        metrics: MetricsRegistry,
        info: Callable[[], Struct],
        routes: Iterable[web.RouteDef] = (),
        endpoint: str = "",
    ) -> AsyncGenerator[None]:
        """Serve `/healthz`, `/readyz`, `/metrics`, `/debug/profile` and `routes`, and be listed on
        NATS with an endpoint `info`, until left. Raises BadSettings where the address cannot be
        had.

        `ready` gives the reason why not, or an empty text. Processes that do not stand for each
        other name an `endpoint` of their own: any one of them would answer a common subject.
        """

        async def answer(_: bytes) -> bytes:
            return _encode(info())

        metrics.of_process()
        add_build_info(metrics, self._listing.name, self._revision)
        self._garbage.publish(metrics)
        app = server.application(self._http)
        app.add_routes(server.status_routes(ready=ready, metrics=metrics))
        app.add_routes([profile.route(self._profiling), *routes])
        listing, name = self._listing, "info"
        if endpoint:
            listing, name = msgspec.structs.replace(listing, instance=endpoint), f"info-{endpoint}"
        async with (
            server.serving(app, self._http, name="http", ports=self.ports),
            open_micro(self._bus, self._clock, listing, {name: answer}),
        ):
            yield

    async def forever(
        self, read: Awaitable[object] | None = None, busy: Callable[[], bool] = lambda: False, *,
        collect_s: float = TICK_S,
    ) -> NoReturn:  # fmt: skip
        """Wait until cancelled. What was imported and opened, and `read` of the cluster, is then
        out of the garbage collector's way. While the service is `busy` it stops for garbage only
        if there may be much. `collect_s`: seconds between two collections by time."""
        if read is not None:
            await read
        self._garbage.collect_all()
        while True:
            await asyncio.sleep(collect_s)
            self._garbage.tick(busy=busy())


def run_service(
    service: Service[S], environ: Mapping[str, str], arguments: Sequence[str] = ()
) -> int:
    """Run a service until the process is asked to end. Returns the exit status of
    `tessera_runtime.process`; ends the process at once where the settings make no sense, and
    where `arguments` ask for `--version`."""
    name = f"tessera-{service.name}"
    parser = argparse.ArgumentParser(prog=name, description=service.description)
    parser.add_argument("--version", action="version", version=f"{name} {VERSION}")
    parser.parse_args(arguments)
    settings = process.settings_or_exit(service.settings, environ)
    return process.run(partial(serve, service), name=service.name, settings=settings)


async def serve(service: Service[S], settings: S) -> None:
    """Open what every service stands on, and run the service until cancelled."""
    clock, full_name = SystemClock(), f"tessera-{service.name}"
    instance = service.instance(settings)
    with open_garbage_collector() as garbage:
        async with open_kube(settings.kube, name=full_name) as kube:
            registry = await service.dialects(kube, settings)
            async with open_bus(settings.bus, service.name, instance) as bus:
                environment = ServiceEnvironment(
                    kube=kube, bus=bus, settings=settings, clock=clock, registry=registry
                )
                listing = MicroService(
                    name=full_name, instance=token(instance), description=service.description
                )
                ports = PortReporter(settings.process.ports_file)
                shell = ServiceShell(
                    bus, clock, settings.http, ports, listing, settings.process.revision,
                    settings.profile, garbage,
                )  # fmt: skip
                await service.serve(environment, shell)
