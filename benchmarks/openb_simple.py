"""Policies to compare with: Random, Best-fit and Dot-product, as in the simulator of FGD.

Source: hkust-adsl/kubernetes-scheduler-simulator, pkg/simulator/plugin. Equal scores go to the
first node in the cluster's order, shares to the tightest card.
"""

from __future__ import annotations

import numpy as np

from benchmarks.openb_cluster import Cluster, Place
from benchmarks.openb_trace import CARD, Shape
from tessera_core.fleet.arrays import Floats, Ints


class Random:
    """Any node that fits."""

    def __init__(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Draws from `rng`."""
        self._cluster, self._rng = cluster, rng

    def choose(self, shape: Shape) -> Place | None:
        """See `Policy`."""
        rows = np.flatnonzero(self._cluster.fits(shape))
        if not len(rows):
            return None
        row = int(self._rng.choice(rows))
        free = self._cluster.free[row]
        cards = self._rng.permutation(np.flatnonzero(free >= shape.milli))
        return row, cards[: shape.cards].tolist()

    def changed(self, row: int) -> None:
        """Nothing is kept."""


class _Scored:
    """The most points win; points are whole numbers up to 100."""

    def __init__(self, cluster: Cluster) -> None:
        """Scales by the largest node."""
        self._cluster = cluster
        self._cpu = float(cluster.cpu.max())
        self._milli = float(CARD * cluster.cards.max())

    def choose(self, shape: Shape) -> Place | None:
        """See `Policy`."""
        rows = np.flatnonzero(self._cluster.fits(shape))
        if not len(rows):
            return None
        points = (100 * self._score(shape, rows) + 1e-9).astype(np.int64)
        row = int(rows[points.argmax()])
        return row, self._cluster.tightest(shape, row)

    def changed(self, row: int) -> None:
        """Nothing is kept."""

    def _score(self, shape: Shape, rows: Ints) -> Floats:
        raise NotImplementedError


class BestFit(_Scored):
    """Least processor and cards left."""

    def _score(self, shape: Shape, rows: Ints) -> Floats:
        cpu = (self._cluster.cpu[rows] - shape.cpu) / self._cpu
        cards = (self._cluster.free[rows].sum(1) - shape.milli_in_all) / self._milli
        score: Floats = 1 - (cpu + cards) / 2
        return score


class DotProduct(_Scored):
    """Least product of what is free and what is asked (Tetris, SIGCOMM'14)."""

    def _score(self, shape: Shape, rows: Ints) -> Floats:
        cpu = self._cluster.cpu[rows] / self._cpu * (shape.cpu / self._cpu)
        cards = self._cluster.free[rows].sum(1) / self._milli * (shape.milli_in_all / self._milli)
        score: Floats = 1 - (cpu + cards) / 2
        return score
