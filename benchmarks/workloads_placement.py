"""Where pods go: by the scheduler's own placement into a real ledger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from benchmarks.workloads_cluster import Run, cards_of, node_name
from benchmarks.workloads_packing import Packing
from benchmarks.workloads_pods import Workload
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.packing.packer import Packer
from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.scheduling.reserve import Reserved, try_reserve


class SeatGrant(NamedTuple):
    """What a pod holds of one card."""

    card: int
    """Its number in the cluster; for a bound without cards, the pool's."""
    cores_percent: float
    memory_bytes: int
    best_effort: bool = False
    spare: bool = False
    """Its memory is what owners do not use (`workloads_memory`)."""


class Placement(Protocol):
    """Gives pods their cards."""

    def place(self, run: Run, now: float) -> Sequence[SeatGrant] | None:
        """The pod's cards; None while there is no room."""

    def release(self, run: Run) -> None:
        """The pod is gone."""

    def learn(self, now: float) -> None:
        """Time has passed."""


class SchedulerPlacement:
    """As the scheduler does it: `try_reserve`, in the default order, which learns what comes."""

    def __init__(self, workload: Workload) -> None:
        """All cards are free."""
        self.ledger = Ledger()
        packer = Packer()
        self.placer = Placer(self.ledger.fleet, ScreenCache(), packer)
        self._packing = Packing(self.ledger.fleet, packer)
        self.cards = [cards_of(node, workload) for node in range(workload.nodes)]
        self.name_of = [card.id for cards in self.cards for card in cards]
        self.number_of = {name: n for n, name in enumerate(self.name_of)}
        for node, cards in enumerate(self.cards):
            self.ledger.put_node(node_name(node), cards)

    def place(self, run: Run, now: float) -> Sequence[SeatGrant] | None:
        """What the scheduler reserves, bound at once."""
        decided = try_reserve(self.ledger, self.placer, run.request, None, now)
        if not isinstance(decided, Reserved):
            return None
        self.ledger.binding_sent(run.request.uid)
        self.ledger.resolve_binding(run.request.uid, bound=True)
        run.grant = decided.grant
        if not run.moves:
            self._packing.count(run.request, now)
        return [
            SeatGrant(
                self.number_of[share.card],
                share.cores_percent,
                share.memory_bytes,
                bool(share.best_effort),
            )
            for share in decided.grant.shares
        ]

    def release(self, run: Run) -> None:
        """Its grant ends."""
        self.ledger.ended(run.request.uid)

    def learn(self, now: float) -> None:
        """The packer does, when it is due."""
        self._packing.learn(now)
