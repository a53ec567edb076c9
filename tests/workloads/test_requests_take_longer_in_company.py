"""The proxy of latency: in times of a request's own work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.workloads_latency import MOST, LatencyHistogram, latencies

ROOM = np.array([100.0])


def latency(*wants: float, limit: float = 100.0) -> float:
    """Of the first."""
    column = np.array([[*wants]])
    limits = np.full_like(column, 100.0)
    limits[0, 0] = limit
    return float(latencies(column, limits, ROOM, column < 0)[0, 0])


def test_alone_a_request_waits_for_those_before_it() -> None:
    assert latency(0.001) == pytest.approx(1, abs=0.01)
    assert latency(50, 0) == pytest.approx(2)
    assert latency(90, 0) == pytest.approx(10)


def test_next_to_one_that_wants_all_its_own_work_takes_twice_as_long() -> None:
    assert latency(0.001, 100) == pytest.approx(2, abs=0.01)
    assert latency(25, 100) == pytest.approx(4, abs=0.05)


def test_a_service_that_gets_less_than_it_needs_is_as_slow_as_is_counted() -> None:
    assert latency(60, 100) == MOST
    assert latency(60, 0, limit=50) == MOST


def test_a_limit_makes_its_requests_queue() -> None:
    assert latency(25, 0, limit=50) == pytest.approx(2)


@given(st.floats(1, 99), st.floats(0, 99), st.floats(0, 1))
def test_more_company_is_never_faster(own: float, other: float, more: float) -> None:
    assert 1 <= latency(own, other) <= latency(own, other + more) * 1.001


def test_services_count_alike_however_many_requests_they_have() -> None:
    counts = LatencyHistogram()
    wants, limits = np.array([[10.0, 0.0], [30.0, 100.0]]), np.full((2, 2), 100.0)
    serving = np.array([[True, False], [True, False]])
    assert counts.percentile(95) == counts.slow_percent() == 0
    counts.count(wants, limits, np.full(2, 100.0), serving)
    assert counts.slow_percent() == pytest.approx(50)
    assert counts.percentile(50) == pytest.approx(1 / 0.9, rel=0.03)
    assert counts.percentile(95) == pytest.approx(1 / (0.5 - 0.3), rel=0.03)
