"""A trace collector in small: takes OTLP over HTTP and keeps the spans in memory, for the demo and
for tests that read a trace."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from aiohttp import web
from google.protobuf.message import DecodeError
from msgspec import Struct
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

_PROTOBUF = "application/x-protobuf"
_BODY_BYTES = 16 * 2**20


class Collected(Struct, frozen=True, kw_only=True):
    """One span."""

    trace: str
    id: str
    parent: str
    """Empty for the first of a trace."""
    name: str
    service: str
    process: int
    start_ns: int
    end_ns: int
    attributes: Mapping[str, str]
    failed: bool = False


class Collector:
    """The spans that came, by trace."""

    def __init__(self, url: str) -> None:
        """Made by `open_collector`."""
        self.url = url
        """For OTEL_EXPORTER_OTLP_ENDPOINT."""
        self._traces: dict[str, dict[str, Collected]] = {}

    def trace(self, id_: str) -> list[Collected]:
        """The spans of a trace, oldest first."""
        return sorted(self._traces.get(id_, {}).values(), key=lambda s: (s.start_ns, s.end_ns))

    def add(self, body: bytes) -> None:
        """Take in an export. Raises google.protobuf.message.DecodeError."""
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            about = {a.key: a.value for a in resource.resource.attributes}
            service = about["service.name"].string_value if "service.name" in about else ""
            process = about["process.pid"].int_value if "process.pid" in about else 0
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                made = Collected(
                    trace=span.trace_id.hex(), id=span.span_id.hex(),
                    parent=span.parent_span_id.hex(), name=span.name, service=service,
                    process=process, start_ns=span.start_time_unix_nano,
                    end_ns=span.end_time_unix_nano,
                    attributes={a.key: _text(a.value) for a in span.attributes},
                    failed=span.status.code == span.status.STATUS_CODE_ERROR,
                )  # fmt: skip
                self._traces.setdefault(made.trace, {})[made.id] = made


def _text(value: object) -> str:
    kind = value.WhichOneof("value")  # type: ignore[attr-defined]  # a protobuf oneof has no type
    return str(getattr(value, kind)) if kind else ""


@asynccontextmanager
async def open_collector() -> AsyncGenerator[Collector]:
    """Listen on a free port of 127.0.0.1 while the block lasts."""
    app = web.Application(client_max_size=_BODY_BYTES)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)

    async def take(request: web.Request) -> web.Response:
        try:
            collector.add(await request.read())
        except DecodeError as e:
            return web.Response(status=400, text=f"not an OTLP trace: {e}\n")
        answer = ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=answer, content_type=_PROTOBUF)

    app.router.add_post("/v1/traces", take)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        collector = Collector(f"http://127.0.0.1:{runner.addresses[0][1]}")
        yield collector
    finally:
        await runner.cleanup()
