"""Who gives back when a queue takes what is its own: lenders in their turn, one unit at a time.

Units are what can be evicted at once: a pod, or all pods of a gang. The caller chooses their order
within a queue. Only the dimensions that are short entitle a taker and condemn a lender: a queue
that uses too much CPU loses nothing because cards are short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from tessera_core.gangs.fair_shares import QueueShare, share_of
from tessera_core.gangs.queues import QueueAmounts, QueueDimension

_NATIVE = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


class EvictionUnit(Struct, frozen=True):
    """Pods that go together."""

    name: str
    amounts: QueueAmounts


class QueueParty(Struct, frozen=True, kw_only=True):
    """A queue that takes or gives."""

    name: str
    used: QueueAmounts
    deserved: QueueAmounts = {}
    guarantee: QueueAmounts = {}
    weight: float = 1
    priority: int = 0
    reclaimable: bool = True
    units: tuple[EvictionUnit, ...] = ()
    """What of it may be evicted, in the order in which it goes."""


def reclaim(
    taker: QueueParty,
    asked: QueueAmounts,
    free: QueueAmounts,
    lenders: Sequence[QueueParty],
    totals: QueueAmounts,
) -> tuple[EvictionUnit, ...]:
    """What has to go so that the taker gets what it asks for; empty if nothing has to, and if it
    has no right to it or too little would come free. `free` is what is idle where it would go."""
    short = {
        dimension: amount - free.get(dimension, 0)
        for dimension, amount in asked.items()
        if amount > free.get(dimension, 0)
    }
    own = all(_within(taker, dimension, asked[dimension]) for dimension in short)
    after = share_of(_plus(taker.used, asked), taker.deserved, totals, taker.weight)[0]
    parties = {party.name: party for party in lenders if party.reclaimable}
    gone: list[EvictionUnit] = []
    while any(amount > 0 for amount in short.values()):
        found = _next(parties, short, totals, None if own else after)
        if found is None:
            return ()
        party, unit = found
        gone.append(unit)
        parties[party.name] = _without(party, unit)
        short = {dim: amount - unit.amounts.get(dim, 0) for dim, amount in short.items()}
    return _needed(gone, asked, free)


def _needed(
    gone: Sequence[EvictionUnit], asked: QueueAmounts, free: QueueAmounts
) -> tuple[EvictionUnit, ...]:
    """Those without which too little would come free: a large unit may do for those before it."""
    needed = list(gone)
    for unit in gone:
        others = [each for each in needed if each is not unit]
        if all(
            sum(each.amounts.get(dim, 0) for each in others) + free.get(dim, 0) >= amount
            for dim, amount in asked.items()
        ):
            needed = others
    return tuple(needed)


def _next(
    parties: Mapping[str, QueueParty],
    short: QueueAmounts,
    totals: QueueAmounts,
    most: QueueShare | None,
) -> tuple[QueueParty, EvictionUnit] | None:
    """The next unit of the lender with the largest share, of equal ones that of lower priority.
    `most` is the taker's share afterwards, where it borrows itself: no lender may end below it."""
    shares = {
        name: share_of(party.used, party.deserved, totals, party.weight)[0]
        for name, party in parties.items()
    }
    turn = sorted(
        parties.values(),
        key=lambda each: (-shares[each.name].beyond, -shares[each.name].within, each.priority,
                          each.name),
    )  # fmt: skip
    for party in turn:
        for unit in party.units:
            if _may_go(party, unit, short) and (
                most is None or most.beyond <= _after(party, unit, totals).beyond
            ):
                return party, unit
    return None


def _may_go(party: QueueParty, unit: EvictionUnit, short: QueueAmounts) -> bool:
    """Whether the unit helps, is of a queue beyond what it deserves there, and leaves the queue
    what it is guaranteed."""
    helps = [dim for dim, amount in short.items() if amount > 0 and unit.amounts.get(dim, 0) > 0]
    return any(not _within(party, dim, 0) for dim in helps) and all(
        party.used.get(dim, 0) - unit.amounts.get(dim, 0) >= party.guarantee.get(dim, 0)
        for dim in unit.amounts
    )


def _within(party: QueueParty, dimension: QueueDimension, more: float) -> bool:
    """Whether the queue stays within what it deserves with so much more of it."""
    native = not dimension.vendor and dimension.what in _NATIVE
    if native and dimension not in party.deserved:
        return True
    return party.used.get(dimension, 0) + more <= party.deserved.get(dimension, 0)


def _after(party: QueueParty, unit: EvictionUnit, totals: QueueAmounts) -> QueueShare:
    left = _without(party, unit)
    return share_of(left.used, left.deserved, totals, left.weight)[0]


def _without(party: QueueParty, unit: EvictionUnit) -> QueueParty:
    return QueueParty(
        name=party.name, used=_plus(party.used, unit.amounts, -1), deserved=party.deserved,
        guarantee=party.guarantee, weight=party.weight, priority=party.priority,
        reclaimable=party.reclaimable, units=tuple(each for each in party.units if each != unit),
    )  # fmt: skip


def _plus(amounts: QueueAmounts, more: QueueAmounts, sign: int = 1) -> dict[QueueDimension, float]:
    return {
        dim: amounts.get(dim, 0) + sign * more.get(dim, 0) for dim in {**amounts, **more}
    }  # fmt: skip


def revoked(allowed: QueueAmounts, pods: Sequence[EvictionUnit]) -> tuple[EvictionUnit, ...]:
    """What a queue has to give up so that it uses no more than it is allowed, by Koordinator's
    rule. `pods` come by priority, the highest first: they go from the lowest until the rest fits;
    then those come back, from the highest, that still fit."""
    stays = list(pods)
    while stays and not _fits(stays, allowed):
        stays.pop()
    gone = list(pods[len(stays) :])
    for pod in tuple(gone):
        if _fits([*stays, pod], allowed):
            stays.append(pod)
            gone.remove(pod)
    return tuple(gone)


def _fits(pods: Sequence[EvictionUnit], allowed: QueueAmounts) -> bool:
    return all(
        sum(pod.amounts.get(dimension, 0) for pod in pods) <= most
        for dimension, most in allowed.items()
    )
