"""The earliest time at which members that start together have room, by the ends of running pods.

Pods leave a copy of the cluster in the order of their ends; by bisection the fewest are found that
have to end. The fits of single trials are bounded (`tessera_core.gangs.reservation`), so on a large
cluster a time may be missed, and the next one is found.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

import numpy as np
from msgspec import Struct

from tessera_core.gangs.reservation import GangReservation, GangUnschedulable, Seats
from tessera_core.gangs.scratch import MemberRequest, ScratchCluster
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.ledger import Ledger
from tessera_core.ledger.promises import Withheld, withholding
from tessera_core.shadows.expected_ends import PodLifetime
from tessera_core.slices import Slices
from tessera_schema.kube import Pod

_NONE: Final[Withheld] = {}
_PODS_OF_A_SLICE: Final = 16
_LIFETIMES_OF_A_SLICE: Final = 1024


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

    def earliest(
        self, running: Sequence[PodLifetime], now: float, *, thought: bool = False
    ) -> Slices[SeatsLater | None]:
        """Places once as few of these pods have ended as can be; None where all of them are not
        enough. Those of which nobody knows when they end do not, or when it is `thought`. What
        happens to the cluster meanwhile may be seen or not."""
        times, ended_at = yield from _in_order(running, now, thought=thought)
        if not times:
            return None
        with withholding(self._ledger.fleet, self._withheld):
            before = ScratchCluster(self._ledger, self._filters, opened=True)
        yield
        found: SeatsLater | None = None
        low, high = 0, len(times)  # of so many times: known to be too few, known to be enough
        at = high
        while True:
            ended = [pod for pods in ended_at[low:at] for pod in pods]
            after = yield from self._without(before, ended)
            seats = yield from self._seats(after)
            if seats is not None:
                found, high = SeatsLater(seats, times[at - 1]), at
            elif found is None:
                return None
            else:
                before, low = after, at
            if high - low <= 1:
                return found
            at = (low + high) // 2

    def _without(self, cluster: ScratchCluster, ended: Sequence[Pod]) -> Slices[ScratchCluster]:
        after = cluster.copy()
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
    running: Sequence[PodLifetime], now: float, *, thought: bool
) -> Slices[tuple[list[float], list[list[Pod]]]]:
    """The times at which pods end, and those that end at each of them."""
    pods: list[Pod] = []
    ends: list[float] = []
    for number, each in enumerate(running):
        if not number % _LIFETIMES_OF_A_SLICE:
            yield
        end = each.thought_to_end(now) if thought else each.ends(now)
        if end is not None:
            pods.append(each.pod)
            ends.append(end)
    times: list[float] = []
    ended_at: list[list[Pod]] = []
    for number in np.argsort(ends, kind="stable").tolist():
        if not times or times[-1] != ends[number]:
            times.append(ends[number])
            ended_at.append([])
        ended_at[-1].append(pods[number])
    return times, ended_at
