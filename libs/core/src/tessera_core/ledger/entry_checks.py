"""What a grant amounts to on a fleet: the page that the ledger writes of it, and what it counts."""

from __future__ import annotations

from collections.abc import Mapping

from tessera_core.fleet.capacity_check import misfit
from tessera_core.fleet.charges import Charge, charges
from tessera_core.fleet.fleet import Fleet
from tessera_core.ledger.entries import LedgerEntry, TransactionRefused
from tessera_core.machines.allocation import AllocationPhase
from tessera_core.quota.allowance import Allowance, Uses, use_of
from tessera_schema.cards import Card
from tessera_schema.grants import Grant
from tessera_schema.reasons import Reason


def new_entry(
    fleet: Fleet, grant: Grant, phase: AllocationPhase, now: float, *, init_over: bool = False
) -> LedgerEntry:  # fmt: skip
    """The ledger's entry of a pod."""
    cost = charges(grant.shares, init_over=init_over)
    return LedgerEntry(
        grant=grant, phase=phase, uses=uses(fleet, grant, cost), since=now,
        init_over=init_over,
    )  # fmt: skip


def uses(fleet: Fleet, grant: Grant, cost: Mapping[str, Charge]) -> Uses:
    """What charges on the grant's cards count in quotas."""
    vendors = {share.card: share.vendor for share in grant.shares}
    return use_of(
        (fleet.card(grant.node, card) or _unknown_card(card, vendors[card]), charge)
        for card, charge in cost.items()
    )


def relink_renamed_cards(fleet: Fleet, grant: Grant) -> None:
    """Let the fleet know cards that got another id by the one that the grant has."""
    for share in grant.shares:
        if fleet.locate(grant.node, share.card) is None:
            fleet.rename(grant.node, share.card, share.vendor, share.index)


def check_entry(fleet: Fleet, made: LedgerEntry, allowance: Allowance) -> TransactionRefused | None:
    """Why a page may not be added to what is held; None when it may. `allowance` is that of its
    namespace."""
    grant = made.grant
    problem = misfit(fleet, grant, made.charges)
    if problem is not None:
        return refusal(grant, problem[1], problem[0])
    over = allowance.exceeded(made.uses) or _outside(fleet, grant, allowance)
    return refusal(grant, over, Reason.RESOURCE_QUOTA_NOT_FIT) if over else None


def _outside(fleet: Fleet, grant: Grant, allowance: Allowance) -> str:
    """Which limit the grant's cards lie outside of; empty when none."""
    if not any(limit.node_pools for limit in allowance.limits):
        return ""
    cards = (fleet.card(grant.node, share.card) for share in grant.shares)
    return next((why for c in cards if c is not None and (why := allowance.outside(c))), "")


def refusal(
    grant: Grant, message: str, reason: Reason = Reason.INVALID_REQUEST
) -> TransactionRefused:
    """Why the grant is not taken."""
    return TransactionRefused(uid=grant.uid, reason=reason, message=message)


def _unknown_card(card: str, vendor: str) -> Card:
    """Stands in for a card that its node does not publish (any more)."""
    return Card(id=card, index=0, vendor=vendor, memory_bytes=0, cores_percent=0)
