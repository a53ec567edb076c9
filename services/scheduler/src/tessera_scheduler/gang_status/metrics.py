"""Metrics of gangs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from tessera_core.gang_scheduling.attempt import WAITING, KnownBundle
from tessera_core.machines.gang import GangPhase
from tessera_runtime.metrics import MetricsRegistry
from tessera_scheduler.gang_status.queue_metrics import QueueMetrics

START_S: Final = (1, 2, 5, 10, 20, 60, 300, 900, 3600, 14400, 86400)
WAITS: Final = ("members", "turn", "room", "broken")
"""What a gang waits for: pods or objects of its own, its turn, room, or room for its missing
members while others run."""


def waits_for(known: KnownBundle) -> str:
    """One of `WAITS`; empty for a gang that does not wait."""
    phase = known.attempt.phase
    if phase is GangPhase.GATHERING:
        return "members"
    if phase not in WAITING:
        return ""
    if phase is GangPhase.BROKEN:
        return "broken"
    return "room" if known.attempt.searched_at >= 0 else "turn"


class GangMetrics:
    """What is counted of gangs."""

    def __init__(self, registry: MetricsRegistry) -> None:
        """All are 0 on a replica that does not lead."""
        self.queues = QueueMetrics(registry)
        self._phases = registry.gauge("gangs", "Gangs by phase", ("phase",))
        self._waiting = registry.gauge(
            "gangs_waiting", "Gangs that wait, by what they wait for", ("reason",)
        )
        self._longest = registry.gauge(
            "gang_longest_wait_seconds", "How long the gang waits that waits longest for its start"
        )
        self.start_seconds = registry.histogram(
            "gang_start_seconds", "From a gang's first pod to its start", buckets=START_S
        )
        self.misses = registry.counter(
            "gang_misses", "Starts that were given up: a member came late, or cards were lost"
        )
        self.others = registry.gauge(
            "gang_status_other_writers",
            "PodGroups and queues whose statuses another scheduler writes",
        )

    def show(self, bundles: Iterable[KnownBundle], now: float) -> None:
        """Show these gangs."""
        phases: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        longest = 0.0
        for known in bundles:
            if not known.bundle.together:
                continue
            phases[known.attempt.phase] += 1
            reason = waits_for(known)
            reasons[reason] += 1
            if reason and reason != "members":
                longest = max(longest, now - known.attempt.waits_since)
        for phase in GangPhase:
            if phase is not GangPhase.OVER:
                self._phases.labels(phase).set(phases[phase])
        for reason in WAITS:
            self._waiting.labels(reason).set(reasons[reason])
        self._longest.set(longest)
