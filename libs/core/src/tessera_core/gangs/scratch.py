"""A copy of the cluster on which a gang is tried: cards, quotas, and what kube-scheduler counts.

Pods are fitted here by the same placer, on a snapshot of the ledger's fleet. Nothing here changes
the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from copy import copy as copy_of
from typing import Final

import msgspec
import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Bools, Floats, Ints
from tessera_core.fleet.charges import charges
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.lent_memory import memory_taken
from tessera_core.gangs.copies import copies_by_cards
from tessera_core.kube.host_requests import Host
from tessera_core.kube.pod_requests import Amounts, pod_requests
from tessera_core.kube.quantity import BadQuantity
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.entry_checks import uses
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.packing.packer import Packer, joint
from tessera_core.placement.placer import Placer
from tessera_core.placement.scoring import nodes
from tessera_core.placement.screen_cache import ScreenCache
from tessera_core.placement.units import PlacementUnit, units
from tessera_core.quota.allowance import NO_LIMITS, Allowance, QuotaUsage, Uses, minimum_usage
from tessera_schema.grants import Grant, Share
from tessera_schema.kube import Pod
from tessera_schema.requests import PodRequest

_CHOICES_OF_A_NODE: Final = 64
"""Choices of cards that are tried on one node for one member."""


class MemberRequest(Struct, frozen=True):
    """A member as it is placed."""

    pod: Pod
    request: PodRequest | None = None
    """None for a member that asks for no cards."""

    @property
    def shape(self) -> bytes:
        """Equal for members that differ in their names alone."""
        spec, request = self.pod.spec, self.request
        asked = () if request is None else (request.namespace, request.containers)
        host = sorted(pod_requests(self.pod).items())
        where = spec.node_selector, spec.tolerations, spec.affinity
        return msgspec.msgpack.encode((asked, host, where))


class MemberSeat(Struct, frozen=True):
    """Where a member goes, and the cards that it gets there."""

    node: str
    grant: Grant | None


class ScratchCluster:
    """The ledger's cards and the nodes' rooms, as a gang would leave them."""

    def __init__(
        self,
        ledger: Ledger,
        filters: KubeSchedulerFilters,
        *,
        only: Set[str] | None = None,
        packer: Packer | None = None,
        opened: Set[str] | None = frozenset(),
        also_closed: Bools | None = None,
    ) -> None:
        """As both are now. `only` are the nodes that may be used; None = all. `opened` says whose
        reserved cards may be used as well (`ShadowCards.key`); None = everybody's. Those in
        `also_closed`, (nodes, cards) of the ledger's fleet, may not."""
        self._ledger = ledger
        plain = opened is not None and not opened and also_closed is None
        fleet = ledger.fleet if plain else ledger.fleet.opened(opened, also_closed)
        self._fleet = fleet.snapshot()
        self._placer = Placer(self._fleet, ScreenCache(), packer)
        self._uses: dict[str, dict[tuple[str, str], QuotaUsage]] = {}
        self._bound: dict[str, Amounts] = {}
        """Uid of a pod that has left -> what it requests of its node."""
        self._rows = filters.rows_in(fleet)
        self._filters = filters.scratch()
        self._open = self._opened(only)

    def copy(self, only: Set[str] | None = None) -> ScratchCluster:
        """The same cluster, to be changed apart, of whose nodes only these may be used."""
        made = self._on(self._fleet.snapshot())
        if only is not None:
            made._open = self._open & self._opened(only)
        return made

    def part(self, rows: Ints) -> ScratchCluster:
        """A copy with these rows of the fleet alone: a search costs less there, and finds the same
        as long as no other row has room."""
        made = self._on(self._fleet.part(rows))
        place: Ints = np.full(len(self._open) + 1, -1)
        place[rows] = np.arange(len(rows))
        made._rows, made._open = place[self._rows], self._open[rows]
        return made

    def _on(self, fleet: Fleet) -> ScratchCluster:
        """A copy with this copy of the fleet."""
        made = copy_of(self)
        made._filters, made._fleet = self._filters.scratch(), fleet
        made._placer = Placer(fleet, ScreenCache(), self._placer.packer)
        made._uses = {namespace: dict(uses) for namespace, uses in self._uses.items()}
        return made

    def rank(self, node: str) -> int:
        """The node's place in the order of names."""
        return int(self._fleet.rank[self._fleet.rows[node]])

    def copies(self, member: MemberRequest, most: int) -> int:
        """How many members like this one have room by themselves, at most `most`; never too low."""
        host = self._filters.copies(member.pod, most)
        known = self._rows >= 0
        by_row: Ints = np.zeros(len(self._open), np.int64)
        by_row[self._rows[known]] = host[known]
        by_row[~self._open] = 0
        if member.request is not None:
            wanted = units(member.request)
            allowance = self._allowance(member.request.namespace)
            rows, room = self._placer.screened(wanted, allowance, self._open)
            if not rows.any():
                return 0
            by_row = np.minimum(by_row, copies_by_cards(self._fleet, wanted[0], room, most))
            by_row[~rows] = 0
        return int(min(by_row.sum(), most))

    def nodes_for(self, member: MemberRequest) -> int:
        """How many nodes have room for the member, by what is quick to see."""
        return int(np.count_nonzero(self._screened(member)))

    def over(self, members: Sequence[MemberRequest]) -> str:
        """Which limit of a namespace all of them together would exceed at least, in numbers; empty
        when none."""
        least: dict[str, dict[tuple[str, str], QuotaUsage]] = {}
        for member in members:
            if member.request is not None:
                _count(least, member.request.namespace, minimum_usage(member.request))
        found = (self._allowance(ns).exceeded(asked) for ns, asked in least.items())
        return next(filter(None, found), "")

    def seats(self, member: MemberRequest) -> Iterator[MemberSeat | None]:
        """Where the member can go, best first, one fit each; None for a fit that failed. Between
        two of them the cluster has to be as it was."""
        candidates, request = self._candidates(member), member.request
        if request is None:
            rows = candidates.nonzero()[0]
            has_cards = self._fleet.cards.slots[rows].any(1)
            order = rows[np.lexsort((self._fleet.rank[rows], has_cards))].tolist()
            yield from (MemberSeat(self._fleet.names[row], None) for row in order)
            return
        allowance = self._allowance(request.namespace)
        if allowance.limits and allowance.exceeded(minimum_usage(request)):
            return
        placer, wanted = self._placer, units(request)
        if placer.packer is not None:
            wanted = tuple(placer.packer.units(request.uid, wanted))
        left, room = placer.screened(wanted, allowance, candidates)
        found = left.nonzero()[0]
        if not len(found):
            return
        pressed = placer.with_pressure(request, wanted)
        host = Host(request.cpu_milli, request.memory_bytes)
        columns = placer.keys(joint(pressed[0]), room, host)
        best = nodes.best(found, columns)
        yield self._seat(
            request, best, placer.fit(best, pressed, allowance, None if allowance.limits else room)
        )
        order = nodes.in_order(found, columns)
        for row in order[1:]:
            yield self._seat(request, row, placer.fit(row, pressed, allowance))
        for row in order:
            yield from self._other_cards(request, row, pressed, allowance)

    def room_without(self, member: MemberRequest, less: Mapping[str, Ints]) -> tuple[Bools, Bools]:
        """The rows of the ledger's fleet that may take the member if its columns of use, by name,
        were so much less, whatever quotas and processors say: no other row does. And the cards
        with room for its first unit, (nodes, cards)."""
        fleet = self._without(less)
        if member.request is None:
            return np.zeros_like(self._open), np.zeros_like(fleet.cards.vendor, np.bool_)
        return Placer(fleet).screened(units(member.request), NO_LIMITS, self._unbarred(member))

    def copies_without(self, member: MemberRequest, most: int, less: Mapping[str, Ints]) -> Ints:
        """Row -> how many members like this one, that asks for cards, its cards take then, at most
        `most`; never too low."""
        if member.request is None:
            raise ValueError(f"{member.pod.name} asks for no cards: their room says nothing of it")
        fleet, wanted = self._without(less), units(member.request)
        rows, room = Placer(fleet).screened(wanted, NO_LIMITS, self._unbarred(member))
        return np.where(rows, copies_by_cards(fleet, wanted[0], room, most), 0)

    def _without(self, less: Mapping[str, Ints]) -> Fleet:
        fleet = self._fleet.snapshot()
        for name, amounts in less.items():
            setattr(fleet.cards, name, getattr(fleet.cards, name) - amounts)
        return fleet

    def _unbarred(self, member: MemberRequest) -> Bools:
        """The rows that may be used and that the member may go to, whatever leaves them."""
        return self._among(self._filters.allowed(member.pod))

    def memory_short(self, member: MemberRequest) -> Floats:
        """Bytes that each card lacks for the first unit of a member that asks for cards, (nodes,
        cards)."""
        cards, models = self._fleet.cards, self._fleet.models
        if member.request is None:
            return np.zeros(cards.vendor.shape)
        need = units(member.request)[0].need(cards, models)
        free = cards.memory_total - memory_taken(cards, best_effort=need.best_effort)
        return np.maximum(need.memory - free, 0).astype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the fleet."""
        rows, columns = self._fleet.cards.vendor.shape
        return rows, columns

    @property
    def names(self) -> Sequence[str]:
        """Row -> its node."""
        return self._fleet.names

    def name_of(self, row: int) -> str:
        """The node in a row of the ledger's fleet."""
        return self._fleet.names[row]

    @property
    def order(self) -> Ints:
        """Row -> its node's place in the order of names."""
        return self._fleet.rank

    def seat_on(self, member: MemberRequest, node: str) -> MemberSeat | None:
        """The cards that the node gives the member now, of which there must be some; None where it
        does not fit."""
        request, row = member.request, self._fleet.rows.get(node, -1)
        if request is None or row < 0 or not self._open[row]:
            return None
        if node in self._filters.refusals(member.pod):
            return None
        allowance = self._allowance(request.namespace)
        if allowance.limits and allowance.exceeded(minimum_usage(request)):
            return None
        wanted = units(request)
        fitted = self._placer.fit(row, wanted, allowance)
        if isinstance(fitted, NoFit) and len(wanted) > 1:
            found, _ = self._placer.search(row, wanted, allowance, _CHOICES_OF_A_NODE)
            fitted = fitted if found is None else found
        return self._seat(request, row, fitted)

    def leave(self, pod: Pod) -> None:
        """A bound pod goes, with what the ledger has for it."""
        self._count_bound(pod, -1)

    def stay(self, pod: Pod) -> None:
        """A pod that had left is where it was."""
        self._count_bound(pod, 1)

    def take(self, member: MemberRequest, seat: MemberSeat) -> None:
        """The member goes there."""
        self._change(member, seat, 1)
        self._filters.take(member.pod, seat.node)

    def release(self, member: MemberRequest, seat: MemberSeat) -> None:
        """The member, which was taken, does not."""
        self._change(member, seat, -1)
        self._filters.release(member.pod, seat.node)

    def _count_bound(self, pod: Pod, sign: int) -> None:
        entry = self._ledger.entry(pod.metadata.uid)
        if entry is not None:
            for card, charge in entry.charges.items():
                self._fleet.charge(entry.grant.node, card, charge, sign)
            _count(self._uses, entry.grant.namespace, entry.uses, sign)
        self._filters.count(self._requested(pod), pod.spec.node_name, sign)

    def _requested(self, pod: Pod) -> Amounts:
        uid = pod.metadata.uid
        if uid not in self._bound:
            try:
                self._bound[uid] = self._filters.requests(pod)
            except BadQuantity:  # such a pod counts for nothing on its node
                self._bound[uid] = {}
        return self._bound[uid]

    def _change(self, member: MemberRequest, seat: MemberSeat, sign: int) -> None:
        if seat.grant is None or member.request is None:
            return
        cost = charges(seat.grant.shares)
        for card, charge in cost.items():
            self._fleet.charge(seat.node, card, charge, sign)
        _count(self._uses, seat.grant.namespace, uses(self._fleet, seat.grant, cost), sign)

    def _other_cards(
        self,
        request: PodRequest,
        row: int,
        wanted: Sequence[PlacementUnit],
        allowance: Allowance,
    ) -> Iterator[MemberSeat | None]:
        for tried, shares in enumerate(self._placer.choices(row, wanted, allowance)):
            if tried == _CHOICES_OF_A_NODE:
                return
            if tried:
                yield None if shares is None else self._seat(request, row, shares)

    def _seat(
        self, request: PodRequest, row: int, fitted: tuple[Share, ...] | NoFit
    ) -> MemberSeat | None:
        if isinstance(fitted, NoFit):
            return None
        node = self._fleet.names[row]
        grant = Grant(
            uid=request.uid, namespace=request.namespace, name=request.name, node=node,
            shares=fitted,
        )  # fmt: skip
        return MemberSeat(node, grant)

    def _opened(self, only: Set[str] | None) -> Bools:
        rows, opened = self._fleet.rows, np.zeros(len(self._fleet.names), np.bool_)
        known = self._rows[self._rows >= 0]
        opened[known if only is None else [rows[name] for name in only if name in rows]] = True
        return opened

    def _screened(self, member: MemberRequest) -> Bools:
        candidates = self._candidates(member)
        if member.request is None:
            return candidates
        allowance = self._allowance(member.request.namespace)
        return self._placer.screen(units(member.request), allowance, candidates)

    def _candidates(self, member: MemberRequest) -> Bools:
        return self._among(self._filters.fitting(member.pod))

    def _among(self, nodes: Bools) -> Bools:
        """The rows that may be used, without those of the filters' other nodes."""
        left, out = self._open.copy(), self._rows[~nodes]
        left[out[out >= 0]] = False
        return left

    def _allowance(self, namespace: str) -> Allowance:
        allowance = self._ledger.allowance(namespace)
        return allowance.with_more(namespace, self._uses) if allowance.limits else allowance


def _count(
    total: dict[str, dict[tuple[str, str], QuotaUsage]], namespace: str, more: Uses, sign: int = 1
) -> None:
    book = total.setdefault(namespace, {})
    for key, use in more.items():
        book[key] = book.get(key, QuotaUsage()).plus(use, sign)
        if not book[key].cards:
            del book[key]
