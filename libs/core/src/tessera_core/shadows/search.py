"""The earliest time at which members that start together have room, by the ends of running pods.

Pods leave a copy of the cluster in the order of their ends; by bisection the fewest are found that
have to end. The fits of single trials are bounded (`tessera_core.gangs.reservation`), so on a large
cluster a time may be missed, and the next one is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from itertools import groupby
from typing import Final

from msgspec import Struct

from tessera_core.gangs.reservation import GangReservation, GangUnschedulable, Seats
from tessera_core.gangs.scratch import MemberRequest, ScratchCluster
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.ledger import Ledger
from tessera_core.rebalance.slices import Slices
from tessera_core.shadows.expected_ends import PodLifetime
from tessera_schema.kube import Pod

_PODS_OF_A_SLICE: Final = 16


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
    ) -> None:
        """`domains` are groups of nodes of which one has to take all; None = any nodes. Neither
        ledger nor filters are changed."""
        self._ledger = ledger
        self._filters = filters
        self._members = members
        self._domains = domains

    def earliest(self, ends: Iterable[tuple[float, Pod]]) -> Slices[SeatsLater | None]:
        """Places once as few of these pods have ended, each at its time, as can be; None where all
        of them are not enough. The first slices copy the cluster: it may change afterwards."""
        by_time = sorted(ends, key=lambda each: (each[0], each[1].metadata.uid))
        times = [(at, [pod for _, pod in each]) for at, each in groupby(by_time, _time)]
        if not times:
            return None
        before = ScratchCluster(self._ledger, self._filters, opened=True)
        yield
        found: SeatsLater | None = None
        low, high = 0, len(times)  # of so many times: known to be too few, known to be enough
        at = high
        while True:
            after = yield from self._without(before, times[low:at])
            seats = yield from self._seats(after)
            if seats is not None:
                found, high = SeatsLater(seats, times[at - 1][0]), at
            elif found is None:
                return None
            else:
                before, low = after, at
            if high - low <= 1:
                return found
            at = (low + high) // 2

    def _without(
        self, cluster: ScratchCluster, ended: Sequence[tuple[float, Sequence[Pod]]]
    ) -> Slices[ScratchCluster]:
        after = cluster.copy()
        for number, pod in enumerate(pod for _, pods in ended for pod in pods):
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


def known_ends(running: Iterable[PodLifetime], now: float) -> list[tuple[float, Pod]]:
    """The pods of which it is known when they end."""
    found = ((each.ends(now), each.pod) for each in running)
    return [(end, pod) for end, pod in found if end is not None]


def thought_ends(running: Iterable[PodLifetime], now: float) -> list[tuple[float, Pod]]:
    """All of them, as it is thought."""
    return [(each.thought_to_end(now), each.pod) for each in running]


def _time(each: tuple[float, Pod]) -> float:
    return each[0]
