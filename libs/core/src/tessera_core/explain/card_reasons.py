"""What keeps the units that were refused lately from each card, kept from pod to pod.

Pods that wait are tried again and again, and between two attempts the use of a few cards has
changed. So the reasons of a unit are kept, and worked out again only for the nodes of the cards
that the fleet wrote down meanwhile, by the same tests as for all. Quotas and blocked nodes are no
part of it (`tessera_core.explain.node_reasons`). Answers are the same without it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Codes, Ints
from tessera_core.fleet.fleet import Fleet
from tessera_core.placement import predicates
from tessera_core.placement.screen_cache import changed, ids_in
from tessera_core.placement.units import PlacementUnit

MOST_UNITS: Final = 32
"""Units whose reasons are kept: at 10,000 nodes x 8 cards 80 kB each."""


class _Known(Struct):
    codes: Codes
    upto: int
    """Of the fleet's changes, those that are in it."""


class CardReasons:
    """What is kept for one fleet."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._changes: list[tuple[int, int]] = []
        self._known: dict[PlacementUnit, _Known] = {}

    def of(self, fleet: Fleet, unit: PlacementUnit) -> Codes:
        """(nodes, cards): the first reason that keeps the unit from a card of its vendor, 0 where
        none does, and for cards of others. To be read until the fleet changes."""
        if self._changes is not fleet.changes:
            self._changes, self._known = fleet.changes, {}
        known = self._known.get(unit)
        if known is None:
            if len(self._known) >= MOST_UNITS:
                del self._known[next(iter(self._known))]
            known = self._known[unit] = _Known(_codes(fleet, unit), len(fleet.changes))
            return known.codes
        places, known.upto = changed(fleet, known.upto), len(fleet.changes)
        if places is None:
            known.codes = _codes(fleet, unit)
        elif places:
            rows = np.array(sorted({row for row, _ in places}))
            known.codes[rows] = _codes(fleet, unit, rows)
        return known.codes


def _codes(fleet: Fleet, unit: PlacementUnit, rows: Ints | None = None) -> Codes:
    """Of these rows, or of all."""
    cards, ids = fleet.cards, ids_in(fleet, unit.lead)
    if rows is not None:
        cards, ids = cards.rows(rows), None if ids is None else ids[rows]
    number = fleet.vendors.known(unit.lead.vendor)
    if number is None:
        return np.zeros(cards.vendor.shape, np.uint8, "F")
    refused = predicates.predicates(
        unit.lead, unit.need(cards, fleet.models), cards,
        models=fleet.models, modes=fleet.modes, ids=ids,
    )  # fmt: skip
    codes = predicates.first_reasons(refused, cards.vendor.shape)
    codes[cards.vendor != number] = 0
    return codes
