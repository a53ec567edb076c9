"""An extender that does nothing, for comparison: it names one node in turn, and binds.

It has Tessera's webhook, so pods come as they come to Tessera's scheduler, and the same HTTP server
and client; it reads requests with msgspec. It keeps no ledger: what it does not do is what is
measured. Settings are the scheduler's own variables.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys

import msgspec

from tessera_core.quota.allowance import NO_LIMITS
from tessera_core.registry import registry as registries
from tessera_runtime import process
from tessera_runtime.clock import SystemClock
from tessera_runtime.errors import TesseraError
from tessera_runtime.http import server
from tessera_runtime.http.fast_path import Answer, Reply
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.metrics import MetricsRegistry as Metrics
from tessera_scheduler.settings import SchedulerSettings
from tessera_scheduler.webhook import open_webhook
from tessera_schema.endpoints.extender import (
    ExtenderBindingResult,
    ExtenderFilterResult,
    decode_args,
    decode_binding_args,
    decode_names,
    encode_result,
)

NOTE = {"example.com/grant": "x" * 300}


def answers(kube: Kube, metrics: Metrics) -> dict[str, Answer]:
    """Filter and bind."""
    turn = itertools.count()
    binds = metrics.counter("binds", "Bindings by what became of them", ("outcome",))

    def filter_(body: bytes) -> Reply:
        args = decode_args(body)
        names = decode_names(args.node_names)
        chosen = names[next(turn) % len(names)] if names else ""
        return Reply(encode_result(ExtenderFilterResult(node_names=(chosen,) if chosen else ())))

    async def bind(asked: bytes) -> Reply:
        args = decode_binding_args(asked)
        name, namespace = args.pod_name, args.pod_namespace
        metadata = {"name": name, "namespace": namespace, "uid": args.pod_uid, "annotations": NOTE}
        target = {"apiVersion": "v1", "kind": "Node", "name": args.node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        error = ""
        try:
            path = paths.pod(namespace, name, "binding")
            await kube.call(Verb.POST, path, body=msgspec.json.encode(body))
        except TesseraError as e:
            error = str(e)
        binds.labels("refused" if error else "bound").inc()
        return Reply(encode_result(ExtenderBindingResult(error=error)))

    return {"/filter": filter_, "/bind": bind}


async def serve(settings: SchedulerSettings) -> None:
    """Answer until cancelled."""
    metrics, ports = Metrics("scheduler"), server.PortReporter(settings.process.ports_file)
    registry = await asyncio.to_thread(registries.load)
    async with open_kube(settings.kube, name="idle-extender") as kube:
        extender = server.application(settings.extender)
        status = server.application(settings.http)
        status.add_routes(server.status_routes(ready=str, metrics=metrics))
        async with (
            server.serving(
                extender,
                settings.extender,
                name="extender",
                ports=ports,
                answers=answers(kube, metrics),
            ),
            open_webhook(
                settings.webhook,
                kube=kube,
                namespace=settings.namespace,
                registry=registry,
                allowance=lambda _: NO_LIMITS,
                clock=SystemClock(),
                metrics=metrics,
                ports=ports,
            ),
            server.serving(status, settings.http, name="http", ports=ports),
        ):
            await asyncio.Event().wait()


if __name__ == "__main__":
    settings = process.settings_or_exit(SchedulerSettings, os.environ)  # noqa: TID251  (a program)
    sys.exit(process.run(serve, name="idle", settings=settings))
