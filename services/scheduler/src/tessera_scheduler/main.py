"""The scheduler's process: its servers around `open_scheduler`."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from msgspec.structs import replace

from tessera_core.registry.registry import DialectRegistry
from tessera_runtime import dialect_config, logs
from tessera_runtime.bus.client import open_bus
from tessera_runtime.clock import SystemClock
from tessera_runtime.http import server
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.client import open_kube
from tessera_runtime.watchdog import open_watchdog
from tessera_scheduler import visibility, webhook
from tessera_scheduler.explain.explanation import ExplanationSources
from tessera_scheduler.extender.handlers import answers
from tessera_scheduler.http import hami_metrics
from tessera_scheduler.leadership.kube_scheduler_gate import open_gate
from tessera_scheduler.scheduler import Scheduler, open_scheduler
from tessera_scheduler.service_info import listed
from tessera_scheduler.settings import SchedulerDialectsSettings, SchedulerSettings
from tessera_scheduler.volcano_config import scheduler_conf
from tessera_scheduler.webhook import open_webhook

YOUNG: Final = 20_000
"""Objects that are made until the collector looks at the youngest: a few pods make the 700 after
which it does so by itself, and nearly nothing here is garbage in circles."""
_log = logs.named("tessera.scheduler.main")


async def serve(settings: SchedulerSettings) -> None:
    """Answer kube-scheduler, the API server and whoever asks why, until cancelled."""
    settings = replace(settings, instance=settings.instance or socket.gethostname())
    clock = SystemClock()
    ports = server.PortReporter(settings.process.ports_file)
    async with (
        open_kube(settings.kube, name="tessera-scheduler") as kube,
        configured(kube, settings.dialects) as registry,
        open_bus(settings.bus, "scheduler", settings.instance) as bus,
        open_scheduler(kube, bus, settings, clock, registry) as scheduler,
        open_gate(
            kube, settings.namespace, settings.instance, settings.gate, scheduler.leading, clock
        ) as gate,
    ):
        metrics = scheduler.measures.registry
        metrics.of_process()
        blocked = metrics.counter("loop_blocked", "Times that the event loop stood still for 2 s")
        extender = server.application(settings.extender)
        status = server.application(settings.http)
        admits = asyncio.Event()

        def problem() -> str:
            """Also whoever leads is not ready before pods come to him as they must be."""
            return scheduler.leading.problem() or unknown()

        def unknown() -> str:
            return "" if admits.is_set() else "the API server does not know the webhook yet"

        def warming() -> str:
            """Of a replica that stands by, too: it admits pods, and takes over at any moment."""
            books = "" if scheduler.watching.warm else "the books are being read"
            return unknown() or books or (gate.problem() if gate is not None else "")

        status.add_routes(server.status_routes(ready=problem, metrics=metrics))
        status.add_routes([server.verdict_route("/warmz", warming)])
        status.add_routes(hami_metrics.routes(scheduler.ledger))
        world = webhook.WebhookEnvironment(
            kube=kube, namespace=settings.namespace, registry=registry,
            allowance=scheduler.ledger.allowance, clock=clock, metrics=metrics, ports=ports,
        )  # fmt: skip
        books = ExplanationSources(
            registry=registry, ledger=scheduler.ledger, decisions=scheduler.decisions, clock=clock,
            elsewhere=lambda: scheduler.leading.other_than(settings.instance),
        )  # fmt: skip
        shown = visibility.VisibilityEnvironment(
            kube=kube, namespace=settings.namespace, books=books, metrics=metrics, ports=ports
        )
        async with (
            server.serving(
                extender,
                settings.extender,
                name="extender",
                ports=ports,
                answers=answers(scheduler.extender, scheduler.measures),
            ),
            server.serving(status, settings.http, name="http", ports=ports),
            open_webhook(world, settings.webhook),
            visibility.open_visibility(shown, settings.visibility, settings.webhook),
            listed(bus, clock, scheduler, settings.instance),
            open_watchdog(blocked.inc),
        ):
            admits.set()
            await _forever(scheduler)


async def _forever(scheduler: Scheduler) -> None:
    await scheduler.watching.synced()
    gc.collect()
    gc.freeze()  # what the books hold now stays: collections need not walk over it again
    gc.set_threshold(YOUNG, 20, 20)
    await asyncio.Event().wait()


@asynccontextmanager
async def configured(
    kube: Kube, settings: SchedulerDialectsSettings
) -> AsyncGenerator[DialectRegistry]:
    """The dialects as files and the cluster configure them. Raises BadSettings."""
    conf = await scheduler_conf(kube, settings.volcano_conf)
    unsaid = {"volcano": {"scheduler_conf": conf}} if conf else {}
    registry = await asyncio.to_thread(dialect_config.load, settings.file, unsaid)
    for dialect in registry.dialects.values():
        for warning in dialect.warnings:
            _log.warning("not served", dialect=dialect.name, told=warning)
    yield registry
