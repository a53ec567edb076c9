"""Memory of a card that its pods leave, lent to best-effort pods.

It is not granted: what owners can be granted of a card is the same, whatever is lent of it. An
owner is who was granted its memory. A card lends while it is known what its pods leave; on such a
card a best-effort pod has lent memory alone, on any other it is granted its memory like any pod.

    room = what the card has - what is granted - what is lent + what of both is not used
"""

from __future__ import annotations

from collections.abc import Mapping
from types import EllipsisType
from typing import Final

import numpy as np

from tessera_core.fleet.arrays import Ints
from tessera_core.fleet.columns import CardColumns
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.overcommit import is_overcommitted

At = EllipsisType | slice | Ints | tuple[int, int]
"""Cards of the columns: all, rows of them, or one by row and column."""
WORTH_BYTES: Final = 1 << 30
"""More room by which a pod that waits may fit."""


def memory_taken(cards: CardColumns, at: At = ..., *, best_effort: bool) -> Ints:
    """Of the cards there, all if nothing is said: the bytes that a pod that comes cannot have. For
    a best-effort one these are what the pods there count with."""
    if not best_effort:
        return cards.memory_used[at]
    held = cards.memory_used[at] + cards.lent_memory[at]
    needed: Ints = np.maximum(held - cards.unused[at], 0)
    return needed


def slots_taken(cards: CardColumns, at: At = ..., *, best_effort: bool) -> Ints:
    """Of the cards there: the slots that a pod that comes cannot have, likewise."""
    return cards.sharers[at] + cards.lent_slots[at] if best_effort else cards.sharers[at]


def set_lending(fleet: Fleet, node: str, unused: Mapping[str, int]) -> bool:
    """Say which of a node's cards lend memory, by id, and how much their pods leave of each, in
    bytes. Cards of which more can be granted than they have lend none. Whether one lends that did
    not, or `WORTH_BYTES` more."""
    row, grown = fleet.rows.get(node), False
    if row is None:
        return False
    fleet.begin_lending()
    cards = fleet.cards
    for column, card in enumerate(fleet.facts[row]):
        at = (row, column)
        lends = card.id in unused and not is_overcommitted(card)
        now = (lends, unused[card.id] if lends else 0)
        if now != (cards.lends[at], cards.unused[at]):
            more = now[1] - int(cards.unused[at])
            grown |= more >= WORTH_BYTES or (lends and not cards.lends[at])
            cards.lends[at], cards.unused[at] = now
            fleet.changes.append(at)
    return grown
