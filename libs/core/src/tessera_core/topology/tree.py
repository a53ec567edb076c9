"""A tree over a node's cards: the closer two cards are, the lower they meet.

The levels and the counts of free cards are those of GPU Manager's scheduler. Its tree is built from
tables in which every pair has a level; for the others we add one rule: at each level, from the
closest up, groups that a pair of that level joins become one group. So no card is ever in two
groups of a level, and a card without any known neighbour hangs from the root instead of being lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

WHOLE: Final = 100
"""Cores of a card, in percent."""


class TopologyLevel(IntEnum):
    """Where two cards meet; a lower number is closer."""

    SINGLE = 10
    """At one PCIe switch, or on one board."""
    MULTIPLE = 20
    """At several PCIe switches below one host bridge."""
    HOST_BRIDGE = 30
    NODE = 40
    """At one processor's host bridges (a NUMA node)."""
    SYSTEM = 50
    """Across processors."""


Pair = tuple[int, int]
"""Numbers of two cards, the lower first."""


class CardGroup(Struct, frozen=True):
    """Cards that meet at a level. The root has no level and holds what meets nowhere."""

    level: TopologyLevel | None
    cards: int
    """Bit i = card i."""
    groups: tuple[CardGroup, ...]
    """Closer groups in it, by lowest card."""

    @property
    def lowest(self) -> int:
        """Number of its lowest card."""
        return (self.cards & -self.cards).bit_length() - 1

    @property
    def alone(self) -> tuple[int, ...]:
        """Cards that hang from it directly."""
        rest = self.cards
        for group in self.groups:
            rest &= ~group.cards
        return numbers(rest)


class Leaf(Struct, frozen=True, kw_only=True):
    """What is left of a card. `processes` and `memory_used` are measurements, for the drawing
    and for ties; the counts do not need them."""

    cores_free: float = WHOLE
    memory_free: int
    """Bytes."""
    memory_total: int
    """Bytes."""
    memory_used: int = 0
    """Bytes."""
    processes: tuple[int, ...] = ()


class FreeCards(Struct, frozen=True):
    """The state of a node's cards."""

    leaves: tuple[Leaf, ...]
    idle: int
    """Bit i = card i is nobody's, not even in part."""


def numbers(cards: int) -> tuple[int, ...]:
    """The numbers of the bits that are set, lowest first."""
    return tuple(i for i in range(cards.bit_length()) if cards >> i & 1)


def all_free(leaves: Sequence[Leaf]) -> FreeCards:
    """Counts in which every card is idle."""
    return FreeCards(tuple(leaves), (1 << len(leaves)) - 1)


def grow(count: int, levels: Mapping[Pair, TopologyLevel]) -> CardGroup:
    """The root of the tree over cards 0 to `count` - 1. Pairs that are missing are not known."""
    return _grow(count, tuple(sorted(levels.items())))


@lru_cache(maxsize=1024)
def _grow(count: int, levels: tuple[tuple[Pair, TopologyLevel], ...]) -> CardGroup:
    """Cached, as the nodes of a cluster have few different shapes."""
    sets = [1 << i for i in range(count)]
    groups: dict[int, CardGroup] = {}
    for level in TopologyLevel:
        for (a, b), found in levels:
            if found is level:
                sets = _joined(sets, 1 << a | 1 << b)
        groups = {
            cards: groups.get(cards) or _group(level, cards, groups)
            for cards in sets
            if cards.bit_count() > 1
        }
    return _group(None, (1 << count) - 1, groups)


def _joined(sets: list[int], pair: int) -> list[int]:
    """The sets of cards, those that the pair touches made one."""
    touched = [cards for cards in sets if cards & pair]
    if len(touched) == 1:
        return sets
    return [*(cards for cards in sets if not cards & pair), sum(touched)]


def _group(level: TopologyLevel | None, cards: int, groups: Mapping[int, CardGroup]) -> CardGroup:
    inner = [group for group in groups.values() if group.cards & cards]
    return CardGroup(level, cards, tuple(sorted(inner, key=lambda g: g.lowest)))


def available(group: CardGroup, free: FreeCards) -> int:
    """How many of the group's cards are idle."""
    return (group.cards & free.idle).bit_count()


def occupy(free: FreeCards, card: int, cores: float, memory: int) -> FreeCards:
    """Take a part of a card (memory in bytes), or with 100 cores all of it.

    The card is then no longer idle, however small the part. Nothing falls below 0.
    """
    leaf = free.leaves[card]
    if cores >= WHOLE:
        left = replace(leaf, cores_free=0, memory_free=0)
    else:
        left = replace(
            leaf,
            cores_free=max(leaf.cores_free - cores, 0),
            memory_free=max(leaf.memory_free - memory, 0),
        )
    return FreeCards(_with(free.leaves, card, left), free.idle & ~(1 << card))


def release(free: FreeCards, card: int, cores: float, memory: int) -> FreeCards:
    """Give a part of a card back, or with 100 cores all of it; nothing rises above its total.

    The card is idle again once all its cores are free.
    """
    leaf = free.leaves[card]
    if cores >= WHOLE:
        left = replace(leaf, cores_free=WHOLE, memory_free=leaf.memory_total)
    else:
        left = replace(
            leaf,
            cores_free=min(leaf.cores_free + cores, WHOLE),
            memory_free=min(leaf.memory_free + memory, leaf.memory_total),
        )
    idle = free.idle | 1 << card if left.cores_free == WHOLE else free.idle
    return FreeCards(_with(free.leaves, card, left), idle)


def _with(leaves: tuple[Leaf, ...], card: int, leaf: Leaf) -> tuple[Leaf, ...]:
    return (*leaves[:card], leaf, *leaves[card + 1 :])
