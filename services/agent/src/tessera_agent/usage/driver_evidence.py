"""Which containers the driver saw work: a container's own counters may have any value.

The figures come with each measurement, every two seconds; a driver that reports no times of
processes still reports that there are some.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tessera_core.hook.records import uuid_key
from tessera_core.node.usage_rates import DriverSample


class DriverEvidence:
    """Remembers when the driver saw each container work last, card by card."""

    def __init__(self, valid_s: float) -> None:
        """`valid_s`: seconds for which work that was seen counts."""
        self._valid_s = valid_s
        self._seen: dict[tuple[str, str], float] = {}

    def note(
        self, driven: Mapping[str, Mapping[str, DriverSample]], timed: Collection[str], now: float
    ) -> None:
        """Take the driver's figures. `driven`: container's id -> card's key -> what its processes
        did there since the call before. Of cards that are `timed` the driver reports how long
        processes kept them busy; where it has no newer figure none did."""
        recent = {each: at for each, at in self._seen.items() if now - at <= self._valid_s}
        for container, cards in driven.items():
            for card, one in cards.items():
                if one.busy_ns > 0 or (one.processes and card not in timed):
                    recent[container, card] = now
        self._seen = recent

    def works(self, container: str, card: str, now: float) -> bool:
        """Whether the driver saw the container work on the card recently."""
        at = self._seen.get((container, uuid_key(card)))
        return at is not None and now - at <= self._valid_s
