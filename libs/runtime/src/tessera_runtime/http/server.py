"""A service's HTTP servers: health, metrics, and whatever it answers to.

    app = http.application(settings.http)
    app.add_routes(http.status_routes(ready=ledger.problem, metrics=metrics))
    async with http.serving(app, settings.http, name="http", ports=ports) as served:
        ...

There is no access log: the handler reports what a request did. Number, size and time of
requests are bounded for every server (`tessera_runtime.http.connections`). Leaving closes the
listening socket at once, lets open requests end for a bounded time, and then cuts them.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, cast

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from tessera_runtime import atomic_write, logs
from tessera_runtime.errors import BadSettings
from tessera_runtime.http import fast_path, handover
from tessera_runtime.http.connections import ConnectionLimits
from tessera_runtime.http.fair_queue import FairQueue
from tessera_runtime.http.fast_path import STRANGER_BODY_MOST, Answer, BodyLimits
from tessera_runtime.http.tls import Tls
from tessera_runtime.metrics import MetricsRegistry, content_type

log = logs.named("tessera.http")

KEEP_ALIVE_S: Final = 120.0
"""Longer than the idle time of the API server's and kube-scheduler's clients (90 s), so that it is
never we who close a connection on which a request is just coming."""


class HttpSettings(Struct, frozen=True, kw_only=True):
    """One HTTP server."""

    host: str = "127.0.0.1"
    """Address to listen on: this machine, or pod, alone by default."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """TCP port; 0 = any free one, which the log and the ports file then name."""
    body_bytes: Annotated[int, Meta(gt=0)] = 32 * 2**20
    """Largest body taken: kube-scheduler names 5,000 nodes in one request (100 KiB), or sends them
    whole where it is configured to (20 MiB)."""
    backlog: Annotated[int, Meta(gt=0)] = 1024
    """Connections that may wait to be taken, as far as the kernel allows (net.core.somaxconn)."""
    limits: ConnectionLimits = ConnectionLimits()
    """What all connections may cost together."""
    stop_s: Annotated[float, Meta(ge=0)] = 2.0
    """Seconds that open requests have to end when the server stops."""


class HttpServer(Struct, frozen=True):
    """A server that listens."""

    name: str
    host: str
    port: int
    scheme: str = "http"

    @property
    def url(self) -> str:
        """Its base URL, without a slash at the end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


class PortReporter:
    """Writes down which ports the servers got, for the parent process."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._ports: dict[str, int] = {}

    async def report(self, name: str, port: int) -> None:
        """Write `{"<name>": <port>, ...}`, all names so far; a reader sees a whole file."""
        self._ports[name] = port
        if self._file is not None:
            await asyncio.to_thread(
                atomic_write.replace, self._file, msgspec.json.encode(self._ports)
            )


NO_PORTS: Final = PortReporter()
NOTHING: Final[Mapping[str, Answer]] = MappingProxyType({})


def application(settings: HttpSettings) -> web.Application:
    """An application that takes bodies of the size that the settings allow."""
    app = web.Application(client_max_size=settings.body_bytes, middlewares=[handover.as_it_is])
    app.on_response_prepare.append(handover.last_answer)
    return app


def status_routes(
    *, ready: Callable[[], str], metrics: MetricsRegistry, healthy: Callable[[], str] = str
) -> list[web.RouteDef]:
    """`/healthz`, `/readyz` and `/metrics`.

    `ready` and `healthy` give the reason why not, or an empty text; they answer from memory.
    """

    async def scrape(request: web.Request) -> web.StreamResponse:
        kind = content_type(request.headers.get("Accept", ""))
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        for part in metrics.parts(kind):
            await response.write(part)
            await asyncio.sleep(0)
        await response.write_eof()
        return response

    return [
        verdict_route("/healthz", healthy), verdict_route("/readyz", ready),
        web.get("/metrics", scrape),
    ]  # fmt: skip


def verdict_route(path: str, ready: Callable[[], str]) -> web.RouteDef:
    """Another question like `/readyz`."""

    async def answer(_: web.Request) -> web.Response:
        return _verdict(ready())

    return web.get(path, answer)


def _verdict(problem: str) -> web.Response:
    if problem:
        return web.Response(status=503, text=f"{problem}\n")
    return web.Response(text="ok\n")


@asynccontextmanager
async def serving(
    app: web.Application,
    settings: HttpSettings,
    *,
    name: str = "http",
    tls: Tls | None = None,
    ports: PortReporter = NO_PORTS,
    answers: Mapping[str, Answer] = NOTHING,
    patient: bool = False,
) -> AsyncGenerator[HttpServer]:
    """Answer requests until left. Raises BadSettings where the address cannot be had.

    `answers` are of POSTs that come by the hundred in a second (`tessera_runtime.http.fast_path`);
    what is unusual about such a request is the application's to deal with. A `patient` server lets
    what came for others of the process go first.
    """
    line = FairQueue() if patient else None
    app.add_routes(
        [web.post(path, _of_framework(answer, line)) for path, answer in answers.items()]
    )
    runner = web.AppRunner(
        app, access_log=None, keepalive_timeout=KEEP_ALIVE_S, shutdown_timeout=settings.stop_s,
        auto_decompress=False,
    )  # fmt: skip
    await runner.setup()
    try:
        listening = _listen(settings, name)
        async with _accepting(runner, listening, tls, settings, answers, line):
            port = listening.getsockname()[1]
            served = HttpServer(name, settings.host, port, "http" if tls is None else "https")
            log.info("listening", server=name, host=settings.host, port=port)
            await ports.report(name, port)
            yield served
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _accepting(
    runner: web.AppRunner, listening: socket.socket, tls: Tls | None, settings: HttpSettings,
    answers: Mapping[str, Answer], line: FairQueue | None,
) -> AsyncGenerator[None]:  # fmt: skip
    """Take connections, each before the framework sees it."""
    strangers = STRANGER_BODY_MOST if tls is not None and tls.asks_clients else None
    context = tls.context if tls is not None else None
    async with (
        fast_path.connections(
            answers, cast("web.Server", runner.server),
            bodies=BodyLimits(settings.body_bytes, strangers), limits=settings.limits,
            idle_s=KEEP_ALIVE_S, stop_s=settings.stop_s, line=line,
        ) as serving,
        serving.accepting(listening, settings.backlog, context),
    ):  # fmt: skip
        yield


def _of_framework(
    answer: Answer, line: FairQueue | None
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        body = await request.read()
        if line is not None:
            await line.turn()
        reply = await fast_path.replied(answer, body)
        return web.Response(
            body=reply.body, status=reply.status, headers={"Content-Type": reply.kind}
        )

    return handle


def _listen(settings: HttpSettings, name: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if settings.host == "::":
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind((settings.host, settings.port))
    except OSError as e:
        listening.close()
        raise BadSettings(
            f"server {name}: cannot listen on {settings.host!r} port {settings.port}: "
            f"{e.strerror or e}: write an address of this machine and a free port"
        ) from e
    return listening
