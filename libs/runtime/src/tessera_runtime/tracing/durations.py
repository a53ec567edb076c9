"""Durations that are counted with their trace, which is the exemplar of their bucket."""

from __future__ import annotations

from contextlib import AbstractContextManager
from time import perf_counter
from types import TracebackType

from tessera_runtime.metrics import Histogram
from tessera_runtime.tracing import tracing
from tessera_runtime.tracing.span import Attribute, Span


def observe(seconds: Histogram, value: float, traceparent: str) -> None:
    """Count a duration, with its trace as the exemplar of its bucket if the trace is sampled."""
    if traceparent and (trace := tracing.sampled_trace(traceparent)):
        seconds.observe(value, {"trace_id": trace})
    else:
        seconds.observe(value)


def timed_span(
    seconds: Histogram, name: str, parent: str = "", **attributes: Attribute | None
) -> AbstractContextManager[Span]:
    """`tracing.span` around the body, whose time is counted however it ends."""
    return _TimedSpan(seconds, tracing.span(name, parent, **attributes))


class _TimedSpan:
    """No generator: that costs more than all else here."""

    __slots__ = ("_around", "_began", "_seconds", "_traceparent")

    def __init__(self, seconds: Histogram, around: AbstractContextManager[Span]) -> None:
        self._seconds, self._around = seconds, around

    def __enter__(self) -> Span:
        span = self._around.__enter__()
        self._traceparent, self._began = span.traceparent, perf_counter()
        return span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:  # fmt: skip
        observe(self._seconds, perf_counter() - self._began, self._traceparent)
        return self._around.__exit__(kind, error, trace)
