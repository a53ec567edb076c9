"""Where pods that move would fit, all of them at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tessera_core.fleet.arrays import Bools
from tessera_core.fleet.charges import charges
from tessera_core.fleet.fleet import Fleet
from tessera_core.placement.place import Placement
from tessera_core.placement.placer import Placer
from tessera_core.quota.allowance import NO_LIMITS, Uses, counted_usage, use_of
from tessera_core.rebalance.cluster_view import ClusterView, Seats, charge
from tessera_core.rebalance.movable_pods import RunningPod
from tessera_core.slices import Slices
from tessera_schema.grants import Share
from tessera_schema.kube import Pod
from tessera_schema.quotas import BestEffortLimit, Limit


class JointFit(Struct, frozen=True, kw_only=True):
    """Everybody has a place."""

    nodes: tuple[str, ...]
    """Of each mover, in the order in which they were given."""
    parts: float
    """Cards that the pod for which room is made would hold."""


def fit_jointly(
    situation: ClusterView, trial: Fleet, seats: Seats, comes: tuple[Pod, Placement],
    movers: Sequence[RunningPod], parts: float,
) -> Slices[JointFit | None]:  # fmt: skip
    """Places for the movers, which are off the trial, together with the pod that comes; the largest
    is placed first, a mover in each slice. None where one finds none."""
    pod, found = comes
    charge(trial, found.node, found.shares, 1)
    seats.take(pod, found.node)
    nodes: dict[str, str] = {}
    for one in sorted(movers, key=lambda m: (-m.parts, m.uid)):
        place_ = place_of(situation, trial, seats.rows(trial, one.pod), one)
        if place_ is None:
            return None
        charge(trial, place_.node, place_.shares, 1)
        seats.take(one.pod, place_.node)
        nodes[one.uid] = place_.node
        yield
    return JointFit(nodes=tuple(nodes[one.uid] for one in movers), parts=parts)


def place_of(
    situation: ClusterView, trial: Fleet, rows: Bools, one: RunningPod
) -> Placement | None:
    """A place on these rows that costs the pod's quota no more than its present one."""
    found = Placer(trial).place(one.request, NO_LIMITS, rows)
    entry = situation.ledger.entry(one.uid)
    if not isinstance(found, Placement) or entry is None:
        return None
    limits = situation.ledger.allowance(one.request.namespace).limits
    uses = uses_of(trial, found.node, found.shares)
    return None if any(_more(limit, uses, entry.uses) for limit in limits) else found


def uses_of(fleet: Fleet, node: str, shares: Iterable[Share]) -> Uses:
    """What shares on cards of a node count in a quota."""
    held = ((fleet.card(node, card), amount) for card, amount in charges(shares).items())
    return use_of((card, amount) for card, amount in held if card is not None)


def parts_of(fleet: Fleet, node: str, shares: Iterable[Share]) -> float:
    """Cards that these shares are, parts of cards counting by the larger of memory and cores."""
    return sum(use.parts for use in uses_of(fleet, node, shares).values())


def _more(limit: Limit, uses: Uses, before: Uses) -> bool:
    new, old = counted_usage(limit, uses), counted_usage(limit, before)
    rest = limit.best_effort or BestEffortLimit()
    by_model = limit.models is not None and uses.keys() != before.keys()
    return by_model or any(
        allowed is not None and more > had
        for allowed, more, had in (
            (limit.memory_bytes, new.memory_bytes, old.memory_bytes),
            (limit.cores_percent, new.cores_milli, old.cores_milli),
            (limit.cards, new.cards, old.cards),
            (rest.memory_bytes, new.rest_memory_bytes, old.rest_memory_bytes),
            (rest.cards, new.rest_cards, old.rest_cards),
        )
    )
