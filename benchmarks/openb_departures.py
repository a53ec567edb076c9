"""Pods arrive and leave over virtual weeks at a steady load: who is refused, and who waits.

The paper has no departures, so this method is Tessera's own. Pods are drawn from the trace with
repetition; they arrive at random (Poisson) and stay for a time drawn apart from their shape:
lognormal, mean `STAY_H`, so that a few stay for weeks. Load 1 asks, in the mean, for every card of
the cluster. A pod that finds no place waits and is tried again whenever time ticks, first come
first served but without holding up others, and is refused when it has waited for `PATIENCE_H`. Only
pods with cards that arrive after the first week count. All policies see the same pods.
"""

from __future__ import annotations

import heapq
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise, repeat

import numpy as np

from benchmarks.openb_cluster import Cluster, Place, Policy
from benchmarks.openb_run import POLICIES, Make
from benchmarks.openb_trace import Shape, Trace

STAY_H = 48.0
STAY_SIGMA = 1.0
"""Of the logarithm."""
PATIENCE_H = 6.0
TICK_H = 0.25
WEEK_H = 168.0
WEEKS = 3
LOADS = (0.92, 0.96, 1.0, 1.04)
SHARES = (1.0, 2.0, 5.0)
"""Percent of cards refused at which policies are compared."""
COMPARED = ("best-fit", "fgd", "pack")


@dataclass
class Counted:
    """What became of the pods of one run that arrived after the first week."""

    asked: Counter[str] = field(default_factory=Counter)
    """Thousandths of a card by kind."""
    refused: Counter[str] = field(default_factory=Counter)
    waited_h: list[float] = field(default_factory=list)
    """Of every pod that was placed."""
    allocated: list[float] = field(default_factory=list)
    """Percent of all cards, tick by tick."""

    @property
    def refused_percent(self) -> float:
        """Of the cards asked for."""
        return 100 * self.refused.total() / self.asked.total()


@dataclass(frozen=True)
class Arrival:
    """A pod to come."""

    at_h: float
    stays_h: float
    shape: Shape


def arrivals(trace: Trace, load: float, seed: int) -> list[Arrival]:
    """In order of time."""
    rng = np.random.default_rng(seed)
    mean = sum(s.milli_in_all for s in trace.pods) / len(trace.pods)
    count = int(load * trace.capacity / mean / STAY_H * WEEKS * WEEK_H)
    times = np.sort(rng.uniform(0, WEEKS * WEEK_H, count)).tolist()
    stays = rng.lognormal(np.log(STAY_H) - STAY_SIGMA**2 / 2, STAY_SIGMA, count).tolist()
    which = rng.integers(len(trace.pods), size=count).tolist()
    return [Arrival(t, s, trace.pods[i]) for t, s, i in zip(times, stays, which, strict=True)]


class Weeks:
    """One run of one policy."""

    def __init__(self, trace: Trace, make: Make, seed: int) -> None:
        """An empty cluster."""
        rng = np.random.default_rng(seed)
        self._cluster = Cluster(trace, rng)
        self._policy: Policy = make(self._cluster, trace.counts, rng)
        self._capacity = trace.capacity
        self._leaving: list[tuple[float, int, Shape, Place]] = []
        self._waiting: list[Arrival] = []
        self._number = 0
        self.counted = Counted()

    def run(self, pods: Sequence[Arrival]) -> Counted:
        """All of them, to the end of the last week."""
        coming = 0
        for tick in range(1, int(WEEKS * WEEK_H / TICK_H) + 1):
            now = tick * TICK_H
            self._let_leave(now)
            while coming < len(pods) and pods[coming].at_h <= now:
                self._waiting.append(pods[coming])
                coming += 1
            self._try_all(now)
            if now > WEEK_H:
                self.counted.allocated.append(100 * self._cluster.allocated / self._capacity)
        return self.counted

    def _let_leave(self, now: float) -> None:
        while self._leaving and self._leaving[0][0] <= now:
            _, _, shape, place = heapq.heappop(self._leaving)
            self._cluster.take(shape, place, -1)
            self._policy.changed(place[0])

    def _try_all(self, now: float) -> None:
        still, no_room = [], set()
        for pod in self._waiting:
            place = None if pod.shape in no_room else self._policy.choose(pod.shape)
            if place is not None:
                self._place(pod, place, now)
                continue
            no_room.add(pod.shape)
            if now - pod.at_h < PATIENCE_H:
                still.append(pod)
            else:
                self._count(pod, None)
        self._waiting = still

    def _place(self, pod: Arrival, place: Place, now: float) -> None:
        self._cluster.take(pod.shape, place)
        self._policy.changed(place[0])
        self._number += 1
        heapq.heappush(self._leaving, (now + pod.stays_h, self._number, pod.shape, place))
        self._count(pod, max(now - TICK_H - pod.at_h, 0))

    def _count(self, pod: Arrival, waited_h: float | None) -> None:
        if pod.at_h <= WEEK_H or not pod.shape.cards:
            return
        self.counted.asked[pod.shape.kind] += pod.shape.milli_in_all
        if waited_h is None:
            self.counted.refused[pod.shape.kind] += pod.shape.milli_in_all
        else:
            self.counted.waited_h.append(waited_h)


Found = Mapping[str, Mapping[float, Sequence[Counted]]]
"""Policy -> load -> runs, seed by seed."""


def compare(trace: Trace, policies: Sequence[str], seeds: Sequence[int], jobs: int) -> Found:
    """All runs, some seconds each, in so many processes."""
    found: dict[str, dict[float, list[Counted]]] = {p: {x: [] for x in LOADS} for p in policies}
    tasks = [(policy, load, seed) for seed in seeds for load in LOADS for policy in policies]
    with ProcessPoolExecutor(jobs) as pool:
        for (policy, load, _), run in zip(
            tasks, pool.map(_run, repeat(trace), *zip(*tasks, strict=True)), strict=True
        ):
            found[policy][load].append(run)
    return found


def _run(trace: Trace, policy: str, load: float, seed: int) -> Counted:
    return Weeks(trace, POLICIES[policy], seed).run(arrivals(trace, load, seed))


def carried(runs: Mapping[float, Sequence[Counted]], share: float, seed: int) -> float | None:
    """The load at which so many percent are refused, between the loads tried; None outside."""
    curve = [(runs[load][seed].refused_percent, load) for load in LOADS]
    for (low, load), (high, next_load) in pairwise(curve):
        if low <= share < high:
            return load + (share - low) / (high - low) * (next_load - load)
    return None


def show(trace: Trace, found: Found) -> None:
    """Tables: per load, then at equal refused share."""
    seeds = len(next(iter(found.values()))[LOADS[0]])
    print(f"trace {trace.name}, {WEEKS} weeks, {seeds} seeds; refused: percent of cards asked")
    print(
        f"{'policy':13} {'load':>5} {'refused':>14} {'allocated':>9} {'wait h':>7}  refused by kind"
    )
    for policy, runs in found.items():
        for load, several in runs.items():
            print(_line(policy, load, several))
    for share in SHARES:
        print(f"load carried with {share:g} % refused:", "; ".join(_carried(found, share)))


def _line(policy: str, load: float, runs: Sequence[Counted]) -> str:
    refused = [run.refused_percent for run in runs]
    asked = sum((run.asked for run in runs), Counter())
    lost = sum((run.refused for run in runs), Counter())
    kinds = ", ".join(f"{kind} {100 * lost[kind] / asked[kind]:.2f}" for kind in sorted(asked))
    allocated = statistics.mean(statistics.mean(run.allocated) for run in runs)
    wait = statistics.mean(statistics.mean(run.waited_h) for run in runs)
    spread = statistics.stdev(refused) if len(runs) > 1 else 0.0
    return (
        f"{policy:13} {load:5.2f} {statistics.mean(refused):6.2f} +- {spread:4.2f} {allocated:9.2f}"
        f" {wait:7.3f}  {kinds}"
    )


def _carried(found: Found, share: float) -> list[str]:
    """Each policy's load, and how much more the last one carries, in percent, seed by seed."""
    seeds = range(len(next(iter(found.values()))[LOADS[0]]))
    loads = {p: [carried(runs, share, s) for s in seeds] for p, runs in found.items()}
    *others, last = loads
    lines = [f"{policy} {_mean([x for x in found_ if x])}" for policy, found_ in loads.items()]
    for other in others:
        more = [
            100 * (b / a - 1) for a, b in zip(loads[other], loads[last], strict=True) if a and b
        ]
        lines.append(f"{last} over {other} {_mean(more)} %")
    return lines


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "outside the loads tried"
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.3f} +- {spread:.3f}"
