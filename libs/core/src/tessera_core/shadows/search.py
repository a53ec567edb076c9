"""The earliest time at which members that start together have room, by the ends of running pods.

Pods leave a copy of the cluster in the order of their ends; by bisection the fewest are found that
have to end. The fits of single trials are bounded (`tessera_core.gangs.reservation`), so on a large
cluster a time may be missed, and the next one is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence, Set
from typing import Final

import numpy as np
from msgspec import Struct

from tessera_core.fleet.arrays import Bools
from tessera_core.fleet.card_mask import CardMask
from tessera_core.fleet.columns import USAGE
from tessera_core.gangs.reservation import GangReservation, GangUnschedulable, Seats
from tessera_core.gangs.scratch import MemberRequest, ScratchCluster
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.ledger import Ledger
from tessera_core.ledger.promises import Withheld, withholding
from tessera_core.shadows.expected_ends import PodLifetime
from tessera_core.slices import Slices
from tessera_schema.kube import Pod

_NONE: Final[Withheld] = {}
_PODS_OF_A_SLICE: Final = 8
_LIFETIMES_OF_A_SLICE: Final = 1024
_SHAPES_OF_A_SLICE: Final = 32
_WHOLE_FLEET: Final = (None,) * 3
"""What copies or looks at all cards counts as three slices."""


class SeatsLater(Struct, frozen=True):
    """Places for all members, and when they are free."""

    seats: Seats
    at: float


class SeatsLaterSearch:
    """Searches for one group of members."""

    def __init__(
        self,
        ledger: Ledger,
        filters: KubeSchedulerFilters,
        members: Sequence[MemberRequest],
        domains: Sequence[Set[str]] | None = None,
        withheld: Withheld = _NONE,
    ) -> None:
        """`domains` are groups of nodes of which one has to take all; None = any nodes. `withheld`
        is what is promised to others. Neither ledger nor filters are changed."""
        self._ledger = ledger
        self._filters = filters
        self._members = members
        self._domains = domains
        self._withheld = withheld
        self._shapes: dict[bytes, MemberRequest] = {}
        """Members that ask for cards, one of each shape."""

    def kind(self) -> Slices[Hashable]:
        """Equal for searches that find equal places at one time."""
        counts = Counter[bytes]()
        for number, member in enumerate(self._members, 1):
            shape = member.shape
            counts[shape] += 1
            if member.request is not None:
                self._shapes.setdefault(shape, member)
            if not number % _SHAPES_OF_A_SLICE:
                yield
        return frozenset(counts.items()), self._nodes()

    def usable(self) -> Slices[CardMask]:
        """The cards that could take the first container of a member if nobody used any: of a model
        that it takes, on a node where its pods may be. What is reserved for others is among them.
        `kind` comes before."""
        yield from _WHOLE_FLEET
        fleet = self._ledger.fleet
        scratch = ScratchCluster(self._ledger, self._filters, only=self._nodes(), opened=None)
        used = {name: getattr(fleet.cards, name).copy() for name in USAGE}
        found = CardMask(fleet, np.zeros(fleet.cards.vendor.shape, np.bool_))
        for member in self._shapes.values():
            yield from _WHOLE_FLEET
            rows, room = scratch.room_without(member, used)
            found.cards |= room & rows[:, None]
        return found

    def _is_helped_elsewhere(self) -> bool:
        """Whether pods that end may help where no member finds cards: a limit of the namespace, or
        a member without cards, is met by the whole cluster."""
        requests = [member.request for member in self._members]
        spaces = {request.namespace for request in requests if request is not None}
        return None in requests or any(self._ledger.allowance(each).limits for each in spaces)

    def _nodes(self) -> frozenset[str] | None:
        return None if self._domains is None else frozenset().union(*self._domains)

    def earliest(
        self,
        running: Sequence[PodLifetime],
        now: float,
        *,
        thought: bool = False,
        usable: CardMask | None = None,
        closed: Callable[[], Bools] | None = None,
    ) -> Slices[SeatsLater | None]:
        """Places once as few of these pods have ended as can be, or now; None where all of them are
        not enough. Those of which nobody knows when they end do not, or when it is `thought`. What
        happens to the cluster meanwhile may be seen or not. What is reserved for others may be
        used, but for the cards that `closed` gives, (nodes, cards) of the ledger's fleet. With
        `usable`, as the method says it, pods that are elsewhere cost no time."""
        near = None if usable is None or self._is_helped_elsewhere() else usable.nodes()
        times, ended_at = yield from _in_order(running, near, now, thought=thought)
        with withholding(self._ledger.fleet, self._withheld):
            before = ScratchCluster(
                self._ledger, self._filters, opened=None,
                also_closed=None if closed is None else closed(),
            )  # fmt: skip
        yield from _WHOLE_FLEET
        found: SeatsLater | None = None
        low, high = -1, len(times)  # of so many times: known to be too few, known to be enough
        at = high
        while True:
            ended = [pod for pods in ended_at[max(low, 0) : at] for pod in pods]
            after = yield from self._without(before, ended)
            seats = yield from self._seats(after)
            if seats is not None:
                found, high = SeatsLater(seats, times[at - 1] if at else now), at
            elif found is None:
                return None
            else:
                before, low = after, at
            if high - low <= 1:
                return found
            at = (low + high) // 2

    def _without(self, cluster: ScratchCluster, ended: Sequence[Pod]) -> Slices[ScratchCluster]:
        after = cluster.copy()
        yield
        for number, pod in enumerate(ended):
            if not number % _PODS_OF_A_SLICE:
                yield
            after.leave(pod)
        return after

    def _seats(self, cluster: ScratchCluster) -> Slices[Seats | None]:
        search = GangReservation(
            self._ledger, self._filters, self._members, domains=self._domains, scratch=cluster
        )
        found = yield from search.seats_in_slices()
        return None if isinstance(found, GangUnschedulable) else found


def _in_order(
    running: Sequence[PodLifetime], near: Set[str] | None, now: float, *, thought: bool
) -> Slices[tuple[list[float], list[list[Pod]]]]:
    """The times at which pods on these nodes end, None = all, and those that end at each."""
    pods: list[Pod] = []
    ends: list[float] = []
    for number, each in enumerate(running):
        if not number % _LIFETIMES_OF_A_SLICE:
            yield
        if near is not None and each.pod.spec.node_name not in near:
            continue
        end = each.thought_to_end(now) if thought else each.ends(now)
        if end is not None:
            pods.append(each.pod)
            ends.append(end)
    times: list[float] = []
    ended_at: list[list[Pod]] = []
    for at, number in enumerate(np.argsort(ends, kind="stable").tolist()):
        if not at % _LIFETIMES_OF_A_SLICE:
            yield
        if not times or times[-1] != ends[number]:
            times.append(ends[number])
            ended_at.append([])
        ended_at[-1].append(pods[number])
    return times, ended_at
