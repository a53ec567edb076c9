"""What is counted of a run, and the figures that policies are compared by."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np

from benchmarks.workloads_cards import FULL
from benchmarks.workloads_latency import LatencyHistogram
from benchmarks.workloads_pods import HOUR_S

LATE_PERCENT = 99.0
"""Who serves and gets less than this part of what is wanted is late."""


def _zeros() -> defaultdict[str, float]:
    return defaultdict(float)


@dataclass
class Counted:
    """Sums over all hours, from an empty cluster on; time and work in card-seconds."""

    cards: int
    hours: float
    wanted: defaultdict[str, float] = field(default_factory=_zeros)
    """By kind of pod."""
    got: defaultdict[str, float] = field(default_factory=_zeros)
    held_back: float = 0
    """Wanted and not given because the pod's limit was below."""
    crowded: float = 0
    """Wanted, allowed by the limit, and not given because others wanted the card too."""
    owed: float = 0
    """Wanted within the cores that the pod was granted."""
    missed: float = 0
    """Part of `owed` that was not given."""
    serving_s: float = 0
    late_s: float = 0
    granted: float = 0
    """Memory granted: parts of the cluster, summed over ticks of one second."""
    in_use: float = 0
    """The same for memory in use."""
    idle: float = 0
    """Cards that nobody holds: parts of the cluster, summed likewise."""
    latency: LatencyHistogram = field(default_factory=LatencyHistogram)
    finished: Counter[str] = field(default_factory=Counter)
    """Pods, or groups, whose work was done, by kind."""
    waits_s: list[float] = field(default_factory=list)
    """Of the pods that came: until they were placed, or until the end."""
    whole_waits_s: list[float] = field(default_factory=list)
    """Those of pods that ask for whole cards."""
    stretches: list[float] = field(default_factory=list)
    """Of each pod that finished: from its coming to its end, in times of what it takes alone."""
    again_s: float = 0
    """Seconds that pods waited after they were moved, or ended."""
    ended: int = 0
    """Best-effort pods whose memory owners needed."""
    over_s: float = 0
    """Card-seconds of ticks in which more memory would be in use than the card has."""
    unplaced: int = 0
    moves: int = 0
    plans: Counter[str] = field(default_factory=Counter)
    """Done, by kind, where the policy plans."""
    paused: int = 0
    """Rounds in which nothing was proposed because plans of late had gained too little."""
    expected: float = 0
    """Of plans whose gain was measured."""
    gained: float = 0
    lost: float = 0
    """Work done again after moves."""

    def figures(self) -> dict[str, float]:
        """By name; `FIGURES` says what each is."""
        got, wanted = sum(self.got.values()), sum(self.wanted.values())
        return {
            "work": (got - self.lost) / HOUR_S / self.hours,
            "busy": 100 * got / (self.cards * self.hours * HOUR_S),
            "finished": self.finished.total(),
            "wait_mean": _mean(self.waits_s) / 60,
            "wait_p95": float(np.percentile(self.waits_s, 95)) / 60 if self.waits_s else 0.0,
            "wait_whole": _mean(self.whole_waits_s) / 60,
            "wait_all": (sum(self.waits_s) + self.again_s) / 60 / max(len(self.waits_s), 1),
            "unplaced": self.unplaced,
            "stretch": _mean(self.stretches),
            "contention": _percent(wanted - got, wanted),
            "crowded": _percent(self.crowded, wanted),
            "missed": _percent(self.missed, self.owed),
            "late": _percent(self.late_s, self.serving_s),
            "latency": self.latency.percentile(95),
            "slow": self.latency.slow_percent(),
            "granted": FULL * self.granted / (self.hours * HOUR_S),
            "in_use": FULL * self.in_use / (self.hours * HOUR_S),
            "idle": FULL * self.idle / (self.hours * HOUR_S),
            "over": _percent(self.over_s, self.cards * self.hours * HOUR_S),
            "ended": self.ended,
            "moves": self.moves,
            "lost": self.lost / HOUR_S,
            "expected": self.expected / HOUR_S,
            "gained": self.gained / HOUR_S,
            "paused": self.paused,
        }


FIGURES = {
    "work": "GPU-seconds of work done per second of the cluster, in cards",
    "busy": "percent of all cards' time",
    "finished": "jobs finished; those that came together count as one",
    "wait_mean": "minutes until placed, mean",
    "wait_p95": "minutes until placed, 95th percentile",
    "wait_whole": "the mean of those that ask for whole cards",
    "wait_all": "wait_mean with what pods waited again after they were moved or ended",
    "unplaced": "pods still waiting at the end",
    "stretch": "mean time from coming to finishing, of jobs that finished, in times of the ideal",
    "contention": "percent of the wanted GPU time not given",
    "crowded": "of that, percent not given because others wanted the card too",
    "missed": "percent of the wanted GPU time within the granted cores not given",
    "late": "percent of the time that inference got less than it wanted",
    "latency": "95th percentile over services' time: how long a request takes in times of its work",
    "slow": "percent of services' time in which it takes over 4 times its work (a proxy)",
    "granted": "percent of memory granted",
    "in_use": "percent of memory in use",
    "idle": "percent of all cards' time in which nobody holds the card",
    "over": "percent of cards' time, in whole ticks, with more memory wanted than there is",
    "ended": "best-effort pods ended because owners needed their memory",
    "moves": "pods moved",
    "lost": "card-hours of work done again after moves",
    "expected": "card-hours that plans expected to gain, where that was measured",
    "gained": "card-hours that they gained, as the service measures it",
    "paused": "rounds in which nothing was proposed, because plans of late gained too little",
}


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


def _mean(values: list[float]) -> float:
    return statistics.mean(values) if values else 0.0
