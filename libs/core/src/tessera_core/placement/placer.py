"""Choosing a node and its cards for one pod over the whole fleet.

1. Screen: array tests over all cards leave the nodes that have enough cards for every unit by
   itself, and enough free memory and cores for all of them. What it leaves out cannot take the pod.
2. Order: the policy's columns say which of those nodes is best.
3. Fit: the best node is tried card by card (`tessera_core.placement.node_fit`), then the next.
4. Search: where all that failed, and several containers take cards, a node may still do with
   another choice of cards for the first ones (`Placer.search`).

An attempt that others wait for is bounded: it tries the best nodes only, and the next attempts
another part of the nodes each, so that every node is tried in the end (`in_turn`).

Equal inputs give equal answers: the last tie-break is the node's name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.fleet.fleet import Fleet
from tessera_core.kube.host_requests import NOTHING, Host
from tessera_core.placement import predicates
from tessera_core.placement.certain import certain_rows
from tessera_core.placement.node_fit import NodeFit, NoFit
from tessera_core.placement.packing.packer import Packer, joint
from tessera_core.placement.place import (
    MOST_SCREENED,
    SEARCHED_FITS,
    SEARCHED_FITS_OF_A_NODE,
    NoNode,
    Placement,
    different,
    fits_of_an_attempt,
    in_turn,
    refused,
    room_for_all,
    shape_of,
)
from tessera_core.placement.scoring import nodes, pressure
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.placement.units import PlacementUnit, units
from tessera_core.quota.allowance import Allowance
from tessera_schema.grants import Share
from tessera_schema.reasons import Reason
from tessera_schema.requests import ContainerRequest, PodRequest, Request


class Placer:
    """Places pods on a fleet, which it only reads.

    What it remembers changes no answer. A fleet whose columns are written past its own methods,
    such as a snapshot on trial, takes a placer without screens.
    """

    __slots__ = ("_last", "fleet", "packer", "screens")

    def __init__(
        self, fleet: Fleet, screens: ScreenCache | None = None, packer: Packer | None = None
    ) -> None:
        """Without `screens` everything is computed for each pod; without `packer` policy `pack` is
        binpack."""
        self.fleet = fleet
        self.screens = screens
        self.packer = packer
        self._last: tuple[Sequence[ContainerRequest], tuple[PlacementUnit, ...]] = ((), ())
        """Containers that asked last, and their units: equal pods come one after another and share
        their containers (`tessera_core.admission.cache`)."""

    def place(
        self,
        pod: PodRequest,
        allowance: Allowance,
        candidates: Bools | None = None,
        attempt: int | None = None,
    ) -> Placement | NoNode:
        """The best node for the pod. `candidates` are the rows that may be used; None = all.
        `attempt`, 1 for the pod's first, bounds the work by `MOST_TAKES`; None = every node is
        tried."""
        fleet, asked = self.fleet, self._units(pod)
        wanted = asked if self.packer is None else self.packer.units(pod.uid, asked)
        left, room = self.screened(wanted, allowance, candidates)
        rows = left.nonzero()[0]
        untried: frozenset[int] = frozenset()
        if len(rows):
            pressed = self.with_pressure(pod, wanted)
            # the search is bounded: in another order it may find what it did not find in one
            orders = [wanted] if pressed is wanted else [pressed, wanted]
            host = Host(pod.cpu_milli, pod.memory_bytes)
            fits = None if attempt is None else fits_of_an_attempt(wanted, len(orders))
            for each in orders:
                columns = self.keys(joint(each[0]), room, host)
                best = nodes.best(rows, columns)
                fitted = self.fit(best, each, allowance, None if allowance.limits else room)
                if not isinstance(fitted, NoFit):
                    return Placement(fleet.names[best], fitted, len(rows))
                order = in_turn(nodes.in_order(rows, columns), fits, attempt or 1)
                found = self._next_best(order, each, allowance, fits)
                if found is not None:
                    return Placement(fleet.names[found[0]], found[1], len(rows))
                untried = frozenset(rows.tolist()).difference(order)
        return NoNode(asked, untried)

    def screen(
        self, wanted: Sequence[PlacementUnit], allowance: Allowance, candidates: Bools | None
    ) -> Bools:
        """The rows that may take the pod. It is exact for a pod of one unit without limits, and
        without conditions on NUMA nodes and topology; for others it is a necessary condition."""
        return self.screened(wanted, allowance, candidates)[0]

    def screened(
        self, wanted: Sequence[PlacementUnit], allowance: Allowance, candidates: Bools | None
    ) -> tuple[Bools, Bools]:
        """The rows of `screen`, and the cards that have room for the first unit, taken by itself:
        to be read until the fleet changes."""
        rows, rooms = self._screened(different(wanted), wanted, allowance, candidates)
        return rows, rooms[0] if rooms else np.zeros_like(self.fleet.cards.vendor, np.bool_)

    def sifted(
        self, wanted: Sequence[PlacementUnit], allowance: Allowance, candidates: Bools | None
    ) -> tuple[Bools, Bools]:
        """The rows of `screen`, and those of them that take the pod for certain: the others have
        to be fitted (`tessera_core.placement.certain`)."""
        asked = different(wanted)
        rows, rooms = self._screened(asked, wanted, allowance, candidates)
        if len(wanted) > MOST_SCREENED:
            return rows, np.zeros_like(rows)
        if len(wanted) > len(rooms):
            by_shape = dict(zip(map(shape_of, asked), rooms, strict=True))
            rooms = [by_shape[shape_of(unit)] for unit in wanted]
        return rows, rows & certain_rows(self.fleet, wanted, rooms, allowance)

    def _screened(
        self,
        asked: Sequence[PlacementUnit],
        wanted: Sequence[PlacementUnit],
        allowance: Allowance,
        candidates: Bools | None,
    ) -> tuple[Bools, list[Bools]]:
        """The rows, and for each of these different units the cards that have room for it."""
        rooms: list[Bools] = []
        fleet, cards, screens = self.fleet, self.fleet.cards, self.screens
        rows = ~fleet.blocked if candidates is None else candidates & ~fleet.blocked
        for unit in asked:
            vendor, count = unit.lead.vendor, unit.lead.count
            known = None if screens is None else screens.screen(fleet, unit)
            if known is None:
                need = unit.need(cards, fleet.models)
                fits = predicates.passed(refused(fleet, unit, need), fleet.of_vendor(vendor))
                enough = fits.sum(1) >= count
            else:
                fits, enough = known
            if allowance.limits:
                outside = allowance.outside_pools(vendor, fleet.pools)
                if outside is not None:
                    rows &= ~outside[fleet.pool]
                barred = allowance.bars(vendor, unit.need(cards, fleet.models), cards, fleet.models)
                if barred is not None:
                    fits = fits & ~barred
                    enough = fits.sum(1) >= count
            rows &= enough
            rooms.append(fits)
        if len(wanted) > 1:
            rows &= room_for_all(fleet, wanted)
        return rows, rooms

    def fit(
        self,
        row: int,
        wanted: Sequence[PlacementUnit],
        allowance: Allowance,
        room: Bools | None = None,
    ) -> tuple[Share, ...] | NoFit:
        """The shares that one node gives the pod, in container order, or why it cannot. `room` are
        the fleet's cards that have room for the first unit, where that is known."""
        if self.fleet.blocked[row]:
            return NoFit(Reason.NODE_BLOCKED, wanted[0])
        fitting = NodeFit(self.fleet, row, allowance, room, self.packer)
        for unit in wanted:
            unfit = fitting.take(unit)
            if unfit is not None:
                return unfit
        return _in_container_order(fitting)

    def search(
        self, row: int, wanted: Sequence[PlacementUnit], allowance: Allowance, tries: int
    ) -> tuple[tuple[Share, ...] | None, int]:
        """The shares of a node where taking the best cards first fails, and the fits that it took.

        When a unit fails, the cards of the units before it are taken from them one at a time,
        breadth first: so the answer differs from the greedy one in as few cards as can be.
        """
        used = 0
        for used, found in enumerate(self.choices(row, wanted, allowance), 1):
            if found is not None or used == tries:
                return found, used
        return None, used

    def choices(
        self, row: int, wanted: Sequence[PlacementUnit], allowance: Allowance
    ) -> Iterator[tuple[Share, ...] | None]:
        """Every choice of cards by which a node takes the pod, the placer's own first and those
        next to it before others, one fit each; None for a fit that failed. The fleet has to be the
        same for each."""
        queue = deque([(frozenset[str](),) * len(wanted)])
        seen, given = set(queue), set[tuple[frozenset[str], ...]]()
        while queue:
            bans = queue.popleft()
            fitting = NodeFit(self.fleet, row, allowance, packer=self.packer)
            failed = any(fitting.take(unit, bans[n]) for n, unit in enumerate(wanted))
            chosen = tuple(fitting.chosen)
            yield None if failed or chosen in given else _in_container_order(fitting)
            given.add(chosen)
            for n, cards in enumerate(chosen):
                for card in sorted(cards):
                    more = (*bans[:n], bans[n] | {card}, *bans[n + 1 :])
                    if more not in seen:
                        seen.add(more)
                        queue.append(more)

    def keys(
        self, request: Request, room: Bools | None = None, host: Host = NOTHING
    ) -> list[Floats | Ints]:
        """The columns by which nodes are ordered for the request
        (`tessera_core.placement.scoring.nodes`)."""
        usage = None if self.screens is None else partial(self.screens.usage, self.fleet)
        return nodes.keys(self.fleet, request, room, host=host, packer=self.packer, usage=usage)

    def with_pressure(
        self, pod: PodRequest, wanted: Sequence[PlacementUnit]
    ) -> Sequence[PlacementUnit]:
        """The pod's units with policies that respond to pressure
        (`tessera_core.placement.scoring.pressure`)."""
        return pressure.pressure_sensitive_units(self.fleet, self.packer, pod, wanted)

    def _units(self, pod: PodRequest) -> tuple[PlacementUnit, ...]:
        containers, found = self._last
        if containers is not pod.containers:
            found = units(pod)
            self._last = pod.containers, found
        return found

    def _next_best(
        self,
        rows: Sequence[int],
        wanted: Sequence[PlacementUnit],
        allowance: Allowance,
        fits: int | None,
    ) -> tuple[int, tuple[Share, ...]] | None:
        for row in rows[1:]:
            fitted = self.fit(row, wanted, allowance)
            if not isinstance(fitted, NoFit):
                return row, fitted
        left = (SEARCHED_FITS if fits is None else fits) if len(wanted) > 1 else 0
        if left == 1:  # the first fit of a search is the one that failed already
            return None
        for row in rows:
            if left <= 0:
                break
            tries = min(left, SEARCHED_FITS_OF_A_NODE)
            shares, used = self.search(row, wanted, allowance, tries)
            left -= used
            if shares is not None:
                return row, shares
        return None


def _in_container_order(fitting: NodeFit) -> tuple[Share, ...]:
    return tuple(sorted(fitting.shares, key=lambda s: s.position))
