"""What making room on a node costs at least, seen without a trial: which nodes are tried first.

A card without room for the pod stays so until a unit that holds a part of it goes. So a pod that
needs three cards more costs at least what the three cheapest cards of the node cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tessera_core.gangs.scratch import MemberRequest
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.units import units
from tessera_core.preemption.eviction_costs import EvictionCost, EvictionCosts
from tessera_core.preemption.victim_units import VictimUnit
from tessera_core.rebalance.slices import Slices

_NOTHING: Final = EvictionCost()
_SLICE: Final = 64
"""Units of one slice: about a millisecond."""


class NodeBounds:
    """The units of each node, and the bound of their costs."""

    def __init__(self, ledger: Ledger, costs: EvictionCosts) -> None:
        """Of no units yet: `add` them."""
        self.on: dict[str, list[VictimUnit]] = {}
        """Node -> the units with a pod there."""
        self._ledger = ledger
        self._costs = costs
        self._per_card: dict[str, dict[str, tuple[int, float]]] = {}

    def add(self, victims: Iterable[VictimUnit]) -> Slices[None]:
        """Take in units that may go. A slice is a few of them."""
        for at, unit in enumerate(victims):
            if not at % _SLICE:
                yield
            cost, spans = self._costs.of((unit,)), _cards_of(self._ledger, unit)
            for node, cards in spans.items():
                self.on.setdefault(node, []).append(unit)
                least = self._per_card.setdefault(node, {})
                for card in cards:
                    each = cost.priority, cost.card_s / len(cards)
                    known = least.get(card, each)
                    least[card] = min(known[0], each[0]), min(known[1], each[1])

    def in_order(
        self, nodes: Iterable[str], member: MemberRequest, room: Mapping[str, int]
    ) -> Slices[list[tuple[EvictionCost, str]]]:
        """These nodes with their bounds, the least first; `room` is how many cards of a node have
        room now."""
        needed = 1 if member.request is None else units(member.request)[0].lead.count
        found: list[tuple[EvictionCost, str]] = []
        for at, node in enumerate(nodes):
            if not at % _SLICE:
                yield
            if node in self.on:
                found.append((self._bound(node, max(needed - room.get(node, 0), 1)), node))
        found.sort()
        return found

    def _bound(self, node: str, short: int) -> EvictionCost:
        cards = list(self._per_card[node].values())
        if len(cards) < short:
            return _NOTHING
        return EvictionCost(
            priority=sorted(priority for priority, _ in cards)[short - 1],
            card_s=sum(sorted(card_s for _, card_s in cards)[:short]),
        )


def _cards_of(ledger: Ledger, unit: VictimUnit) -> dict[str, set[str]]:
    """Node -> the cards there that the unit holds parts of."""
    found: dict[str, set[str]] = {}
    for victim in unit.pods:
        entry = ledger.entry(victim.uid)
        if entry is not None:
            found.setdefault(entry.grant.node, set()).update(entry.charges)
    return found
