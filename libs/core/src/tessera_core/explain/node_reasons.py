"""One reason for each node that cannot take a pod, for all nodes at once.

A pod's condition in Kubernetes repeats every different string, so there is a word for each reason
and no numbers; the numbers are in the decision record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from tessera_core.explain.card_reasons import CardReasons
from tessera_core.fleet.arrays import Bools, Codes
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.needs import CardNeeds
from tessera_core.placement.place import different
from tessera_core.placement.units import PlacementUnit
from tessera_core.quota.allowance import NO_LIMITS, Allowance
from tessera_schema.reasons import Reason

_WORDS: Final = {int(r): r.wire for r in Reason}
_TOGETHER: Final = int(Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST)
_QUOTA: Final = int(Reason.RESOURCE_QUOTA_NOT_FIT)
_NO_CARDS: Final = int(Reason.NODE_HAS_NO_CARDS)
_UNREGISTERED: Final = int(Reason.NODE_UNREGISTERED)


def node_reasons(
    fleet: Fleet, wanted: Sequence[PlacementUnit], allowance: Allowance = NO_LIMITS
) -> list[str]:
    """Row -> the word of its reason (`NodeReasons.codes`)."""
    return [_WORDS[code] for code in NodeReasons(fleet).codes(wanted, allowance).tolist()]


class NodeReasons:
    """Why the nodes of one fleet take no pod. What it remembers changes no answer."""

    def __init__(self, fleet: Fleet) -> None:
        """It is only read."""
        self._fleet = fleet
        self._cards = CardReasons()

    def codes(self, wanted: Sequence[PlacementUnit], allowance: Allowance = NO_LIMITS) -> Codes:
        """Row -> the reason of the first unit that finds too few cards there, and of the test that
        the nearest card failed; a card that passes them all may still be barred by quota. Nodes
        that have cards for each unit by itself lack them for all together. The last one is that of
        nodes the fleet does not know: it answers row -1."""
        fleet = self._fleet
        codes = np.zeros(len(fleet.blocked) + 1, np.uint8)
        rows = codes[:-1]
        rows[fleet.blocked] = Reason.NODE_BLOCKED
        for unit in different(wanted):
            np.copyto(rows, self._short(unit, allowance), where=rows == 0)
        rows[rows == 0] = _TOGETHER
        codes[-1] = _UNREGISTERED
        return codes

    def _short(self, unit: PlacementUnit, allowance: Allowance) -> Codes:
        """Row -> why the unit finds too few cards, 0 where it finds enough."""
        fleet, count, vendor = self._fleet, unit.lead.count, unit.lead.vendor
        mine, of_cards = fleet.of_vendor(vendor), self._cards.of(fleet, unit)
        why: Codes = of_cards.max(1, initial=0)
        if allowance.limits:
            need, of_cards = unit.need(fleet.cards, fleet.models), of_cards.copy(order="K")
            for barred in _barred(fleet, unit, need, allowance):
                of_cards[mine & (of_cards == 0) & barred] = _QUOTA
            why = of_cards.max(1, initial=0)
            why[(of_cards == _QUOTA).any(1)] = _QUOTA
        have = mine.sum(1)
        why[have < count] = Reason.NODE_INSUFFICIENT_DEVICE
        why[have == 0] = _NO_CARDS
        if fleet.missing:
            expected = (node for node, absent in fleet.missing.items() if vendor in absent)
            why[fleet.only(*expected) & (have == 0)] = _UNREGISTERED
        why[have - np.count_nonzero(of_cards, 1) >= count] = 0
        return why


def main_reason(codes: Codes) -> Reason:
    """The reason that most nodes gave, the first of equals; that they have no such cards, or are
    not known, only where all say so."""
    counts = np.bincount(codes, minlength=_NO_CARDS + 1)
    bare, counts[_NO_CARDS] = int(counts[_NO_CARDS]), 0
    if not counts.any():
        return Reason.NODE_HAS_NO_CARDS if bare else Reason.NODE_UNREGISTERED
    return Reason(int(codes[counts[codes] == counts.max()][0]))


def _barred(
    fleet: Fleet, unit: PlacementUnit, need: CardNeeds, allowance: Allowance
) -> Iterator[Bools]:
    """The cards that quota keeps from the unit, whatever is free of them."""
    vendor = unit.lead.vendor
    by_card = allowance.bars(vendor, need, fleet.cards, fleet.models)
    if by_card is not None:
        yield by_card
    outside = allowance.outside_pools(vendor, fleet.pools)
    if outside is not None:
        yield outside[fleet.pool][:, None]
