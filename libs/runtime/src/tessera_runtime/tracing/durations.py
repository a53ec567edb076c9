"""Durations that are counted with their trace, which is the exemplar of their bucket."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from time import perf_counter

from tessera_runtime.metrics import Histogram
from tessera_runtime.tracing import tracing
from tessera_runtime.tracing.span import Attribute, Span


def observe(seconds: Histogram, value: float, traceparent: str) -> None:
    """Count a duration, with its trace as the exemplar of its bucket if the trace is sampled."""
    if traceparent and (trace := tracing.sampled_trace(traceparent)):
        seconds.observe(value, {"trace_id": trace})
    else:
        seconds.observe(value)


@contextmanager
def timed_span(
    seconds: Histogram, name: str, parent: str = "", **attributes: Attribute | None
) -> Generator[Span]:
    """`tracing.span` around the body, whose time is counted however it ends."""
    with tracing.span(name, parent, **attributes) as span:
        began = perf_counter()
        try:
            yield span
        finally:
            observe(seconds, perf_counter() - began, span.traceparent)
