"""The search of places for a bundle: for all members that wait, else for exactly the minimum; for
the minimum alone where that of another bundle goes before the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tessera_core.gang_planner.answers import waits
from tessera_core.gang_scheduling.queues import SchedulingQueues
from tessera_core.gang_scheduling.registry import GangBundle
from tessera_core.gangs.gang import GangMember
from tessera_core.gangs.quorum import minimum_members
from tessera_core.gangs.reservation import GangReservation, GangReserved
from tessera_core.gangs.scratch import MemberSeat

RoomFor = Callable[[GangBundle, Sequence[GangMember]], GangReservation | str]
"""Begins the search of places for these members together; or why they have none in any case."""


def versions(room: Callable[[], int], queues: SchedulingQueues | None) -> Callable[[], int]:
    """What changes whenever another search may find room that the last one did not; `room` does
    where free cards, nodes or pods change."""
    return room if queues is None else lambda: room() + queues.version


class BundleSearch:
    """Goes on in slices, as `GangReservation` does."""

    def __init__(
        self,
        bundle: GangBundle,
        room_for: RoomFor,
        version: int,
        opened: frozenset[str] = frozenset(),
        *,
        least: bool = False,
    ) -> None:
        """`version` is that of the room there is as the search begins; `opened` says whose reserved
        cards may be used (`ShadowCards.key`). With `least` only the minimum starts together."""
        self.bundle = bundle
        self.version = version
        self._room_for = room_for
        self._opened = opened
        self._left = _alternatives(bundle, least=least)
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
            begun.open_reserved(self._opened)
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
        self._why = waits(found).message
        return None


def _alternatives(bundle: GangBundle, *, least: bool) -> Iterator[Sequence[GangMember]]:
    """Members without a node that may start together, the largest set first. Where members have to
    arrive together each time, none is left for later."""
    everyone = [member for member in bundle.waiting if not member.pod.spec.node_name]
    chosen = [member for members in bundle.gangs for member in minimum_members(members)]
    minimum = [member for member in chosen if not member.pod.spec.node_name]
    fewer = 0 < len(minimum) < len(everyone)
    if everyone and not (least and fewer and not bundle.arriving):
        yield everyone
    if fewer:
        yield minimum
