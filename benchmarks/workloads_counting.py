"""What is counted of a tick."""

from __future__ import annotations

from typing import Final

import numpy as np

from benchmarks.workloads_cluster import TICK_S
from benchmarks.workloads_counted import LATE_PERCENT, Counted
from benchmarks.workloads_pods import STEP_S, Workload
from benchmarks.workloads_seats import Seats
from tessera_core.fleet.arrays import Floats
from tessera_schema.cards import MIB

_PART: Final = TICK_S / 100


class TickCounter:
    """Adds ticks up."""

    def __init__(self, counted: Counted, workload: Workload) -> None:
        """To these sums."""
        self._counted = counted
        self._memory_bytes = workload.memory_mib * MIB * counted.cards
        self._kinds = sorted({job.kind for job in workload.jobs})
        self._kind = np.array([self._kinds.index(job.kind) for job in workload.jobs] or [0])

    def count(self, seats: Seats, wants: Floats, got: Floats, limits: Floats) -> None:
        """What was wanted and given, all (cards, seats), percent of a card."""
        counted = self._counted
        taken = seats.job >= 0
        kinds = self._kind[seats.job[taken]]
        for sums, column in ((counted.wanted, wants), (counted.got, got)):
            by_kind = np.bincount(kinds, column[taken] * _PART, len(self._kinds))
            for kind, amount in zip(self._kinds, by_kind.tolist(), strict=True):
                sums[kind] += amount
        allowed = np.minimum(wants, limits)
        counted.held_back += float((wants - allowed).sum()) * _PART
        counted.crowded += float(np.maximum(allowed - got, 0).sum()) * _PART
        owed = np.minimum(wants, seats.promised)
        counted.owed += float(owed.sum()) * _PART
        counted.missed += float(np.maximum(owed - got, 0).sum()) * _PART
        serves = seats.serving & (wants > 0)
        counted.serving_s += float(serves.sum()) * TICK_S
        counted.late_s += float((serves & (got < wants * LATE_PERCENT / 100)).sum()) * TICK_S
        counted.idle += float((~taken).all(1).mean()) * TICK_S
        counted.granted += float(seats.memory.sum()) / self._memory_bytes * TICK_S

    def count_memory(self, seats: Seats, now: float) -> None:
        """What is in use."""
        used = seats.memory_in_use(now)
        self._counted.in_use += float(used.sum()) / self._memory_bytes * TICK_S

    def count_latency(
        self, seats: Seats, wants: Floats, limits: Floats, room: Floats, now: float
    ) -> None:
        """Of services, when their curves have gone on; `room` (cards) is what of each can be
        used."""
        if now % STEP_S < TICK_S:
            self._counted.latency.count(wants, limits, room, seats.serving)

    def count_away(self, kind: str, wanted: float) -> None:
        """A pod was moved, and serves nobody until it runs again; `wanted` percent of a card."""
        self._counted.wanted[kind] += wanted * _PART
        self._counted.crowded += wanted * _PART
        self._counted.serving_s += TICK_S
        self._counted.late_s += TICK_S
