"""What is printed of runs: policies side by side, bounds, and the part of the possible."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.workloads_bounds import BOUNDS, POSSIBLE
from benchmarks.workloads_counted import FIGURES
from benchmarks.workloads_run import Outcome

LESS = frozenset({"wait_mean", "wait_p95", "wait_whole", "unplaced", "stretch", "contention",
                  "crowded", "missed", "late", "latency", "slow"})  # fmt: skip
"""Figures of which less is better."""
SHOWN = ("work", "finished", "stretch", "wait_mean", "wait_p95", "wait_whole", "contention",
         "crowded", "late", "slow", "missed", "moves")  # fmt: skip
SHOWN_OF_BOUNDS = ("work", "finished", "stretch", "wait_mean", "contention", "crowded", "missed")
PARTS = ("work", "wait_mean", "contention")
"""Figures of which the part of the possible is said."""


def show(name: str, found: Mapping[str, Sequence[Outcome]], against: str = "nothing") -> None:
    """Tables of a workload: means and spread, then each policy against one, seed by seed."""
    runs = next(iter(found.values()))
    pods = ", ".join(str(run.pods) for run in runs)
    print(f"\nworkload {name}: {len(runs)} seeds, {pods} pods; mean +- standard deviation")
    print(f"{'policy':9}" + "".join(f"{figure:>16}" for figure in SHOWN) + "   cpu s")
    for policy, outcomes in found.items():
        cells = "".join(f"{_spread(_values(outcomes, figure)):>16}" for figure in SHOWN)
        print(f"{policy:9}{cells}{statistics.mean(o.cpu_s for o in outcomes):8.0f}", flush=True)
    base = found.get(against)
    for policy, outcomes in found.items():
        if base is None or policy == against or len(base) != len(outcomes):
            continue
        print(f"{policy} against {against}, percent: " + ", ".join(_against(base, outcomes)))


def _against(base: Sequence[Outcome], outcomes: Sequence[Outcome]) -> list[str]:
    """Change of each figure in percent of the other's, pairs of one seed."""
    hints = []
    for figure in SHOWN:
        pairs = list(zip(_values(base, figure), _values(outcomes, figure), strict=True))
        if not all(before for before, _ in pairs):
            continue
        changes = [100 * (after / before - 1) for before, after in pairs]
        hints.append(f"{figure} {_spread(changes)}{_verdict(figure, changes)}")
    return hints


def _verdict(figure: str, changes: Sequence[float]) -> str:
    """Printed where it goes the same way with every seed."""
    better = [(change < 0) == (figure in LESS) for change in changes if change]
    if not better or len(set(better)) > 1:
        return ""
    return " (better)" if better[0] else " (worse)"


def show_bounds(
    found: Mapping[str, Sequence[Outcome]], bounds: Mapping[str, Sequence[Outcome]]
) -> None:
    """A table of the bounds, and what part of the possible each policy reaches."""
    print("bound    " + "".join(f"{figure:>16}" for figure in SHOWN_OF_BOUNDS))
    for bound, outcomes in bounds.items():
        cells = "".join(f"{_spread(_values(outcomes, one)):>16}" for one in SHOWN_OF_BOUNDS)
        print(f"{bound:9}{cells}  {BOUNDS[bound].what}")
    base, best = found.get("nothing"), bounds[POSSIBLE]
    for policy, outcomes in found.items():
        if base is None or policy == "nothing":
            continue
        parts = (
            f"{figure} {_spread(values)}"
            for figure in PARTS
            if (values := possible_percents(figure, base, outcomes, best))
        )
        print(f"{policy}, percent of the possible: " + ", ".join(parts))


def possible_percents(
    figure: str, base: Sequence[Outcome], outcomes: Sequence[Outcome], best: Sequence[Outcome]
) -> list[float]:
    """How far a policy gets on the way from `base` to `best`, seed by seed; seeds in which the two
    are the same say nothing."""
    rows = zip(*(_values(runs, figure) for runs in (base, outcomes, best)), strict=True)
    return [
        100 * (got - nothing) / (most - nothing) for nothing, got, most in rows if most != nothing
    ]


def as_json(
    found: Mapping[str, Mapping[str, Sequence[Outcome]]],
    bounds: Mapping[str, Mapping[str, Sequence[Outcome]]], settings: Mapping[str, object],
) -> Mapping[str, object]:  # fmt: skip
    """Workload -> policy -> runs, the same of the bounds, what was run, what the figures are."""
    return {
        "settings": settings, "figures": FIGURES, "runs": _runs(found),
        "bounds": _runs(bounds), "what": {name: bound.what for name, bound in BOUNDS.items()},
    }  # fmt: skip


def _runs(found: Mapping[str, Mapping[str, Sequence[Outcome]]]) -> Mapping[str, object]:
    return {
        name: {
            policy: [
                {"seed": o.seed, "pods": o.pods, "cpu_s": o.cpu_s, "plans": o.plans,
                 **{key: round(value, 4) for key, value in o.figures.items()}}
                for o in outcomes
            ]
            for policy, outcomes in policies.items()
        }
        for name, policies in found.items()
    }  # fmt: skip


def _values(outcomes: Sequence[Outcome], figure: str) -> list[float]:
    return [outcome.figures[figure] for outcome in outcomes]


def _spread(values: Sequence[float]) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.2f} +- {spread:.2f}"
