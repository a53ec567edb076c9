"""One word for each node that cannot take a pod, for all nodes at once.

A pod's condition in Kubernetes repeats every different string, so there are few of them and no
numbers in them; the numbers are in the decision record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from tessera_core.fleet.arrays import Bools, Codes
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.needs import CardNeeds
from tessera_core.placement import predicates
from tessera_core.placement.place import different, refused
from tessera_core.placement.units import PlacementUnit
from tessera_core.quota.allowance import NO_LIMITS, Allowance
from tessera_schema.reasons import Reason

_WORDS: Final = {int(r): r.wire for r in Reason}


def node_reasons(
    fleet: Fleet, wanted: Sequence[PlacementUnit], allowance: Allowance = NO_LIMITS
) -> list[str]:
    """Row -> the word of the first unit that finds too few cards there, and of the test that the
    nearest card failed; a card that passes them all may still be barred by quota. Nodes that have
    cards for each unit by itself lack them for all together. The last word is that of nodes the
    fleet does not know: it answers row -1."""
    codes = np.where(fleet.blocked, Reason.NODE_BLOCKED, 0).astype(np.uint8)
    for unit in different(wanted):
        codes = np.where(codes == 0, _short(fleet, unit, allowance), codes)
    words = dict(_WORDS)
    words[0] = Reason.ALLOCATED_CARDS_INSUFFICIENT_REQUEST.wire
    named = [words[code] for code in codes.tolist()]
    return [*named, Reason.NODE_UNREGISTERED.wire]


def _short(fleet: Fleet, unit: PlacementUnit, allowance: Allowance) -> Codes:
    """Row -> why the unit finds too few cards, 0 where it finds enough."""
    count, vendor = unit.lead.count, unit.lead.vendor
    mine = fleet.of_vendor(vendor)
    need = unit.need(fleet.cards, fleet.models)
    by_reason = refused(fleet, unit, need)
    of_cards = np.where(mine, predicates.first_reasons(by_reason, mine.shape), 0)
    for barred in _barred(fleet, unit, need, allowance):
        of_cards[mine & (of_cards == 0) & barred] = Reason.RESOURCE_QUOTA_NOT_FIT
    have = mine.sum(1)
    fits = (mine & (of_cards == 0)).sum(1)
    by_quota = (of_cards == Reason.RESOURCE_QUOTA_NOT_FIT).any(1)
    worst = np.where(by_quota, Reason.RESOURCE_QUOTA_NOT_FIT, of_cards.max(1, initial=0))
    why = np.where(have < count, Reason.NODE_INSUFFICIENT_DEVICE, worst)
    missing = fleet.only(*(node for node, absent in fleet.missing.items() if vendor in absent))
    none = np.where(missing, Reason.NODE_UNREGISTERED, Reason.NODE_HAS_NO_CARDS)
    why = np.where(have == 0, none, why)
    return np.where(fits < count, why, 0).astype(np.uint8)


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
