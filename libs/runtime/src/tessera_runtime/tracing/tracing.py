"""Traces: where a pod's time went, from its admission to its first call of a card.

    with telemetry.span("tessera.scheduler.filter", parent=traceparent, pod=name) as span:
        span.set(verdict="fits")
        headers["traceparent"] = span.traceparent

What travels between processes is the text of a W3C traceparent, and text that is not one counts as
none. Without a collector in the settings nothing of OpenTelemetry is imported and a span only
passes its parent on, so that a chain is not broken by the services that do not export.

Spans are exported in batches by a thread and dropped when the collector is away; nothing waits for
it, and stopping waits for a bounded time.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Struct

from tessera_runtime.errors import BadSettings
from tessera_runtime.settings import variable
from tessera_runtime.tracing.span import Attribute, Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from tessera_runtime.tracing.otel import Recorder

_TRACEPARENT: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")
_current: ContextVar[str] = ContextVar("tessera_traceparent", default="")


class TelemetrySettings(Struct, frozen=True, kw_only=True):
    """Where traces go: OpenTelemetry's own variables. Its library reads those not named here
    (headers, sampling, certificates, resource attributes) from the environment itself."""

    endpoint: Annotated[str, variable("OTEL_EXPORTER_OTLP_ENDPOINT")] = ""
    """Base URL of a collector that speaks OTLP over HTTP; empty = no traces."""
    traces_endpoint: Annotated[str, variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")] = ""
    """The whole URL where traces go, if it is not `<endpoint>/v1/traces`."""
    protocol: Annotated[str, variable("OTEL_EXPORTER_OTLP_PROTOCOL")] = "http/protobuf"
    """The only protocol that there is here."""
    exporter: Annotated[str, variable("OTEL_TRACES_EXPORTER")] = "otlp"
    """`none` switches traces off."""
    disabled: Annotated[bool, variable("OTEL_SDK_DISABLED")] = False
    """Switches everything off."""
    flush_s: float = 3.0
    """Seconds that stopping waits for the last spans to be taken: a collector needs milliseconds,
    and Kubernetes kills after 30."""

    def check(self) -> None:
        """Raises BadSettings."""
        if self.exporter not in ("otlp", "none"):
            raise BadSettings(f"OTEL_TRACES_EXPORTER: {self.exporter!r}: write otlp or none")
        if self.url and self.protocol != "http/protobuf":
            raise BadSettings(
                f"OTEL_EXPORTER_OTLP_PROTOCOL: {self.protocol!r}: write http/protobuf, and the "
                "collector's HTTP port (4318, usually) in the endpoint"
            )
        if self.url and not self.url.startswith(("http://", "https://")):
            raise BadSettings(
                f"OTEL_EXPORTER_OTLP_ENDPOINT: {self.url!r}: write http://<host>:<port>"
            )

    @property
    def url(self) -> str:
        """Where traces go; empty = nowhere."""
        if self.disabled or self.exporter == "none":
            return ""
        if self.traces_endpoint:
            return self.traces_endpoint
        return self.endpoint and f"{self.endpoint.rstrip('/')}/v1/traces"


class _Recorders:
    """The recorder of this process, while telemetry is open."""

    now: Recorder | None = None


class _UnrecordedSpan(Span):
    """A span around a body while nothing is recorded."""

    def __enter__(self) -> Span:
        self._before = _current.set(self.traceparent)
        return self

    def __exit__(self, *_: object) -> None:
        _current.reset(self._before)


def span(
    name: str, parent: str = "", **attributes: Attribute | None
) -> AbstractContextManager[Span]:
    """A span around the body; an exception marks it as gone wrong.

    Without a `parent`, or with one that makes no sense, it is part of what goes on around it.
    """
    above = parent if parent and well_formed(parent) else _current.get()
    recorder = _Recorders.now
    return (
        _UnrecordedSpan(above) if recorder is None else _recorded(recorder, name, above, attributes)
    )


@contextmanager
def _recorded(
    recorder: Recorder, name: str, above: str, attributes: Mapping[str, Attribute | None]
) -> Generator[Span]:
    made = recorder.start(name, above)
    made.set(**attributes)
    before = _current.set(made.traceparent)
    try:
        yield made
    except Exception as e:
        made.failed(f"{type(e).__name__}: {e}")
        raise
    finally:
        _current.reset(before)
        made.end()


def current_traceparent() -> str:
    """Of the span around the caller; empty when there is no trace."""
    return _current.get()


def sampled_trace(traceparent: str) -> str:
    """The trace's id, 32 hex digits, of a traceparent that is well-formed or empty; empty where
    nobody records the trace."""
    return traceparent[3:35] if traceparent and int(traceparent[53:55], 16) & 1 else ""


def well_formed(traceparent: str) -> bool:
    """True for the text of a W3C traceparent."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None or found[1] == "ff" or (found[1] == "00" and found[4]):
        return False
    return bool(found[2].strip("0")) and bool(found[3].strip("0"))


@asynccontextmanager
async def open_telemetry(
    service: str, settings: TelemetrySettings, *, exporter: SpanExporter | None = None
) -> AsyncGenerator[None]:
    """Record the spans of this process until left: to the collector of the settings, if any, or to
    `exporter`. Raises RuntimeError when it is open already."""
    if exporter is None and not settings.url:
        yield
        return
    if _Recorders.now is not None:
        raise RuntimeError("telemetry is open already")
    recorder = await asyncio.to_thread(_recorder, service, settings.url, exporter)
    _Recorders.now = recorder
    try:
        yield
    finally:
        _Recorders.now = None
        await recorder.close(settings.flush_s)


def _recorder(service: str, url: str, exporter: SpanExporter | None) -> Recorder:
    from tessera_runtime.tracing.otel import Recorder  # here, for its 14 MiB that few need

    return Recorder(service, url, exporter)
