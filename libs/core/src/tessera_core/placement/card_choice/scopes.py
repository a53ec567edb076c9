"""Koordinator's choice: the deepest scope of the topology that holds the whole request.

Scopes are a PCIe switch, a NUMA node, the node. Among scopes of one depth the one wins that is,
with the scopes around it, most often in use already (so whole switches stay free), then for
shares the one with the better card, then the first. Inside it whole cards are taken in the order
of their numbers, shares in the order of the request's keys. Several shares at once, and nodes
that do not publish every card's switch, have no scopes: the first cards in order are taken, unless
the request demands a scope. Cards whose labels the request does not select are not there, and
whole cards are looked for in the machine's own groups first (`partitions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tessera_core.fleet.columns import NodeView
from tessera_core.kube.label_selectors import selects
from tessera_core.placement.card_choice import ordered, partitions
from tessera_schema.requests import Request, Scope

Cards = frozenset[int]
_DEPTHS: Final = {Scope.NODE: 1, Scope.NUMA: 2, Scope.SWITCH: 3, Scope.DEVICE: 3}
"""How many scopes lie around the cards, at least."""


def choose(view: NodeView, eligible: Sequence[int], request: Request) -> tuple[int, ...] | None:
    """See `tessera_core.placement.card_choice`."""
    eligible = _selected(view, eligible, request)
    if len(eligible) < request.count:
        return None
    scope, flat = request.policy.scope, _flat(view, request)
    if scope is not Scope.NODE and (flat or (scope is Scope.DEVICE and request.count > 1)):
        return None
    if request.exclusive:
        group = _group(view, eligible, request)
        if group is not None or partitions.insists(view, request):
            return group
    return ordered.choose(view, eligible, request) if flat else _closest(view, eligible, request)


def why_not(view: NodeView, cards: Sequence[int], request: Request) -> str:
    """What keeps these cards, which would do, from being taken together."""
    count, scope = request.count, request.policy.scope
    if scope is Scope.DEVICE and count > 1:
        return f"{count} cards are asked within one {scope.value}"
    selected = _selected(view, cards, request)
    if len(selected) < count:
        wanted = ", ".join(str(test) for test in request.policy.labels)
        return f"{len(selected)} of the {count} cards asked for have labels {wanted}"
    flat = _flat(view, request)
    if partitions.insists(view, request) and not (flat and scope is not Scope.NODE):
        return partitions.why_not(view, request)
    if flat:
        if count > 1 and not request.exclusive:
            return f"parts of {count} cards are asked within a {scope.value}: ask whole cards there"
        return f"a {scope.value} is demanded, and the node does not tell its cards' switches"
    return f"no {scope.value} has {count} of the cards that would do"


def _selected(view: NodeView, cards: Sequence[int], request: Request) -> Sequence[int]:
    wanted = request.policy.labels
    if not wanted:
        return cards
    labels = [card.siting.labels if card.siting else {} for card in view.facts]
    return [i for i in cards if selects(wanted, labels[i])]


def _flat(view: NodeView, request: Request) -> bool:
    """Whether scopes mean nothing here."""
    several_shares = request.count > 1 and not request.exclusive
    return several_shares or not all(card.switch for card in view.facts)


def _group(view: NodeView, eligible: Sequence[int], request: Request) -> tuple[int, ...] | None:
    """Cards that the machine can join, within one of the scopes that do."""
    if request.policy.scope is Scope.NODE:
        return partitions.choose(view, eligible, request)
    depth = _DEPTHS[request.policy.scope]
    inside = ([i for i in eligible if i in path[-1]] for path in _paths(view) if len(path) >= depth)
    groups = (partitions.choose(view, cards, request) for cards in inside)
    return next((group for group in groups if group is not None), None)


def _closest(view: NodeView, eligible: Sequence[int], request: Request) -> tuple[int, ...] | None:
    rank = {card: n for n, card in enumerate(eligible)}
    best: tuple[tuple[int, int, int], list[int]] | None = None
    for path in _paths(view):
        inside = [i for i in eligible if i in path[-1]]
        if len(path) < _DEPTHS[request.policy.scope] or len(inside) < request.count:
            continue
        if request.exclusive:
            inside.sort(key=lambda i: view.facts[i].index)
        in_use = sum(any(not view.idle(i) for i in scope) for scope in path)
        worth = (len(path), in_use, 0 if request.exclusive else -rank[inside[0]])
        if best is None or worth > best[0]:
            best = worth, inside
    return None if best is None else tuple(best[1][: request.count])


def _paths(view: NodeView) -> Iterator[tuple[Cards, ...]]:
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
