"""Garbage in cycles goes, and the state that a service holds is not walked over for it: collections
are bounded by the objects that they walk over, which is what their time is made of."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tessera_runtime.garbage import (
    GROWN,
    MIDDLE,
    OLD,
    YOUNG,
    GarbageCollector,
    open_garbage_collector,
)
from tessera_runtime.metrics import MetricsRegistry

STATE = 200_000
MOST = YOUNG * MIDDLE * OLD * 2
"""Objects that one collection may walk over."""


class Thing:
    """Refers to itself on demand."""

    def __init__(self, *, cycle: bool = False) -> None:
        self.itself = self if cycle else None


@pytest.fixture
def garbage() -> Iterator[GarbageCollector]:
    with open_garbage_collector() as opened:
        opened.collect_all()
        yield opened


@contextmanager
def walks() -> Iterator[list[tuple[int, int]]]:
    """Generation of each collection meanwhile, and how many objects it begins with."""
    found: list[tuple[int, int]] = []

    def on_collection(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            oldest = info["generation"] + 1
            walked = sum(len(gc.get_objects(generation)) for generation in range(oldest))
            found.append((info["generation"], walked))

    gc.callbacks.append(on_collection)
    yield found
    gc.callbacks.remove(on_collection)


def test_no_collection_walks_over_a_state_that_grows(garbage: GarbageCollector) -> None:
    with walks() as found:
        state = [Thing() for _ in range(STATE)]
    assert {generation for generation, _ in found} == {0, 1, 2}
    assert max(walked for _, walked in found) <= MOST
    assert len(state) == STATE


def test_a_cycle_that_is_young_goes(garbage: GarbageCollector) -> None:
    gone = weakref.ref(Thing(cycle=True))
    assert gone() is not None
    state = [Thing() for _ in range(2 * YOUNG)]
    assert gone() is None
    assert state


def test_cycles_that_were_frozen_go_once_they_are_many(garbage: GarbageCollector) -> None:
    state = [Thing() for _ in range(4 * MOST)]
    garbage.collect_all()
    base = gc.get_freeze_count()
    cycles = [Thing(cycle=True) for _ in range(int(base * GROWN) + MOST)]
    first = weakref.ref(cycles[0])
    cycles.clear()
    gc.collect()
    garbage.check(busy=True)
    assert first() is not None
    garbage.check()
    assert first() is None
    assert gc.get_freeze_count() <= base * 1.1
    assert state


def test_a_state_that_is_replaced_is_not_walked_over_at_once(garbage: GarbageCollector) -> None:
    state = [Thing() for _ in range(STATE)]
    garbage.collect_all()
    with walks() as found:
        for begin in range(0, STATE, YOUNG):
            state[begin : begin + YOUNG] = [Thing() for _ in range(YOUNG)]
            garbage.tick()
    assert max(walked for _, walked in found) <= MOST


def test_what_came_and_went_is_not_searched_for_garbage(garbage: GarbageCollector) -> None:
    for _ in range(3):
        state = [Thing() for _ in range(STATE)]
        state.clear()
    state = [Thing() for _ in range(YOUNG)]
    with walks() as found:
        garbage.check()
    assert max((walked for _, walked in found), default=0) <= MOST


def test_collections_are_counted_by_generation(garbage: GarbageCollector) -> None:
    metrics = MetricsRegistry("quota")
    garbage.publish(metrics)
    before = _samples(metrics)
    gc.collect(0)
    gc.collect()
    after = _samples(metrics)
    for generation, count in (("0", 1), ("1", 0), ("2", 1)):
        name = f'tessera_quota_gc_pause_seconds_count{{generation="{generation}"}}'
        assert after[name] - before[name] == count
        assert after[name.replace("count{", "bucket{").replace("}", ',le="+Inf"}')] == after[name]
        assert after[name.replace("count", "sum")] >= before[name.replace("count", "sum")]


def test_afterwards_all_is_as_before() -> None:
    before = gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()
    with open_garbage_collector() as garbage:
        garbage.collect_all()
        assert gc.get_threshold() == (YOUNG, MIDDLE, OLD)
        assert gc.get_freeze_count() > 0
    assert (gc.get_threshold(), list(gc.callbacks), gc.get_freeze_count()) == before


def _samples(metrics: MetricsRegistry) -> dict[str, float]:
    lines = metrics.text().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}
