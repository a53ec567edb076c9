"""Answering requests over NATS, and being listed: `nats service ls`, `info` and `stats` show every
service that does this.

Requests are not stored: while NATS is away nobody can send one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_runtime import logs
from tessera_runtime.background import running_in_background
from tessera_runtime.backoff import Backoff
from tessera_runtime.bus.api import MessageRejected
from tessera_runtime.bus.client import NatsBus
from tessera_runtime.bus.nats_link import NatsLink
from tessera_runtime.bus.request_queue import REQUESTS_MOST_BYTES, Delivery, Inbox
from tessera_runtime.clock import Clock
from tessera_runtime.errors import BusAway, TesseraError
from tessera_schema.version import VERSION

log = logs.named("tessera.bus")
Handler = Callable[[bytes], Awaitable[bytes]]
_TYPE: Final = "io.nats.micro.v1."
_ERROR: Final = "Nats-Service-Error"
_CODE: Final = "Nats-Service-Error-Code"
_encode = msgspec.json.Encoder().encode


class MicroService(Struct, frozen=True, kw_only=True):
    """What NATS shows of a service."""

    name: str
    """`tessera-<service>`."""
    instance: str
    """Which of its processes."""
    version: str = VERSION
    """Semantic version."""
    description: str = ""


class _Endpoint:
    """One endpoint, and how often it was called."""

    def __init__(self, name: str, subject: str, handler: Handler) -> None:
        self.name = name
        self.subject = subject
        self.handler = handler
        self.requests = 0
        self.errors = 0
        self.last_error = ""
        self.busy_ns = 0

    def info(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "queue_group": "q", "metadata": {}}

    def stats(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "subject": self.subject,
            "queue_group": "q",
            "num_requests": self.requests,
            "num_errors": self.errors,
            "last_error": self.last_error,
            "processing_time": self.busy_ns,
            "average_processing_time": self.busy_ns // max(self.requests, 1),
        }


class _Micro:
    """A service on a link."""

    def __init__(
        self, service: MicroService, started: str, endpoints: list[_Endpoint], answer_s: float
    ) -> None:
        self._service = service
        self._started = started
        self._endpoints = endpoints
        self._answer_s = answer_s

    async def serve(self, link: NatsLink) -> None:
        """Answer until the link is lost. Raises BusAway."""
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            for verb in ("PING", "INFO", "STATS"):
                for subject in self._control(verb):
                    inbox = await stack.enter_async_context(_requests(link, subject))
                    group.create_task(self._report(link, inbox, verb), name=f"micro {subject}")
            for endpoint in self._endpoints:
                inbox = await stack.enter_async_context(_requests(link, endpoint.subject, "q"))
                group.create_task(
                    self._answer(link, inbox, endpoint), name=f"micro {endpoint.subject}"
                )

    def _control(self, verb: str) -> tuple[str, str, str]:
        name = self._service.name
        whole = f"$SRV.{verb}"
        return whole, f"{whole}.{name}", f"{whole}.{name}.{self._service.instance}"

    async def _report(self, link: NatsLink, inbox: Inbox, verb: str) -> None:
        while True:
            request = await inbox.get(None)
            if request.reply:
                await link.publish(request.reply, _encode(self._about(verb)))

    def _about(self, verb: str) -> dict[str, Any]:
        service = self._service
        about: dict[str, Any] = {
            "type": f"{_TYPE}{verb.lower()}_response", "name": service.name,
            "id": service.instance, "version": service.version, "metadata": {},
        }  # fmt: skip
        if verb == "INFO":
            about["description"] = service.description
            about["endpoints"] = [endpoint.info() for endpoint in self._endpoints]
        if verb == "STATS":
            about["started"] = self._started
            about["endpoints"] = [endpoint.stats() for endpoint in self._endpoints]
        return about

    async def _answer(self, link: NatsLink, inbox: Inbox, endpoint: _Endpoint) -> None:
        loop = asyncio.get_running_loop()
        while True:
            request = await inbox.get(None)
            began = loop.time()
            data, headers = await self._handle(endpoint, request)
            endpoint.requests += 1
            endpoint.busy_ns += int((loop.time() - began) * 1e9)
            if request.reply:
                await link.publish(request.reply, data, headers=headers)

    async def _handle(self, endpoint: _Endpoint, request: Delivery) -> tuple[bytes, dict[str, str]]:
        try:
            async with asyncio.timeout(self._answer_s):
                return await endpoint.handler(request.data), {}
        except TimeoutError:
            code, why = "504", f"no answer within {self._answer_s} s"
        except (TesseraError, ValueError) as e:
            code, why = "400", str(e)
        endpoint.errors += 1
        endpoint.last_error = why
        return b"", {_ERROR: why, _CODE: code}


def _requests(link: NatsLink, subject: str, queue: str = "") -> AbstractAsyncContextManager[Inbox]:
    return link.subscribe(subject, queue, REQUESTS_MOST_BYTES)


def endpoint_subject(cluster: str, service: str, name: str) -> str:
    """Where a service of a cluster is called."""
    return f"tessera.ask.{cluster}.{service}.{name}"


@asynccontextmanager
async def open_micro(
    bus: NatsBus, clock: Clock, service: MicroService, endpoints: Mapping[str, Handler]
) -> AsyncGenerator[None]:
    """List the service, and answer its endpoints, whenever NATS is there.

    A handler gets the request's data and gives the answer's; a ValueError or TesseraError of it is
    sent to the client. Requests to one endpoint are handled one at a time.
    """
    settings = bus.settings
    short = service.name.removeprefix("tessera-")
    started = datetime.fromtimestamp(clock.time(), UTC).isoformat(timespec="milliseconds")
    micro = _Micro(
        service, started.replace("+00:00", "Z"),
        [
            _Endpoint(name, endpoint_subject(settings.cluster, short, name), handler)
            for name, handler in endpoints.items()
        ],
        settings.call_s,
    )  # fmt: skip

    async def serve() -> None:
        pace = Backoff(settings.retry_first_s, settings.retry_most_s, service.name)
        while True:
            link = await bus.linked()
            try:
                await micro.serve(link)
            except* BusAway:
                await pace.wait()

    async with running_in_background(serve(), "micro"):
        yield


async def request(bus: NatsBus, service: str, name: str, data: bytes = b"") -> bytes:
    """A service's answer. Raises BusAway, and MessageRejected with what the service says."""
    link = await _now(bus)
    answer = await link.request(endpoint_subject(bus.settings.cluster, service, name), data)
    why = answer.headers.get(_ERROR)
    if why is not None:
        raise MessageRejected(f"{service} does not answer {name}: {why}")
    return answer.data


async def _now(bus: NatsBus) -> NatsLink:
    try:
        async with asyncio.timeout(bus.settings.call_s):
            return await bus.linked()
    except TimeoutError as e:
        raise BusAway(f"{bus.settings.server_names}: not connected") from e
