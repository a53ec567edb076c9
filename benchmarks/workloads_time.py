"""How a tick's time is divided among the seats: what a card gives, or a bound."""

from __future__ import annotations

import numpy as np

from benchmarks.workloads_bounds import Bound
from benchmarks.workloads_cards import FULL, CardModel
from benchmarks.workloads_cluster import REACTION_S, SETTLE_S, TICK_S
from benchmarks.workloads_pods import Workload
from benchmarks.workloads_seats import Seats
from tessera_core.fleet.arrays import Floats, Ints


class TimeDivision:
    """Of one cluster."""

    def __init__(
        self, seats: Seats, model: CardModel, workload: Workload, bound: Bound | None
    ) -> None:
        """Nobody got anything yet."""
        self._seats, self._model, self._workload, self._bound = seats, model, workload, bound
        self._known: tuple[Floats, Floats] | None = None
        """Of the last tick: what was wanted, the limits and who it was, and what they got."""

    def pass_tick(self, wants: Floats, lent_before: Floats) -> tuple[Floats, Floats]:
        """What all get in the mean of a tick at whose start so much was lent, and their limits at
        its end; all (cards, seats)."""
        if self._bound is not None:
            room = self._model.capacity(wants, self._seats.load)
            got = self._bound.divide(wants, self._seats.promised, room, self._workload)
            return got, np.full_like(wants, FULL)
        return self._divided(wants, np.where(self._seats.job >= 0, lent_before, 0))

    def room(self, wants: Floats, limits: Floats) -> Floats:
        """Percent of each card that can be used."""
        return self._model.capacity(np.minimum(wants, limits), self._seats.load)

    def divide(self, wants: Floats, limits: Floats, cards: Ints) -> Floats:
        """Percent that all get who sit on these cards; both (cards, seats)."""
        loads, serving = self._seats.load[cards], self._seats.serving[cards]
        return self._model.divide(wants, limits, loads, serving)

    def _divided(self, wants: Floats, old: Floats) -> tuple[Floats, Floats]:
        own, lent = self._seats.limits(), self._seats.lent
        limits = own + lent
        then = self._after_settling(wants, limits)
        first, settling = then.copy(), then.copy()
        loaned = np.flatnonzero((old != lent).any(1))
        if len(loaned):
            before = own[loaned] + old[loaned]
            first[loaned] = self.divide(wants[loaned], before, loaned)
            between = np.minimum(before, limits[loaned])
            settling[loaned] = self.divide(wants[loaned], between, loaned)
        got: Floats = (
            first * REACTION_S + settling * (SETTLE_S - REACTION_S) + then * (TICK_S - SETTLE_S)
        ) / TICK_S
        return got, limits

    def _after_settling(self, wants: Floats, limits: Floats) -> Floats:
        """What all get once loans have settled; cards on which nothing changed are as before."""
        now = np.stack((wants, limits, self._seats.job))
        if self._known is None:
            self._known = np.full_like(now, np.nan), np.zeros_like(wants)
        known, given = self._known
        fresh = np.flatnonzero((now != known).any((0, 2)))
        if len(fresh):
            given[fresh] = self.divide(wants[fresh], limits[fresh], fresh)
        self._known = now, given
        return given
