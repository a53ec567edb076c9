"""Choosing a node and its cards for one pod over the whole fleet.

1. Screen: for every unit, array tests over all cards leave the nodes with enough cards for it.
   For a pod of one unit the screen is exact but for NUMA and topology; for others it is a
   necessary condition.
2. Order: the policy's columns say which of those nodes is best.
3. Fit: the best node is tried card by card (`tessera_core.fitting`), then the next.

Equal inputs give equal answers: the last tie-break is the node's name.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from tessera_core import ladder
from tessera_core.cards import Bools
from tessera_core.fitting import Fitting, Unfit
from tessera_core.fleet import Fleet
from tessera_core.quota import Allowance
from tessera_core.scoring import nodes
from tessera_core.units import Unit, units
from tessera_schema.grants import Share
from tessera_schema.reasons import Reason
from tessera_schema.requests import PodRequest, Request


class Found(Struct, frozen=True):
    """A node that takes the pod, and the shares it would give."""

    node: str
    shares: tuple[Share, ...]
    tried: int
    """Nodes fitted card by card, this one included."""
    feasible: int
    """Nodes that passed the screen."""


class NotFound(Struct, frozen=True):
    """No node takes the pod now. `tessera_core.explain` says why, node by node."""

    units: tuple[Unit, ...]
    nodes: int
    """How many nodes were asked."""


def place(
    fleet: Fleet, pod: PodRequest, allowance: Allowance, candidates: Bools | None = None
) -> Found | NotFound:
    """The best node for the pod. `candidates` are the rows that may be used; None = all."""
    wanted = units(pod)
    rows = screen(fleet, wanted, candidates)
    feasible = int(rows.sum())
    columns = nodes.keys(fleet, wanted[0].lead) if feasible else []
    tried = 0
    while rows.any():
        row = nodes.best(np.flatnonzero(rows), columns)
        tried += 1
        fitted = fit(fleet, row, wanted, allowance)
        if not isinstance(fitted, Unfit):
            return Found(fleet.names[row], fitted, tried, feasible)
        rows[row] = False
    return NotFound(wanted, len(fleet.rows) if candidates is None else int(candidates.sum()))


def fit(
    fleet: Fleet, row: int, wanted: Sequence[Unit], allowance: Allowance
) -> tuple[Share, ...] | Unfit:
    """The shares that one node gives the pod, in container order, or why it cannot."""
    if fleet.blocked[row]:
        return Unfit(Reason.NODE_BLOCKED, wanted[0])
    fitting = Fitting(fleet, row, allowance)
    for unit in wanted:
        unfit = fitting.take(unit)
        if unfit is not None:
            return unfit
    return tuple(sorted(fitting.shares, key=lambda s: s.position))


def screen(fleet: Fleet, wanted: Sequence[Unit], candidates: Bools | None) -> Bools:
    """The rows that have, for each unit alone, enough cards that pass the ladder."""
    rows = ~fleet.blocked if candidates is None else candidates & ~fleet.blocked
    for unit in wanted:
        vendor = fleet.vendors.known(unit.lead.vendor)
        if vendor is None:
            return np.zeros_like(rows)
        refused = ladder.rungs(
            unit.lead, unit.need(fleet.cards), fleet.cards,
            models=fleet.models, modes=fleet.modes, ids=ids_in(fleet, unit.lead),
        )  # fmt: skip
        rows &= ladder.passed(refused, fleet.cards, vendor).sum(1) >= unit.lead.count
    return rows


def ids_in(fleet: Fleet, request: Request) -> Bools | None:
    """The cards of the fleet that the request's lists of ids allow; None without lists."""
    if not request.ids and not request.ids_denied:
        return None
    allowed = np.full_like(fleet.cards.vendor, not request.ids, np.bool_)
    for ids, value in ((request.ids, True), (request.ids_denied, False)):
        for card_id in ids:
            for place_ in fleet.places(card_id):
                allowed[place_] = value
    return allowed
