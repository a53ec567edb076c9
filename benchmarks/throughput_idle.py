"""An extender that does nothing, for comparison: it names one node in turn, and binds.

It has Tessera's webhook, so pods come as they come to Tessera's scheduler, and the same HTTP server
and client; it reads requests with msgspec. It keeps no books: what it does not do is what is
measured. Settings are the scheduler's own variables.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys

import msgspec
from aiohttp import web

from tessera_core import registry as registries
from tessera_core.quota import NO_LIMITS
from tessera_runtime import http, service
from tessera_runtime.clock import SystemClock
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.metrics import Registry as Metrics
from tessera_scheduler import webhook
from tessera_scheduler.settings import SchedulerSettings
from tessera_scheduler.webhook import open_webhook
from tessera_schema.extender import (
    ExtenderBindingResult,
    ExtenderFilterResult,
    decode_args,
    decode_binding_args,
    decode_names,
    encode_result,
)

NOTE = {"example.com/grant": "x" * 300}


def routes(kube: Kube, metrics: Metrics) -> list[web.RouteDef]:
    """Filter and bind."""
    turn = itertools.count()
    binds = metrics.counter("binds", "Bindings by what became of them", ("outcome",))

    async def filter_(request: web.Request) -> web.Response:
        args = decode_args(await request.read())
        names = decode_names(args.node_names)
        chosen = names[next(turn) % len(names)] if names else ""
        return _json(encode_result(ExtenderFilterResult(node_names=(chosen,) if chosen else ())))

    async def bind(request: web.Request) -> web.Response:
        args = decode_binding_args(await request.read())
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
        return _json(encode_result(ExtenderBindingResult(error=error)))

    return [web.post("/filter", filter_), web.post("/bind", bind)]


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


async def serve(settings: SchedulerSettings) -> None:
    """Answer until cancelled."""
    metrics = Metrics("scheduler")
    registry = await asyncio.to_thread(registries.load)
    async with open_kube(settings.kube, name="idle-extender") as kube:
        extender = http.application(settings.extender)
        extender.add_routes(routes(kube, metrics))
        status = http.application(settings.http)
        status.add_routes(http.status_routes(ready=str, metrics=metrics))
        world = webhook.World(
            kube=kube, namespace=settings.namespace, registry=registry,
            allowance=lambda _: NO_LIMITS, clock=SystemClock(), metrics=metrics,
        )  # fmt: skip
        async with (
            http.serving(extender, settings.extender, name="extender"),
            open_webhook(world, settings.webhook),
            http.serving(status, settings.http, name="http"),
        ):
            await asyncio.Event().wait()


if __name__ == "__main__":
    settings = service.settings_or_exit(SchedulerSettings, os.environ)  # noqa: TID251  (a program)
    sys.exit(service.run(serve, name="idle", settings=settings))
