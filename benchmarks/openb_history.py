"""How much `pack` loses when it has less to learn from: a sample of past pods, other pods than
those that come, or none at all."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks.openb_run import POLICIES, Counts, run
from benchmarks.openb_trace import CARD, Shape, Trace

SAMPLE = 200


def sample(trace: Trace, seed: int) -> Counts:
    """Of pods drawn from the trace."""
    rng = np.random.default_rng([seed, SAMPLE])
    return Counter(trace.pods[i] for i in rng.integers(len(trace.pods), size=SAMPLE).tolist())


def mirrored(trace: Trace) -> Counts:
    """Another cluster's past, made up from this one: shares take what these leave of a card, and
    ask half as much of their hosts; whole cards come twice as often."""
    counts: Counter[Shape] = Counter()
    for shape, count in trace.counts.items():
        if shape.milli in (0, CARD):
            counts[shape] += 2 * count
        else:
            other = shape._replace(
                milli=CARD - shape.milli, cpu=shape.cpu // 2, memory=shape.memory // 2
            )
            counts[other] += count
    return counts


def part_of(trace: Trace, *, shares: bool) -> Counts:
    """A past that saw shares alone, or whole cards alone."""
    return {s: n for s, n in trace.counts.items() if s.cards and (s.milli < CARD) == shares}


def pasts(trace: Trace, other: Trace | None) -> Mapping[str, Callable[[int], Counts]]:
    """What is learned from, by name; a function of the seed."""
    found: dict[str, Callable[[int], Counts]] = {
        "the trace itself": lambda _seed: trace.counts,
        f"{SAMPLE} pods of it": lambda seed: sample(trace, seed),
        "its shares alone": lambda _seed: part_of(trace, shares=True),
        "its whole cards alone": lambda _seed: part_of(trace, shares=False),
        "the opposite, made up": lambda _seed: mirrored(trace),
    }
    if other is not None:
        found[f"trace {other.name}"] = lambda _seed: other.counts
    found["none"] = lambda _seed: {}
    return found


def show(trace: Trace, other: Trace | None, seeds: Sequence[int]) -> None:
    """A table: what is allocated at 100 % arrived, and what it loses."""
    print(f"trace {trace.name}: pack, GPUs allocated in percent at 100 % arrived")
    best = 0.0
    for name, counts in pasts(trace, other).items():
        values = [run(trace, POLICIES["pack"], seed, counts(seed)).at_100 for seed in seeds]
        mean = statistics.mean(values)
        best = best or mean
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        print(f"{name:22} {mean:6.2f} +- {spread:4.2f}  loss {best - mean:5.2f}", flush=True)
