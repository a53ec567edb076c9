"""Groups of cards that a machine can join by its fast links: Koordinator's GPU partitions.

A table names the groups. A request for so many whole cards gets an idle group of that size: the
one with the best score, then the one that leaves the most of the others intact, then the lowest
numbers. Where neither the node nor the pod insists, no group is no refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tessera_core.fleet.columns import NodeView
from tessera_schema.cards import Card, Partition, Siting
from tessera_schema.requests import Grouping, Request

_INTACT: Final = {8: 10_000, 4: 100, 2: 1}
"""What a group of so many cards is worth that stays whole."""


def insists(view: NodeView, request: Request) -> bool:
    """Whether node or pod takes whole cards in groups alone."""
    if not request.exclusive:
        return False
    return request.policy.grouping is not None or any(
        siting.partitioned for siting in _sitings(view.facts)
    )


def choose(view: NodeView, eligible: Sequence[int], request: Request) -> tuple[int, ...] | None:
    """See `tessera_core.placement.card_choice`. Only for whole cards."""
    at = {view.facts[i].device_minor: i for i in eligible}
    wish = request.policy.grouping or Grouping()
    groups = [
        g for g in table(view)
        if len(g.minors) == request.count and g.bandwidth >= wish.bandwidth
    ]  # fmt: skip
    if wish.best_only:
        groups = [g for g in groups if g.score == max(other.score for other in groups)]
    free = [g for g in groups if all(minor in at for minor in g.minors)]
    if not free:
        return None
    best = max(free, key=lambda g: (g.score, _left(view, at, g), [-m for m in sorted(g.minors)]))
    return tuple(at[minor] for minor in sorted(best.minors))


def why_not(view: NodeView, request: Request) -> str:
    """What keeps the node's cards from being given as a group."""
    groups, count = table(view), request.count
    sized = [g for g in groups if len(g.minors) == count]
    wish = request.policy.grouping or Grouping()
    if not groups:
        return "missing GPU partition table: the node does not say which of its cards go together"
    if not sized:
        return f"unsupported number of GPU requests: no partition has {count} cards"
    if all(g.bandwidth < wish.bandwidth for g in sized):
        fastest = max(g.bandwidth for g in sized)
        return (
            f"insufficient partitioned GPU devices: the fastest partition of {count} has "
            f"{fastest}, {wish.bandwidth} is asked"
        )
    return f"insufficient partitioned GPU devices: no idle partition of {count}"


def table(view: NodeView) -> tuple[Partition, ...]:
    """The node's groups; empty where it has no table."""
    return next((s.partitions for s in _sitings(view.facts) if s.partitions), ())


def _sitings(cards: Iterable[Card]) -> list[Siting]:
    return [card.siting for card in cards if card.siting]


def _left(view: NodeView, idle: dict[int, int], taken: Partition) -> int:
    """What the groups are worth that stay whole."""
    free = idle.keys() - set(taken.minors)
    return sum(
        _INTACT.get(len(g.minors), 0) * g.score
        for g in table(view) if free.issuperset(g.minors)
    )  # fmt: skip
