"""Garbage in cycles is found without stopping a service that holds a large state.

    with open_garbage_collector() as garbage:
        ...                      # what the service holds of the cluster is read
        garbage.collect_all()
        ...                      # every second
        garbage.tick()

Most objects go when nothing refers to them any more. Python's collector is for those that refer to
each other in a cycle, and stops the process for as long as it walks over objects: 0.1 us for each,
so a third of a second for the state of 10,000 nodes. Therefore:

- An object is walked over three times while it is young, with some `YOUNG * MIDDLE * OLD` others at
  most. What survives that is *frozen* (`gc.freeze`, which moves one list): no later collection
  walks over it. This is so from the start, so a first list of all pods has no long stop either.
- Python counts how many objects there are more than before, not how many are new: where a state is
  replaced bit by bit, as by hints of all nodes every half minute, all of it becomes young before a
  collection begins. So a service also begins collections by time (`tick`).
- What is frozen and becomes garbage in a cycle later stays, until there are a quarter more frozen
  objects than when all were walked over last, which is Python's own rule for its oldest generation.
  Then all are walked over. That is the one long stop, and is logged. In a service whose state does
  not grow it does not come; a replica that leads waits until there are twice as many.
"""

from __future__ import annotations

import ctypes
import gc
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate
from typing import Any, Final

from tessera_runtime import logs
from tessera_runtime.metrics import HistogramMetricFamily, Metric, MetricsRegistry

_log: Final = logs.named("tessera.garbage")
YOUNG: Final = 2_000
"""Objects more than there were that make the collector walk over the youngest: 0.2 ms."""
MIDDLE: Final = 5
"""Collections of the youngest until those that survived them are walked over: 1 ms."""
OLD: Final = 5
"""Collections of these until the survivors are walked over once more, and frozen: 5 ms."""
GROWN: Final = 0.25
"""Frozen objects that were added, as a part of those that were there when all were walked over
last, after which this is done again."""
MOST_GROWN: Final = 1.0
"""The same of a process that must not stop if it can wait."""
TICK_S: Final = 1.0
"""Seconds between two collections of the youngest by time, where much is replaced: 2,000 objects
at 10,000 nodes."""
_CHECKED: Final = 60
"""Ticks between two checks whether all objects are to be walked over."""
_OLDEST: Final = 2
_PAUSES_S: Final = (0.0001, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Buckets: the budget of a scheduler's loop is 0.05, that of others 0.2."""
_BOUNDS: Final = (*map(str, _PAUSES_S), "+Inf")


class GarbageCollector:
    """How garbage is collected in this process; there is one."""

    def __init__(self) -> None:
        """Use `open_garbage_collector`."""
        self._began = 0.0
        self._counts = [[0] * len(_BOUNDS) for _ in range(_OLDEST + 1)]
        self._sums_s = [0.0] * (_OLDEST + 1)
        self._ticks = 0
        self._all = False
        """All objects are being walked over."""
        self._frozen = 0
        """Objects that were frozen when all were walked over last."""
        self._added = 0
        """At most so many were frozen since then and are there."""

    def collect_all(self) -> None:
        """Walk over all objects, freeze what is left, and give memory that is free back to the
        kernel. Nothing else runs meanwhile."""
        began = time.perf_counter()
        self._all = True
        try:
            gc.unfreeze()
            found = gc.collect()
            # of none: Python waits for a quarter of what it walked over in the last one of all
            gc.collect()
        finally:
            self._all = False
        self._frozen, self._added = gc.get_freeze_count(), 0
        _give_back()
        took_ms = round(1000 * (time.perf_counter() - began))
        report = _log.warning if found > GROWN * self._frozen else _log.info
        report("searched for garbage", objects=self._frozen, garbage=found, took_ms=took_ms)

    def tick(self, *, busy: bool = False) -> None:
        """It is time for a collection. `busy` is as in `check`."""
        self._ticks += 1
        if not self._ticks % (MIDDLE * OLD):
            gc.collect(_OLDEST)
        else:
            gc.collect(0 if self._ticks % MIDDLE else 1)
        if not self._ticks % _CHECKED:
            self.check(busy=busy)

    def check(self, *, busy: bool = False) -> None:
        """Walk over all objects if what is frozen has grown by `GROWN`, by `MOST_GROWN` where the
        process is `busy`."""
        most = (MOST_GROWN if busy else GROWN) * self._frozen
        if self._added <= most:
            return
        self._added = max(gc.get_freeze_count() - self._frozen, 0)  # most may have gone
        if self._added > most:
            self.collect_all()

    def publish(self, metrics: MetricsRegistry) -> None:
        """Have these metrics show how long collections take, by generation."""
        metrics.collect(lambda: [self._pauses(metrics.full("gc_pause_seconds"))])

    def on_collection(self, phase: str, info: dict[str, Any]) -> None:
        """Called by Python before and after each collection. It takes no lock: the code that
        it interrupts may have it."""
        if phase == "start":
            self._began = time.perf_counter()
            return
        generation: int = info["generation"]
        if generation == _OLDEST:
            self._added += 0 if self._all else len(gc.get_objects(_OLDEST))
            gc.freeze()
        took_s = time.perf_counter() - self._began
        self._counts[generation][bisect_left(_PAUSES_S, took_s)] += 1
        self._sums_s[generation] += took_s

    def _pauses(self, name: str) -> Metric:
        found = HistogramMetricFamily(
            name, "How long Python's garbage collector kept everything else.", labels=["generation"]
        )
        for generation, counts in enumerate(self._counts):
            buckets = list(zip(_BOUNDS, accumulate(counts), strict=True))
            found.add_metric([str(generation)], buckets, self._sums_s[generation])
        return found


@contextmanager
def open_garbage_collector() -> Iterator[GarbageCollector]:
    """Collect as this module says, until left."""
    garbage, before = GarbageCollector(), gc.get_threshold()
    gc.callbacks.append(garbage.on_collection)
    gc.set_threshold(YOUNG, MIDDLE, OLD)
    try:
        yield garbage
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(garbage.on_collection)
        gc.unfreeze()


def _give_back() -> None:
    """What a list of all pods was read in, and is free again: malloc keeps it where something small
    lies behind it. Only glibc can be asked for it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
