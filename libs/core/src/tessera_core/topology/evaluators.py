"""Which cards to take: GPU Manager's three evaluators, made deterministic.

- `link`, several whole cards: the closest group that has them, then the tightest;
- `fragment`, one whole card: out of the group with the fewest idle cards, level by level;
- `share`, a part of a card: the busiest card that has room.

The originals leave equal groups to chance; here the group with the lowest card wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tessera_core.topology.tree import CardGroup, FreeCards, available, numbers

GRAIN: Final = 256 << 20
"""Bytes. Differences in free memory below it do not count when cards are compared."""


def link(root: CardGroup, free: FreeCards, count: int) -> tuple[int, ...] | None:
    """`count` idle cards of the lowest level that has them in one group; None if there are too
    few on the node."""
    enough = (group for group in _groups(root) if available(group, free) >= count)
    best = min(enough, key=lambda g: (g.level or 0, available(g, free), g.lowest), default=root)
    return _lowest_idle(best, free, count)


def fragment(root: CardGroup, free: FreeCards, count: int = 1) -> tuple[int, ...] | None:
    """`count` idle cards from where the fewest are idle; None if there are too few.

    Groups are broken up before cards that hang alone from a level are taken, as in the original.
    """
    at = root
    while True:
        fitting = [g for g in at.groups if available(g, free) >= count]
        if not fitting:
            return _lowest_idle(at, free, count)
        at = min(fitting, key=lambda g: (available(g, free), g.lowest))


def share(
    free: FreeCards, cores: float, memory: int, among: Iterable[int] | None = None
) -> tuple[int] | None:
    """The card with the fewest free cores, then the least free memory, that has both amounts
    (percent, bytes); None if no card has. `among` = the cards to choose from, else all."""
    leaves = free.leaves
    fitting = [
        i
        for i in (range(len(leaves)) if among is None else among)
        if leaves[i].cores_free >= cores and leaves[i].memory_free >= memory
    ]
    if not fitting:
        return None
    return (min(fitting, key=lambda i: (
        leaves[i].cores_free, leaves[i].memory_free // GRAIN, len(leaves[i].processes), i
    )),)  # fmt: skip


def _groups(group: CardGroup) -> Iterator[CardGroup]:
    """All groups below it."""
    for inner in group.groups:
        yield inner
        yield from _groups(inner)


def _lowest_idle(group: CardGroup, free: FreeCards, count: int) -> tuple[int, ...] | None:
    idle = numbers(group.cards & free.idle)
    return idle[:count] if len(idle) >= count else None
