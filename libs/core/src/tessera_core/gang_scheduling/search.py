"""The search of places for a bundle: for all members that wait, else for exactly the minimum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tessera_core.gang_planner.answers import waits
from tessera_core.gang_scheduling.registry import GangBundle
from tessera_core.gangs.gang import GangMember
from tessera_core.gangs.quorum import minimum_members
from tessera_core.gangs.reservation import GangReservation, GangReserved
from tessera_core.gangs.scratch import MemberSeat

RoomFor = Callable[[GangBundle, Sequence[GangMember]], GangReservation | str]
"""Begins the search of places for these members together; or why they have none in any case."""


class BundleSearch:
    """Goes on in slices, as `GangReservation` does."""

    def __init__(self, bundle: GangBundle, room_for: RoomFor, version: int, note: str = "") -> None:
        """`version` is that of the room there is as the search begins; `note` says why cards
        that are reserved for a gang in line may not be used; empty where they may."""
        self.bundle = bundle
        self.version = version
        self._room_for = room_for
        self._note = f"; {note}" if note else ""
        self._left = _alternatives(bundle)
        self._current: GangReservation | None = None
        self._why = "none of its members can be placed"

    def advance(self, steps: int, now: float) -> GangReserved | str | None:
        """Go on for so many fits: places that the ledger holds now, why there are none, or None
        while there is no answer."""
        if self._current is None:
            together = next(self._left, None)
            if together is None:
                return self._why
            begun = self._room_for(self.bundle, together)
            if isinstance(begun, str):
                self._why = begun
                return None
            if not self._note:
                begun.open_reserved()
            self._current = begun
        found = self._current.advance(steps, now)
        if found is None:
            return None
        self._current = None
        if isinstance(found, GangReserved):
            early = {
                member.pod.metadata.uid: MemberSeat(member.pod.spec.node_name, None)
                for member in self.bundle.waiting if member.pod.spec.node_name
            }  # fmt: skip
            return GangReserved({**early, **found.seats})
        self._why = f"{waits(found).message}{self._note}"
        return None


def _alternatives(bundle: GangBundle) -> Iterator[Sequence[GangMember]]:
    """Members without a node that may start together, the largest set first."""
    everyone = [member for member in bundle.waiting if not member.pod.spec.node_name]
    if everyone:
        yield everyone
    chosen = [member for members in bundle.gangs for member in minimum_members(members)]
    least = [member for member in chosen if not member.pod.spec.node_name]
    if 0 < len(least) < len(everyone):
        yield least
