"""Spans recorded with OpenTelemetry; imported only where there is a collector.

Its parts that block (the exporter's connection, the last flush) stay in threads of their own, which
the process does not wait for.
"""

from __future__ import annotations

import asyncio
import os
import threading

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import PROCESS_PID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)
from opentelemetry.trace import Span as Recorded

from tessera_runtime.tracing.span import Attribute, Span


class RecordedSpan(Span):
    """A span that the collector will see, if it is sampled."""

    def __init__(self, span: Recorded) -> None:
        context = span.get_span_context()
        flags = int(context.trace_flags)
        super().__init__(f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}")
        self._span = span

    def set(self, **attributes: Attribute | None) -> None:
        """See `Span.set`."""
        for name, value in attributes.items():
            if value is not None:
                self._span.set_attribute(name.replace("__", "."), value)

    def failed(self, why: str) -> None:
        """Mark it as gone wrong."""
        self._span.set_status(Status(StatusCode.ERROR, why))

    def end(self) -> None:
        """Hand it over for export."""
        self._span.end()


class Recorder:
    """Makes spans, and sends them to `url` unless another exporter is given."""

    def __init__(self, service: str, url: str, exporter: SpanExporter | None) -> None:
        resource = Resource.create()  # reads OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
        if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: f"tessera-{service}"}))
        resource = resource.merge(Resource({PROCESS_PID: os.getpid()}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter or OTLPSpanExporter(endpoint=url))
        )
        self._tracer = self._provider.get_tracer("tessera")

    def start(self, name: str, parent: str) -> RecordedSpan:
        """Begin a span; `parent` is a well-formed traceparent, or empty for a new trace."""
        context = None
        if parent:
            _, trace, span, flags = parent.split("-")[:4]
            above = SpanContext(int(trace, 16), int(span, 16), True, TraceFlags(int(flags, 16)))  # noqa: FBT003  (OpenTelemetry's signature)
            context = set_span_in_context(NonRecordingSpan(above))
        made = self._tracer.start_span(
            name, context=context, record_exception=False, set_status_on_exception=False
        )
        return RecordedSpan(made)

    async def close(self, flush_s: float) -> None:
        """Export what is left, and give up after `flush_s` seconds."""
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def flush() -> None:
            self._provider.shutdown()
            try:
                loop.call_soon_threadsafe(done.set)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

        threading.Thread(target=flush, name="last spans", daemon=True).start()
        try:
            async with asyncio.timeout(flush_s):
                await done.wait()
        except TimeoutError:
            return
