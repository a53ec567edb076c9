"""The ledger held against a second reckoning (`tests.core.reference`), at any moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.fleet import Fleet
from tessera_schema.grants import encode_grant
from tessera_schema.quotas import Limit
from tests.core.reference import DIMENSIONS, Amounts, ObservedPod, overfull, sums
from tests.core.simulated_api import SimulatedApi


def reckon(world: SimulatedApi) -> None:
    """Held memory, cores, slots and cards held alone, by card and in quotas, are the sums of the
    grants that the API server shows, with those that are promised and not seen there yet. What the
    ledger may not have seen yet (init containers that are over) counts either way. No card is
    beyond what it has, and nothing that lives is released."""
    ledger, living = world.ledger, _living(world)
    held = {
        entry.grant.uid: living.get(entry.grant.uid) or ObservedPod(encode_grant(entry.grant))
        for entry in ledger.entries()
    }
    assert living.keys() <= held.keys(), "released while the API server shows it alive"
    least, most = sums(held.values()), sums(held.values(), init_counts=True)
    for node in (node.name for node in world.nodes):
        found = {(node, card): counts(c) for card, c in ledger.charges_on(node).items()}
        _between({k: v for k, v in least.ids.items() if k[0] == node}, found, most.ids)
    fleet = ledger.fleet
    columns = {
        (node, card.vendor, card.index): _column(fleet, row, column)
        for node, row in fleet.rows.items()
        for column, card in enumerate(fleet.facts[row])
    }
    there = {place: amounts for place, amounts in least.cards.items() if place[0] in fleet.rows}
    _between(there, columns, most.cards)
    used = ledger.used(Limit(namespace="default", source="reference"))
    quota = {"memory": used.memory_bytes, "cores": used.cores_milli, "cards": used.cards}
    _between(least.namespaces, {"default": quota}, most.namespaces)
    assert not overfull(sums(living.values()), _has(world))


def counts(charge: Charge) -> dict[str, int]:
    """A charge in the reference's words."""
    amounts = charge.memory_bytes, charge.cores_milli, charge.slots, charge.exclusive
    return dict(zip(DIMENSIONS, amounts, strict=True))


def _living(world: SimulatedApi) -> dict[str, ObservedPod]:
    """Pods that hold a grant, as the API server shows them."""
    return {
        uid: ObservedPod(stored.grant, msgspec.json.encode(stored.pod).decode())
        for uid, stored in world.pods.items()
        if stored.grant is not None and not stored.terminal
    }


def _has(world: SimulatedApi) -> dict[tuple[str, str, int], Amounts]:
    return {
        place: {
            "memory": card.memory_bytes, "cores": round(card.cores_percent * 1000),
            "slots": card.slots,
        }
        for place, card in world.capacity.items()
    }  # fmt: skip


def _column(fleet: Fleet, row: int, column: int) -> dict[str, int]:
    c, at = fleet.cards, (row, column)
    found = c.memory_used[at], c.cores_used[at], c.sharers[at], c.exclusive[at]
    return dict(zip(DIMENSIONS, map(int, found), strict=True))


def _between(
    least: Mapping[Any, Amounts], found: Mapping[Any, Amounts], most: Mapping[Any, Amounts]
) -> None:
    """What was found is what was reckoned; of what is not found, nothing was reckoned."""
    for key in {*found, *least}:
        for what in found.get(key) or least[key]:
            low, high = (each.get(key, {}).get(what, 0) for each in (least, most))
            assert low <= found.get(key, {}).get(what, 0) <= high, (key, what, low, found, high)
