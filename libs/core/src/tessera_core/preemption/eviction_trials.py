"""Whether there is room once some units have gone: tried by the fit that places pods, on copies.

No sum over a node decides anything: a pod is fitted to cards, and a gang is searched as when it is
placed. Caps of queues and quotas are those that would hold then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from copy import copy as copy_of
from functools import cached_property, partial
from typing import Final

from msgspec import Struct

from tessera_core.fleet.arrays import Bools, Ints
from tessera_core.gangs.queue_usage import (
    ClusterQueues,
    QueueOfKind,
    amounts_of,
    by_queue,
    sum_of,
)
from tessera_core.gangs.queues import QueueAmounts
from tessera_core.gangs.reservation import GangReservation, GangUnschedulable, Seats
from tessera_core.gangs.scratch import MemberRequest, ScratchCluster
from tessera_core.kube.scheduler_filters import KubeSchedulerFilters
from tessera_core.ledger.ledger import Ledger
from tessera_core.ledger.promises import Withheld, withholding
from tessera_core.placement.units import units as units_requested
from tessera_core.preemption.victim_search import Trial
from tessera_core.preemption.victim_units import VictimUnit
from tessera_core.quota.allowance import minimum_usage
from tessera_core.slices import Slices
from tessera_schema.kube import Pod

FITS_OF_A_TRIAL: Final = 256
"""Fits that one search of a gang's places may cost; a search that needs more counts as failed."""
_COUNTED: Final = 2048
"""Units that are counted in one slice: about a millisecond."""
_MOVED: Final = 128
"""Pods that leave or return in one slice: some milliseconds."""


class Preemptor(Struct, frozen=True, kw_only=True):
    """Who needs room: a pod, or the members of a gang that start together."""

    members: tuple[MemberRequest, ...]
    priority: int
    queue: QueueOfKind | None = None
    domains: Sequence[Set[str]] | None = None
    """Groups of nodes of which one has to take all members; None = any nodes."""
    closed: Set[str] = frozenset()
    """Nodes that are kept for others."""
    opened: Set[str] = frozenset()
    """Whose reserved cards it may use (`ShadowCards.key`)."""
    withheld: Withheld = {}
    """What is promised to others, and not to it."""

    @property
    def requested(self) -> QueueAmounts:
        """What its members count in queues at least."""
        return sum_of(
            amounts_of(each.pod, minimum_usage(each.request) if each.request else {})
            for each in self.members
        )


class QueueRoom:
    """Whether the preemptor's queue takes it once pods of its tree have gone."""

    def __init__(
        self,
        ledger: Ledger,
        queues: ClusterQueues | None,
        preemptor: Preemptor,
        queue_of: Callable[[Pod], QueueOfKind | None],
    ) -> None:
        """Without `queues` nobody has a cap."""
        self._ledger = ledger
        self._queues = queues
        self._queue = preemptor.queue
        self._queue_of = queue_of
        self._requested = preemptor.requested

    def over(self, gone: Iterable[Pod]) -> str:
        """The cap that is exceeded without these pods, in numbers; empty for none."""
        if self._queues is None or self._queue is None:
            return ""
        freed = by_queue(gone, self._queue[0], self._queue_of, self._ledger)
        return self._queues.over(*self._queue, self._requested, freed=freed)


class EvictionTrials:
    """Trials on one copy of the cluster, which pods leave and return to."""

    def __init__(
        self,
        ledger: Ledger,
        filters: KubeSchedulerFilters,
        preemptor: Preemptor,
        ending: Iterable[Pod],
        room: QueueRoom,
    ) -> None:
        """With all units where they are. Pods that are `ending` have gone."""
        self._ledger = ledger
        self._filters = filters
        self._preemptor = preemptor
        self._room = room
        self._only = set(filters.names) - preemptor.closed if preemptor.closed else None
        with withholding(ledger.fleet, preemptor.withheld):
            self.scratch = ScratchCluster(ledger, filters, only=self._only, opened=preemptor.opened)
        for pod in ending:
            self.scratch.leave(pod)
        self._gone: dict[str, Pod] = {}

    @cached_property
    def room(self) -> tuple[Bools, Bools]:
        """The rows of the ledger's fleet that may take the pod as long as all units are where they
        are, and the cards with room for its first unit. To be read before any trial."""
        return self.scratch.room_without(self._preemptor.members[0], {})

    @property
    def limited(self) -> bool:
        """Whether pods of other nodes may matter, because limits count them: those of queues and of
        the namespaces of the members."""
        named = {each.request.namespace for each in self._preemptor.members if each.request}
        return bool(self._room.over(())) or any(self._ledger.allowance(ns).limits for ns in named)

    def within(self, rows: Ints) -> EvictionTrials:
        """The same with these rows of the fleet alone, all units where they are. To be made before
        any trial."""
        made = copy_of(self)
        made.scratch, made._gone = self.scratch.part(rows), {}
        return made

    def on(self, node: str) -> Trial:
        """The trial of a pod on one node."""
        request = self._preemptor.members[0].request
        if request is None:
            return partial(self._seats_on, node, 0)
        with_room = int(self.room[1][self._ledger.fleet.rows[node]].sum())
        return partial(self._seats_on, node, units_requested(request)[0].lead.count - with_room)

    def anywhere(self, units: Sequence[VictimUnit]) -> Slices[Seats | None]:
        """The trial of members that start together, on any nodes."""
        yield from self._leave(units)
        if self._room.over(self._gone.values()):
            return None
        search = GangReservation(
            self._ledger, self._filters, self._preemptor.members,
            domains=self._preemptor.domains, scratch=self.scratch,
        )  # fmt: skip
        found = yield from search.find_seats(FITS_OF_A_TRIAL)
        return None if found is None or isinstance(found, GangUnschedulable) else found

    def _seats_on(self, node: str, short: int, units: Sequence[VictimUnit]) -> Slices[Seats | None]:
        """Room for the pod without these units: of a card that none of them is on, nothing comes
        free, and `short` cards more are needed than there are with room."""
        if short > 0 and len(self._cards_on(node, units)) < short:
            return None
        yield from self._leave(units)
        if self._room.over(self._gone.values()):
            return None
        member = self._preemptor.members[0]
        seat = self.scratch.seat_on(member, node)
        return None if seat is None else {member.pod.metadata.uid: seat}

    def _cards_on(self, node: str, units: Sequence[VictimUnit]) -> Set[str]:
        """The cards of the node that some of the units hold a part of."""
        entries = (self._ledger.entry(victim.uid) for unit in units for victim in unit.pods)
        return {
            card
            for entry in entries
            if entry is not None and entry.grant.node == node
            for card in entry.charges
        }

    def _leave(self, units: Sequence[VictimUnit]) -> Slices[None]:
        """These units have gone, and no others."""
        gone: dict[str, Pod] = {}
        for at in range(0, len(units), _COUNTED):
            gone |= pods_of(units[at : at + _COUNTED])
            if len(gone) >= _COUNTED:
                yield
        before, self._gone = self._gone, gone
        steps = (before, gone, self.scratch.stay), (gone, before, self.scratch.leave)
        for these, others, move in steps:
            for count, (uid, pod) in enumerate(these.items(), 1):
                if uid not in others:
                    move(pod)
                if not count % _MOVED:
                    yield


def pods_of(units: Iterable[VictimUnit]) -> dict[str, Pod]:
    """The pods of all units, by uid."""
    return {victim.uid: victim.pod for unit in units for victim in unit.pods}
