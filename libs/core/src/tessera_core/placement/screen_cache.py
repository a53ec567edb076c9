"""What the fleet's rows say to the units that were asked for lately, kept from pod to pod.

Pods mostly come alike, and between two of them the use of one card or two has changed. So the
screen of a unit and the nodes' usage are kept, and worked out again only for the cards that the
fleet wrote down meanwhile (`Fleet.changes`), by the same tests and sums as for all. When more than
use has changed they are worked out in full. Who may be a candidate, quotas, blocked nodes and
pressure are no part of it: they are looked at each time.

Answers are the same without it. A fleet whose columns are written past its own methods must have
none, so a placer of a snapshot has none.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.fleet.columns import CardColumns
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.lent_memory import memory_taken, slots_taken
from tessera_core.placement import predicates
from tessera_core.placement.units import PlacementUnit
from tessera_schema.requests import Request

MOST_UNITS: Final = 32
"""Units whose screens are kept: at 5,000 nodes x 8 cards 0.7 MB each."""
_MANY: Final = 4
"""Where more cards have changed than one for so many rows, all are looked at."""
_FEW: Final = 4
"""So many cards are looked at one by one; more at once, for the price of some six of them."""
_ALL: Final = slice(None)

_Place = tuple[int, int]
"""Row and column of a card."""


class _Screen:
    """The cards that have room for a unit, taken by itself, and the nodes with enough of them.

    The tests are the predicates', turned round: what may be in use of each card at most.
    """

    __slots__ = (
        "_best_effort", "_cores", "_count", "_memory", "_sharers", "_spent", "_upto", "enough",
        "fits",
    )  # fmt: skip

    def __init__(self, fleet: Fleet, unit: PlacementUnit) -> None:
        """Of all rows as they are."""
        request, cards = unit.lead, fleet.cards
        need = unit.need(cards, fleet.models)
        refused = predicates.predicates(
            request, need, cards.idle(),
            models=fleet.models, modes=fleet.modes, ids=ids_in(fleet, request),
        )  # fmt: skip
        may = predicates.passed(refused, fleet.of_vendor(request.vendor))
        alone = np.logical_or(need.alone, request.policy.idle_cards_only)
        sharers = np.where(alone, np.minimum(cards.slots - need.slots, 0), cards.slots - need.slots)
        self._sharers: Ints = np.where(may, sharers, -1)
        self._memory: Ints = cards.memory_total - need.memory
        self._cores: Ints = np.broadcast_to(need.cores, cards.cores_total.shape)
        spent = (self._cores == 0) & (cards.cores_total > 0) & request.needs_free_cores
        self._spent: Bools | None = spent if spent.any() else None
        """Cards that must have free cores though the unit asks for none; None = no such card."""
        self._count, self._best_effort = request.count, request.best_effort
        self.fits: Bools = np.zeros(may.shape, np.bool_, "F")
        self.enough: Bools = np.zeros(len(fleet.names), np.bool_)
        self._upto = len(fleet.changes)
        self._test(cards, _ALL)

    def follow(self, fleet: Fleet) -> None:
        """Look again where use has changed."""
        places, self._upto = changed(fleet, self._upto), len(fleet.changes)
        if places is None:
            self._test(fleet.cards, _ALL)
        elif len(places) > _FEW:
            self._test(fleet.cards, np.array([row for row, _ in places]))
        else:
            for row, column in places:
                self.fits[row, column] = self._room(fleet.cards, (row, column))
                self.enough[row] = np.count_nonzero(self.fits[row]) >= self._count

    def _test(self, cards: CardColumns, rows: slice | Ints) -> None:
        fits = self._room(cards, rows)
        self.fits[rows], self.enough[rows] = fits, fits.sum(1) >= self._count

    def _room(self, c: CardColumns, at: slice | Ints | _Place) -> Bools:
        """Which of the cards there have room for the unit."""
        sharers, cores_used, cores_total = c.sharers[at], c.cores_used[at], c.cores_total[at]
        memory_used = c.memory_used[at]
        if self._best_effort:
            sharers = slots_taken(c, at, best_effort=True)
            memory_used = memory_taken(c, at, best_effort=True)
        fits: Bools = sharers <= self._sharers[at]
        fits &= memory_used <= self._memory[at]
        fits &= cores_total - cores_used >= self._cores[at]
        fits &= c.exclusive[at] <= 0
        if self._spent is not None:
            fits &= ~(self._spent[at] & (cores_used >= cores_total) & (sharers > 0))
        return fits


class _Usage:
    """`CardColumns.usage`, kept."""

    __slots__ = ("_totals", "_upto", "column")

    def __init__(self, fleet: Fleet) -> None:
        """Of all rows as they are."""
        c = fleet.cards
        totals = [c.slots.sum(1), c.cores_total.sum(1), c.memory_total.sum(1)]
        self._totals = np.stack(totals, axis=1, dtype=np.float64).tolist()
        self.column: Floats = fleet.cards.usage()
        self._upto = len(fleet.changes)

    def follow(self, fleet: Fleet) -> None:
        """Add up again where use has changed."""
        places, self._upto = changed(fleet, self._upto), len(fleet.changes)
        if places is None:
            self.column = fleet.cards.usage()
            return
        c = fleet.cards
        for row in {row for row, _ in places}:
            used = (c.sharers[row], c.cores_used[row], c.memory_used[row])
            parts = zip([sum(column.tolist()) for column in used], self._totals[row], strict=True)
            slots, cores, memory = [u / total if total > 0 else 0.0 for u, total in parts]
            self.column[row] = slots + cores + memory


class ScreenCache:
    """What is kept for one fleet."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._changes: list[_Place] = []
        self._screens: dict[PlacementUnit, _Screen] = {}
        self._met: set[PlacementUnit] = set()
        """Units that were asked for once."""
        self._usage: _Usage | None = None

    def screen(self, fleet: Fleet, unit: PlacementUnit) -> tuple[Bools, Bools] | None:
        """The cards that have room for the unit, and the nodes with enough of them, to be read
        until the fleet changes. None for a unit that is asked for the first time: to begin costs
        more than to work it out once."""
        self._begin(fleet)
        screen = self._screens.get(unit)
        if screen is not None:
            screen.follow(fleet)
        elif unit in self._met:
            if len(self._screens) >= MOST_UNITS:
                del self._screens[next(iter(self._screens))]
            screen = self._screens[unit] = _Screen(fleet, unit)
        else:
            if len(self._met) >= MOST_UNITS:
                self._met.clear()
            self._met.add(unit)
            return None
        return screen.fits, screen.enough

    def usage(self, fleet: Fleet) -> Floats:
        """`CardColumns.usage`, to be read until the fleet changes."""
        self._begin(fleet)
        if self._usage is None:
            self._usage = _Usage(fleet)
        else:
            self._usage.follow(fleet)
        return self._usage.column

    def _begin(self, fleet: Fleet) -> None:
        """Forget everything where more than use has changed."""
        if self._changes is not fleet.changes:
            self._changes, self._usage = fleet.changes, None
            self._screens, self._met = {}, set()


def ids_in(fleet: Fleet, request: Request) -> Bools | None:
    """The cards of the fleet that the request's lists of ids allow; None without lists."""
    if not request.ids and not request.ids_denied:
        return None
    allowed = np.full_like(fleet.cards.vendor, not request.ids, np.bool_)
    for ids, value in ((request.ids, True), (request.ids_denied, False)):
        for card_id in ids:
            for place_ in fleet.places(card_id):
                allowed[place_] = value
    return allowed


def changed(fleet: Fleet, upto: int) -> list[tuple[int, int]] | None:
    """The cards written down after so many of `Fleet.changes`, by row and column, each once; None
    where they are so many that to look at all costs no more."""
    changes = fleet.changes[upto:]
    places = changes if len(changes) < 2 else list(set(changes))
    return None if len(places) * _MANY > len(fleet.names) else places
