"""A queue: what a team's gangs may use of a cluster, whatever kind of object says so.

Amounts are by dimension: a vendor's cards, card memory and cores, in the units of dialects, and for
any other resource its own name, in thousandths of a CPU, bytes or pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from tessera_core.gangs.gang import GangOrigin


class QueueOrigin(Struct, frozen=True):
    """A kind of object that describes queues."""

    group: str
    kind: str


VOLCANO_QUEUE: Final = QueueOrigin("scheduling.volcano.sh", "Queue")
KOORDINATOR_QUOTA: Final = QueueOrigin("scheduling.sigs.k8s.io", "ElasticQuota")
PLAIN_QUOTA: Final = QueueOrigin("scheduling.x-k8s.io", "ElasticQuota")
SERVED_BY: Final[Mapping[GangOrigin, QueueOrigin]] = {
    GangOrigin.VOLCANO: VOLCANO_QUEUE,
    GangOrigin.KOORDINATOR: KOORDINATOR_QUOTA,
}
"""Whose gangs go by which queues."""


class QueueDimension(NamedTuple):
    """What an amount of a queue is counted in."""

    vendor: str
    """Empty for a resource that is no card's."""
    what: str
    """`cards`, `memory` or `cores` of a vendor's cards; else the resource's name."""

    def __str__(self) -> str:
        """As messages print it."""
        return f"{self.what} of {self.vendor}" if self.vendor else self.what


QueueAmounts = Mapping[QueueDimension, float]


class QueueSpec(Struct, frozen=True, kw_only=True):
    """One queue, whatever kind of object describes it."""

    origin: QueueOrigin
    name: str
    namespace: str = ""
    """Of an ElasticQuota: pods of the namespace that name no queue are in it."""
    parent: str = ""
    """Name of the queue that it is a part of; empty = it is a root's child."""
    guarantee: QueueAmounts = {}
    """Its own, never lent."""
    deserved: QueueAmounts = {}
    """Its own, lent while it is idle."""
    cap: QueueAmounts = {}
    """The most that it may use; a dimension that is not named is not limited."""
    weight: float = 1
    weights: QueueAmounts = {}
    """By dimension, where that differs from `weight`."""
    priority: int = 0
    reclaimable: bool = True
    fifo: bool = False
    """Nobody passes the first one in line."""
    open: bool = True
    state: str = "Open"
    """As the object says it."""
    created: str = ""

    @property
    def where(self) -> str:
        """Kind and name, as messages print them."""
        return f"{self.origin.kind} {self.name}"
