"""What a placer finds, how much one attempt of it may cost, and what it tests of all cards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Bools, Ints
from tessera_core.fleet.columns import CardColumns
from tessera_core.fleet.cores import least_milli
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.lent_memory import memory_taken, slots_taken
from tessera_core.fleet.memory_sizes import least_memory
from tessera_core.fleet.needs import CardNeeds
from tessera_core.placement import predicates
from tessera_core.placement.screen_cache import ids_in
from tessera_core.placement.units import PlacementUnit
from tessera_schema.grants import Share
from tessera_schema.reasons import Reason
from tessera_schema.requests import Choice, Role

SEARCHED_FITS: Final = 256
"""How many fits one pod's search may cost where the attempt is not bounded."""
SEARCHED_FITS_OF_A_NODE: Final = 32
MOST_TAKES: Final = 192
"""Units that a bounded attempt fits to nodes, at about 0.1 ms each: so many nodes for a pod of one
unit, half as many for a pod of two, or for one whose cards are chosen by scopes."""
_SLOW: Final = {Choice.SCOPES: 2}
"""Choices that take as long as so many others."""
MOST_SCREENED: Final = 16
"""Different units of a pod that are tested against all cards, at about 1 ms each where there are
40,000 of them. The others are tested node by node."""


class Placement(Struct, frozen=True):
    """A node that takes the pod, and the shares it would give."""

    node: str
    shares: tuple[Share, ...]
    feasible: int
    """Nodes that passed the screen."""


class NoNode(Struct, frozen=True):
    """No node takes the pod now. `tessera_core.explain.reasons` says why, node by node."""

    units: tuple[PlacementUnit, ...]
    untried: frozenset[int] = frozenset()
    """Rows that may have room, and are left to the pod's next attempts."""


def fits_of_an_attempt(wanted: Sequence[PlacementUnit], orders: int = 1) -> int:
    """How many nodes a bounded attempt tries in each of its orders. A pod of several units needs as
    much again for the search."""
    takes = sum(_SLOW.get(unit.lead.policy.choice, 1) for unit in wanted)
    return max(MOST_TAKES // (takes * orders * (2 if len(wanted) > 1 else 1)), 1)


def in_turn(order: Sequence[int], fits: int | None, attempt: int) -> Sequence[int]:
    """The rows that an attempt tries: the first one the best of them; each later one the very best
    and another part of the others, by their row, until all have had their turn."""
    if fits is None or len(order) <= fits:
        return order
    if attempt == 1:
        return order[:fits]
    others = sorted(order[1:])
    start, part = (attempt - 2) * max(fits - 1, 1) % len(others), max(fits - 1, 1)
    return [order[0], *(others[start:] + others[:start])[:part]]


def different(wanted: Sequence[PlacementUnit]) -> list[PlacementUnit]:
    """The units that ask for different things, the first of each, at most `MOST_SCREENED`."""
    if len(wanted) == 1:
        return list(wanted)
    first: dict[object, PlacementUnit] = {}
    for unit in wanted:
        first.setdefault(shape_of(unit), unit)
    return list(first.values())[:MOST_SCREENED]


def shape_of(unit: PlacementUnit) -> object:
    """What the unit asks for: equal for units that differ in their containers' names alone."""
    return tuple((p.container.role, p.request) for p in unit.parts)


def refused(fleet: Fleet, unit: PlacementUnit, need: CardNeeds) -> list[tuple[Reason, Bools]]:
    """Each reason of the predicates with the cards of the fleet that it refuses to the unit."""
    return predicates.predicates(
        unit.lead, need, fleet.cards,
        models=fleet.models, modes=fleet.modes, ids=ids_in(fleet, unit.lead),
    )  # fmt: skip


def room_for_all(fleet: Fleet, wanted: Sequence[PlacementUnit]) -> Bools:
    """The rows whose free slots, memory and cores, added up, suffice for all that runs together."""
    rows = np.ones(len(fleet.names), np.bool_)
    for vendor in {unit.lead.vendor for unit in wanted}:
        mine = fleet.of_vendor(vendor) & (fleet.cards.blocked == 0)
        requests = [
            part.request
            for unit in wanted
            for part in unit.parts
            if part.request.vendor == vendor and part.container.role is not Role.INIT
        ]
        best_effort = any(request.best_effort for request in requests)
        slots, memory, cores = _free(fleet.cards, mine, best_effort=best_effort)
        rows &= slots >= sum(r.count for r in requests)
        rows &= memory >= sum(r.count * least_memory(r) for r in requests)
        rows &= cores >= sum(r.count * least_milli(r) for r in requests)
    return rows


def _free(
    cards: CardColumns, mine: Bools, *, best_effort: bool
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    slots = np.maximum(cards.slots - slots_taken(cards, best_effort=best_effort), 0)
    memory = np.maximum(cards.memory_total - memory_taken(cards, best_effort=best_effort), 0)
    cores = np.maximum(cards.cores_total - cards.cores_used, 0)
    return tuple(np.where(mine, column, 0).sum(1) for column in (slots, memory, cores))
