"""What the driver saw of containers' work: a container's own counters may say anything.

The figures come with each look at usage, every two seconds; a driver that tells no times of its
processes still tells that there are some.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tessera_core.hook.records import uuid_key
from tessera_core.node.usage_rates import DriverSample


class DriverEvidence:
    """When the driver saw each container work last, card by card."""

    def __init__(self, valid_s: float) -> None:
        """Nothing was seen. What was seen counts for so many seconds."""
        self._valid_s = valid_s
        self._seen: dict[tuple[str, str], float] = {}

    def note(
        self, driven: Mapping[str, Mapping[str, DriverSample]], timed: Collection[str], now: float
    ) -> None:
        """Container's id -> card's key -> what its processes did there since the note before. Of
        cards that are `timed` the driver tells how long processes kept them busy; where it has no
        newer figure nobody did."""
        kept = {each: at for each, at in self._seen.items() if now - at <= self._valid_s}
        for container, cards in driven.items():
            for card, one in cards.items():
                if one.busy_ns > 0 or (one.processes and card not in timed):
                    kept[container, card] = now
        self._seen = kept

    def works(self, container: str, card: str, now: float) -> bool:
        """Whether the driver saw it work on the card of late."""
        at = self._seen.get((container, uuid_key(card)))
        return at is not None and now - at <= self._valid_s
