"""Cards for all members of a gang, or for none: searched in slices, taken in one transaction.

1. Count: of equal members, more may be asked than all nodes together take. That is seen in arrays.
2. Try: members one by one, each on the best node that is left, in at most three orders. The first
   is the hardest first: whole cards, then memory.
3. Search: back and forth over nodes and cards, of equal members each arrangement once. It is
   bounded: of a small cluster it sees everything, of a large one it may miss a place.
4. Take: one transaction of the ledger. Until then nothing is held.

A slice ends after a number of fits, not after a time, so that equal input gives equal answers. The
search sees the ledger as it was at its beginning. If the transaction then meets a change, the
search begins again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.fleet.memory_sizes import least_memory
from tessera_core.gangs.scratch import MemberRequest, MemberSeat, ScratchCluster
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.ledger import Ledger
from tessera_core.ledger.promises import Withheld, withholding
from tessera_core.placement.packing.packer import Packer
from tessera_core.placement.place import SEARCHED_FITS
from tessera_core.slices import Slices

STEPS_OF_A_SLICE: Final = 4
"""Fits that one slice may cost, at 0.3 to 2 ms each where there are 5,000 nodes with 8 cards. The
slice with the answer also takes the cards, at 0.05 to 0.1 ms a member."""
_SHAPES_OF_A_STEP: Final = 16
MOST_SEARCHES: Final = 8
"""Times that a search begins again because the ledger changed under it."""
MOST_FITS_OF_A_SEARCH: Final = 2048
"""Fits that the search of one gang may cost."""

Seats = Mapping[str, MemberSeat]
"""Pod's uid -> where it goes."""


class GangReserved(Struct, frozen=True):
    """The ledger holds cards for every member that asks for some."""

    seats: Seats


class GangUnschedulable(Struct, frozen=True, kw_only=True):
    """The members do not fit together now. Nothing is held for them."""

    fitting: int
    """How many fit at the same time, of `of`."""
    of: int
    """All members; or those that ask for the same as `short`, where the count of them decides."""
    short: MemberRequest | None = None
    """A member that has no place next to the others."""
    over: str = ""
    """What no node can change, in numbers: a limit of the namespace."""
    exhausted: bool = False
    """The search ended at its bound: there may be a place that it did not see."""


class GangReservation:
    """The search of one gang's places."""

    def __init__(
        self,
        ledger: Ledger,
        filters: KubeSchedulerFilters,
        members: Sequence[MemberRequest],
        *,
        domains: Sequence[Set[str]] | None = None,
        packer: Packer | None = None,
        scratch: ScratchCluster | None = None,
        withheld: Callable[[], Withheld] = dict,
    ) -> None:
        """`domains` are groups of nodes, of which one has to take all members; None = any nodes.
        `filters` are the ledger's nodes as kube-scheduler sees them; they are not changed. With
        `scratch` the search is made there, and what it finds cannot be taken (`find_seats`).
        `withheld` is what is promised to others now."""
        self._ledger = ledger
        self._filters = filters
        self._members = tuple(members)
        self._domains = domains
        self._packer = packer
        self._given = scratch
        self._withheld = withheld
        self._opened: Set[str] | None = frozenset()
        self._shapes: dict[str, bytes] = {}
        self._hardness: dict[bytes, tuple[float, ...]] = {}
        """By shape."""
        self._began = -1
        self._again = 0
        self._search: Generator[None, None, Seats | GangUnschedulable] | None = None

    def open_reserved(self, keys: Set[str] | None = None) -> None:
        """Before the search: what is reserved for these may be used, too (`ShadowCards.key`);
        None = for anyone."""
        self._opened = keys

    def advance(self, steps: int, now: float) -> GangReserved | GangUnschedulable | None:
        """Go on for so many fits; None while there is no answer. With the answer the ledger holds
        all or nothing. That nothing fits is true of the ledger at the search's beginning."""
        if self._search is None:
            self._search, self._began = self._seats(), self._ledger.generation
        try:
            for _ in range(steps):
                next(self._search)
        except StopIteration as end:
            self._search = None
            found: Seats | GangUnschedulable = end.value
            return found if isinstance(found, GangUnschedulable) else self._take(found, now)
        return None

    def find_seats(self, steps: int) -> Slices[Seats | GangUnschedulable | None]:
        """Places for all members, of which the ledger learns nothing, a fit each slice; None where
        so many fits do not find them."""
        search = self.seats_in_slices()
        try:
            for _ in range(steps):
                next(search)
                yield
        except StopIteration as end:
            found: Seats | GangUnschedulable = end.value
            return found
        return None

    def seats_in_slices(self) -> Slices[Seats | GangUnschedulable]:
        """The same to the end, a fit each slice."""
        return self._seats()

    def _take(self, seats: Seats, now: float) -> GangReserved | GangUnschedulable | None:
        """Take all of it, or None where the search has to begin again."""
        stale = self._began != self._ledger.generation and self._again < MOST_SEARCHES
        grants = [seat.grant for seat in seats.values() if seat.grant is not None]
        with withholding(self._ledger.fleet, self._withheld()):
            refusal = self._ledger.assume(grants, now)
        if refusal is None:
            return GangReserved(seats)
        if stale:
            self._again += 1
            return None
        short = next(m for m in self._members if m.pod.metadata.uid == refusal.uid)
        return GangUnschedulable(
            fitting=0, of=len(self._members), short=short, over=refusal.message
        )

    # -- the search

    def _seats(self) -> Generator[None, None, Seats | GangUnschedulable]:
        if self._domains is None:
            return (yield from self._seats_in(None))
        best = GangUnschedulable(fitting=0, of=len(self._members), short=self._members[0])
        for nodes in self._tightest_first(self._domains):
            found = yield from self._seats_in(nodes)
            if not isinstance(found, GangUnschedulable):
                return found
            best = max(best, found, key=lambda each: each.fitting)
        return best

    def _tightest_first(self, domains: Sequence[Set[str]]) -> Iterator[Set[str]]:
        """The domains by how many members like the first one they take."""
        most = len(self._members)
        room = [self._scratch(nodes).copies(self._members[0], 8 * most) for nodes in domains]
        order = sorted(range(len(domains)), key=lambda n: (room[n], min(domains[n], default="")))
        return (domains[n] for n in order if room[n] > 0)

    def _scratch(self, only: Set[str] | None) -> ScratchCluster:
        if self._given is not None:
            return self._given.copy(only)
        with withholding(self._ledger.fleet, self._withheld()):
            return ScratchCluster(
                self._ledger, self._filters, only=only, packer=self._packer, opened=self._opened
            )

    def _seats_in(self, only: Set[str] | None) -> Generator[None, None, Seats | GangUnschedulable]:
        scratch = self._scratch(only)
        yield from _WHOLE_FLEET
        over = scratch.over(self._members)
        if over:
            return GangUnschedulable(
                fitting=0, of=len(self._members), short=self._members[0], over=over
            )
        short = yield from self._counted(scratch)
        if short is not None:
            return short
        best = GangUnschedulable(fitting=-1, of=len(self._members))
        for order in self._orders(scratch):
            tried = yield from self._tried(scratch, order)
            if not isinstance(tried, GangUnschedulable):
                return tried
            best = max(best, tried, key=lambda each: each.fitting)
        return (yield from self._searched(scratch, best))

    def _counted(self, scratch: ScratchCluster) -> Generator[None, None, GangUnschedulable | None]:
        """The kind of members of which too few have room even by themselves."""
        equal: dict[bytes, list[MemberRequest]] = {}
        for number, member in enumerate(self._members, 1):
            equal.setdefault(self._shape(member), []).append(member)
            if number % _SHAPES_OF_A_STEP == 0:
                yield
        for members in equal.values():
            room = scratch.copies(members[0], len(members))
            if room < len(members):
                return GangUnschedulable(fitting=room, of=len(members), short=members[room])
            yield from _WHOLE_FLEET
        return None

    def _orders(self, scratch: ScratchCluster) -> Iterator[list[MemberRequest]]:
        """The orders in which members are tried, each once; equal members stay together."""
        nodes: dict[bytes, int] = {}

        def fewest_nodes(member: MemberRequest) -> tuple[object, ...]:
            shape = self._shape(member)
            if shape not in nodes:
                nodes[shape] = scratch.nodes_for(member)
            return nodes[shape], *self._hardest(member)

        given: list[list[MemberRequest]] = []
        for key in (self._hardest, fewest_nodes, self._least_demanding):
            order = sorted(self._members, key=key)
            if order not in given:
                given.append(order)
                yield order

    def _hardest(self, member: MemberRequest) -> tuple[object, ...]:
        shape = self._shape(member)
        if shape not in self._hardness:
            self._hardness[shape] = hardness(member)
        return (*self._hardness[shape], shape)

    def _least_demanding(self, member: MemberRequest) -> tuple[object, ...]:
        """Without cards first, then without cores: one without cores may be refused a card whose
        cores are all given, so those that take them come after it."""
        asked = () if member.request is None else member.request.containers
        cores = any(each.cores_percent for one in asked for each in one.requests)
        return bool(asked), cores, *self._hardest(member)

    def _tried(
        self, scratch: ScratchCluster, order: Sequence[MemberRequest]
    ) -> Generator[None, None, Seats | GangUnschedulable]:
        """Each member in the best place that the ones before it leave."""
        taken: list[tuple[MemberRequest, MemberSeat]] = []
        short: dict[bytes, MemberRequest] = {}
        for member in order:
            shape = self._shape(member)
            if shape in short:
                continue
            seat = yield from _first(scratch.seats(member))
            if seat is None:
                short[shape] = member
            else:
                scratch.take(member, seat)
                taken.append((member, seat))
        if not short:
            return {member.pod.metadata.uid: seat for member, seat in taken}
        for member, seat in reversed(taken):
            scratch.release(member, seat)
        return GangUnschedulable(
            fitting=len(taken), of=len(order), short=next(iter(short.values()))
        )

    def _searched(
        self, scratch: ScratchCluster, best: GangUnschedulable
    ) -> Generator[None, None, Seats | GangUnschedulable]:
        """All arrangements, until one fits or the bound is reached."""
        order = sorted(self._members, key=self._least_demanding)
        choices: list[Iterator[MemberSeat | None]] = [scratch.seats(order[0])]
        seats: list[MemberSeat] = []
        for _ in range(MOST_FITS_OF_A_SEARCH):
            yield
            seat = next(choices[-1], _NO_MORE)
            if seat is _NO_MORE:
                choices.pop()
                if not choices:
                    return best
                scratch.release(order[len(seats) - 1], seats.pop())
            elif seat is not None and self._is_new(scratch, order, seats, seat):
                scratch.take(order[len(seats)], seat)
                seats.append(seat)
                if len(seats) == len(order):
                    uids = (member.pod.metadata.uid for member in order)
                    return dict(zip(uids, seats, strict=True))
                choices.append(scratch.seats(order[len(seats)]))
        return replace(best, exhausted=True)

    def _is_new(
        self,
        scratch: ScratchCluster,
        order: Sequence[MemberRequest],
        seats: Sequence[MemberSeat],
        seat: MemberSeat,
    ) -> bool:
        """Equal members may be exchanged: only those arrangements are new in which their nodes come
        in the order of names."""
        at = len(seats)
        if not at or self._shape(order[at]) != self._shape(order[at - 1]):
            return True
        return scratch.rank(seats[-1].node) <= scratch.rank(seat.node)

    def _shape(self, member: MemberRequest) -> bytes:
        uid = member.pod.metadata.uid
        if uid not in self._shapes:
            self._shapes[uid] = member.shape
        return self._shapes[uid]


_NO_MORE: Final = MemberSeat("", None)
_WHOLE_FLEET: Final = (None, None)
"""What looks at all cards counts as two fits."""


def _first(
    seats: Iterator[MemberSeat | None],
) -> Generator[None, None, MemberSeat | None]:
    """The first place of which the fit succeeds."""
    for seat in islice(seats, SEARCHED_FITS):
        yield
        if seat is not None:
            return seat
    return None


def hardness(member: MemberRequest) -> tuple[float, ...]:
    """How hard the member is to place, the hardest least: whole cards, memory, cores, cards."""
    if member.request is None:
        return (1.0, 0.0, 0.0, 0.0, 0.0)
    asked = [each for container in member.request.containers for each in container.requests]
    return (
        0.0,
        -float(sum(each.count for each in asked if each.exclusive or each.cores_percent >= 100)),
        -float(sum(each.count * least_memory(each) for each in asked)),
        -sum(each.count * each.cores_percent for each in asked),
        -float(sum(each.count for each in asked)),
    )


def reserve_gang(
    ledger: Ledger,
    filters: KubeSchedulerFilters,
    members: Sequence[MemberRequest],
    now: float,
    *,
    domains: Sequence[Set[str]] | None = None,
) -> GangReserved | GangUnschedulable:
    """The same in one go, for a caller that nobody waits for."""
    reservation = GangReservation(ledger, filters, members, domains=domains)
    while True:
        found = reservation.advance(MOST_FITS_OF_A_SEARCH, now)
        if found is not None:
            return found
