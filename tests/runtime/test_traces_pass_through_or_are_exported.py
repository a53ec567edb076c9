import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tessera_runtime.http import server
from tessera_runtime.http.server import HttpSettings
from tessera_runtime.tracing import tracing
from tessera_runtime.tracing.tracing import TelemetrySettings, open_telemetry

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = PARENT[:-2] + "00"
GARBAGE = [
    "",
    "garbage",
    PARENT.upper(),
    PARENT[:-1],
    PARENT + "-more",
    "ff" + PARENT[2:],
    "00-" + "0" * 32 + PARENT[35:],
    PARENT[:36] + "0" * 16 + "-01",
    "00-" + "é" * 32 + PARENT[35:],
    PARENT + "\n",
]
OFF = TelemetrySettings(flush_s=60)


def test_without_a_collector_the_parent_is_passed_on() -> None:
    with tracing.span("a", parent=PARENT, pod="p") as span:
        span.set(verdict="fits")
        span.failed("a reason")
        assert span.traceparent == PARENT
        with tracing.span("b") as below:
            assert below.traceparent == PARENT
    assert tracing.current_traceparent() == ""


@pytest.mark.parametrize("garbage", GARBAGE)
def test_text_that_is_no_traceparent_counts_as_none(garbage: str) -> None:
    with tracing.span("a", parent=garbage) as span:
        assert span.traceparent == ""
        with tracing.span("b", parent=PARENT), tracing.span("c", parent=garbage) as below:
            assert below.traceparent == PARENT


def test_without_a_collector_nothing_is_imported() -> None:
    program = (
        "import sys, asyncio\n"
        "from tessera_runtime import process, http, metrics\n"
        "from tessera_runtime.kube import client, reflector, lease, events\n"
        "from tessera_runtime.tracing import tracing\n"
        "from tessera_runtime.tracing.tracing import TelemetrySettings, open_telemetry\n"
        "async def main():\n"
        "    async with open_telemetry('a', TelemetrySettings()):\n"
        "        with tracing.span('a'): pass\n"
        "asyncio.run(main())\n"
        "print([m for m in ('opentelemetry', 'kubernetes_asyncio', 'nats') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


async def test_spans_are_reported_with_their_parents() -> None:
    reported = InMemorySpanExporter()
    async with open_telemetry("scheduler", OFF, exporter=reported):
        with (
            tracing.span("above", parent=PARENT, pod="ns/p", cards=2, none=None) as above,
            tracing.span("below", tessera__node="n") as below,
        ):
            assert tracing.current_traceparent() == below.traceparent
        assert tracing.current_traceparent() == ""
    spans = {span.name: span for span in reported.get_finished_spans()}
    assert spans["above"].attributes == {"pod": "ns/p", "cards": 2}
    assert spans["below"].attributes == {"tessera.node": "n"}
    assert spans["above"].resource.attributes["service.name"] == "tessera-scheduler"
    trace, parent = PARENT.split("-")[1:3]
    for name, span, over in (("above", above, parent), ("below", below, above.traceparent[36:52])):
        context = spans[name].context
        assert span.traceparent == f"00-{trace}-{context.span_id:016x}-01"
        assert f"{spans[name].parent.span_id:016x}" == over  # type: ignore[union-attr]


async def test_garbage_begins_a_new_trace() -> None:
    reported = InMemorySpanExporter()
    async with open_telemetry("a", OFF, exporter=reported):
        for garbage in GARBAGE:
            with tracing.span("a", parent=garbage) as span:
                assert tracing.well_formed(span.traceparent)
    assert all(span.parent is None for span in reported.get_finished_spans())


async def test_a_trace_that_is_not_sampled_goes_on_unsampled() -> None:
    reported = InMemorySpanExporter()
    async with open_telemetry("a", OFF, exporter=reported):
        with tracing.span("a", parent=UNSAMPLED) as span:
            assert span.traceparent.startswith(UNSAMPLED[:36])
            assert span.traceparent.endswith("-00")
    assert reported.get_finished_spans() == ()


async def test_an_exception_marks_its_span_and_goes_on() -> None:
    reported = InMemorySpanExporter()
    async with open_telemetry("a", OFF, exporter=reported):
        with pytest.raises(KeyError), tracing.span("a"):
            raise KeyError("k")
    [span] = reported.get_finished_spans()
    assert span.status.description == "KeyError: 'k'"


async def test_tasks_at_the_same_time_do_not_mix() -> None:
    reported = InMemorySpanExporter()

    async def one(number: int) -> tuple[str, str]:
        with tracing.span(f"{number}") as above:
            await asyncio.sleep(0)
            with tracing.span(f"{number}b") as below:
                await asyncio.sleep(0)
                return above.traceparent, below.traceparent

    async with open_telemetry("a", OFF, exporter=reported), asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(n), name=f"{n}") for n in range(10)]
    traces = {above.split("-")[1] for above, _ in (task.result() for task in tasks)}
    assert len(traces) == 10
    assert all(above.split("-")[1] == below.split("-")[1] for above, below in map(result, tasks))


def result(task: "asyncio.Task[tuple[str, str]]") -> tuple[str, str]:
    return task.result()


async def test_ending_does_not_wait_for_a_collector_that_hangs() -> None:
    free = threading.Event()

    class Hangs(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            free.wait()
            return SpanExportResult.SUCCESS

    async with asyncio.timeout(60):
        async with open_telemetry("a", TelemetrySettings(flush_s=0.1), exporter=Hangs()):
            with tracing.span("a"):
                pass
    free.set()


async def test_a_collector_gets_protobuf_over_http() -> None:
    got: list[ExportTraceServiceRequest] = []

    async def take(request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        got.append(ExportTraceServiceRequest.FromString(await request.read()))
        return web.Response()

    app = server.application(HttpSettings())
    app.router.add_post("/v1/traces", take)
    async with (
        server.serving(app, HttpSettings()) as collector,
        open_telemetry("agent", TelemetrySettings(endpoint=collector.url + "/", flush_s=60)),
    ):
        with tracing.span("tessera.agent.prepare", parent=PARENT):
            pass
    [spans] = [scope.spans for one in got[0].resource_spans for scope in one.scope_spans]
    assert spans[0].name == "tessera.agent.prepare"
    assert spans[0].trace_id.hex() == PARENT[3:35]


async def test_it_is_opened_once() -> None:
    async with open_telemetry("a", OFF, exporter=InMemorySpanExporter()):
        with pytest.raises(RuntimeError, match="open already"):
            async with open_telemetry("b", OFF, exporter=InMemorySpanExporter()):
                pass
