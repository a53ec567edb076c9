"""Choosing a node and its cards for one pod over the whole fleet.

1. Screen: array tests over all cards leave the nodes that have enough cards for every unit by
   itself, and enough free memory and cores for all of them. What it leaves out cannot take the pod.
2. Order: the policy's columns say which of those nodes is best.
3. Fit: the best node is tried card by card (`tessera_core.fitting`), then the next.
4. Search: where all that failed, and several containers take cards, a node may still do with
   another choice of cards for the first ones (`search`).

An attempt that others wait for is bounded: it tries the best nodes only, and the next attempts
another part of the nodes each, so that every node is tried in the end (`in_turn`).

Equal inputs give equal answers: the last tie-break is the node's name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from tessera_core import ladder
from tessera_core.arrays import Bools, Ints
from tessera_core.cards import Cards
from tessera_core.cores import milli
from tessera_core.fitting import Fitting, Unfit
from tessera_core.fleet import Fleet
from tessera_core.kube.host_requests import Host
from tessera_core.needs import Amounts
from tessera_core.packing.packer import joint
from tessera_core.quota import Allowance
from tessera_core.scoring import nodes, pressure
from tessera_core.standing import ids_in
from tessera_core.units import Unit, units
from tessera_schema.grants import Share
from tessera_schema.reasons import Reason
from tessera_schema.requests import PodRequest, Role

SEARCHED_FITS: Final = 256
"""How many fits one pod's search may cost where the attempt is not bounded."""
SEARCHED_FITS_OF_A_NODE: Final = 32
MOST_TAKES: Final = 192
"""Units that a bounded attempt fits to nodes, at about 0.1 ms each: so many nodes for a pod of one
unit, half as many for a pod of two."""
MOST_SCREENED: Final = 16
"""Different units of a pod that are tested against all cards, at about 1 ms each where there are
40,000 of them. The others are tested node by node."""


class Found(Struct, frozen=True):
    """A node that takes the pod, and the shares it would give."""

    node: str
    shares: tuple[Share, ...]
    feasible: int
    """Nodes that passed the screen."""


class NotFound(Struct, frozen=True):
    """No node takes the pod now. `tessera_core.explain` says why, node by node."""

    units: tuple[Unit, ...]
    untried: frozenset[int] = frozenset()
    """Rows that may have room, and are left to the pod's next attempts."""


def place(
    fleet: Fleet,
    pod: PodRequest,
    allowance: Allowance,
    candidates: Bools | None = None,
    attempt: int | None = None,
) -> Found | NotFound:
    """The best node for the pod. `candidates` are the rows that may be used; None = all. `attempt`,
    1 for the pod's first, bounds the work by `MOST_TAKES`; None = every node is tried."""
    asked = units(pod)
    wanted = asked if fleet.packer is None else fleet.packer.units(pod.uid, asked)
    left, room = screened(fleet, wanted, allowance, candidates)
    rows = left.nonzero()[0]
    untried: frozenset[int] = frozenset()
    if len(rows):
        heeding = pressure.heeding(fleet, pod.uid, wanted)
        # the search is bounded: in another order it may find what it did not find in one
        orders = [wanted] if heeding is wanted else [heeding, wanted]
        host = Host(pod.cpu_milli, pod.memory_bytes)
        fits = None if attempt is None else fits_of_an_attempt(wanted, len(orders))
        for each in orders:
            columns = nodes.keys(fleet, joint(each[0]), room, host=host)
            best = nodes.best(rows, columns)
            fitted = fit(fleet, best, each, allowance, None if allowance.limits else room)
            if not isinstance(fitted, Unfit):
                return Found(fleet.names[best], fitted, len(rows))
            order = in_turn(nodes.in_order(rows, columns), fits, attempt or 1)
            found = _next_best(fleet, order, each, allowance, fits)
            if found is not None:
                return Found(fleet.names[found[0]], found[1], len(rows))
            untried = frozenset(rows.tolist()).difference(order)
    return NotFound(asked, untried)


def fits_of_an_attempt(wanted: Sequence[Unit], orders: int = 1) -> int:
    """How many nodes a bounded attempt tries in each of its orders. A pod of several units needs as
    much again for the search."""
    return max(MOST_TAKES // (len(wanted) * orders * (2 if len(wanted) > 1 else 1)), 1)


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


def _next_best(
    fleet: Fleet,
    rows: Sequence[int],
    wanted: Sequence[Unit],
    allowance: Allowance,
    fits: int | None,
) -> tuple[int, tuple[Share, ...]] | None:
    for row in rows[1:]:
        fitted = fit(fleet, row, wanted, allowance)
        if not isinstance(fitted, Unfit):
            return row, fitted
    left = (SEARCHED_FITS if fits is None else fits) if len(wanted) > 1 else 0
    if left == 1:  # the first fit of a search is the one that failed already
        return None
    for row in rows:
        if left <= 0:
            break
        tries = min(left, SEARCHED_FITS_OF_A_NODE)
        shares, used = search(fleet, row, wanted, allowance, tries)
        left -= used
        if shares is not None:
            return row, shares
    return None


def fit(
    fleet: Fleet,
    row: int,
    wanted: Sequence[Unit],
    allowance: Allowance,
    room: Bools | None = None,
) -> tuple[Share, ...] | Unfit:
    """The shares that one node gives the pod, in container order, or why it cannot. `room` are the
    fleet's cards that have room for the first unit, where that is known."""
    if fleet.blocked[row]:
        return Unfit(Reason.NODE_BLOCKED, wanted[0])
    fitting = Fitting(fleet, row, allowance, room)
    for unit in wanted:
        unfit = fitting.take(unit)
        if unfit is not None:
            return unfit
    return _in_container_order(fitting)


def search(
    fleet: Fleet, row: int, wanted: Sequence[Unit], allowance: Allowance, tries: int
) -> tuple[tuple[Share, ...] | None, int]:
    """The shares of a node where taking the best cards first fails, and the fits that it took.

    When a unit fails, the cards of the units before it are taken from them one at a time, breadth
    first: so the answer differs from the greedy one in as few cards as can be.
    """
    queue = deque([(frozenset[str](),) * len(wanted)])
    seen = set(queue)
    for used in range(1, tries + 1):
        if not queue:
            return None, used
        bans = queue.popleft()
        fitting = Fitting(fleet, row, allowance)
        failed = next((n for n, u in enumerate(wanted) if fitting.take(u, bans[n])), None)
        if failed is None:
            return _in_container_order(fitting), used
        for n in range(failed):
            for card in sorted(fitting.chosen[n]):
                more = (*bans[:n], bans[n] | {card}, *bans[n + 1 :])
                if more not in seen:
                    seen.add(more)
                    queue.append(more)
    return None, tries


def _in_container_order(fitting: Fitting) -> tuple[Share, ...]:
    return tuple(sorted(fitting.shares, key=lambda s: s.position))


def screen(
    fleet: Fleet, wanted: Sequence[Unit], allowance: Allowance, candidates: Bools | None
) -> Bools:
    """The rows that may take the pod. It is exact for a pod of one unit without limits, and
    without conditions on NUMA nodes and topology; for others it is a necessary condition."""
    return screened(fleet, wanted, allowance, candidates)[0]


def screened(
    fleet: Fleet, wanted: Sequence[Unit], allowance: Allowance, candidates: Bools | None
) -> tuple[Bools, Bools]:
    """The rows of `screen`, and the cards that have room for the first unit, taken by itself: to
    be read until the fleet changes."""
    room: Bools | None = None
    rows = ~fleet.blocked if candidates is None else candidates & ~fleet.blocked
    cards, standing = fleet.cards, fleet.standing
    for unit in different(wanted):
        vendor, count = unit.lead.vendor, unit.lead.count
        kept = None if standing is None else standing.screen(fleet, unit)
        if kept is None:
            need = unit.need(cards)
            fits = ladder.passed(refused(fleet, unit, need), fleet.of_vendor(vendor))
            enough = fits.sum(1) >= count
        else:
            fits, enough = kept
        if allowance.limits:
            outside = allowance.outside_pools(vendor, fleet.pools)
            if outside is not None:
                rows &= ~outside[fleet.pool]
            barred = allowance.bars(vendor, unit.need(cards), cards, fleet.models)
            if barred is not None:
                fits = fits & ~barred
                enough = fits.sum(1) >= count
        rows &= enough
        room = fits if room is None else room
    if len(wanted) > 1:
        rows &= _room_for_all(fleet, wanted)
    return rows, np.zeros_like(cards.vendor, np.bool_) if room is None else room


def different(wanted: Sequence[Unit]) -> list[Unit]:
    """The units that ask for different things, the first of each, at most `MOST_SCREENED`."""
    if len(wanted) == 1:
        return list(wanted)
    first: dict[object, Unit] = {}
    for unit in wanted:
        first.setdefault(tuple((p.container.role, p.request) for p in unit.parts), unit)
    return list(first.values())[:MOST_SCREENED]


def refused(fleet: Fleet, unit: Unit, need: Amounts) -> list[tuple[Reason, Bools]]:
    """Each reason of the ladder with the cards of the fleet that it refuses to the unit."""
    return ladder.rungs(
        unit.lead, need, fleet.cards,
        models=fleet.models, modes=fleet.modes, ids=ids_in(fleet, unit.lead),
    )  # fmt: skip


def _room_for_all(fleet: Fleet, wanted: Sequence[Unit]) -> Bools:
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
        slots, memory, cores = _free(fleet.cards, mine)
        rows &= slots >= sum(r.count for r in requests)
        rows &= memory >= sum(r.count * r.memory_bytes for r in requests)
        rows &= cores >= sum(r.count * milli(r.cores_percent) for r in requests)
    return rows


def _free(cards: Cards, mine: Bools) -> tuple[Ints, Ints, Ints]:
    slots = np.maximum(cards.slots - cards.sharers, 0)
    memory = np.maximum(cards.memory_total - cards.memory_used, 0)
    cores = np.maximum(cards.cores_total - cards.cores_used, 0)
    return tuple(np.where(mine, column, 0).sum(1) for column in (slots, memory, cores))
