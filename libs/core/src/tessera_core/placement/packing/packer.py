"""`pack` for the fleet that a scheduler places on: which pods it is for, and what it knows.

A pod that names an order of its own keeps it, and so does a dialect that spreads: only orders that
pack give way. Without a packer, `pack` is binpack (`tessera_core.placement.scoring`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from tessera_core.placement.packing.demand_history import shape_of
from tessera_core.placement.packing.host_capacity import HostCapacity
from tessera_core.placement.packing.state import PackingState
from tessera_core.placement.units import PlacementUnit
from tessera_schema.requests import CardKey, Choice, NodeOrder, Policy, Request

GIVE_WAY: Final = frozenset({NodeOrder.BINPACK, NodeOrder.LEAST_FREE})
"""Orders that dialects have for pods that name none, and that mean to pack."""
MOST_NAMED: Final = 20_000


class Packer:
    """What policy `pack` goes by."""

    def __init__(self, state: PackingState | None = None) -> None:
        """Pods get what they name; set `by_default` once there is something to go by."""
        self.state = PackingState() if state is None else state
        self.hosts = HostCapacity()
        """What hosts have left; reported by the follower of the cluster."""
        self.by_default = False
        """Whether pods that name no order are placed by `pack`."""
        self._named: dict[str, bool] = {}
        """Pod -> whether the order that it names is `pack`."""

    def named(self, uid: str, *, pack: bool = False) -> None:
        """The pod names an order, of nodes or of cards: its dialect's, or `pack`. Remembered for
        the last `MOST_NAMED` pods, or until it is forgotten."""
        self._named[uid] = pack
        if len(self._named) > MOST_NAMED:
            del self._named[next(iter(self._named))]

    def has_named(self, uid: str) -> bool:
        """Whether the pod is remembered to name an order of its dialect's."""
        return not self._named.get(uid, True)

    def forget(self, uid: str) -> None:
        """The pod is not placed any more."""
        self._named.pop(uid, None)

    def units(self, uid: str, wanted: Sequence[PlacementUnit]) -> Sequence[PlacementUnit]:
        """The pod's units with the policy by which they are placed."""
        named = self._named.get(uid)
        if named is False or (named is None and not self.by_default):
            return wanted
        return tuple(_packed(unit, named=bool(named)) for unit in wanted)


def joint(unit: PlacementUnit) -> Request:
    """The request by which the unit is ordered: for `pack` what all its parts ask of the cards
    that they share, else its first part's."""
    if len(unit.parts) == 1 or unit.lead.policy.node is not NodeOrder.PACK:
        return unit.lead
    return replace(shape_of(unit), policy=unit.lead.policy)


def _packed(unit: PlacementUnit, *, named: bool) -> PlacementUnit:
    policy = _policy(unit.lead.policy, named=named)
    return PlacementUnit(
        tuple(replace(part, request=replace(part.request, policy=policy)) for part in unit.parts)
    )


def _policy(policy: Policy, *, named: bool) -> Policy:
    """Cards that are chosen by their links or their NUMA node go on being chosen so."""
    if policy.node not in GIVE_WAY and not named:
        return policy
    by_order = policy.choice is Choice.ORDERED and not policy.same_numa
    cards = (CardKey.PACK, *policy.cards) if by_order else policy.cards
    return replace(policy, node=NodeOrder.PACK, cards=cards)
