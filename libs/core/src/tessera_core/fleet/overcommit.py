"""Cards of which more memory can be granted than they have.

A share of such a card has a part that may lie on the card; the rest may lie in the host's memory.
An ordinary share has the same part of its memory there as the card has of what can be granted of
it; a guaranteed one has all of it. The parts of all shares together fit the card, and all memory
together fits what can be granted. Both hold if each share is charged the larger of its memory and
its price: what its part on the card is of all that can be granted.

Amounts are in bytes and rounded to whole MiB, so that the price of an ordinary share is never more
than its memory.
"""

from __future__ import annotations

from typing import overload

import numpy as np

from tessera_core.fleet.arrays import Ints
from tessera_schema.cards import MIB, Card


def is_overcommitted(card: Card) -> bool:
    """Whether more of the card's memory can be granted than it has."""
    return 0 < card.physical_bytes < card.memory_bytes


def resident_part(memory: int, card: Card) -> int:
    """How much of an ordinary share of an overcommitted card may lie on the card."""
    return memory // MIB * (card.physical_bytes // MIB) // (card.memory_bytes // MIB) * MIB


@overload
def price(resident: int, total: int, physical: int) -> int: ...
@overload
def price(resident: Ints | int, total: Ints, physical: Ints) -> Ints: ...
def price(resident: Ints | int, total: Ints | int, physical: Ints | int) -> Ints | int:
    """What memory that lies on a card costs of what can be granted of it: as much, where that is no
    more than the card has. `total` and `physical` are the card's, in bytes."""
    if isinstance(total, int) and isinstance(physical, int) and isinstance(resident, int):
        return _price(resident, total, physical) if physical < total else resident
    scaled = _price(resident, np.maximum(total, MIB), np.maximum(physical, MIB))
    return np.where(np.less(physical, total), scaled, resident)


def _price(resident: Ints | int, total: Ints | int, physical: Ints | int) -> Ints | int:
    whole = -(-resident // MIB)
    return -(-(whole * (total // MIB)) // (physical // MIB)) * MIB
