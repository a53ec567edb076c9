"""Small clusters, and a policy's part that looks on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.workloads_pods import Job, Serves, Workload, Works, constant
from benchmarks.workloads_simulation import Part, Simulation
from tessera_core.fleet.arrays import Floats
from tessera_core.registry.registry import load

REGISTRY = load()


class Witness:
    """Keeps what was wanted and got, tick by tick; first of a policy's parts, it sees which loans
    are in force before others change them."""

    def __init__(self) -> None:
        self.wanted: list[Floats] = []
        self.got: list[Floats] = []
        self.most: list[Floats] = []
        """Limits with loans: those of the tick before may be in force for its first second."""
        self.overgranted = 0
        self._own: Floats = np.zeros(0)
        self._lent: Floats = np.zeros(0)

    def before(self, world: Simulation, wants: Floats) -> None:
        self.wanted.append(wants)
        self._own, self._lent = world.seats.limits(), world.seats.lent.copy()

    def after(self, world: Simulation, wants: Floats, got: Floats) -> None:
        del wants
        self.got.append(got)
        # a seat that was left in this tick has no loan any more, and cannot have got one in it
        self.most.append(self._own + np.maximum(self._lent, world.seats.lent))
        self.overgranted += world.ledger.fleet.cards.overgranted()


def a_job(name: str, wants: Works | Serves, asks: Mapping[str, int | str], **facts: Any) -> Job:
    facts = {"kind": "training", "at_s": 0.0, **facts}
    return Job(name=name, wants=wants, limits=asks, **facts)


def hami(mib: int = 10000, cores: int = 0) -> dict[str, int | str]:
    asks: dict[str, int | str] = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": mib}
    return {**asks, "nvidia.com/gpucores": cores} if cores else asks


def trains(hours: float, peak: float = 100) -> Works:
    return Works(peak, (hours * 3600 * peak / 100,), (0.0,))


def serves(percent: float) -> Serves:
    return Serves(constant(percent))


def a_simulation(
    jobs: Sequence[Job], parts: Sequence[Part] = (), *, nodes: int = 1, cards: int = 1,
    hours: float = 4,
) -> Simulation:  # fmt: skip
    return Simulation(a_workload(jobs, nodes=nodes, cards=cards, hours=hours), REGISTRY, parts)


def a_workload(
    jobs: Sequence[Job], *, nodes: int = 1, cards: int = 1, hours: float = 4
) -> Workload:
    return Workload(
        name="small", nodes=nodes, cards=cards, memory_mib=81920, hours=hours, jobs=tuple(jobs)
    )
