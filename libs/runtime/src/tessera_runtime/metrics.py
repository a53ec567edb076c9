"""Metrics: one registry for each service, in the text that Prometheus scrapes.

    metrics = Registry("scheduler")
    binds = metrics.counter("binds", "Bindings by outcome.", ("outcome",))
    binds.labels("bound").inc()

Names become `tessera_<service>_<name>`; one that begins with a dot is taken as it stands, for names
that the field settled before us. The library's global registry is not used, so that tests, and
several services in one process, do not meet in it.

A scraper that asks for OpenMetrics gets it. There, buckets of durations name a trace that fell into
them (`tessera_runtime.tracing.durations`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.openmetrics import exposition as open_metrics
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

__all__ = [
    "CONTENT_TYPE",
    "SECONDS",
    "Counter",
    "CounterMetricFamily",
    "Gauge",
    "GaugeMetricFamily",
    "GaugeOfMany",
    "Histogram",
    "HistogramMetricFamily",
    "Metric",
    "MetricsRegistry",
]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_END: Final = b"# EOF\n"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Buckets of a duration, from an answer out of memory to a call that timed out."""


_AT_ONCE: Final = 500
"""Samples of a `GaugeOfMany` in one part: less than a millisecond."""


class GaugeOfMany(Struct, frozen=True):
    """A gauge with so many samples that others on the loop must run while they are written: one of
    each card of a cluster."""

    name: str
    """As it is published."""
    what: str
    labels: tuple[str, ...]
    samples: Iterable[tuple[tuple[str, ...], float]]
    """Values of the labels, and the number; not changed while they are read."""

    def parts(self) -> Iterator[str]:
        """Its text, in parts that each take less than a millisecond."""
        lines = [f"# HELP {self.name} {self.what}\n# TYPE {self.name} gauge\n"]
        for values, number in self.samples:
            pairs = zip(self.labels, values, strict=True)
            labels = ",".join([f'{name}="{_escaped(value)}"' for name, value in pairs])
            lines.append(f"{self.name}{{{labels}}} {float(number)!r}\n")
            if len(lines) >= _AT_ONCE:
                yield "".join(lines)
                lines = []
        yield "".join(lines)


def _escaped(value: str) -> str:
    if "\\" not in value and '"' not in value and "\n" not in value:
        return value
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class MetricsRegistry:
    """The metrics of one service."""

    def __init__(self, service: str) -> None:
        self._prefix = f"tessera_{service}_"
        self._registry = CollectorRegistry(auto_describe=False)
        self._many: list[Callable[[], Iterable[GaugeOfMany]]] = []

    def counter(self, name: str, what: str, labels: Sequence[str] = ()) -> Counter:
        """Something that only grows; `_total` is added to the name."""
        return Counter(self.full(name), what, labels, registry=self._registry)

    def gauge(self, name: str, what: str, labels: Sequence[str] = ()) -> Gauge:
        """Something that goes up and down; `set_function` reads it when it is scraped."""
        return Gauge(self.full(name), what, labels, registry=self._registry)

    def histogram(
        self,
        name: str,
        what: str,
        labels: Sequence[str] = (),
        buckets: Sequence[float] = SECONDS,
    ) -> Histogram:
        """A distribution; name it with its unit, such as `bind_seconds`."""
        return Histogram(self.full(name), what, labels, buckets=buckets, registry=self._registry)

    def collect(self, read: Callable[[], Iterable[Metric]]) -> None:
        """Metrics that are computed when they are scraped, such as one per card: `read` gives
        GaugeMetricFamily and the like, whose names it makes with `full`."""
        self._registry.register(_Read(read))

    def collect_many(self, read: Callable[[], Iterable[GaugeOfMany]]) -> None:
        """The same for those that have too many samples to be written at once."""
        self._many.append(read)

    def full(self, name: str) -> str:
        """The name as it is published."""
        return name[1:] if name.startswith(".") else self._prefix + name

    def of_process(self) -> None:
        """Adds memory, CPU time, open files, collections of garbage and the version of Python, by
        their usual names."""
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def text(self) -> bytes:
        """All of it as Prometheus reads it, of `CONTENT_TYPE`."""
        return b"".join(self.parts(CONTENT_TYPE))

    def parts(self, kind: str) -> Iterator[bytes]:
        """All of it in this of the two content types; others may run before the next part."""
        many = [gauge for read in self._many for gauge in read()]
        if kind == CONTENT_TYPE:
            yield generate_latest(self._registry)
        else:
            # Names here need no escapes; other ways of escaping check each letter of each line.
            text: bytes = open_metrics.generate_latest(self._registry, open_metrics.ALLOWUTF8)  # type: ignore[no-untyped-call]
            yield text.removesuffix(_END)
        for gauge in many:
            for part in gauge.parts():
                yield part.encode()
        if kind != CONTENT_TYPE:
            yield _END


def content_type(accept: str) -> str:
    """What a scraper that sends this Accept header gets: OpenMetrics where it names that, else the
    older text."""
    _, kind = choose_encoder(accept)
    older = kind.partition(";")[0] != OPEN_METRICS.partition(";")[0]
    return CONTENT_TYPE if older else OPEN_METRICS


class _Read(Collector):
    def __init__(self, read: Callable[[], Iterable[Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterable[Metric]:
        return self._read()
