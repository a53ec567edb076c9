"""Nodes on which a plan makes room for a waiting pod, and to whom they are closed meanwhile.

A plan evicts one pod after another; what becomes free must not go to whoever asks next. So until
the pod is bound or gone, or the time is over, nobody of no higher priority is placed on that node
with cards of a make that the pod asks for. Nothing is added to the books: the pod itself may be
placed anywhere, and a node that is closed too long costs room, never truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from tessera_schema.requests import PodRequest

MOST: Final = 64
"""Reservations that count at a time, the oldest first."""
LONGEST_S: Final = 900.0
"""Seconds for which one may hold, whatever is written on the pod."""


class Holding(Struct, frozen=True, kw_only=True):
    """One waiting pod's."""

    uid: str
    pod: str
    """`namespace/name`."""
    node: str
    until: float
    """Unix time in seconds."""
    priority: int = 0
    vendors: frozenset[str] = frozenset()
    plan: str = ""


class Reserved:
    """All of them."""

    def __init__(self) -> None:
        """None."""
        self._by_pod: dict[str, Holding] = {}

    def __len__(self) -> int:
        """How many hold."""
        return len(self._by_pod)

    def put(self, held: Holding, now: float) -> bool:
        """The pod bears this; False when that changes nothing."""
        if held.until <= now:
            return self.drop(held.uid)
        known = self._by_pod.get(held.uid)
        if known is None and len(self._by_pod) >= MOST:
            return False
        if known is not None and (known.node, known.plan) == (held.node, held.plan):
            return False
        until = min(held.until, now + LONGEST_S)
        self._by_pod[held.uid] = Holding(
            uid=held.uid, pod=held.pod, node=held.node, until=until, priority=held.priority,
            vendors=held.vendors, plan=held.plan,
        )  # fmt: skip
        return True

    def drop(self, uid: str) -> bool:
        """The pod is bound or gone, or bears none any more; False when none was known."""
        return self._by_pod.pop(uid, None) is not None

    def keep(self, uids: frozenset[str]) -> bool:
        """Drop those of all other pods."""
        return sum(self.drop(uid) for uid in self._by_pod.keys() - uids) > 0

    def expire(self, now: float) -> bool:
        """Drop those whose time is over; False when there are none."""
        over = [h.uid for h in self._by_pod.values() if h.until <= now]
        return sum(self.drop(uid) for uid in over) > 0

    def closed_to(self, request: PodRequest, priority: int, now: float) -> Mapping[str, str]:
        """The nodes that the pod must leave to others, with why in words."""
        if not self._by_pod:
            return {}
        vendors = {r.vendor for c in request.containers for r in c.requests}
        return {
            held.node: _told(held)
            for held in self._by_pod.values()
            if held.uid != request.uid
            and priority <= held.priority
            and held.until > now
            and not vendors.isdisjoint(held.vendors)
        }


def _told(held: Holding) -> str:
    by = f" by plan {held.plan}" if held.plan else ""
    return f"room is being made there{by} for {held.pod}, of priority {held.priority}"
