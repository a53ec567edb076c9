"""Who would have to go, as JSON: the same keys whether somebody would or not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tessera_cli.place.preemption.preemptions import PreemptionAnswer
from tessera_core.gangs.scratch import MemberSeat
from tessera_core.ledger.ledger import Ledger
from tessera_core.preemption.messages import sentence
from tessera_core.preemption.potential_victims import PotentialVictim
from tessera_core.preemption.preemption import NoPreemption, Preemption
from tessera_core.preemption.victim_units import VictimUnit
from tessera_schema.grants import Grant


def preempt(found: PreemptionAnswer, ledger: Ledger) -> dict[str, Any]:
    """One answer. `ledger` has what victims hold."""
    if isinstance(found, NoPreemption):
        return {"message": sentence(found), "victims": [], "seats": [], "cost": None,
                "exhausted": False}  # fmt: skip
    cost = found.cost
    return {
        "message": sentence(found),
        "victims": [
            _victim(unit, victim, found, ledger) for unit in found.units for victim in unit.pods
        ],
        "seats": [_seat(uid, seat) for uid, seat in found.seats.items()],
        "cost": {
            "slow_pods": cost.slow,
            "highest_priority": cost.priority,
            "gangs": cost.gangs,
            "card_seconds": round(cost.card_s, 1),
            "pods": cost.pods,
            "cards": round(cost.cards, 3),
        }
        if found.units
        else None,
        "exhausted": found.exhausted,
    }


def _victim(
    unit: VictimUnit, victim: PotentialVictim, found: Preemption, ledger: Ledger
) -> dict[str, Any]:
    meta, entry = victim.pod.metadata, ledger.entry(victim.uid)
    return {
        "namespace": meta.namespace or "default",
        "name": meta.name,
        "uid": meta.uid,
        "node": victim.pod.spec.node_name,
        "cards": _cards([] if entry is None else [entry.grant]),
        "priority": unit.priority,
        "gang": unit.gang,
        "lender": found.lenders.get(victim.uid, ""),
        "card_seconds": round(found.card_s[victim.uid], 1),
        "grace_seconds": victim.grace_s,
    }


def _seat(uid: str, seat: MemberSeat) -> dict[str, Any]:
    grant = seat.grant
    return {
        "uid": uid,
        "name": "" if grant is None else grant.name,
        "node": seat.node,
        "cards": _cards([] if grant is None else [grant]),
    }


def _cards(grants: Iterable[Grant]) -> list[dict[str, Any]]:
    return [
        {"id": card, "index": index}
        for card, index in {
            share.card: share.index for grant in grants for share in grant.shares
        }.items()
    ]
