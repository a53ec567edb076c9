"""Memory that is granted or lent and not used: what best-effort containers could have of a card.

In a cluster `tessera_core.usage.memory_needs` says what containers count with, and the ledger what
that leaves; the simulated cluster of `benchmarks/workloads.py` works out both here. Who ends where
there is too little is `tessera_core.node.memory_reclaim`'s part. All arrays are (cards, seats), in
bytes and seconds; a seat that nobody has is 0 everywhere.
An owner is who holds memory that it was granted: guaranteed or burstable.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from tessera_core.fleet.arrays import Bools, Floats
from tessera_schema.cards import MIB


class MemoryRoomRules(Struct, frozen=True, kw_only=True):
    """How much of what a container leaves is taken for free."""

    margin_percent: Annotated[float, Meta(ge=0)] = 20.0
    """By which a container may grow, of the most that it used."""
    margin_mib: Annotated[int, Meta(ge=0)] = 1024
    """By which it may grow at least."""
    young_s: Annotated[float, Meta(ge=0)] = 3600.0
    """For which an owner counts with all that it was granted."""
    best_effort_young_s: Annotated[float, Meta(ge=0)] = 600.0
    """For which a best-effort container counts with all that it was lent: it was promised nothing,
    so that where it grows later, no more is lost than its own work."""
    closed_s: Annotated[float, Meta(ge=0)] = 3600.0
    """For which a card has no room after an owner did not get there what it was granted."""


def needed_bytes(
    held: Floats, peaks: Floats, held_s: Floats, best_effort: Bools, rules: MemoryRoomRules
) -> Floats:
    """What each container counts with: the most that it used and its part of the card's margin,
    never more than it was granted or lent; all of that while it is young, or was not measured (a
    peak of 0).

    Not all grow at once. So the card's margin is the root of the sum of the squares of what its
    containers may grow by, as deviations of amounts that do not depend on each other add up, and
    each has the part that its square is. A container alone has all of its own.
    """
    young_s = np.where(best_effort, rules.best_effort_young_s, rules.young_s)
    known = (held_s >= young_s) & (peaks > 0)
    used = np.minimum(peaks, held)
    margin = np.maximum(used * rules.margin_percent / 100, rules.margin_mib * MIB)
    growth = np.where(known, np.minimum(margin, held - used), 0.0)
    of_card = np.sqrt(np.square(growth).sum(1, keepdims=True))
    part = np.square(growth) / np.maximum(of_card, 1.0)
    found: Floats = np.where(known, np.minimum(used + part, held), held)
    return found


def room_bytes(card_bytes: float, needed: Floats, closed: Bools) -> Floats:
    """Of each card (cards): what a best-effort container more could hold there."""
    return np.where(closed, 0.0, np.maximum(card_bytes - needed.sum(1), 0.0))
