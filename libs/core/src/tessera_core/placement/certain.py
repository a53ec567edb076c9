"""Nodes that take a pod for certain: what the screen tests there is all that a fit would find out.

A fit gives the pod's units their cards one after another. It cannot fail on a node that passed the
screen where

- each unit's way of choosing cards finds a set wherever there are enough of them;
- enough cards have room for each unit even if the units before it took only such cards;
- the pod stays within the limits of its namespace, whatever cards it gets.

So only nodes that are nearly full have to be fitted, and namespaces that are near a limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tessera_core.fleet.arrays import Bools, Ints
from tessera_core.fleet.fleet import Fleet
from tessera_core.placement.units import PlacementUnit
from tessera_core.quota.allowance import Allowance, QuotaUsage, Uses
from tessera_schema.requests import Choice, Request, Scope


def certain_rows(
    fleet: Fleet, wanted: Sequence[PlacementUnit], rooms: Sequence[Bools], allowance: Allowance
) -> Bools:
    """Of the rows that pass the screen (`Placer.screen`) those that take the pod for certain.
    `rooms` are the cards that have room for each unit by itself, (nodes, cards), without those that
    a limit bars."""
    certain = np.zeros(len(fleet.names), np.bool_)
    if not all(_finds_a_set(unit.lead) for unit in wanted):
        return certain
    if allowance.limits and _may_exceed(fleet, wanted, rooms, allowance):
        return certain
    certain[:] = True
    taken: dict[str, int] = {}
    for unit, room in zip(wanted, rooms, strict=True):
        vendor = unit.lead.vendor
        taken[vendor] = taken.get(vendor, 0) + unit.lead.count
        certain &= _near_each_other(fleet, unit.lead, room) >= taken[vendor]
    return certain


def _finds_a_set(request: Request) -> bool:
    """Whether the way of choosing finds cards wherever enough of them, near each other if they have
    to be, have room (`tessera_core.placement.card_choice`)."""
    match request.policy.choice:
        case Choice.ORDERED | Choice.LINKS:
            return True
        case Choice.TREE:  # it compares with what owners left, in the amounts as they were written
            return request.equal_parts is None and not request.best_effort
        case Choice.SCOPES:  # whole cards may have to be taken in the machine's own groups
            policy = request.policy
            return policy.scope is Scope.NODE and not policy.labels and not request.exclusive


def _near_each_other(fleet: Fleet, request: Request, room: Bools) -> Ints:
    """How many of a row's cards with room the request may choose from."""
    most: Ints = room.sum(1)
    if request.policy.same_numa:
        numa = fleet.cards.numa
        near = [(room & (numa == each)).sum(1) for each in np.unique(numa[room])]
        most = np.max(near, axis=0) if near else most
    return most


def _may_exceed(
    fleet: Fleet, wanted: Sequence[PlacementUnit], rooms: Sequence[Bools], allowance: Allowance
) -> bool:
    """Whether some choice of these cards could be beyond a limit; True where it is not known.

    Where a limit counts models it is not: then a fit takes the first cards that the limit allows,
    which need not be those that are near each other.
    """
    if any(limit.models is not None for limit in allowance.limits):
        return True
    uses = _most_use(fleet, wanted, rooms)
    return any(allowance.exceeded(each) for each in _by_best_effort(uses, wanted))


def _most_use(
    fleet: Fleet, wanted: Sequence[PlacementUnit], rooms: Sequence[Bools]
) -> dict[tuple[str, str], QuotaUsage]:
    """What the units use at most, by vendor, on whatever cards."""
    uses: dict[tuple[str, str], QuotaUsage] = {}
    for unit, room in zip(wanted, rooms, strict=True):
        key, count = (unit.lead.vendor, ""), unit.lead.count
        need = unit.need(fleet.cards, fleet.models)
        memory, cores = (count * _most(each, room) for each in (need.share_memory, need.cores))
        uses[key] = uses.get(key, QuotaUsage()).plus(QuotaUsage(memory, cores, count))
    return uses


def _most(amount: Ints | int, room: Bools) -> int:
    return int(amount[room].max(initial=0)) if isinstance(amount, np.ndarray) else int(amount)


def _by_best_effort(
    uses: dict[tuple[str, str], QuotaUsage], wanted: Sequence[PlacementUnit]
) -> Iterator[Uses]:
    """The use if none of it is that of best-effort containers, and if all of it is, as either may
    be."""
    best_effort = {part.request.best_effort for unit in wanted for part in unit.parts}
    if False in best_effort:
        yield uses
    if True in best_effort:
        yield {
            key: use.plus(QuotaUsage(rest_memory_bytes=use.memory_bytes, rest_cards=use.cards))
            for key, use in uses.items()
        }
