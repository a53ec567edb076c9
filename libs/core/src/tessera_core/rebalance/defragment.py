"""Room for a pod that waits only for cards: which pods move so that it fits, and where they fit.

On each node that would do with some pods away the cheapest of them are sought: one alone, two
together, then as few as a walk in order of cost leaves. A set counts only when its pods fit
elsewhere, all at the same time, next to the pod that waited, and when none of them matters more.
Quota stays as it is: the pod must be within its own, and a pod that moves may not come to use more.
It promises no cheapest plan of all: the search is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from typing import Final

from msgspec import Struct

from tessera_core.fleet.fleet import Fleet
from tessera_core.kube.scheduler_filters import Refusals
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.place import Placement
from tessera_core.placement.placer import Placer
from tessera_core.placement.units import PlacementUnit, units
from tessera_core.quota.allowance import NO_LIMITS, minimum_usage
from tessera_core.rebalance.cluster_view import (
    ClusterView,
    Movable,
    Seats,
    WaitingPod,
    movable,
    take_off,
)
from tessera_core.rebalance.joint_fit import JointFit, fit_jointly, parts_of
from tessera_core.rebalance.movable_pods import RunningPod
from tessera_core.slices import Slices
from tessera_schema.plans import PlanKind, PlanSpec, PlanStep, PodOfPlan
from tessera_schema.reasons import Reason

NODES: Final = 16
"""Nodes that are searched for one pod, those with the fewest pods in the way first."""
PAIRS: Final = 64
"""Pairs that are tried on a node."""
SETS: Final = 8
"""Sets, the cheapest of all nodes first, for whose pods other places are sought."""


class FreedRoom(Struct, frozen=True, kw_only=True):
    """Pods that would leave a node, so that the waiting one fits there."""

    node: str
    movers: tuple[RunningPod, ...]
    cost: float


def defragment(
    situation: ClusterView, waits: WaitingPod, able: Movable | None = None
) -> Slices[PlanSpec | str]:
    """The cheapest plan that was found for a waiting pod, or why there is none. `able` are the pods
    that may be moved, where the caller knows them already. A slice tries one set of pods."""
    rules = situation.rules
    problem = waits_for_others(situation, waits)
    if problem:
        return problem
    if waits.pod.metadata.uid in situation.spent.busy:
        return "another plan is about it"
    if able is None:
        able = yield from movable(situation)
    yield
    rooms = yield from _rooms(situation, waits, able)
    for room in sorted(rooms, key=lambda room: (room.cost, room.node))[:SETS]:
        seated = yield from _seated(situation, waits, room)
        if seated is None:
            continue
        gain = seated.parts * rules.worth.horizon_s
        if gain < rules.worth.times * room.cost:
            return (
                f"moving would cost {room.cost:.0f} card-seconds and gain {gain:.0f}: "
                f"{rules.worth.times:g} times as much is asked"
            )
        return _spec(situation, waits, room, seated, gain)
    return "no pods that may move leave room for it and fit elsewhere"


def stale(situation: ClusterView, spec: PlanSpec) -> Slices[str]:
    """Why the plan does not hold (any more), in words; empty when it does."""
    waits = situation.waiting.get(spec.for_pod.uid) if spec.for_pod is not None else None
    if waits is None:
        name = "" if spec.for_pod is None else f"{spec.for_pod.namespace}/{spec.for_pod.name}"
        return f"{name} no longer waits"
    there = still_there(situation, spec)
    if isinstance(there, str):
        return there
    problem = waits_for_others(situation, waits) or situation.stay(there)
    if problem:
        return problem
    if any(one.priority > waits.priority for one in there):
        return "a pod that was to move matters more"
    room = FreedRoom(node=there[0].grant.node, movers=there, cost=situation.cost(there))
    seated = yield from _seated(situation, waits, room)
    reason = f"moving them would no longer leave room on {room.node} and seats elsewhere"
    return reason if seated is None else ""


def still_there(situation: ClusterView, spec: PlanSpec) -> tuple[RunningPod, ...] | str:
    """The pods of the plan's steps, all on the node that they were on; or what has changed."""
    there = []
    for step in spec.steps:
        one = situation.running.get(step.pod.uid)
        if one is None:
            return f"{step.pod.namespace}/{step.pod.name} holds no cards any more"
        if one.grant.node != spec.steps[0].pod.node:
            return f"{one.pod.name} is not on {spec.steps[0].pod.node}"
        there.append(one)
    return tuple(there) or "it has no steps"


def waits_for_others(situation: ClusterView, waits: WaitingPod) -> str:
    """Why making room is not what the pod needs; empty when it is."""
    request, fleet = waits.request, situation.ledger.fleet
    allowance = situation.ledger.allowance(request.namespace)
    over = allowance.exceeded(minimum_usage(request))
    if over:
        return f"{waits.pod.name} waits for its quota: {over}"
    rows = Seats(situation, ()).rows(fleet, waits.pod)
    if isinstance(Placer(fleet.snapshot()).place(request, allowance, rows), Placement):
        return f"{waits.pod.name} fits without it"
    return ""


# -- who has to go


def _rooms(situation: ClusterView, waits: WaitingPod, able: Movable) -> Slices[list[FreedRoom]]:
    """The cheapest set of each node that is worth a search."""
    wanted, refused = units(waits.request), situation.kubefit.refusals(waits.pod)
    rows = able.without.only("")
    for node in able.on:
        rows[able.without.rows[node]] = not _for_good(refused, node)
    fits = Placer(able.without).screen(wanted, NO_LIMITS, rows)
    nodes = sorted(
        (node for node in able.on if fits[able.without.rows[node]]),
        key=lambda node: (len(able.on[node]), node),
    )
    yield
    trial = able.fleet.snapshot()
    rooms = []
    for node in nodes[:NODES]:
        lesser = []
        for uid in able.on[node]:
            one = situation.running.get(uid)
            if one is not None and one.priority <= waits.priority:
                lesser.append(one)
            yield
        movers = yield from _cheapest(situation, trial, node, wanted, lesser)
        if movers:
            rooms.append(FreedRoom(node=node, movers=movers, cost=situation.cost(movers)))
    return rooms


def _for_good(refused: Refusals, node: str) -> bool:
    """True for a node that is out, whatever leaves it."""
    return node in refused and refused[node][0] is not Reason.NODE_INSUFFICIENT_RESOURCE


def _cheapest(
    situation: ClusterView,
    trial: Fleet,
    node: str,
    wanted: Sequence[PlacementUnit],
    lesser: list[RunningPod],
) -> Slices[tuple[RunningPod, ...]]:
    """The cheapest set on one node that was found; nothing where there is none."""
    most = situation.rules.budget.at_most
    lesser.sort(key=lambda one: (situation.cost((one,)), one.uid))
    singles: Iterator[tuple[RunningPod, ...]] = ((one,) for one in lesser)
    pairs = list(islice(combinations(lesser, 2), PAIRS if most > 1 else 0))
    pairs.sort(key=situation.cost)
    for movers in (*singles, *pairs):
        if _leaves_room(situation, trial, node, wanted, movers):
            return movers
        yield
    gone = list((yield from _walk(situation, trial, node, wanted, lesser)))
    for one in reversed(list(gone)):
        fewer = tuple(other for other in gone if other is not one)
        if _leaves_room(situation, trial, node, wanted, fewer):
            gone.remove(one)
        yield
    return tuple(gone) if len(gone) <= most else ()


def _walk(
    situation: ClusterView,
    trial: Fleet,
    node: str,
    wanted: Sequence[PlacementUnit],
    lesser: list[RunningPod],
) -> Slices[tuple[RunningPod, ...]]:
    """As many as it takes, the cheapest first."""
    for count in range(1, len(lesser) + 1):
        movers = tuple(lesser[:count])
        if _leaves_room(situation, trial, node, wanted, movers):
            return movers
        yield
    return ()


def _leaves_room(
    situation: ClusterView,
    trial: Fleet,
    node: str,
    wanted: Sequence[PlacementUnit],
    movers: Sequence[RunningPod],
) -> bool:
    if situation.stay(movers):
        return False
    take_off(trial, situation, movers)
    fits = not isinstance(Placer(trial).fit(trial.rows[node], wanted, NO_LIMITS), NoFit)
    take_off(trial, situation, movers, 1)
    return fits


# -- where they go


def _seated(situation: ClusterView, waits: WaitingPod, room: FreedRoom) -> Slices[JointFit | None]:
    """Everybody's place once the movers have left the node; None where one has none."""
    trial = situation.ledger.fleet.snapshot()
    take_off(trial, situation, room.movers)
    seats = Seats(situation, room.movers)
    if room.node in seats.refusals(waits.pod):
        return None
    allowance = situation.ledger.allowance(waits.request.namespace)
    found = Placer(trial).place(waits.request, allowance, trial.only(room.node))
    if not isinstance(found, Placement):
        return None
    yield
    parts = parts_of(trial, found.node, found.shares)
    comes = waits.pod, found
    return (yield from fit_jointly(situation, trial, seats, comes, room.movers, parts))


def _spec(
    situation: ClusterView, waits: WaitingPod, room: FreedRoom, seated: JointFit, gain: float
) -> PlanSpec:
    meta = waits.pod.metadata
    names = " and ".join(one.pod.name for one in room.movers)
    held = sum(one.parts for one in room.movers)
    waited_s = situation.now - waits.since
    return PlanSpec(
        kind=PlanKind.DEFRAGMENT,
        reason=f"{waits.pod.name} has waited {waited_s:.0f} s for {seated.parts:.2g} cards; "
        f"to leave {room.node} for it: {names}, with {held:.2g} and room on "
        f"{', '.join(dict.fromkeys(seated.nodes))}; {room.cost:.0f} card-seconds are lost, "
        f"{gain:.0f} won within {situation.rules.worth.horizon_s:.0f} s",
        steps=tuple(
            PlanStep(pod=one.named, to_node=node)
            for one, node in zip(room.movers, seated.nodes, strict=True)
        ),
        for_pod=PodOfPlan(namespace=meta.namespace or "default", name=meta.name, uid=meta.uid),
        cost=round(room.cost, 1),
        gain=round(gain, 1),
    )
