"""Room on cards that is promised to a pod or a gang while others leave for it.

What it will get of a card is withheld from others of no higher priority, but for what those that
leave hold there still: nobody takes what comes free, and what is free next to it may be used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from msgspec import Struct

from tessera_core.fleet.capacity_check import misfit
from tessera_core.fleet.charges import Charge, charges
from tessera_core.fleet.fleet import Fleet
from tessera_core.ledger.entries import LedgerEntry
from tessera_core.machines.allocation import AllocationPhase
from tessera_schema.grants import Grant

Withheld = Mapping[tuple[str, str], Charge]
"""Node and card id -> what is withheld of the card."""
Entries = Callable[[str], LedgerEntry | None]
"""The ledger's entry of a pod."""
LEAST: Final = -(2**31)
"""A priority that is never higher than another: all promises hold for it."""
_NOTHING: Final = Charge()
_FREE: Final = nullcontext()
"""Nothing is withheld: so it is for nearly every pod."""


class CardPromise(Struct, frozen=True, kw_only=True):
    """What one pod or gang will get."""

    plan: str
    """Name of the plan by which others leave."""
    to: str
    """The pod's uid, or the gang's id."""
    named: str
    """`namespace/name` of either."""
    priority: int
    seats: tuple[Grant, ...]
    """What the pod gets, or each member of the gang that asks for cards."""
    leaving: frozenset[str]
    """Uids of the pods that leave for it."""

    @property
    def reason(self) -> str:
        """Why others have to leave a node to it."""
        by, who = f"by plan {self.plan}", f"{self.named}, of priority {self.priority}"
        return f"room is being made there {by} for {who}: cards are promised to it"


def withheld_by(promise: CardPromise, entry: Entries, *, all_gone: bool = False) -> Withheld:
    """What it withholds now; or once all that leave have gone. A pod that has cards without a node
    yet may lose them again: what it was promised stays withheld but for what it has there."""
    promised: dict[tuple[str, str], Charge] = {}
    held: dict[tuple[str, str], Charge] = {}
    for seat in promise.seats:
        own = entry(seat.uid)
        if own is not None and own.phase is AllocationPhase.BOUND:
            continue
        _add(promised, seat.node, charges(seat.shares))
        if own is not None:
            _add(held, own.grant.node, own.charges)
    for leaves in () if all_gone else map(entry, promise.leaving):
        if leaves is not None:
            _add(held, leaves.grant.node, leaves.charges)
    beyond = {at: each.beyond(held.get(at, _NOTHING)) for at, each in promised.items()}
    return {at: each for at, each in beyond.items() if each != _NOTHING}


def withheld(
    promises: Iterable[CardPromise],
    entry: Entries,
    whose: Collection[str],
    priority: int,
    *,
    all_gone: bool = False,
) -> Withheld:
    """What is withheld from a pod or gang of this priority; `whose` are its uid, or the ids of its
    gangs."""
    found: dict[tuple[str, str], Charge] = {}
    for promise in _others(promises, whose, priority):
        for at, charge in withheld_by(promise, entry, all_gone=all_gone).items():
            found[at] = found.get(at, _NOTHING).plus(charge)
    return found


def withholding(fleet: Fleet, more: Withheld) -> AbstractContextManager[None]:
    """Meanwhile so much more counts as used of the fleet's cards. It is the ledger's fleet, or that
    of a copy: what is taken meanwhile is taken next to it."""
    return _withholding(fleet, more) if more else _FREE


@contextmanager
def _withholding(fleet: Fleet, more: Withheld) -> Iterator[None]:
    for (node, card), charge in more.items():
        fleet.charge(node, card, charge)
    try:
        yield
    finally:
        for (node, card), charge in more.items():
            fleet.charge(node, card, charge, -1)


def short_of(
    promises: Iterable[CardPromise], one: CardPromise, fleet: Fleet, entry: Entries
) -> str:
    """Why one of these does not fit any more once all that leave have gone; empty when it does.
    `fleet` is a copy of the ledger's, which is changed."""
    for uid in {uid for each in promises for uid in each.leaving}:
        leaves = entry(uid)
        if leaves is not None:
            for card, charge in leaves.charges.items():
                fleet.charge(leaves.grant.node, card, charge, -1)
    others = withheld(promises, entry, (one.to,), one.priority, all_gone=True)
    with withholding(fleet, others):
        for seat in one.seats:
            cost = charges(seat.shares)
            problem = misfit(fleet, seat, cost)
            if problem is not None:
                return problem[1]
            for card, charge in cost.items():
                fleet.charge(seat.node, card, charge)
    return ""


def reasons(
    promises: Iterable[CardPromise], whose: Collection[str], priority: int
) -> Mapping[str, str]:
    """Node -> why a pod or gang of this priority may have to leave it to others."""
    return {
        seat.node: promise.reason
        for promise in _others(promises, whose, priority)
        for seat in promise.seats
    }


def _others(
    promises: Iterable[CardPromise], whose: Collection[str], priority: int
) -> Iterator[CardPromise]:
    return (each for each in promises if each.to not in whose and priority <= each.priority)


def _add(total: dict[tuple[str, str], Charge], node: str, more: Mapping[str, Charge]) -> None:
    for card, charge in more.items():
        total[node, card] = total.get((node, card), _NOTHING).plus(charge)
