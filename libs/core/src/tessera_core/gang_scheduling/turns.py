"""Whose turn it is among gangs that wait for room, and how patient they are."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tessera_core.gang_scheduling.attempt import MOST_MISSES, KnownBundle
from tessera_core.gang_scheduling.queues import Place, SchedulingQueues
from tessera_core.gang_scheduling.registry import GangBundle
from tessera_core.gangs.fair_shares import QueueShare
from tessera_core.machines.gang import GangPhase

BY_ITSELF = (0, QueueShare(0.0, 0.0))
"""Priority and share of the queue of a bundle that is in none."""


def turn_of(
    known: KnownBundle, queue: tuple[int, QueueShare] = BY_ITSELF, *, surplus: bool = False
) -> tuple[object, ...]:
    """The bundle's place in the order, least first: broken gangs, then queues of higher priority
    and of smaller share; in a queue gangs of higher priority, earlier deadlines, older ones, names.
    One that has missed often comes behind its equals, and behind those come members beyond the
    minimum (`surplus`)."""
    bundle, attempt = known.bundle, known.attempt
    broken = attempt.phase is GangPhase.BROKEN and not surplus
    often = attempt.misses >= MOST_MISSES
    return (
        not broken, -queue[0], queue[1], -bundle.priority, surplus, often,
        attempt.waits_since + bundle.patience_s, bundle.created, bundle.key,
    )  # fmt: skip


def in_order(
    bundles: Iterable[KnownBundle], queues: SchedulingQueues | None, now: float
) -> list[KnownBundle]:
    """The bundles, the next one first."""
    shares: dict[Place | None, tuple[int, QueueShare]] = {}

    def key(known: KnownBundle) -> tuple[object, ...]:
        place = None if queues is None else queues.place(known.bundle)
        if place not in shares:
            shares[place] = BY_ITSELF if queues is None else queues.share(known.bundle, now)
        return turn_of(known, shares[place])

    return sorted(bundles, key=key)


def next_in_line(
    bundles: Iterable[KnownBundle],
    queues: SchedulingQueues | None,
    version: int,
    now: float,
    phases: Collection[GangPhase],
) -> KnownBundle | None:
    """The bundle for which room is to be searched next; None for none. In a queue that is served
    first come, first served, nobody passes the first one, whether it is searched for or not."""
    waiting = [
        known for known in bundles
        if known.attempt.phase in phases and known.bundle.requests_cards and not known.bundle.lacks
    ]  # fmt: skip
    if not any(known.attempt.may_search(version, now) for known in waiting):
        return None
    heads: dict[Place, KnownBundle] = {}
    for known in in_order(waiting, queues, now):
        place = None if queues is None else queues.place(known.bundle)
        head = None if place is None else heads.get(place)
        if head is not None:
            known.attempt.why = f"gang {head.bundle.name} is before it in its queue, which is fifo"
        elif known.attempt.may_search(version, now):
            return known
        elif place is not None and queues is not None and queues.is_fifo(place):
            heads[place] = known
    return None


def patience_of(bundle: GangBundle) -> float | None:
    """How many seconds an incomplete start may hold its place; None = nobody says."""
    said = [each.gang.patience_s for each in bundle.gangs if each.gang.patience_s is not None]
    return min(said, default=None)
