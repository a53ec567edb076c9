"""What is counted of a run of jobs of gangs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from benchmarks.workloads_gang_mixes import GangJob, GangWorkload
from benchmarks.workloads_gang_queues import entitled, tree_of
from tessera_core.machines.allocation import AllocationPhase

if TYPE_CHECKING:
    from benchmarks.workloads_gang_cluster import GangCluster

SAMPLE_S: Final = 600.0
"""How often fairness is measured."""
GROUPS: Final[Mapping[str, Callable[[int], bool]]] = {
    "1 card": lambda cards: cards == 1,
    "2-8": lambda cards: 1 < cards <= 8,
    "over 8": lambda cards: cards > 8,
}
GANG_FIGURES: Final[Mapping[str, str]] = {
    "makespan, h": "from the first job that comes to the end of the last one",
    "used, %": "of the cards' time until the last job has come",
    "wait, min": "mean time from coming to the first start, of all jobs",
    **{
        f"{group}{what}": f"the {'mean' if not what else 'p95'} of jobs of {group}, minutes"
        for group in GROUPS
        for what in ("", " p95")
    },
    "fairness": (
        "Jain's index of used cards / entitled cards over the queues that use or want cards; "
        "what they are entitled to is what `divide` gives them; mean over the time in which a job "
        "waits"
    ),
    "evicted": "jobs that preemption evicted",
    "lost, GPU h": "work since their last save, done twice, and their starts",
    "partial, %": "of the cards' time: held by gangs of which not all pods were bound",
    "stuck": "jobs that never started",
}


class GangCounted:
    """Sums of one run."""

    def __init__(self, workload: GangWorkload, cards: int) -> None:
        """Nothing has happened."""
        self._workload = workload
        self._cards = cards
        self._tree = tree_of(workload, cards)
        self.waits_s: dict[str, float] = {}
        """Job's name -> from its coming to its first start, in the order of starts."""
        self._fair: list[float] = []
        self._next_sample_s = 0.0
        self._used_s = self._partial_s = self._lost_s = self._last_s = 0.0
        self._evicted = 0
        self.stuck = 0

    def pass_time(self, cluster: GangCluster, until: float) -> None:
        """Nothing happens until then."""
        passed = until - cluster.now
        within = max(min(until, self._workload.span_s) - cluster.now, 0.0)
        self._used_s += within * cluster.used
        self._partial_s += passed * _partial(cluster)
        while self._next_sample_s <= until:
            if cluster.waiting and self._next_sample_s >= cluster.now:
                self._fair.append(self._jain(cluster))
            self._next_sample_s += SAMPLE_S

    def started(self, job: GangJob, waited_s: float) -> None:
        """It starts for the first time."""
        self.waits_s[job.name] = waited_s

    def ended(self, now: float) -> None:
        """A job has done its work."""
        self._last_s = now

    def evicted(self, job: GangJob, lost_s: float) -> None:
        """So many seconds on each of its cards were for nothing."""
        self._evicted += 1
        self._lost_s += lost_s * job.cards

    def figures(self) -> dict[str, float]:
        """By the names of `GANG_FIGURES`."""
        cards = {job.name: job.cards for job in self._workload.jobs}
        found = {
            "makespan, h": (self._last_s - self._workload.jobs[0].at_s) / 3600,
            "used, %": 100 * self._used_s / self._cards / self._workload.span_s,
            "wait, min": _mean(list(self.waits_s.values())) / 60,
            "fairness": _mean(self._fair) if self._fair else 1.0,
            "evicted": float(self._evicted),
            "lost, GPU h": self._lost_s / 3600,
            "partial, %": 100 * self._partial_s / self._cards / max(self._last_s, 1.0),
            "stuck": float(self.stuck),
        }
        for group, within in GROUPS.items():
            waits = [wait / 60 for name, wait in self.waits_s.items() if within(cards[name])]
            found[group] = _mean(waits)
            found[f"{group} p95"] = float(np.percentile(waits, 95)) if waits else 0.0
        return {name: found[name] for name in GANG_FIGURES}

    def _jain(self, cluster: GangCluster) -> float:
        used: defaultdict[str, float] = defaultdict(float)
        wanted: defaultdict[str, float] = defaultdict(float)
        for run in cluster.running.values():
            used[run.job.queue] += run.job.cards
        for run in (*cluster.running.values(), *cluster.waiting.values()):
            wanted[run.job.queue] += run.job.cards
        parts = entitled(self._tree, self._cards, wanted)
        return jain([used[name] / part for name, part in parts.items() if part and wanted[name]])


def jain(shares: list[float]) -> float:
    """1 where all have the same, 1 / n where one has all; 1 for nobody."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _partial(cluster: GangCluster) -> int:
    """Cards that the ledger holds for jobs of which it does not hold all pods' cards."""
    holding = [
        entry.grant.name.rpartition("-")[0]
        for entry in cluster.ledger.entries()
        if entry.phase in (AllocationPhase.BOUND, AllocationPhase.RESERVED)
    ]
    whole = {f"{run.job.name}-{run.lives}" for run in cluster.running.values()}
    return sum(name not in whole for name in holding)
