"""The order of `pack` over a fleet: which node is tried first, and which card of it.

`keys` gives columns as `tessera_core.placement.scoring.nodes` does, `card_keys` numbers as
`tessera_core.placement.scoring.cards` does; the least is the best. Nodes where the shape does not
fit by itself come last; they are not left out, for the predicates have the last word: a pod that
fits somewhere is always placed.
"""

from __future__ import annotations

import numpy as np

from tessera_core.fleet.arrays import Codes, Floats, Ints
from tessera_core.fleet.columns import CardColumns, NodeView
from tessera_core.fleet.fleet import Fleet
from tessera_core.kube.host_requests import NOTHING, Host
from tessera_core.placement.packing.demand_history import DemandedShape
from tessera_core.placement.packing.free_capacity import HostColumns
from tessera_core.placement.packing.state import PackingState
from tessera_schema.requests import Request


def keys(
    fleet: Fleet,
    request: Request,
    state: PackingState,
    *,
    hosts: HostColumns | None = None,
    host: Host = NOTHING,
    prices: Codes | None = None,
) -> list[Floats | Ints]:
    """Columns over the fleet's rows, the most important first. What hosts have free, and what the
    pod asks of its host, count where they are known, and so do the cards' prices, in steps."""
    state.follow(fleet, hosts)
    shape = DemandedShape(request, *host)
    if prices is None:
        steps = state.steps(fleet, shape)
    else:
        steps = state.priced_steps(fleet, shape, prices)
    return [*state.reserved(request.count), steps, state.order()]


def card_keys(fleet: Fleet, view: NodeView, request: Request, state: PackingState) -> list[float]:
    """A number for each card of the view, which already counts what the pod's earlier containers
    took."""
    cards = object.__new__(CardColumns)
    for name in CardColumns.__slots__:
        setattr(cards, name, getattr(view.state, name)[None])
    numbers: list[float] = np.round(state.of_cards(fleet, cards, request)[0], 9).tolist()
    return numbers
