"""How close the cards of a node are to each other, from what the cards say.

They say it of each other (`Card.links`); else equal PCIe switches count and, on nodes with several,
NUMA nodes. Cards that say nothing are all equally close.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

from tessera_core.topology.tree import Pair, TopologyLevel
from tessera_schema.cards import Card

CLASSES: Final = {
    60: TopologyLevel.SINGLE,
    50: TopologyLevel.SINGLE,
    40: TopologyLevel.MULTIPLE,
    30: TopologyLevel.HOST_BRIDGE,
    20: TopologyLevel.NODE,
    10: TopologyLevel.SYSTEM,
}
"""PCIe class of a link score -> level. Cards of one board count as cards of one switch."""
_SCORE_OF_LINK: Final = 100
"""Added to the class for each direct link."""


def levels(cards: Sequence[Card]) -> dict[Pair, TopologyLevel]:
    """How close each two cards are, as far as is known. Where two cards differ about it, the
    farther counts."""
    several = len({card.numa for card in cards}) > 1
    found: dict[Pair, TopologyLevel] = {}
    if not several and not any(card.links or card.switch for card in cards):
        return found
    for (a, one), (b, other) in combinations(enumerate(cards), 2):
        level = _level(one, other, several=several)
        if level is not None:
            found[a, b] = level
    return found


def _level(one: Card, other: Card, *, several: bool) -> TopologyLevel | None:
    scores = (one.links.get(other.id), other.links.get(one.id))
    known = [CLASSES[c] for s in scores if s is not None and (c := s % _SCORE_OF_LINK) in CLASSES]
    if known:
        return max(known)
    if one.switch and one.switch == other.switch:
        return TopologyLevel.SINGLE
    if several:
        return TopologyLevel.NODE if one.numa == other.numa else TopologyLevel.SYSTEM
    return None
