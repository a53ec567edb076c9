"""Which node is tried first: each order is a list of columns, the least value being the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.fleet.fleet import Fleet
from tessera_core.kube.host_requests import NOTHING, Host
from tessera_core.placement.packing import ordering as order
from tessera_core.placement.packing.packer import Packer
from tessera_core.placement.scoring import pressure, price
from tessera_core.placement.scoring.koordinator import node_score
from tessera_schema.requests import NodeOrder, PressurePolicy, Request


def keys(
    fleet: Fleet,
    request: Request,
    room: Bools | None = None,
    *,
    host: Host = NOTHING,
    packer: Packer | None = None,
    usage: Callable[[], Floats] | None = None,
) -> list[Floats | Ints]:
    """The columns of the request's order, most important first, the node's name last. `room` are
    the cards that have room for the request, where that is known already. `host` is what the
    pod asks of its host. Without a packer `pack` is binpack; `usage` is `CardColumns.usage`, or
    where somebody remembers it."""
    policy = request.policy.pressure
    priced = policy in pressure.PRICED
    packs = request.policy.node is NodeOrder.PACK and packer is not None
    if packs and packer is not None:
        prices = price.steps(fleet.cards, request) if priced else None
        hosts = packer.hosts.columns(fleet)
        columns = order.keys(fleet, request, packer.state, hosts=hosts, host=host, prices=prices)
    else:
        columns = _keys(fleet, request, usage or fleet.cards.usage)
    if priced and not packs:
        coarse = price.coarse_steps(fleet.cards, request)
        columns.insert(0, pressure.on_worst_card(fleet, request, coarse, room))
    if policy in pressure.COMES_FIRST:
        columns.insert(0, pressure.of_nodes(fleet, request, room))
    if policy is PressurePolicy.TIES:
        columns.append(pressure.of_nodes(fleet, request, room))
    return [*columns, fleet.rank]


def _keys(fleet: Fleet, request: Request, usage: Callable[[], Floats]) -> list[Floats | Ints]:
    match request.policy.node:
        case NodeOrder.BINPACK | NodeOrder.PACK:
            return [-usage()]
        case NodeOrder.SPREAD:
            return [usage()]
        case NodeOrder.LEAST_FREE:
            c = fleet.cards
            return [
                (c.cores_total - c.cores_used).sum(1),
                (c.memory_total - c.memory_used).sum(1),
            ]
        case NodeOrder.LEAST_ALLOCATED:
            return [-node_score(fleet, request, most=False)]
        case NodeOrder.MOST_ALLOCATED:
            return [-node_score(fleet, request, most=True)]


def best(rows: Ints, columns: Sequence[Floats | Ints]) -> int:
    """The best of the rows."""
    for column in columns:
        values = column[rows]
        rows = rows[values == values[values.argmin()]]
        if len(rows) == 1:
            break
    return int(rows[0])


def in_order(rows: Ints, columns: Sequence[Floats | Ints]) -> list[int]:
    """The rows, best first."""
    order: list[int] = rows[np.lexsort([c[rows] for c in reversed(columns)])].tolist()
    return order
