"""Policies, and bounds, run on a workload."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.workloads_bounds import BOUNDS
from benchmarks.workloads_cards import OPEN, CardModel
from benchmarks.workloads_counted import Counted
from benchmarks.workloads_hints import Hints
from benchmarks.workloads_lending import Lending
from benchmarks.workloads_memory_ends import SpareMemory
from benchmarks.workloads_moves import Moves
from benchmarks.workloads_pods import Workload
from benchmarks.workloads_price import PricedHints
from benchmarks.workloads_simulation import Part, Simulation
from tessera_core.registry.registry import DialectRegistry


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


def price() -> Sequence[Part]:
    """The same with prices in the hints instead of pressure alone."""
    hints = PricedHints()
    return (hints, Lending(hints), Moves(hints))


POLICIES: Mapping[str, Callable[[], Sequence[Part]]] = {
    "nothing": nothing, "hints": hints, "lending": lending, "moves": moves, "all": everything,
    "price": price,
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """One run."""

    seed: int
    pods: int
    figures: Mapping[str, float]
    plans: Mapping[str, int]
    cpu_s: float


def run(
    workload: Workload, registry: DialectRegistry, policy: str, seed: int = 0,
    model: CardModel = OPEN,
) -> Outcome:  # fmt: skip
    """One policy on one workload, some seconds."""
    first: Sequence[Part] = (SpareMemory(),) if workload.spare_memory else ()
    return _run(Simulation(workload, registry, (*first, *POLICIES[policy]()), model), seed)


def run_bound(
    workload: Workload, registry: DialectRegistry, bound: str, seed: int = 0,
    model: CardModel = OPEN,
) -> Outcome:  # fmt: skip
    """One of `BOUNDS` on one workload; of the model it takes the interference alone."""
    return _run(Simulation(workload, registry, (), model, BOUNDS[bound]), seed)


def _run(simulation: Simulation, seed: int) -> Outcome:
    began = time.process_time()
    counted: Counted = simulation.run()
    plans = {str(kind): count for kind, count in counted.plans.items()}
    spent_s = round(time.process_time() - began, 1)
    return Outcome(seed, len(simulation.workload.jobs), counted.figures(), plans, spent_s)
