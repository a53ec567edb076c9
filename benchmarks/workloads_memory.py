"""Best-effort memory: what is granted or lent and not used, given to best-effort pods.

A best-effort pod that asks for one card is booked in a column of its own, and the ledger, in which
owners find their place, does not know of it. It has the card with the least room that does
(`tessera_core.usage.memory_room`). As in a cluster nothing happens where an owner comes or grows
until the card itself has too little: then the youngest best-effort pods end, and the card is closed
for an hour. A pod that ended waits again, its work since its last checkpoint lost. Nobody shares a
card with an owner that was granted all of its cores: it has the card to itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from benchmarks.workloads_cluster import SLOTS, WHOLE, Run
from benchmarks.workloads_placement import Placement, SeatGrant
from benchmarks.workloads_pods import Workload
from benchmarks.workloads_seats import Seats
from tessera_core.fleet.arrays import Bools, Floats
from tessera_core.usage.memory_room import MemoryRoomRules, needed_bytes, room_bytes
from tessera_schema.cards import MIB

SEATS: Final = 2 * SLOTS
"""On each card: an owner finds a slot whatever is lent."""


def has_no_grant(run: Run) -> bool:
    """Whether its memory is not booked in the ledger."""
    asks = run.request.containers[0].requests[0]
    return asks.best_effort and asks.count == 1 and asks.equal_parts is None


class SparePlacement:
    """Best-effort pods where owners leave memory, all others as they were."""

    def __init__(self, owners: Placement, workload: Workload, cards: int) -> None:
        """Nobody has come."""
        self._owners, self._card_bytes = owners, workload.memory_mib * MIB
        self.rules = MemoryRoomRules()
        self._peaks = np.zeros((cards, SEATS))
        self._who = np.full((cards, SEATS), -1)
        self._closed_until = np.zeros(cards)
        self.seats: Seats
        """Set once they are made."""

    def place(self, run: Run, now: float) -> Sequence[SeatGrant] | None:
        """The card with the least room that does."""
        if not has_no_grant(run):
            return self._owners.place(run, now)
        asks = run.request.containers[0].requests[0]
        memory = asks.memory_bytes or int(self._card_bytes * asks.memory_percent / 100)
        free = (self.seats.job >= 0).sum(1) < SLOTS
        room = np.where(free, self._room(now), 0.0)
        fits = np.flatnonzero(room >= memory)
        if not len(fits):
            return None
        card = int(fits[room[fits].argmin()])
        return [SeatGrant(card, 0.0, memory, best_effort=True, spare=True)]

    def release(self, run: Run) -> None:
        """Its seat is all that such a pod held."""
        if not has_no_grant(run):
            self._owners.release(run)

    def learn(self, now: float) -> None:
        """Measurements of the last tick, and what the scheduler learns."""
        used = self.seats.memory_in_use(now)
        self._peaks = np.where(self._who == self.seats.job, np.maximum(self._peaks, used), 0.0)
        self._who = self.seats.job.copy()
        self._owners.learn(now)

    def closed(self, now: float) -> Bools:
        """Cards on which an owner was hurt within the hour."""
        return np.asarray(self._closed_until > now)

    @property
    def alone(self) -> Bools:
        """Cards that an owner has to itself."""
        return np.asarray((self.seats.promised >= WHOLE).any(1))

    def close(self, card: int, now: float) -> None:
        """An owner was hurt there."""
        self._closed_until[card] = now + self.rules.closed_s

    def short(self, now: float) -> Floats:
        """Bytes in use beyond what each card has, or that an owner has to itself."""
        used = self.seats.memory_in_use(now)
        lent = np.where(self.seats.spare, used, 0.0).sum(1)
        over = np.maximum(used.sum(1) - self._card_bytes, 0.0)
        found: Floats = np.where(self.alone, lent, over)
        return found

    def _room(self, now: float) -> Floats:
        seats, rules = self.seats, self.rules
        held, held_s = seats.memory.astype(np.float64), now - seats.sat
        peaks = np.where(self._who == seats.job, self._peaks, 0.0)
        needed = needed_bytes(held, peaks, held_s, seats.spare, rules)
        return room_bytes(self._card_bytes, needed, self.closed(now) | self.alone)
