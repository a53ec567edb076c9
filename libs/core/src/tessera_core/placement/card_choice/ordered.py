"""The first cards in the order of the request's keys, on one NUMA node where it must be so."""

from __future__ import annotations

from collections.abc import Sequence

from tessera_core.fleet.columns import NodeView
from tessera_schema.requests import Request


def choose(view: NodeView, eligible: Sequence[int], request: Request) -> tuple[int, ...] | None:
    """See `tessera_core.placement.card_choice`. NUMA nodes are tried in the order of their best
    card."""
    if not request.policy.same_numa:
        return tuple(eligible[: request.count]) if len(eligible) >= request.count else None
    for numa in dict.fromkeys(int(view.state.numa[i]) for i in eligible):
        near = [i for i in eligible if view.state.numa[i] == numa]
        if len(near) >= request.count:
            return tuple(near[: request.count])
    return None
