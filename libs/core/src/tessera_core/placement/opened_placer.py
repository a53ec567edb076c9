"""Placing pods that may use cards which are reserved for a gang in line."""

from __future__ import annotations

from tessera_core.placement.placer import Placer
from tessera_core.placement.screen_cache import ScreenCache


class OpenedPlacer:
    """Makes a placer of the same fleet with those cards open, once for each change of more than
    use. It has no packer, to which reserved cards are closed: policy `pack` is binpack there."""

    def __init__(self, placer: Placer) -> None:
        """`placer` is that of all others."""
        self._placer = placer
        self._opened: Placer | None = None

    def get(self) -> Placer:
        """The placer as of now: to be used until the fleet changes."""
        fleet = self._placer.fleet
        if self._opened is None or self._opened.fleet.changes is not fleet.changes:
            self._opened = Placer(fleet.opened(), ScreenCache())
        return self._opened
