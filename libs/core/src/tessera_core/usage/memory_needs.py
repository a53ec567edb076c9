"""What those who have memory of a card count with, granted or lent: the most that was measured of
them, by the rule of `tessera_core.usage.memory_room`.

Who was not measured for a while starts again, and counts with all of it; so does always one whose
pod takes no part in lending. A best-effort container that was granted its memory leaves none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
        held, needs = dict[str, int](), dict[str, int]()
        counted = list(_counted(card.card, holders))
        needed = self._needed(self._peaks.get(seen.node, {}), counted, seen.at)
        for ((uid, _, _), share), need in zip(counted, needed, strict=True):
            held[uid] = held.get(uid, 0) + share.memory_bytes
            needs[uid] = needs.get(uid, 0) + need
        return tuple(
            MemoryNeed(uid=uid, memory_bytes=need)
            for uid, need in sorted(needs.items()) if need < held[uid]
        )  # fmt: skip

    def forget(self, node: str) -> None:
        """The node is gone."""
        self._peaks.pop(node, None)

    def _needed(
        self, peaks: Mapping[Key, _Peak], counted: Sequence[tuple[Key, GrantedShare]], at: float
    ) -> list[int]:
        """Of all that are on one card."""
        rows = []
        for key, share in counted:
            peak = peaks.get(key, _Peak(at, at)) if share.lends else _Peak(at, at)
            rows.append((share.memory_bytes, peak.memory_bytes, at - peak.since, share.best_effort))
        held, used, held_s, best_effort = np.array(rows, np.float64).reshape(-1, 4).T[:, None]
        needed = needed_bytes(held, used, held_s, best_effort > 0, self.rules)
        return [int(need) for need in needed[0].tolist()]


def _counted(card: str, holders: Holders) -> Iterator[tuple[Key, GrantedShare]]:
    """Owners, and those that memory of the card is lent to."""
    return (
        (key, share) for key, share in holders.items()
        if key[2] == card and (share.lent or not share.best_effort)
    )  # fmt: skip
