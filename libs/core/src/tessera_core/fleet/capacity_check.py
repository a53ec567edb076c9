"""Whether a grant fits its cards: the ledger's own check, whatever chose them.

It repeats the tests of `tessera_core.placement.predicates` that protect the ledger (health, slots,
memory, cores, exclusiveness), and those alone: a grant that was chosen by other rules, or a moment
ago, must still never take a card beyond what it has.
"""

from __future__ import annotations

from collections.abc import Mapping

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.closed_cards import takes_nobody
from tessera_core.fleet.columns import CardColumns
from tessera_core.fleet.fleet import Fleet
from tessera_core.fleet.lent_memory import memory_taken
from tessera_schema.grants import Grant
from tessera_schema.reasons import Reason


def misfit(fleet: Fleet, grant: Grant, cost: Mapping[str, Charge]) -> tuple[Reason, str] | None:
    """Why the grant, which costs its cards this much, cannot be taken, None when it can."""
    closed = unusable(fleet, grant)
    if closed is not None:
        return closed
    for card_id, charge in cost.items():
        place = fleet.locate(grant.node, card_id)
        problem = None if place is None else over(fleet, place, charge)
        if problem is not None:
            return problem, f"card {card_id} on {grant.node}: {problem.wire}"
    return None


def unusable(fleet: Fleet, grant: Grant) -> tuple[Reason, str] | None:
    """Why the grant's node or cards take nobody at all just now, None when they do."""
    row = fleet.rows.get(grant.node)
    if row is None or fleet.blocked[row]:
        return Reason.NODE_BLOCKED, f"node {grant.node} takes no pods"
    for share in grant.shares:
        place = fleet.locate(grant.node, share.card)
        if place is None:
            return Reason.UNKNOWN_CARD, f"no card {share.card} on {grant.node}"
        if takes_nobody(int(fleet.cards.blocked[place])):
            reason = Reason(int(fleet.cards.blocked[place]))
            return reason, f"card {share.card} on {grant.node}: {reason.wire}"
    return None


def over(fleet: Fleet, place: tuple[int, int], charge: Charge) -> Reason | None:
    """What of the card at a place the charge would exceed, None when nothing."""
    c = fleet.cards
    if charge.lent_slots:
        return _over_lent(c, place, charge)
    if c.sharers[place] + charge.slots > c.slots[place]:
        return Reason.CARD_TIME_SLICING_EXHAUSTED
    if c.memory_used[place] + fleet.memory_cost(place, charge) > c.memory_total[place]:
        return Reason.CARD_INSUFFICIENT_MEMORY
    if c.cores_used[place] + charge.cores_milli > c.cores_total[place]:
        return Reason.CARD_INSUFFICIENT_CORE
    if c.exclusive[place] or (charge.exclusive and c.sharers[place]):
        return Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT
    return None


def _over_lent(c: CardColumns, place: tuple[int, int], charge: Charge) -> Reason | None:
    """The same of a best-effort pod's charge. A pod that holds memory of a card that was granted to
    it, and some that is lent, is none."""
    if c.sharers[place] + c.lent_slots[place] + charge.lent_slots > c.slots[place]:
        return Reason.CARD_TIME_SLICING_EXHAUSTED
    taken = memory_taken(c, place, best_effort=True) + charge.lent_bytes
    if charge.slots or not c.lends[place] or taken > c.memory_total[place]:
        return Reason.CARD_INSUFFICIENT_MEMORY
    return Reason.EXCLUSIVE_DEVICE_ALLOCATE_CONFLICT if c.exclusive[place] else None
