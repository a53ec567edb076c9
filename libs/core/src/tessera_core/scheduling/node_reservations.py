"""Nodes on which room is made for a waiting pod, and the pods that they are closed to meanwhile.

A plan evicts one pod after another, and so does kube-scheduler's preemption, which then nominates
the node; what becomes free must not go to the next pod that comes. So until the pod has cards or is
gone, or the time is over, no pod without a higher priority is placed on that node with cards of a
vendor that the pod asks for. Nothing is added to the ledger: the pod itself may be placed anywhere,
and a node that is closed too long costs room, never truth. Room that is free before a nomination is
observed may be taken by another pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_schema.requests import PodRequest

MOST: Final = 64
"""Reservations that count at a time, the oldest first."""
LONGEST_S: Final = 900.0
"""Seconds for which one may hold, whatever is written on the pod."""


class NodeReservation(Struct, frozen=True, kw_only=True):
    """The node on which room is made for one waiting pod."""

    uid: str
    pod: str
    """`namespace/name`."""
    node: str
    until: float
    """Unix time in seconds."""
    priority: int = 0
    vendors: frozenset[str] = frozenset()
    plan: str = ""
    nominated: bool = False
    """kube-scheduler evicted pods there for it; its nomination has no time."""


class NodeReservations:
    """The reservations of all waiting pods."""

    def __init__(self, has_cards: Callable[[str], object] = lambda _: False) -> None:
        """`has_cards` is true of a pod (uid) that the ledger has: it needs no reservation."""
        self._has_cards = has_cards
        self._by_pod: dict[str, NodeReservation] = {}
        self._over: dict[str, str] = {}
        """Pod -> node of a nomination that has held long enough: it must not begin again with each
        change of the pod."""

    def __len__(self) -> int:
        """How many pods have one."""
        return len(self._by_pod)

    def node_of(self, uid: str) -> str:
        """The node that is reserved for the pod; empty where none is."""
        held = self._by_pod.get(uid)
        return "" if held is None else held.node

    def put(self, held: NodeReservation, now: float) -> bool:
        """Add the reservation on the pod; False when that changes nothing."""
        if held.until <= now or (held.nominated and self._over.get(held.uid) == held.node):
            return self._drop(held.uid)
        known = self._by_pod.get(held.uid)
        if known is None and len(self._by_pod) >= MOST:
            return False
        if known is not None and _room(known) == _room(held):
            return False
        self._over.pop(held.uid, None)
        self._by_pod[held.uid] = replace(held, until=min(held.until, now + LONGEST_S))
        return True

    def drop(self, uid: str) -> bool:
        """Remove the reservation of a pod that is bound or gone, or has none any more; False when
        none was known."""
        self._over.pop(uid, None)
        return self._drop(uid)

    def keep(self, uids: frozenset[str]) -> bool:
        """Remove those of all other pods; False when there are none."""
        others = (self._by_pod.keys() | self._over.keys()) - uids
        return sum(self.drop(uid) for uid in others) > 0

    def expire(self, now: float) -> bool:
        """Remove those whose time is over; False when there are none."""
        over = [h for h in self._by_pod.values() if h.until <= now]
        self._over |= {h.uid: h.node for h in over if h.nominated}
        return sum(self._drop(h.uid) for h in over) > 0

    def closed_to(self, request: PodRequest, priority: int, now: float) -> Mapping[str, str]:
        """The nodes that the pod must leave to others, with why in words."""
        if not self._by_pod:
            return {}
        vendors = {r.vendor for c in request.containers for r in c.requests}
        return {
            held.node: _reason(held)
            for held in self._by_pod.values()
            if held.uid != request.uid
            and priority <= held.priority
            and held.until > now
            and not vendors.isdisjoint(held.vendors)
            and not self._has_cards(held.uid)
        }

    def _drop(self, uid: str) -> bool:
        return self._by_pod.pop(uid, None) is not None


def _room(held: NodeReservation) -> tuple[str, str, bool]:
    return held.node, held.plan, held.nominated


def _reason(held: NodeReservation) -> str:
    by = " by preemption" if held.nominated else f" by plan {held.plan}" if held.plan else ""
    return f"room is being made there{by} for {held.pod}, of priority {held.priority}"
