"""FGD: fragmentation gradient descent (Weng et al., USENIX ATC'23), to compare with.

A node's fragmentation is what of its free cards the typical pods could not use, by how often
they come; the pod goes where it grows least. Typical: the most frequent shapes, 95 % of all pods.
Source: hkust-adsl/kubernetes-scheduler-simulator, pkg/simulator/plugin/fgd_score.go and
pkg/utils/frag.go: scores are cut to whole numbers, the first of equal cards and nodes wins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from benchmarks.openb_cluster import Cluster, Place
from benchmarks.openb_trace import CARD, Shape
from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.placement.packing.loss_cache import LossCache

TYPICAL = 0.95


class Fgd:
    """The policy, on one cluster."""

    def __init__(self, cluster: Cluster, counts: Mapping[Shape, float]) -> None:
        """`counts`: how often each shape was asked for."""
        self._cluster = cluster
        self._kept = LossCache(len(cluster.cards))
        typical = _typical(counts)
        cards = [s for s in typical if s.cards]
        self._part = np.array([typical[s] for s in cards])
        self._cpu_only = sum(p for s, p in typical.items() if not s.cards)
        self._cpu = np.array([s.cpu for s in cards])
        self._count = np.array([s.cards for s in cards])
        self._allowed = np.array([cluster.allowed(s) for s in cards]).T
        """(models, typical pods)."""
        self._milli, self._which = np.unique([s.milli for s in cards], return_inverse=True)

    def choose(self, shape: Shape) -> Place | None:
        """See `Policy`."""
        cached = self._kept.losses_for(shape, lambda rows: self._losses(shape, rows))
        row = int(cached.steps.argmin())
        if cached.steps[row] == np.inf:
            return None
        if shape.cards == 1:
            return row, [int(cached.card[row])]
        return row, np.flatnonzero(self._cluster.free[row] >= shape.milli)[: shape.cards].tolist()

    def changed(self, row: int) -> None:
        """See `Policy`."""
        self._kept.changed(row)

    def _losses(self, shape: Shape, at: Ints | None) -> tuple[Floats, Ints]:
        cluster = self._cluster
        rows = np.arange(len(cluster.cards)) if at is None else at
        steps, card = np.full(len(rows), np.inf), np.zeros(len(rows), np.int64)
        fit = np.flatnonzero(cluster.fits(shape, rows))
        if len(fit):
            growth, chosen = self._growth(shape, rows[fit])
            steps[fit] = -np.floor(100 / (1 + np.exp(growth / 1000)))
            card[fit] = chosen
        return steps, card

    def _growth(self, shape: Shape, rows: Ints) -> tuple[Floats, Ints]:
        """Thousandths of a card, and the first card where it is least in whole points."""
        cluster = self._cluster
        free, model = cluster.free[rows], cluster.model[rows]
        cpu = cluster.cpu[rows]
        before = self._fragmented(free, cpu, model)
        if shape.cards != 1 or shape.milli == CARD:
            after = free.copy()
            serves = free >= shape.milli
            after[serves & (serves.cumsum(1) <= shape.cards)] -= shape.milli
            first = serves.argmax(1)
            return self._fragmented(after, cpu - shape.cpu, model) - before, first
        node, card = np.nonzero(free >= shape.milli)
        after = free[node]
        after[np.arange(len(node)), card] -= shape.milli
        growth = np.full(free.shape, np.inf)
        grown = self._fragmented(after, cpu[node] - shape.cpu, model[node])
        growth[node, card] = grown - before[node]
        points = np.floor(100 / (1 + np.exp(np.minimum(growth, 1e5) / 1000)))
        chosen = np.where(free >= shape.milli, points, -1).argmax(1)
        return growth[np.arange(len(rows)), chosen], chosen

    def _fragmented(self, free: Ints, cpu: Ints, model: Ints) -> Floats:
        """(states,): expected fragmentation in thousandths of a card."""
        serves: Bools = free[:, :, None] >= self._milli
        count = serves.sum(1)[:, self._which]
        usable = np.einsum("sc,sct->st", free, serves)[:, self._which]
        runs = (count >= self._count) & (cpu[:, None] >= self._cpu) & self._allowed[model]
        total: Floats = free.sum(1) * (self._part.sum() + self._cpu_only)
        fragmented: Floats = total - (runs * usable) @ self._part
        return fragmented


def _typical(counts: Mapping[Shape, float]) -> dict[Shape, float]:
    """Shape -> part of the typical pods."""
    total = sum(counts.values())
    alike: dict[Shape, float] = defaultdict(float)
    for shape, count in counts.items():
        alike[shape._replace(memory=0)] += count  # FGD does not look at the host's memory
    kept: dict[Shape, float] = {}
    for shape, count in sorted(alike.items(), key=lambda item: -item[1]):
        if sum(kept.values()) >= TYPICAL * total:
            break
        kept[shape] = count
    return {shape: count / sum(kept.values()) for shape, count in kept.items()}
