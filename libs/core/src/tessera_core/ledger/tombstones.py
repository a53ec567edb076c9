"""What the ledger remembers in addition to its entries: pods that have ended, and pods it cannot
read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import Final

from tessera_core.fleet.fleet import Fleet

REMEMBERED: Final = 100_000


class Tombstones:
    """Pods that have ended: a late event must not bring them back."""

    def __init__(self) -> None:
        """Nobody has ended."""
        self._uids: dict[str, None] = {}

    def __contains__(self, uid: str) -> bool:
        """True when the pod is known to have ended."""
        return uid in self._uids

    def add(self, uid: str) -> None:
        """The pod has ended. The oldest ends are forgotten beyond 100,000."""
        self._uids[uid] = None
        if len(self._uids) > REMEMBERED:
            del self._uids[next(iter(self._uids))]

    def keep(self, uids: Container[str]) -> None:
        """After a list only the pods that it shows can still be reported late."""
        self._uids = {uid: None for uid in self._uids if uid in uids}


class BlockedNodes:
    """Pods whose grants this release cannot read. Their nodes take no others: the fleet's column
    says so of those that it has."""

    def __init__(self, fleet: Fleet) -> None:
        """All pods can be read."""
        self._fleet = fleet
        self._nodes: dict[str, tuple[str, float]] = {}
        self._count: Counter[str] = Counter()

    def add(self, uid: str, node: str, now: float) -> None:
        """The pod, seen at `now`, closes its node."""
        if uid not in self._nodes:
            self._nodes[uid] = node, now
            self._count[node] += 1
        self.mark(node)

    def discard(self, uid: str) -> bool:
        """The pod can be read, or has ended; True when that was not so."""
        node, _ = self._nodes.pop(uid, (None, 0.0))
        if node is None:
            return False
        self._count[node] -= 1
        if not self._count[node]:
            del self._count[node]
        self.mark(node)
        return True

    def mark(self, node: str) -> None:
        """Let the fleet know whether some pod closes the node."""
        row = self._fleet.rows.get(node)
        if row is not None:
            self._fleet.blocked[row] = node in self._count

    def before(self, time: float) -> list[str]:
        """The pods known since before `time`."""
        return [uid for uid, (_, since) in self._nodes.items() if since < time]
