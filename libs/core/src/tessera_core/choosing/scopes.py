"""Koordinator's choice: the deepest scope of the topology that holds the whole request.

Scopes are a PCIe switch, a NUMA node, the node. Among scopes of one depth the one wins that is,
with the scopes around it, most often in use already (so whole switches stay free), then for
shares the one with the better card, then the first. Inside it whole cards are taken in the order
of their numbers, shares in the order of the request's keys. Several shares at once, and nodes
that do not tell every card's switch, have no scopes: the first cards in order are taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tessera_core.cards import NodeView
from tessera_core.choosing import ordered
from tessera_schema.requests import Request

Scope = frozenset[int]


def choose(view: NodeView, eligible: Sequence[int], request: Request) -> tuple[int, ...] | None:
    """See `tessera_core.choosing`."""
    several_shares = request.count > 1 and not request.exclusive
    if several_shares or not all(card.switch for card in view.facts):
        return ordered.choose(view, eligible, request)
    rank = {card: n for n, card in enumerate(eligible)}
    best: tuple[tuple[int, int, int], list[int]] | None = None
    for path in _paths(view):
        inside = [i for i in eligible if i in path[-1]]
        if len(inside) < request.count:
            continue
        if request.exclusive:
            inside.sort(key=lambda i: view.facts[i].index)
        in_use = sum(any(not view.idle(i) for i in scope) for scope in path)
        worth = (len(path), in_use, 0 if request.exclusive else -rank[inside[0]])
        if best is None or worth > best[0]:
            best = worth, inside
    return None if best is None else tuple(best[1][: request.count])


def _paths(view: NodeView) -> Iterator[tuple[Scope, ...]]:
    """Every scope with those around it, outermost first: the node, then each NUMA node with its
    switches, in the order of their names."""
    numas: dict[int, dict[str, list[int]]] = {}
    for i, card in enumerate(view.facts):
        numas.setdefault(card.numa, {}).setdefault(card.switch, []).append(i)
    node = frozenset(range(len(view.facts)))
    yield (node,)
    for _, switches in sorted(numas.items()):
        numa = frozenset(i for cards in switches.values() for i in cards)
        yield node, numa
        for _, cards in sorted(switches.items()):
            yield node, numa, frozenset(cards)
