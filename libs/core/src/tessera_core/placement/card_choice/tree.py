"""GPU Manager's evaluators over the tree of the node's cards.

The tree is grown from what the cards say of each other (`Card.links`), else from equal PCIe
switches and, on nodes with several, NUMA nodes. Cards that say nothing are all equally close.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final

from tessera_core.fleet.columns import NodeView
from tessera_core.fleet.cores import milli, percent
from tessera_core.topology import evaluators
from tessera_core.topology.tree import FreeCards, Leaf, Pair, TopologyLevel, grow
from tessera_schema.cards import Card
from tessera_schema.requests import Request

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


def choose(view: NodeView, eligible: Sequence[int], request: Request) -> tuple[int, ...] | None:
    """See `tessera_core.placement.card_choice`. Several cards: `link`; a whole one: `fragment`; a
    part of one: `share`. The original's tie-breaks count, not the order of `eligible`."""
    idle = sum(1 << i for i in eligible)
    free = FreeCards(_leaves(view), idle)
    if request.count == 1 and not request.exclusive:
        asked = percent(milli(request.cores_percent))
        return evaluators.share(free, asked, request.memory_bytes, eligible)
    root = grow(len(view.facts), levels(view.facts))
    if request.count == 1:
        return evaluators.fragment(root, free)
    return evaluators.link(root, free, request.count)


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


def _leaves(view: NodeView) -> tuple[Leaf, ...]:
    cores = (view.state.cores_total - view.state.cores_used).tolist()
    memory = (view.state.memory_total - view.state.memory_used).tolist()
    return tuple(
        Leaf(cores_free=percent(c), memory_free=m, memory_total=t)
        for c, m, t in zip(cores, memory, view.state.memory_total.tolist(), strict=True)
    )
