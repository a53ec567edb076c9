"""Draws the tree as GPU Manager's `/graph` does, so that tools that read it go on working."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tessera_core.topology.tree import CardGroup, FreeCards, Leaf, TopologyLevel, available

WORDS: Final = {
    TopologyLevel.SINGLE: "PIX",
    TopologyLevel.MULTIPLE: "PXB",
    TopologyLevel.HOST_BRIDGE: "PHB",
    TopologyLevel.NODE: "SOC",
    TopologyLevel.SYSTEM: "SYS",
}
_BAR: Final = "|   "
_BRANCH: Final = "|---"


def draw(root: CardGroup, free: FreeCards) -> str:
    """The tree, one line per group and card, children by level, idle cards and number.

    `aval` is the wire's spelling. Memory is in bytes.
    """
    return "\n".join((f"ROOT:{available(root, free)}", *_lines(root, free, 0))) + "\n"


def _lines(group: CardGroup, free: FreeCards, depth: int) -> Iterator[str]:
    prefix = _BAR * depth + _BRANCH
    for card in group.alone:
        yield f"{prefix}GPU{card} ({_tail(free.leaves[card])})"
    for inner in sorted(group.groups, key=lambda g: (g.level or 0, available(g, free), g.lowest)):
        word = WORDS[inner.level] if inner.level else "ROOT"
        yield f"{prefix}{word} (aval: {available(inner, free)}, {_NOTHING})"
        yield from _lines(inner, free, depth + 1)


def _tail(leaf: Leaf) -> str:
    pids = " ".join(str(p) for p in leaf.processes)
    return (
        f"pids: [{pids}], usedMemory: {leaf.memory_used}, totalMemory: {leaf.memory_total}, "
        f"allocatableCores: {leaf.cores_free:g}, allocatableMemory: {leaf.memory_free}"
    )


_NOTHING: Final = _tail(Leaf(cores_free=0, memory_free=0, memory_total=0))
"""Groups have no amounts of their own."""
