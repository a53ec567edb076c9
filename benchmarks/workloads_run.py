"""Policies side by side on the same workload, and what is printed of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.workloads_counted import FIGURES, Counted
from benchmarks.workloads_hints import Hints
from benchmarks.workloads_lending import Lending
from benchmarks.workloads_moves import Moves
from benchmarks.workloads_pods import Workload
from benchmarks.workloads_simulation import Part, Simulation
from tessera_core.registry.registry import DialectRegistry

LESS = frozenset({"wait_mean", "wait_p95", "wait_whole", "unplaced", "stretch", "contention",
                  "crowded", "missed", "late"})  # fmt: skip
"""Figures of which less is better."""
SHOWN = ("work", "finished", "stretch", "wait_mean", "wait_p95", "contention", "crowded", "late",
         "missed", "moves")  # fmt: skip


def nothing() -> Sequence[Part]:
    """Placement and fixed limits alone."""
    return ()


def hints() -> Sequence[Part]:
    """Placement responds to measurements."""
    return (Hints(),)


def lending() -> Sequence[Part]:
    """Agents lend, within what they are set to; no hints."""
    return (Lending(),)


def moves() -> Sequence[Part]:
    """Hints, and what is proposed is done."""
    hints = Hints()
    return (hints, Moves(hints))


def everything() -> Sequence[Part]:
    """Hints, lending within their bounds, moves."""
    hints = Hints()
    return (hints, Lending(hints), Moves(hints))


POLICIES: Mapping[str, Callable[[], Sequence[Part]]] = {
    "nothing": nothing, "hints": hints, "lending": lending, "moves": moves, "all": everything,
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """One run."""

    seed: int
    pods: int
    figures: Mapping[str, float]
    plans: Mapping[str, int]
    cpu_s: float


def run(workload: Workload, registry: DialectRegistry, policy: str, seed: int = 0) -> Outcome:
    """One policy on one workload, some seconds."""
    began = time.process_time()
    counted: Counted = Simulation(workload, registry, POLICIES[policy]()).run()
    plans = {str(kind): count for kind, count in counted.plans.items()}
    spent_s = round(time.process_time() - began, 1)
    return Outcome(seed, len(workload.jobs), counted.figures(), plans, spent_s)


def show(name: str, found: Mapping[str, Sequence[Outcome]]) -> None:
    """As tables: means and spread, then each policy against `nothing`, seed by seed."""
    runs = next(iter(found.values()))
    pods = ", ".join(str(run.pods) for run in runs)
    print(f"\nworkload {name}: {len(runs)} seeds, {pods} pods; mean +- standard deviation")
    print(f"{'policy':9}" + "".join(f"{figure:>16}" for figure in SHOWN) + "   cpu s")
    for policy, outcomes in found.items():
        cells = "".join(f"{_spread(_values(outcomes, figure)):>16}" for figure in SHOWN)
        print(f"{policy:9}{cells}{statistics.mean(o.cpu_s for o in outcomes):8.0f}", flush=True)
    base = found.get("nothing")
    for policy, outcomes in found.items():
        if base is None or policy == "nothing" or len(base) != len(outcomes):
            continue
        print(f"{policy} against nothing, percent: " + ", ".join(_against(base, outcomes)))


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


def as_json(found: Mapping[str, Mapping[str, Sequence[Outcome]]]) -> Mapping[str, object]:
    """Workload -> policy -> runs, and what the figures are."""
    return {
        "figures": FIGURES,
        "runs": {
            name: {
                policy: [
                    {"seed": o.seed, "pods": o.pods, "cpu_s": o.cpu_s, "plans": o.plans,
                     **{key: round(value, 4) for key, value in o.figures.items()}}
                    for o in outcomes
                ]
                for policy, outcomes in policies.items()
            }
            for name, policies in found.items()
        },
    }  # fmt: skip


def _values(outcomes: Sequence[Outcome], figure: str) -> list[float]:
    return [outcome.figures[figure] for outcome in outcomes]


def _spread(values: Sequence[float]) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.2f} +- {spread:.2f}"
