"""Containers that outlived their pods: they hold their cards in the ledger under made-up uids.

Their agent alone reports them. That delays successors on that node's own cards, counts in no
namespace's quota, and ends when the agent no longer reports it, or reports nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_schema.grants import Grant, Share
from tessera_schema.messages.device_reports import DeviceState, Occupied

OCCUPIED: Final = "occupied/"
"""Begins the uids under which they are held."""
NO_NAMESPACE: Final = "(ended)"
"""Stands for their namespace: no namespace can have that name, so no quota counts it."""


class _Left(Struct):
    """What one agent reports."""

    at: float
    """When it reported so last."""
    held: dict[str, tuple[Share, ...]] = {}
    """Uid under which it is held -> what is."""


class OutlivedContainers:
    """Keeps the ledger in step with what agents report of such containers."""

    def __init__(self, ledger: Ledger, *, report_s: float) -> None:
        """What an agent does not repeat counts for `report_s` seconds."""
        self._ledger = ledger
        self._report_s = report_s
        self._left: dict[tuple[str, str], _Left] = {}

    def uids(self) -> Iterable[str]:
        """Those under which something is held."""
        return [uid for left in self._left.values() for uid in left.held]

    def on_device_state(self, state: DeviceState, now: float) -> bool:
        """Count an agent's report; True when cards became free."""
        key = state.node, state.vendor
        had = self._left.pop(key, _Left(now)).held
        reported = {
            f"{OCCUPIED}{state.node}/{state.vendor}/{left.uid}": left
            for left in state.occupied
            if self._ledger.entry(left.uid) is None
        }
        over = [uid for uid in had if uid not in reported or reported[uid].shares != had[uid]]
        for uid in over:
            self._ledger.dropped(uid)
        for uid, left in reported.items():
            if uid in over or uid not in had:
                self._hold(uid, left, state.node, now)
        if reported:
            self._left[key] = _Left(now, {uid: left.shares for uid, left in reported.items()})
        return bool(over)

    def expire(self, now: float) -> bool:
        """Drop what no agent repeated; True when cards became free."""
        old = [key for key, left in self._left.items() if left.at < now - self._report_s]
        for key in old:
            self._let_go(key)
        return bool(old)

    def node_gone(self, node: str) -> None:
        """Drop what was reported of a node that is gone."""
        for key in [key for key in self._left if key[0] == node]:
            self._let_go(key)

    def _let_go(self, key: tuple[str, str]) -> None:
        for uid in self._left.pop(key).held:
            self._ledger.dropped(uid)

    def _hold(self, uid: str, left: Occupied, node: str, now: float) -> None:
        grant = Grant(
            uid=uid, namespace=NO_NAMESPACE, name=left.name, node=node, shares=left.shares
        )
        self._ledger.observe(ObservedPod(uid=uid, grant=grant), now)
