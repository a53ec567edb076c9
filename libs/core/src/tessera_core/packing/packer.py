"""`pack` for the fleet that a scheduler places on: which pods it is for, and what it knows.

A pod that names an order of its own keeps it, and so does a dialect that spreads: only orders that
pack give way. Without a packer on the fleet, `pack` is binpack (`tessera_core.scoring`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from tessera_core.packing.history import shape_of
from tessera_core.packing.state import State
from tessera_core.units import Unit
from tessera_schema.requests import CardKey, Choice, NodeOrder, Policy, Request

GIVE_WAY: Final = frozenset({NodeOrder.BINPACK, NodeOrder.LEAST_FREE})
"""Orders that dialects have for pods that name none, and that mean to pack."""
MOST_NAMED: Final = 20_000


class Packer:
    """What `Fleet.packer` is."""

    def __init__(self, state: State | None = None) -> None:
        """Pods get what they name; set `by_default` once there is something to go by."""
        self.state = State() if state is None else state
        self.by_default = False
        """Whether pods that name no order are placed by `pack`."""
        self._named: dict[str, None] = {}

    def named(self, uid: str) -> None:
        """The pod names an order of its own, of nodes or of cards. Remembered for the last
        `MOST_NAMED` pods, or until it is forgotten."""
        self._named[uid] = None
        if len(self._named) > MOST_NAMED:
            del self._named[next(iter(self._named))]

    def forget(self, uid: str) -> None:
        """The pod is not placed any more."""
        self._named.pop(uid, None)

    def units(self, uid: str, wanted: Sequence[Unit]) -> Sequence[Unit]:
        """The pod's units with the policy by which they are placed."""
        if not self.by_default or uid in self._named:
            return wanted
        return tuple(_packed(unit) for unit in wanted)


def joint(unit: Unit) -> Request:
    """The request by which the unit is ordered: for `pack` what all its parts ask of the cards
    that they share, else its first part's."""
    if len(unit.parts) == 1 or unit.lead.policy.node is not NodeOrder.PACK:
        return unit.lead
    return replace(shape_of(unit), policy=unit.lead.policy)


def _packed(unit: Unit) -> Unit:
    policy = _policy(unit.lead.policy)
    return Unit(
        tuple(replace(part, request=replace(part.request, policy=policy)) for part in unit.parts)
    )


def _policy(policy: Policy) -> Policy:
    """Cards that are chosen by their links or their NUMA node go on being chosen so."""
    if policy.node not in GIVE_WAY:
        return policy
    by_order = policy.choice is Choice.ORDERED and not policy.same_numa
    cards = (CardKey.PACK, *policy.cards) if by_order else policy.cards
    return replace(policy, node=NodeOrder.PACK, cards=cards)
