"""Members beyond a gang's minimum come last: the minimum of another gang goes before them.

A gang for which room was searched in vain lets them pass until other room comes free, so that cards
do not stand idle for a gang that they do not suffice for. What is reserved for gangs in line is
another matter (`line_shadows`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tessera_core.gang_scheduling.attempt import KnownBundle
from tessera_core.gang_scheduling.queues import Place, SchedulingQueues
from tessera_core.gang_scheduling.turns import BY_ITSELF, in_order, turn_of
from tessera_core.gangs.quorum import has_minimum
from tessera_core.ledger.ledger import Ledger
from tessera_core.machines.gang import GangPhase

MOST_BEFORE: Final = 16
"""Gangs in the order of turns that may hold members back: room is searched for all of them within
`PASS_S`."""


class SurplusTurns:
    """Whether members beyond the minimum may start."""

    def __init__(
        self, ledger: Ledger, queues: SchedulingQueues | None, version: Callable[[], int]
    ) -> None:
        """`queues` decide about turns, None = there are none. `version` changes whenever another
        search may find room that the last one did not."""
        self._ledger = ledger
        self._queues = queues
        self._version = version
        self._held: dict[int, KnownBundle] = {}
        """Bundles of which a member was held back, by identity."""

    def why_not(
        self, uid: str, known: KnownBundle, bundles: Iterable[KnownBundle], now: float
    ) -> str:
        """Why a member of a bundle that has started waits for its turn; empty where it may start:
        it has cards, its own gang is below its minimum, or no other one is before it. Room for
        those before it is searched at once."""
        if known.attempt.phase is not GangPhase.STARTED or not self._is_surplus(uid, known):
            return ""
        line = self._line(bundles, now)
        first = self._before(known, line, now)
        if first is None:
            return ""
        self._held[id(known)] = known
        for other in line:
            other.attempt.hurry(now)
        return (
            f"gang {known.bundle.name} has its minimum: that of "
            f"{first.bundle.name_for(known.bundle)} goes before its other members"
        )

    def holds_back(self, known: KnownBundle, bundles: Iterable[KnownBundle], now: float) -> bool:
        """Whether a bundle that is about to start leaves its members beyond the minimum for
        later."""
        if len(known.bundle.waiting) <= known.bundle.needed:
            return False
        return self._before(known, self._line(bundles, now), now) is not None

    def released(self, bundles: Iterable[KnownBundle], now: float) -> bool:
        """Whether members that were held back may start now, or nobody holds them any more: pods
        have to be tried again."""
        if not self._held:
            return False
        there = {id(known): known for known in bundles}
        line = self._line(there.values(), now)
        free = [
            key for key, known in self._held.items()
            if key not in there or known.attempt.phase is not GangPhase.STARTED
            or self._before(known, line, now) is None
        ]  # fmt: skip
        for key in free:
            del self._held[key]
        return bool(free)

    def reset(self) -> None:
        """Nobody is held back."""
        self._held = {}

    def _line(self, bundles: Iterable[KnownBundle], now: float) -> Sequence[KnownBundle]:
        """The first bundles that wait for room, without those that come behind another one of a
        queue that nobody passes."""
        waiting = (
            known for known in bundles
            if known.attempt.waits and known.bundle.requests_cards and not known.bundle.lacks
        )  # fmt: skip
        found, heads = list[KnownBundle](), set[Place]()
        for known in in_order(waiting, self._queues, now):
            place = self._fifo(known)
            if place not in heads:
                found.append(known)
            if place is not None:
                heads.add(place)
        return found[:MOST_BEFORE]

    def _before(
        self, known: KnownBundle, line: Iterable[KnownBundle], now: float
    ) -> KnownBundle | None:
        own, fifo = self._turn(known, now, surplus=True), self._fifo(known)
        version = self._version()
        for other in line:
            if other is known:
                continue
            if self._turn(other, now) > own:
                return None
            if not other.attempt.lets_pass(version, now):
                return other
            if fifo is not None and self._fifo(other) == fifo:
                return other
        return None

    def _is_surplus(self, uid: str, known: KnownBundle) -> bool:
        if self._has_cards(uid):
            return False
        for members in known.bundle.gangs:
            if any(member.pod.metadata.uid == uid for member in members.waiting):
                starting = (m for m in members.waiting if self._has_cards(m.pod.metadata.uid))
                return members.gang.together and has_minimum(members, starting)
        return False

    def _has_cards(self, uid: str) -> bool:
        return self._ledger.entry(uid) is not None

    def _fifo(self, known: KnownBundle) -> Place | None:
        """The bundle's queue, if nobody passes its first one."""
        place = None if self._queues is None else self._queues.place(known.bundle)
        if place is None or self._queues is None or not self._queues.is_fifo(place):
            return None
        return place

    def _turn(self, known: KnownBundle, now: float, *, surplus: bool = False) -> tuple[object, ...]:
        queue = BY_ITSELF if self._queues is None else self._queues.share(known.bundle, now)
        return turn_of(known, queue, surplus=surplus)
