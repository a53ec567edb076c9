"""What a gang that waits will get, and when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from tessera_core.gangs.reservation import Seats
from tessera_schema.annotation_keys import EXPECTED_KEY

MARGIN: Final = 0.1
"""The part by which a pod may run longer than it says."""


class Shadow(Struct, frozen=True, kw_only=True):
    """Places for all members of a gang, on the cluster as it will be."""

    of: str
    """Who waits, as messages print it: `gang namespace/name` or `pod namespace/name`."""
    key: str
    """Who waits: the first id of the bundle's gangs, or the pod's uid."""
    priority: int
    seats: Seats
    at: float | None
    """When all of it is expected to be free, in seconds of the caller's clock; None = nobody
    knows."""
    until: str = ""
    """The same as messages print it; empty where nobody knows."""

    @property
    def cards(self) -> Mapping[str, frozenset[str]]:
        """Node -> ids of the cards that it takes there."""
        return cards_of(self.seats)

    def lets_pass(self, lasts_s: float | None, now: float) -> bool:
        """Whether what starts now and lasts so long has ended in time, with a margin."""
        if self.at is None or lasts_s is None:
            return False
        return now + lasts_s * (1 + MARGIN) <= self.at

    def note(self, of: str) -> str:
        """Whose its cards are, in the words `of`, and until when."""
        return f"cards are reserved for {of} until {self.until or 'it starts'}"

    def hinders(self) -> str:
        """Why others do not get its cards, and what would help."""
        passes = "a pod of a higher priority passes"
        if self.at is not None:
            passes = (
                f"a pod passes that says in activeDeadlineSeconds or {EXPECTED_KEY} that it ends "
                "before, or has a higher priority"
            )
        until = self.until or "it starts"
        return f"would delay {self.of}: its cards are reserved until {until}; {passes}"


def cards_of(seats: Seats) -> Mapping[str, frozenset[str]]:
    """Node -> ids of the cards that these places take there."""
    found: dict[str, set[str]] = {}
    for seat in seats.values():
        if seat.grant is not None:
            mine = found.setdefault(seat.node, set())
            mine.update(share.card for share in seat.grant.shares)
    return {node: frozenset(ids) for node, ids in found.items()}
