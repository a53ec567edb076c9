"""The scheduler's process: its servers around `open_scheduler`."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tessera_core import registry as registries
from tessera_core.registry import BadConfiguration, Registry
from tessera_runtime import http
from tessera_runtime.bus.client import open_bus
from tessera_runtime.clock import SystemClock
from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.client import open_kube
from tessera_scheduler import webhook
from tessera_scheduler.explaining import Explainer
from tessera_scheduler.explanations import Books
from tessera_scheduler.extender import routes
from tessera_scheduler.listing import listed
from tessera_scheduler.scheduler import Scheduler, open_scheduler
from tessera_scheduler.settings import SchedulerSettings
from tessera_scheduler.webhook import open_webhook


async def serve(settings: SchedulerSettings) -> None:
    """Answer kube-scheduler, the API server and whoever asks why, until cancelled."""
    settings = replace(settings, instance=settings.instance or socket.gethostname())
    clock = SystemClock()
    registry = await asyncio.to_thread(dialects, settings.dialects.file)
    ports = http.Ports(settings.process.ports_file)
    async with (
        open_kube(settings.kube, name="tessera-scheduler") as kube,
        open_bus(settings.bus, "scheduler", settings.instance) as bus,
        open_scheduler(kube, bus, settings, clock, registry) as scheduler,
    ):
        metrics = scheduler.measures.registry
        metrics.of_process()
        extender = http.application(settings.extender)
        extender.add_routes(routes(scheduler.extender, scheduler.measures))
        status = http.application(settings.http)
        status.add_routes(http.status_routes(ready=scheduler.leading.problem, metrics=metrics))
        world = webhook.World(
            kube=kube, namespace=settings.namespace, registry=registry,
            allowance=scheduler.ledger.allowance, clock=clock, metrics=metrics, ports=ports,
        )  # fmt: skip
        books = Books(
            registry=registry, ledger=scheduler.ledger, decisions=scheduler.decisions, clock=clock
        )
        explainer = Explainer(kube, books, settings.explain, metrics)
        async with (
            http.serving(extender, settings.extender, name="extender", ports=ports),
            http.serving(status, settings.http, name="http", ports=ports),
            open_webhook(world, settings.webhook, explainer.routes()),
            listed(bus, clock, scheduler, settings.instance),
        ):
            await _forever(scheduler)


async def _forever(scheduler: Scheduler) -> None:
    await scheduler.watching.synced()
    gc.collect()
    gc.freeze()  # what the books hold now stays: collections need not walk over it again
    await asyncio.Event().wait()


def dialects(file: Path | None) -> Registry:
    """The dialects as configured. Raises BadSettings."""
    config: Mapping[str, Mapping[str, Any]] = {}
    try:
        if file is not None:
            config = msgspec.yaml.decode(file.read_bytes(), type=dict[str, dict[str, Any]])
        return registries.load(config)
    except OSError as e:
        raise BadSettings(f"dialects.file: {file}: {e.strerror}: name a file to read") from e
    except (msgspec.DecodeError, BadConfiguration, ImportError) as e:
        raise BadSettings(f"dialects.file: {file}: {e}") from e
