"""Gangs and queues as they stand: what statuses, `tessera queue` and preemption read.

It is made on request and changes nothing. Times are of the coordinator's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from tessera_core.gang_scheduling.attempt import KnownBundle
from tessera_core.gang_scheduling.registry import GangRegistry
from tessera_core.gangs.fair_shares import QueueShare
from tessera_core.gangs.gang import Gang, GangMembers, GangOrigin
from tessera_core.gangs.queues import QueueAmounts, QueueDimension, QueueOrigin
from tessera_core.gangs.quorum import still_needed
from tessera_core.machines.gang import GangPhase
from tessera_schema.kube import Pod

GRACE_S: Final = 5.0
"""Seconds for which an object may come after the pods that name it before that is reported."""


class GangView(Struct, frozen=True, kw_only=True):
    """One gang. Gangs of a bundle have the phase, the reason and the times of the bundle."""

    id: str
    origin: GangOrigin
    namespace: str
    name: str
    phase: GangPhase
    min: int
    needed: int
    """Members that have to start together now; 0 when they go one by one."""
    waiting: tuple[str, ...]
    """Uids of pods without a node that may be placed."""
    barred: int
    """Pods without a node that cannot be placed yet."""
    reserved: tuple[str, ...]
    """Uids of pods that have cards, or a place, and no node yet."""
    arrived: int
    """Bind calls of the bundle that wait."""
    bound: int
    """Pods that have a node and have not ended."""
    succeeded: int
    reason: str
    """Why it waits; empty for one that does not."""
    fits_not: bool
    """Whether room was searched for it as it is, and not found."""
    misses: int
    since: float
    """When it came to its phase."""
    waits_since: float
    """When it began to wait for its turn."""
    queue: QueueKey | None = None
    """The queue that it is in; None for none, and where no queues are read."""

    @property
    def exist(self) -> int:
        """Its pods that have not ended."""
        return len(self.waiting) + self.barred + self.bound


class QueueKey(Struct, frozen=True, order=True):
    """What names a queue: the API group of its kind, and its name."""

    group: str
    name: str


class WaitingGang(Struct, frozen=True, kw_only=True):
    """A gang, or a pod of no gang, that waits in a queue."""

    id: str
    """The gang's id; of a pod of no gang `pod/namespace/name`."""
    position: int
    """1 = the next one of its queue."""
    namespace: str
    name: str
    pods: int
    """Its pods without a node."""
    reason: str
    waits_since: float
    expected_start: float | None = None
    """None = nobody knows."""


class QueueView(Struct, frozen=True, kw_only=True):
    """One queue. Amounts are those of `tessera_core.gangs.queues`."""

    key: QueueKey
    origin: QueueOrigin
    parent: str
    """Name of the queue that it is a part of; empty = it is a root's child."""
    guarantee: QueueAmounts
    cap: QueueAmounts
    deserved: QueueAmounts
    used: QueueAmounts
    """Of the queue and of those below it, counted from the moment of a reservation."""
    share: QueueShare
    by: QueueDimension | None
    """The dimension that decides its share; None for a queue within what it deserves."""
    problem: str
    """Why it takes no pods; empty for one that does."""
    waiting: tuple[WaitingGang, ...] = ()
    """The next one first."""


class QueueDemand(Struct, frozen=True, kw_only=True):
    """What a queue has, asks for and may have of cards, by dimension."""

    used: QueueAmounts
    """Of the queue and of those below it, counted from the moment of a reservation."""
    requested: QueueAmounts
    """What its pods use and wait for, and what the queues below it ask for, each up to its cap; at
    least what it does not lend."""
    entitled: QueueAmounts
    """Its part of the cluster, as everybody asks now."""


def members_stuck(
    known: Iterable[KnownBundle], reasons: Mapping[str, str], registry: GangRegistry, now: float
) -> Iterator[tuple[Pod, str]]:
    """Members that wait for somebody to repair their gang, with the reason."""
    for each in known:
        bundle, attempt = each.bundle, each.attempt
        for uid, why in bundle.refused.items():
            pod = registry.pod(uid)
            if pod is not None and not pod.spec.node_name:
                yield pod, why
        problem = bundle.absent or any(members.gang.problem for members in bundle.gangs)
        if problem and attempt.phase is GangPhase.GATHERING and now >= attempt.since + GRACE_S:
            yield from ((member.pod, reasons[bundle.key]) for member in bundle.waiting)


def no_queue(_: Gang) -> QueueKey | None:
    """Where no queues are read, no gang is in one."""
    return None


def view_gangs(
    known: Iterable[KnownBundle],
    reasons: Mapping[str, str],
    queue_of: Callable[[Gang], QueueKey | None] = no_queue,
) -> dict[str, GangView]:
    """Gang's id -> how it stands. `reasons` are by gang's id."""
    return {view.id: view for each in known for view in _of(each, reasons, queue_of)}


def _of(
    known: KnownBundle, reasons: Mapping[str, str], queue_of: Callable[[Gang], QueueKey | None]
) -> Iterator[GangView]:
    for members in known.bundle.gangs:
        gang, attempt = members.gang, known.attempt
        uids = _uids(members)
        yield GangView(
            id=gang.id, origin=gang.origin, namespace=gang.namespace, name=gang.name,
            phase=attempt.phase, min=gang.min, needed=still_needed(members)[0],
            waiting=uids, barred=len(members.barred),
            reserved=tuple(uid for uid in uids if uid in attempt.seats),
            arrived=len(attempt.arrived), bound=len(members.bound), succeeded=members.succeeded,
            reason=reasons.get(gang.id, ""), fits_not=attempt.searched_at >= 0,
            misses=attempt.misses, since=attempt.since, waits_since=attempt.waits_since,
            queue=queue_of(gang),
        )  # fmt: skip


def _uids(members: GangMembers) -> tuple[str, ...]:
    return tuple(
        member.pod.metadata.uid for member in members.waiting if not member.pod.spec.node_name
    )
