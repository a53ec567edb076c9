"""Memory that owners were granted and do not use: what best-effort containers could have of a card.

In a cluster `tessera_core.usage.owner_needs` says what owners count with, and the ledger what that
leaves; the simulated cluster of `benchmarks/workloads.py` works out both here. Who ends where there
is too little is `tessera_core.node.memory_reclaim`'s part. All arrays are (cards, seats), in bytes
and seconds; a seat that nobody has is 0 everywhere.
An owner is who holds memory that it was granted: guaranteed or burstable.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from tessera_core.fleet.arrays import Bools, Floats
from tessera_schema.cards import MIB


class MemoryRoomRules(Struct, frozen=True, kw_only=True):
    """How much of what an owner leaves is taken for free."""

    margin_percent: Annotated[float, Meta(ge=0)] = 20.0
    """Added to the most that an owner used."""
    margin_mib: Annotated[int, Meta(ge=0)] = 1024
    """Added to it at least."""
    young_s: Annotated[float, Meta(ge=0)] = 3600.0
    """For which an owner counts with all that it was granted."""
    closed_s: Annotated[float, Meta(ge=0)] = 3600.0
    """For which a card has no room after an owner did not get there what it was granted."""


def owners_bytes(granted: Floats, peaks: Floats, held_s: Floats, rules: MemoryRoomRules) -> Floats:
    """What each owner counts with: the most that it used and the margin, never more than it was
    granted; all of that while it is young, or was not measured (a peak of 0)."""
    margin = np.maximum(peaks * rules.margin_percent / 100, rules.margin_mib * MIB)
    known = (held_s >= rules.young_s) & (peaks > 0)
    found: Floats = np.where(known, np.minimum(granted, peaks + margin), granted)
    return found


def left_bytes(card_bytes: float, owners: Floats, best_effort: Floats) -> Floats:
    """Of each card (cards): what is left when best-effort containers use all that they hold; below
    0 where some of them are too many."""
    found: Floats = card_bytes - owners.sum(1) - best_effort.sum(1)
    return found


def room_bytes(left: Floats, closed: Bools) -> Floats:
    """Of each card (cards): what a best-effort container more could hold there."""
    return np.where(closed, 0.0, np.maximum(left, 0.0))
