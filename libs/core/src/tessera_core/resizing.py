"""A live resize: from what is asked of a bound pod to its next grant, and whether the books have
room for it. Only what grows is looked at: giving back is always possible.

Shares that are limited by a vendor's own tools cannot be changed while their containers run, and
who holds a card alone has nothing to change.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tessera_core.booking import refusal, uses
from tessera_core.capacity import unusable
from tessera_core.charges import Charge, charges
from tessera_core.cores import milli, percent
from tessera_core.dialect import Vendor
from tessera_core.fleet import Fleet
from tessera_core.hookpaths import HOOK_LIBRARY
from tessera_core.pages import Entry, Refusal
from tessera_core.quota import Allowance, Use, Uses
from tessera_schema.cards import MIB, MOST_MEMORY_BYTES
from tessera_schema.grants import Grant, Share
from tessera_schema.reasons import Reason
from tessera_schema.resizes import Resize, ShareChange

_FULL: float = 100


def resized(grant: Grant, asked: Resize, vendors: Mapping[str, Vendor]) -> Grant | str:
    """The pod's next grant; the same one where nothing would change; else why there is none."""
    if not asked.changes:
        return "changes: none: name a container, a card and what it shall have"
    shares = {(share.container, share.card): share for share in grant.shares}
    first = dict(shares)
    for i, change in enumerate(asked.changes):
        key = (change.container, change.card)
        share = first.get(key)
        if share is None:
            return f"changes[{i}]: container {key[0]} holds nothing of card {key[1]}"
        problem = _problem(share, change, vendors)
        if problem:
            return f"changes[{i}].{problem}"
        shares[key] = _changed(shares[key], change)
    if shares == first:
        return grant
    return replace(grant, shares=tuple(shares.values()), revision=grant.revision + 1)


def follows(new: Grant, old: Grant) -> bool:
    """Whether a grant can be a later one of the same pod: nothing but amounts differs."""
    places = [[(s.container, s.position, s.card) for s in g.shares] for g in (new, old)]
    same = (new.uid, new.node) == (old.uid, old.node) and places[0] == places[1]
    return same and new.revision > old.revision


def page_for_both(
    fleet: Fleet, entry: Entry, grant: Grant, allowance: Allowance
) -> Entry | Refusal:  # fmt: skip
    """A bound pod's page with its next grant beside the one that it has: it holds enough for
    either. Else why the cards, or `allowance`, that of its namespace, do not leave so much."""
    cost = charges(grant.shares, init_over=entry.init_over)
    problem = _no_room(fleet, grant, _growth(entry.charges, cost))
    if problem is not None:
        return refusal(grant, problem[1], problem[0])
    over = allowance.exceeded(_more_used(entry.uses, uses(fleet, grant, cost)))
    if over:
        return refusal(grant, over, Reason.RESOURCE_QUOTA_NOT_FIT)
    both = {card: charge.or_else(cost[card]) for card, charge in entry.charges.items()}
    return replace(entry, pending=grant, charges=both, uses=uses(fleet, grant, both))


def _growth(before: Mapping[str, Charge], after: Mapping[str, Charge]) -> dict[str, Charge]:
    """Card -> what is charged more."""
    return {
        card: Charge(
            max(charge.memory_bytes - before[card].memory_bytes, 0),
            max(charge.cores_milli - before[card].cores_milli, 0),
        )
        for card, charge in after.items()
    }


def _more_used(before: Uses, after: Uses) -> dict[tuple[str, str], Use]:
    """What counts more in quotas; it holds no further card."""
    return {key: _positive(use.plus(before.get(key, Use()), -1)) for key, use in after.items()}


def _no_room(fleet: Fleet, grant: Grant, more: Mapping[str, Charge]) -> tuple[Reason, str] | None:
    """Why a bound pod's cards have not so much more for it, in numbers; None where they have."""
    if not any(charge.memory_bytes or charge.cores_milli for charge in more.values()):
        return None
    closed = unusable(fleet, grant)
    if closed is not None:
        return closed
    cards = fleet.cards
    for card, charge in more.items():
        place = fleet.place(grant.node, card)
        if place is None:
            continue
        free_bytes = int(cards.memory_total[place] - cards.memory_used[place])
        free_cores = int(cards.cores_total[place] - cards.cores_used[place])
        if charge.memory_bytes > max(free_bytes, 0):
            return Reason.CARD_INSUFFICIENT_MEMORY, (
                f"card {card} on {grant.node}: {-(-charge.memory_bytes // MIB)} MiB more asked, "
                f"{max(free_bytes, 0) // MIB} MiB free"
            )
        if charge.cores_milli > max(free_cores, 0):
            return Reason.CARD_INSUFFICIENT_CORE, (
                f"card {card} on {grant.node}: {charge.cores_percent:g} % of cores more asked, "
                f"{percent(max(free_cores, 0)):g} % free"
            )
    return None


def _problem(share: Share, change: ShareChange, vendors: Mapping[str, Vendor]) -> str:
    """What of a change makes no sense for the share; empty when nothing."""
    vendor = vendors.get(share.vendor)
    if vendor is None or not _is_hooked(vendor, share):
        return f"card: {share.card} is limited by its vendor's own tools: start the pod anew"
    if share.exclusive:
        return f"card: {share.card} is held whole: there is nothing to change"
    memory, cores = change.memory_bytes, change.cores_percent
    if memory is not None and not MIB <= memory <= MOST_MEMORY_BYTES:
        return f"memory_bytes: {memory}: write {MIB} (1 MiB) or more, up to the card's memory"
    if cores is not None and not 0 < cores <= _FULL:
        return f"cores_percent: {cores:g}: write more than 0, up to 100"
    return ""


def _positive(use: Use) -> Use:
    return Use(
        max(use.memory_bytes, 0), max(use.cores_milli, 0), max(use.cards, 0), max(use.parts, 0)
    )


def _changed(share: Share, change: ShareChange) -> Share:
    if change.memory_bytes is not None:
        share = replace(share, memory_bytes=change.memory_bytes)
    if change.cores_percent is not None:
        share = replace(share, cores_percent=percent(milli(change.cores_percent)))
    return share


def _is_hooked(vendor: Vendor, share: Share) -> bool:
    given = vendor.give((share,), {})
    return any(mount.destination == HOOK_LIBRARY for mount in given.mounts)
