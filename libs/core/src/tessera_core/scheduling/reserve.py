"""One decision about one pod: quota, placement and the ledger, for the scheduler and the
planner."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tessera_core.fleet.arrays import Bools
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.place import Placement
from tessera_core.placement.placer import Placer
from tessera_core.placement.units import PlacementUnit, units
from tessera_core.quota.allowance import minimum_usage
from tessera_schema.grants import Grant
from tessera_schema.requests import PodRequest


class Reserved(Struct, frozen=True):
    """The pod's cards are held for it."""

    grant: Grant
    feasible: int
    """Nodes that passed the screen."""


class Unschedulable(Struct, frozen=True):
    """No node takes the pod now."""

    units: Sequence[PlacementUnit]
    over: str = ""
    """What no node can change, in numbers: a limit of the namespace."""
    itself: bool = False
    """Why is in the pod itself: it says nothing about another one that asks for the same."""
    untried: frozenset[int] = frozenset()
    """Rows that may have room, and are left to the pod's next attempts."""


def reserved_node(ledger: Ledger, uid: str) -> str:
    """The node on which the ledger has cards for a pod; empty where it has none."""
    entry = ledger.entry(uid)
    return "" if entry is None else entry.grant.node


def try_reserve(
    ledger: Ledger,
    placer: Placer,
    request: PodRequest,
    candidates: Bools | None,
    now: float,
    attempt: int | None = None,
) -> Reserved | Unschedulable:
    """Reserve the best cards for the pod. The placer's fleet is the ledger's; `candidates` are its
    rows that may be used, `attempt` bounds the work (`Placer.place`)."""
    allowance = ledger.allowance(request.namespace)
    over = allowance.exceeded(minimum_usage(request)) if allowance.limits else ""
    if over:
        return Unschedulable(units(request), over)
    found = placer.place(request, allowance, candidates, attempt)
    if not isinstance(found, Placement):
        return Unschedulable(found.units, untried=found.untried)
    grant = Grant(
        uid=request.uid, namespace=request.namespace, name=request.name, node=found.node,
        shares=found.shares,
    )  # fmt: skip
    refusal = ledger.assume([grant], now)
    if refusal is not None:
        return Unschedulable(units(request), refusal.message, itself=True)
    return Reserved(grant, found.feasible)
