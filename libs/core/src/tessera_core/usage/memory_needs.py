"""What those who have memory of a card count with, granted or lent: the most that was measured of
them, by the rule of `tessera_core.usage.memory_room`.

Who was not measured for a while starts again, and counts with all of it; so does always one whose
pod takes no part in lending. A best-effort container that was granted its memory leaves none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from msgspec import Struct

from tessera_core.usage.lending_terms import GrantedShare, Holders
from tessera_core.usage.memory_room import MemoryRoomRules, needed_bytes
from tessera_core.usage.smoothed import Key, SmoothCard, SmoothNode
from tessera_schema.messages.hints import MemoryNeed

_GAP_S: Final = 600.0
"""After so much silence a container starts again."""


class _Peak(Struct, gc=False):
    """One container on one card. Times are Unix times in seconds, by the node's clock."""

    since: float
    at: float
    memory_bytes: int = 0


class MemoryNeeds:
    """Follows the memory of containers on nodes where some may be lent."""

    def __init__(self, rules: MemoryRoomRules | None = None) -> None:
        """Nobody was measured."""
        self.rules = rules or MemoryRoomRules()
        self._peaks: dict[str, dict[Key, _Peak]] = {}

    def take(self, seen: SmoothNode, holders: Holders) -> None:
        """What is known of the node now; `holders` are those of its cards. Who holds nothing any
        more is forgotten."""
        if not any(card.reclaims for card in seen.cards):
            self.forget(seen.node)
            return
        former, now = self._peaks.get(seen.node, {}), dict[Key, _Peak]()
        for key in holders:
            known = former.get(key)
            if known is not None and 0 <= seen.at - known.at <= _GAP_S:
                now[key] = known
        for one in (one for card in seen.cards for one in card.containers if one.key in holders):
            peak = now.setdefault(one.key, _Peak(seen.at, seen.at))
            peak.at = seen.at
            peak.memory_bytes = max(
                peak.memory_bytes, one.memory_bytes, one.memory_peak_bytes,
                one.memory_day_peak_bytes,
            )  # fmt: skip
        self._peaks[seen.node] = now

    def of(
        self, card: SmoothCard, seen: SmoothNode, holders: Holders
    ) -> tuple[MemoryNeed, ...] | None:
        """The pods that leave memory of a card of the node, as `CardHint.needs`."""
        if not card.reclaims:
            return None
        peaks, held, needs = self._peaks.get(seen.node, {}), dict[str, int](), dict[str, int]()
        for key, share in _counted(card.card, holders):
            need = self._need(peaks.get(key), share, seen.at)
            held[key[0]] = held.get(key[0], 0) + share.memory_bytes
            needs[key[0]] = needs.get(key[0], 0) + need
        return tuple(
            MemoryNeed(uid=uid, memory_bytes=need)
            for uid, need in sorted(needs.items()) if need < held[uid]
        )  # fmt: skip

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._peaks.pop(node, None)

    def _need(self, peak: _Peak | None, share: GrantedShare, at: float) -> int:
        if peak is None or not share.lends:
            return share.memory_bytes
        held, used = np.array([share.memory_bytes]), np.array([peak.memory_bytes])
        held_s, best_effort = np.array([at - peak.since]), np.array([share.best_effort])
        return int(needed_bytes(held, used, held_s, best_effort, self.rules)[0])


def _counted(card: str, holders: Holders) -> Iterator[tuple[Key, GrantedShare]]:
    """Owners, and those that memory of the card is lent to."""
    return (
        (key, share) for key, share in holders.items()
        if key[2] == card and (share.lent or not share.best_effort)
    )  # fmt: skip
