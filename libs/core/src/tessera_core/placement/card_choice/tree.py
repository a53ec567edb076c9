"""GPU Manager's evaluators over the tree of the node's cards."""

from __future__ import annotations

from collections.abc import Sequence

from tessera_core.fleet.columns import NodeView
from tessera_core.fleet.cores import milli, percent
from tessera_core.topology import evaluators
from tessera_core.topology.levels import levels
from tessera_core.topology.tree import FreeCards, Leaf, grow
from tessera_schema.requests import Request


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


def _leaves(view: NodeView) -> tuple[Leaf, ...]:
    cores = (view.state.cores_total - view.state.cores_used).tolist()
    memory = (view.state.memory_total - view.state.memory_used).tolist()
    return tuple(
        Leaf(cores_free=percent(c), memory_free=m, memory_total=t)
        for c, m, t in zip(cores, memory, view.state.memory_total.tolist(), strict=True)
    )
