"""A live resize in the ledger: whether it has room for a bound pod's next grant. Only what grows
is looked at: giving back is always possible.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tessera_core.fleet.capacity_check import unusable
from tessera_core.fleet.charges import Charge, charges
from tessera_core.fleet.cores import percent
from tessera_core.fleet.fleet import Fleet
from tessera_core.ledger.entries import LedgerEntry, TransactionRefused
from tessera_core.ledger.entry_checks import refusal, uses
from tessera_core.quota.allowance import Allowance, QuotaUsage, Uses
from tessera_schema.cards import MIB
from tessera_schema.grants import Grant
from tessera_schema.reasons import Reason


def entry_covering_both(
    fleet: Fleet, entry: LedgerEntry, grant: Grant, allowance: Allowance
) -> LedgerEntry | TransactionRefused:  # fmt: skip
    """A bound pod's entry with its next grant next to the one that it has: it holds enough for
    either. Else why the cards, or `allowance`, that of its namespace, do not leave so much."""
    cost = charges(grant.shares, init_over=entry.init_over)
    problem = _no_room(fleet, grant, _growth(entry.charges, cost))
    if problem is not None:
        return refusal(grant, problem[1], problem[0])
    over = allowance.exceeded(_more_used(entry.uses, uses(fleet, grant, cost)))
    if over:
        return refusal(grant, over, Reason.RESOURCE_QUOTA_NOT_FIT)
    both = {card: charge.or_else(cost[card]) for card, charge in entry.charges.items()}
    return replace(entry, pending=grant, covering=both, uses=uses(fleet, grant, both))


def _growth(before: Mapping[str, Charge], after: Mapping[str, Charge]) -> dict[str, Charge]:
    """Card -> what is charged more."""
    return {
        card: Charge(
            max(charge.memory_bytes - before[card].memory_bytes, 0),
            max(charge.cores_milli - before[card].cores_milli, 0),
            resident_bytes=max(charge.resident_bytes - before[card].resident_bytes, 0),
        )
        for card, charge in after.items()
    }


def _more_used(before: Uses, after: Uses) -> dict[tuple[str, str], QuotaUsage]:
    """What counts more in quotas; it holds no further card."""
    return {
        key: _positive(use.plus(before.get(key, QuotaUsage()), -1)) for key, use in after.items()
    }


def _no_room(fleet: Fleet, grant: Grant, more: Mapping[str, Charge]) -> tuple[Reason, str] | None:
    """Why a bound pod's cards have not so much more for it, in numbers; None where they have."""
    if not any(c.memory_bytes or c.resident_bytes or c.cores_milli for c in more.values()):
        return None
    closed = unusable(fleet, grant)
    if closed is not None:
        return closed
    cards = fleet.cards
    for card, charge in more.items():
        place = fleet.locate(grant.node, card)
        if place is None:
            continue
        free_bytes = int(cards.memory_total[place] - cards.memory_used[place])
        free_cores = int(cards.cores_total[place] - cards.cores_used[place])
        # what grows on the card alone costs as much there, overcommitted or no longer
        cost_bytes = max(fleet.memory_cost(place, charge), charge.resident_bytes)
        if cost_bytes > max(free_bytes, 0):
            return Reason.CARD_INSUFFICIENT_MEMORY, (
                f"card {card} on {grant.node}: {-(-cost_bytes // MIB)} MiB more asked, "
                f"{max(free_bytes, 0) // MIB} MiB free"
            )
        if charge.cores_milli > max(free_cores, 0):
            return Reason.CARD_INSUFFICIENT_CORE, (
                f"card {card} on {grant.node}: {charge.cores_percent:g} % of cores more asked, "
                f"{percent(max(free_cores, 0)):g} % free"
            )
    return None


def _positive(use: QuotaUsage) -> QuotaUsage:
    return QuotaUsage(
        max(use.memory_bytes, 0),
        max(use.cores_milli, 0),
        max(use.cards, 0),
        max(use.parts, 0),
        max(use.rest_memory_bytes, 0),
        max(use.rest_cards, 0),
    )
