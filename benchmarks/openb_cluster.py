"""The cluster of the trace while pods come and go: columns of what is free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from benchmarks.openb_trace import CARD, Shape, Trace
from tessera_core.fleet.arrays import Bools, Ints
from tessera_core.placement.packing.potential import Rows

Place = tuple[int, Sequence[int]]
"""A row, and the columns of its cards that the pod gets."""


class Cluster:
    """Rows are nodes in one order drawn at random, columns their cards."""

    def __init__(self, trace: Trace, rng: np.random.Generator) -> None:
        """All is free."""
        hosts = [trace.hosts[i] for i in rng.permutation(len(trace.hosts)).tolist()]
        self.cards = np.array([h.cards for h in hosts])
        self.usable: Bools = np.arange(int(self.cards.max())) < self.cards[:, None]
        self.free: Ints = np.where(self.usable, CARD, 0)
        """Thousandths of each card; 0 where there is none."""
        self.cpu: Ints = np.array([h.cpu for h in hosts])
        self.memory: Ints = np.array([h.memory for h in hosts])
        per_card = np.maximum(self.cards, 1)
        self._cpu_per_card, self._memory_per_card = self.cpu / per_card, self.memory / per_card
        self.models = sorted({h.model for h in hosts})
        self.model = np.array([self.models.index(h.model) for h in hosts])
        self.kind: Ints = np.where(self.usable, self.model[:, None] + 1, 0)
        self.allocated = 0
        """Thousandths of a card."""

    def allowed(self, shape: Shape) -> Bools:
        """Per model, whether the shape may use it."""
        return np.array([not shape.models or m in shape.models for m in self.models])

    def fits(self, shape: Shape, at: Ints | slice = slice(None)) -> Bools:
        """Which of the rows could take the pod now."""
        fits: Bools = (self.cpu[at] >= shape.cpu) & (self.memory[at] >= shape.memory)
        if shape.cards:
            fits &= (self.free[at] >= shape.milli).sum(1) >= shape.cards
            if shape.models:
                fits &= self.allowed(shape)[self.model[at]]
        return fits

    def take(self, shape: Shape, place: Place, sign: int = 1) -> None:
        """The pod runs there now; with sign -1 no longer."""
        row, columns = place
        self.cpu[row] -= sign * shape.cpu
        self.memory[row] -= sign * shape.memory
        for column in columns:
            self.free[row, column] -= sign * shape.milli
        self.allocated += sign * shape.milli_in_all
        left = self.free[row]
        if self.cpu[row] < 0 or self.memory[row] < 0 or (left < 0).any() or (left > CARD).any():
            raise AssertionError(f"row {row} holds more than it has: {shape} at {place}")

    def tightest(self, shape: Shape, row: int) -> list[int]:
        """The cards with least left that serve the shape."""
        free = self.free[row]
        order = np.argsort(free, kind="stable")
        serves: list[int] = order[free[order] >= shape.milli].tolist()
        return serves[: shape.cards]

    def rows(self, at: Ints | None) -> Rows:
        """As `tessera_core.placement.packing` reads them."""
        rows = slice(None) if at is None else at
        free = self.free[rows]
        return Rows(
            kind=self.kind[rows],
            free=(free,),
            idle=free == CARD,
            cpu=self.cpu[rows].astype(float),
            memory=self.memory[rows].astype(float),
            cpu_per_card=self._cpu_per_card[rows],
            memory_per_card=self._memory_per_card[rows],
        )


class Policy(Protocol):
    """Chooses places on one cluster."""

    def choose(self, shape: Shape) -> Place | None:
        """Where the pod goes; None when nothing is found."""

    def changed(self, row: int) -> None:
        """What the node has is no longer what it was."""
