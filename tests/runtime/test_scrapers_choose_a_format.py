"""Metrics in the two formats that Prometheus reads, and the traces that one of them names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import aiohttp
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import parser
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as open_metrics_parser
from prometheus_client.samples import Sample

from tessera_runtime.http.server import HttpSettings, application, serving, status_routes
from tessera_runtime.metrics import (
    CONTENT_TYPE,
    OPEN_METRICS,
    GaugeOfMany,
    MetricsRegistry,
    content_type,
)
from tessera_runtime.tracing import tracing
from tessera_runtime.tracing.durations import observe, timed_span
from tessera_runtime.tracing.tracing import TelemetrySettings, open_telemetry

TRACE = "0af7651916cd43dd8448eb211c80319c"
SAMPLED = f"00-{TRACE}-b7ad6b7169203331-01"
UNSAMPLED = f"00-{TRACE}-b7ad6b7169203331-00"
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;"
    "escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
"""What Prometheus 3 sends; its releases before send the same without `escaping`."""


def a_registry() -> MetricsRegistry:
    """One family of each kind."""
    metrics = MetricsRegistry("test")
    metrics.counter("binds_total", "Bindings.", ("outcome",)).labels("bound").inc(3)
    metrics.gauge(".container_gpu_memory_total", "Under a name of others.").set(7)
    metrics.histogram("bind_seconds", "From call to outcome.", ("verb",)).labels("bind")
    return metrics


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        pytest.param(PROMETHEUS, OPEN_METRICS, id="prometheus-3"),
        pytest.param(PROMETHEUS.replace(";escaping=allow-utf-8", ""), OPEN_METRICS, id="before"),
        pytest.param("application/openmetrics-text", OPEN_METRICS, id="no-version"),
        pytest.param("text/plain;version=0.0.4", CONTENT_TYPE, id="plain"),
        pytest.param("text/plain; version=1.0.0, */*", CONTENT_TYPE, id="plain-1.0.0"),
        pytest.param("application/vnd.google.protobuf;q=0.7, */*;q=0.1", CONTENT_TYPE, id="other"),
        pytest.param("*/*", CONTENT_TYPE, id="any"),
        pytest.param("", CONTENT_TYPE, id="none"),
    ],
)
async def test_the_scrapers_header_decides(accept: str, kind: str) -> None:
    settings = HttpSettings()
    app = application(settings)
    app.add_routes(status_routes(ready=str, metrics=a_registry()))
    async with (
        serving(app, settings) as served,
        aiohttp.ClientSession() as session,
        session.get(f"{served.url}/metrics", headers={"Accept": accept}) as answer,
    ):
        assert answer.headers["Content-Type"] == kind
        assert (await answer.text()).endswith("# EOF\n") == (kind == OPEN_METRICS)


def test_both_formats_have_the_same_series() -> None:
    registry = a_registry()
    registry.of_process()
    plain = parser.text_string_to_metric_families(registry.text().decode())
    opened = set(map(_series, _samples(open_metrics(registry))))
    assert opened == set(map(_series, _samples(plain)))
    assert ("tessera_test_binds_total", (("outcome", "bound"),)) in opened


def test_a_gauge_of_many_is_written_in_parts_and_as_any_other() -> None:
    registry = a_registry()
    names = [f'n"{number}\\' for number in range(2000)]
    registry.collect_many(
        lambda: [GaugeOfMany("tessera_test_many", "Many.", ("node",), (((n,), 1.5) for n in names))]
    )
    assert len(list(registry.parts(CONTENT_TYPE))) > 4
    (many,) = (one for one in open_metrics(registry) if one.name == "tessera_test_many")
    assert (many.type, many.documentation) == ("gauge", "Many.")
    assert [(s.labels["node"], s.value) for s in many.samples] == [(name, 1.5) for name in names]
    plain = parser.text_string_to_metric_families(registry.text().decode())
    assert [len(one.samples) for one in plain if one.name == "tessera_test_many"] == [2000]


def test_counters_end_in_total_and_durations_in_their_unit() -> None:
    families = {family.name: family for family in open_metrics(a_registry())}
    assert families["tessera_test_binds"].type == "counter"
    assert families["tessera_test_bind_seconds"].type == "histogram"
    for family in families.values():
        names = {s.name.removeprefix(family.name) for s in family.samples}
        if family.type == "counter":
            assert names <= {"_total", "_created"}, family.name


def test_a_bucket_names_a_trace_that_is_recorded() -> None:
    registry = MetricsRegistry("test")
    seconds = registry.histogram("bind_seconds", "From call to outcome.", buckets=(0.1, 1.0))
    observe(seconds, 0.05, UNSAMPLED)
    observe(seconds, 0.05, "")
    assert traces(registry) == {}
    observe(seconds, 0.5, SAMPLED)
    assert traces(registry) == {"1.0": (TRACE, 0.5)}
    assert "trace_id" not in registry.text().decode()


async def test_the_time_of_a_span_is_counted_with_its_trace() -> None:
    registry = MetricsRegistry("test")
    seconds = registry.histogram("bind_seconds", "From call to outcome.", buckets=(60.0,))
    recorded = InMemorySpanExporter()
    async with open_telemetry("test", TelemetrySettings(), exporter=recorded):
        with timed_span(seconds, "bind", pod="p") as span:
            pass
    assert {trace for trace, _ in traces(registry).values()} == {span.traceparent.split("-")[1]}
    (found,) = recorded.get_finished_spans()
    assert found.name == "bind"
    assert found.attributes == {"pod": "p"}
    with pytest.raises(KeyError), timed_span(seconds, "bind"):
        raise KeyError
    assert "tessera_test_bind_seconds_count 2.0" in registry.text().decode()
    assert tracing.current_traceparent() == ""


def open_metrics(registry: MetricsRegistry) -> list[Metric]:
    """The families, as a strict reader of OpenMetrics finds them."""
    text = b"".join(registry.parts(content_type(PROMETHEUS)))
    read = open_metrics_parser.text_string_to_metric_families
    return list(read(text.decode()))  # type: ignore[no-untyped-call]


def traces(registry: MetricsRegistry) -> dict[str, tuple[str, float]]:
    """Bucket -> the trace that it names, and its duration."""
    return {
        s.labels["le"]: (s.exemplar.labels["trace_id"], s.exemplar.value)
        for s in _samples(open_metrics(registry))
        if s.exemplar is not None
    }


def _samples(families: Iterable[Metric]) -> Iterator[Sample]:
    for family in families:
        yield from family.samples


def _series(sample: Sample) -> tuple[str, tuple[tuple[str, str], ...]]:
    return sample.name, tuple(sorted(sample.labels.items()))
