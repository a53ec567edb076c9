"""Shares for a bound pod that does not fit the ledger: it runs, so it is counted anyway."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessera_core.fleet.charges import Tally
from tessera_core.fleet.fleet import Fleet
from tessera_core.placement.node_fit import shares_of
from tessera_core.placement.units import PlacementUnit
from tessera_schema.grants import Share


def overcommitted_shares(
    fleet: Fleet, row: int, wanted: Sequence[PlacementUnit]
) -> tuple[Share, ...]:
    """Each unit on the cards with the most free memory, whether they have room or not."""
    shares: list[Share] = []
    tally = Tally()
    for unit in wanted:
        view = fleet.view(row, unit.lead.vendor)
        if view is None:
            continue
        mine = np.array([tally.of(card.id).memory_bytes for card in view.facts])
        free = view.state.memory_total - view.state.memory_used - mine
        cards = np.argsort(-free, kind="stable")[: unit.lead.count].tolist()
        made = shares_of(fleet, unit, view, cards)
        shares += made
        for share in made:
            tally.add(share)
    return tuple(sorted(shares, key=lambda s: s.position))
