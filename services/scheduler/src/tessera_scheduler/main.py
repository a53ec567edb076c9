"""The scheduler as a process: its servers around `open_scheduler`."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import Final

from msgspec.structs import replace

from tessera_core.registry.registry import DialectRegistry
from tessera_runtime import dialect_config, logs
from tessera_runtime.http import server
from tessera_runtime.kube.api import Kube
from tessera_runtime.service import Service, ServiceEnvironment, ServiceShell
from tessera_runtime.watchdog import open_watchdog
from tessera_scheduler.explain.explanation import Explainer
from tessera_scheduler.extender.handlers import answers
from tessera_scheduler.http import hami_metrics
from tessera_scheduler.leadership.kube_scheduler_gate import open_gate
from tessera_scheduler.scheduler import open_scheduler
from tessera_scheduler.service_info import info
from tessera_scheduler.settings import SchedulerSettings
from tessera_scheduler.visibility import open_visibility
from tessera_scheduler.volcano_config import scheduler_conf
from tessera_scheduler.webhook import open_webhook

_log = logs.named("tessera.scheduler.main")


def instance_of(settings: SchedulerSettings) -> str:
    """This replica's name; the host's where none is set."""
    return settings.instance or socket.gethostname()


async def serve(environment: ServiceEnvironment[SchedulerSettings], shell: ServiceShell) -> None:
    """Answer kube-scheduler, the API server and visibility requests until cancelled."""
    kube, bus, clock = environment.kube, environment.bus, environment.clock
    settings = replace(environment.settings, instance=instance_of(environment.settings))
    registry, ports = environment.registry, shell.ports
    async with (
        open_scheduler(kube, bus, settings, clock, registry) as scheduler,
        open_gate(
            kube, settings.namespace, settings.instance, settings.gate, scheduler.leadership, clock
        ) as gate,
    ):
        metrics = scheduler.metrics.registry
        blocked = metrics.counter("loop_blocked", "Times that the event loop stood still for 2 s")
        extender = server.application(settings.extender)
        admits = asyncio.Event()

        def problem() -> str:
            """The leader, too, is not ready before the API server sends it pods for admission."""
            return scheduler.leadership.problem() or unknown()

        def unknown() -> str:
            return "" if admits.is_set() else "the API server does not know the webhook yet"

        def warming() -> str:
            """Of a replica that stands by, too: it admits pods, and takes over at any moment."""
            ledger = "" if scheduler.watches.warm else "the books are being read"
            return unknown() or ledger or (gate.problem() if gate is not None else "")

        routes = [
            server.verdict_route("/warmz", warming),
            hami_metrics.route(
                scheduler.ledger,
                lambda: not scheduler.leadership.problem(),
                settings.process.revision,
            ),
        ]
        explainer = Explainer(
            registry=registry, ledger=scheduler.ledger, decisions=scheduler.decisions, clock=clock,
            other_leader=lambda: scheduler.leadership.other_than(settings.instance),
            preemption=scheduler.preemption,
            why_gated=scheduler.gangs.why_gated if scheduler.gangs is not None else lambda _: "",
        )  # fmt: skip
        async with (
            server.serving(
                extender,
                settings.extender,
                name="extender",
                ports=ports,
                answers=answers(scheduler.extender, scheduler.metrics),
            ),
            shell.serving(
                ready=problem,
                metrics=metrics,
                info=partial(info, scheduler, settings.instance),
                routes=routes,
            ),
            open_webhook(
                settings.webhook, kube=kube, namespace=settings.namespace, registry=registry,
                allowance=scheduler.ledger.allowance, clock=clock, metrics=metrics, ports=ports,
                whole_gangs=settings.gangs.on, gated=settings.gangs.gates,
                others_wait=lambda: scheduler.gangs is None or scheduler.gangs.others_wait(),
            ),
            open_visibility(
                settings.visibility, settings.webhook, kube=kube, namespace=settings.namespace,
                explainer=explainer, metrics=metrics, ports=ports,
                queues=None if scheduler.gangs is None else scheduler.gangs.queues_led,
            ),
            open_watchdog(blocked.inc),
        ):  # fmt: skip
            admits.set()
            await shell.forever(scheduler.watches.synced(), lambda: scheduler.leadership.leads)


async def configured(kube: Kube, settings: SchedulerSettings) -> DialectRegistry:
    """The dialects as files and the cluster configure them. Raises BadSettings."""
    conf = await scheduler_conf(kube, settings.dialects.volcano_conf)
    unsaid = {"volcano": {"scheduler_conf": conf}} if conf else {}
    registry = await asyncio.to_thread(dialect_config.load, settings.dialects.file, unsaid)
    for dialect in registry.dialects.values():
        for warning in dialect.warnings:
            _log.warning("not served", dialect=dialect.name, told=warning)
    for entry in registry.ignored:
        _log.warning("entry of HAMi's configuration without effect", told=entry)
    return registry


SERVICE: Final = Service(
    name="scheduler",
    settings=SchedulerSettings,
    serve=serve,
    instance=instance_of,
    description="Places pods that ask for shares of accelerators.",
    dialects=configured,
)
