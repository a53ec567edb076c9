"""Best-effort memory: what owners were granted and do not use, given to best-effort pods.

A best-effort pod that asks for one card is booked in a column of its own, and the ledger, in which
owners find their place, does not know of it. It has the card with the least room that does
(`tessera_core.usage.memory_room`). Where an owner comes and too little is left for it, the youngest
best-effort pods end before it starts; where owners grow beyond their margin, they end in the tick
in which there is too little, which counts whole, and the card is closed for an hour. A pod that
ended waits again, its work since its last checkpoint lost. Nobody shares a card with an owner that
was granted all of its cores.
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
from tessera_core.usage.memory_room import MemoryRoomRules, left_bytes, owners_bytes, room_bytes
from tessera_schema.cards import MIB

SEATS: Final = 2 * SLOTS
"""On each card: as many best-effort pods as owners."""


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
        free = self.seats.spare.sum(1) < SLOTS
        room = np.where(free, room_bytes(self._left(now), self.closed(now)), 0.0)
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

    def close(self, card: int, now: float) -> None:
        """An owner was hurt there."""
        self._closed_until[card] = now + self.rules.closed_s

    def short(self, now: float) -> Floats:
        """Bytes that best-effort pods hold too many of, of each card."""
        found: Floats = np.maximum(-self._left(now), 0.0)
        return found

    def short_now(self, now: float) -> Floats:
        """Bytes in use beyond what a card has, before anybody starts who has just come."""
        used = np.where(self.seats.sat <= now, self.seats.memory_in_use(now), 0.0)
        found: Floats = np.maximum(used.sum(1) - self._card_bytes, 0.0)
        return found

    def _left(self, now: float) -> Floats:
        seats = self.seats
        memory = seats.memory.astype(np.float64)
        granted = np.where(seats.spare, 0.0, memory)
        peaks = np.where(self._who == seats.job, self._peaks, 0.0)
        owners = owners_bytes(granted, peaks, now - seats.sat, self.rules)
        owners[seats.promised >= WHOLE] = self._card_bytes
        return left_bytes(self._card_bytes, owners, np.where(seats.spare, memory, 0.0))
