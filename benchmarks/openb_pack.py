"""Policy `pack` of tessera_core on the cluster of the trace: one resource per card, and hosts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.openb_cluster import Cluster, Place
from benchmarks.openb_trace import CARD, Shape
from tessera_core.fleet.arrays import Floats, Ints
from tessera_core.placement.packing.demand import CardKinds, Demand, DemandShape
from tessera_core.placement.packing.forecast import learn
from tessera_core.placement.packing.loss_cache import LossCache, LossFunction
from tessera_core.placement.packing.potential import losses, room, scarcity
from tessera_core.placement.packing.whole_node_reserve import WholeNodeReserve, whole_nodes


class Pack:
    """Policy A; or B, balanced and with whole nodes kept back."""

    def __init__(
        self, cluster: Cluster, counts: Mapping[Shape, float], *, reserve: bool | None = None
    ) -> None:
        """`counts`: how often each shape was asked for in the past. `reserve`: B; None = where the
        past says that hosts will be short, as the product does."""
        self._cluster = cluster
        self.kinds = kinds(cluster)
        self._asks: dict[Shape, DemandShape] = {}
        self.forecast = learn(self.kinds, self._past(counts))
        self.balanced = self.forecast.short if reserve is None else reserve
        self._scarce = scarcity(cluster.rows(None), self.forecast)
        self._kept = LossCache(len(cluster.cards))
        size = int(cluster.cards.max())
        nodes = whole_nodes(cluster.cards, cluster.model, size)
        self._reserve = WholeNodeReserve(nodes, size, self.forecast.many)
        self._idle: Ints = (cluster.free == CARD).sum(1)
        self._settle()

    def choose(self, shape: Shape) -> Place | None:
        """See `Policy`."""
        steps = self.steps(shape)
        rows = np.flatnonzero(steps < np.inf)
        if not len(rows):
            return None
        for column in (*self._columns(shape), steps):
            values = column[rows]
            rows = rows[values == values.min()]
        return self.place(shape, int(rows[0]))

    def changed(self, row: int) -> None:
        """See `Policy`."""
        self._kept.changed(row)
        self._idle[row] = (self._cluster.free[row] == CARD).sum()
        self._settle()

    def _columns(self, shape: Shape) -> list[Floats]:
        return self._reserve.columns(shape.cards, self._idle) if self.balanced else []

    def _settle(self) -> None:
        if self.balanced:
            capacity = float(self._cluster.cards.sum())
            self._reserve.settle(self._idle, capacity - self._cluster.allocated / CARD)

    def place(self, shape: Shape, row: int) -> Place:
        """The best cards of a row that fits, as it was worked out last."""
        if shape.cards == 1:
            return row, [int(self._kept.losses_for(shape, self._losses(shape)).card[row])]
        at = self._cluster.rows(np.array([row]))
        return row, losses(at, self._demand_shape(shape), self.forecast).cards[0].tolist()

    def steps(self, shape: Shape) -> Floats:
        """Of every row; infinite where it does not fit."""
        return self._kept.losses_for(shape, self._losses(shape)).steps

    def _losses(self, shape: Shape) -> LossFunction:
        def compute(at: Ints | None) -> tuple[Floats, Ints]:
            rows = self._cluster.rows(at)
            now = room(rows, self.forecast, self._scarce if at is None else self._scarce[at])
            found = losses(
                rows, self._demand_shape(shape), self.forecast, balanced=self.balanced, now=now
            )
            first = found.cards[:, 0] if shape.cards else np.zeros(len(found.node), np.int64)
            return found.steps, first

        return compute

    def _demand_shape(self, shape: Shape) -> DemandShape:
        if shape not in self._asks:
            self._asks[shape] = demand_shape(self._cluster, shape)
        return self._asks[shape]

    def _past(self, counts: Mapping[Shape, float]) -> Demand:
        with_cards = [(shape, count) for shape, count in counts.items() if shape.cards]
        asked = sum(shape.milli_in_all * count for shape, count in with_cards)
        others = sum(shape.cpu * count for shape, count in counts.items() if not shape.cards)
        capacity = CARD * float(self._cluster.cards.sum())
        return Demand(
            held_cpu=others * capacity / asked if asked else 0,
            asks=tuple((self._demand_shape(shape), float(count)) for shape, count in with_cards),
            cpu=float(sum(shape.cpu * count for shape, count in with_cards)),
            memory=float(sum(shape.memory * count for shape, count in with_cards)),
        )


def kinds(cluster: Cluster) -> CardKinds:
    """One per model; a card has one resource, its thousandths. The cluster is idle."""
    cards = [int(cluster.cards[cluster.model == i].sum()) for i in range(len(cluster.models))]
    return CardKinds(
        totals=np.array([[1], *([CARD] for _ in cards)]),
        cards=np.array([0, *cards]),
        vendor=np.zeros(1 + len(cards), np.int64),
        amounts=1,
        nodes=cluster.rows(None).nodes,
    )


def demand_shape(cluster: Cluster, shape: Shape) -> DemandShape:
    """The shape on these kinds."""
    allowed = np.concatenate([[False], cluster.allowed(shape)])
    return DemandShape(
        need=np.array([[0], *([shape.milli] for _ in cluster.models)]),
        allowed=allowed,
        alone=np.full(len(allowed), shape.milli == CARD),
        count=shape.cards,
        cpu=float(shape.cpu),
        memory=float(shape.memory),
    )
