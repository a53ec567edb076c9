"""Placing pods that may use cards which are reserved for a gang in line."""

from __future__ import annotations

from typing import Final

from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache

MOST: Final = 16
"""Placers that are remembered: pods differ in which of the reserved cards they may use."""


class OpenedPlacers:
    """Makes placers of the same fleet with those cards open, each once for each change of more than
    use. They have no packer, to which reserved cards are closed: policy `pack` is binpack there."""

    def __init__(self, placer: Placer) -> None:
        """`placer` is that of all others."""
        self._placer = placer
        self._opened: dict[frozenset[str], Placer] = {}

    def get(self, keys: frozenset[str]) -> Placer:
        """The placer as of now for one that may use what is reserved for these, to be used until
        the fleet changes; that of all others where it is nothing."""
        if not keys:
            return self._placer
        fleet = self._placer.fleet
        found = self._opened.pop(keys, None)
        if found is None or found.fleet.changes is not fleet.changes:
            found = Placer(fleet.opened(keys), ScreenCache())
        self._opened[keys] = found  # the one that was used last comes last
        if len(self._opened) > MOST:
            del self._opened[next(iter(self._opened))]
        return found
