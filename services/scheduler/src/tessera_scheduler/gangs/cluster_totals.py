"""What a cluster has in all, as queues are measured by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tessera_core.gang_scheduling.queues import ENTITLED_S
from tessera_core.gangs.queue_turns import cluster_totals
from tessera_core.gangs.queues import QueueAmounts
from tessera_core.ledger.ledger import Ledger
from tessera_runtime.monotonic_clock import MonotonicClock
from tessera_schema.kube import Node


class ClusterTotals:
    """All amounts of the cluster, worked out every few seconds: on 5,000 nodes that takes 60 ms,
    and the share of each queue is made of them."""

    def __init__(
        self, ledger: Ledger, nodes: Callable[[], Iterable[Node]], clock: MonotonicClock
    ) -> None:
        """The ledger has the cards, `nodes` gives the rest."""
        self._ledger = ledger
        self._nodes = nodes
        self._clock = clock
        self._known: QueueAmounts = {}
        self._rows = -1
        self._until = float("-inf")

    def __call__(self) -> QueueAmounts:
        """As they are, or were a few seconds ago where no node came or went since."""
        fleet, now = self._ledger.fleet, self._clock.time()
        if now >= self._until or len(fleet.rows) != self._rows:
            self._known = cluster_totals(fleet, self._nodes())
            self._rows, self._until = len(fleet.rows), now + ENTITLED_S
        return self._known
