"""Shares that should be larger, or could be smaller, by what their containers were measured to do.

- A container that is held back by its own cores on a card with cores that nobody was granted grows
  into them.
- A pod waits for memory that others were granted and have never used for long: the one with most of
  it to spare gives some back. Nothing is taken that is not well above the most that was used, and
  nothing below what the owner says that it needs.

A proposal only asks: the scheduler checks it like a new placement.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.cores import milli, percent
from tessera_core.kube.quantity import BadQuantity, quantity_value
from tessera_core.placement.node_fit import NoFit
from tessera_core.placement.placer import Placer
from tessera_core.placement.units import units
from tessera_core.quota.allowance import NO_LIMITS, QuotaUsage, minimum_usage
from tessera_core.rebalance.cluster_view import ClusterView, Seats, WaitingPod
from tessera_core.rebalance.defragment import still_there, waits_for_others
from tessera_core.rebalance.joint_fit import parts_of
from tessera_core.rebalance.movable_pods import RunningPod, spared
from tessera_core.slices import Slices
from tessera_core.usage.smoothed import SmoothContainer
from tessera_schema.annotation_keys import LEAST_MEMORY_KEY
from tessera_schema.cards import MIB
from tessera_schema.grants import Share
from tessera_schema.plans import PlanKind, PlanSpec, PlanStep, PodOfPlan
from tessera_schema.requests import Role

_HELD: Final = 0.9
"""Part of its own cores that a container must use to be held back by them."""


class ResizeRules(Struct, frozen=True, kw_only=True):
    """When shares are resized."""

    waiting_percent: float = 40.0
    """Of the time that a container's launches are held back, from which it should grow."""
    step_percent: float = 20.0
    """Cores of a card that it grows by, at most."""
    spare_times: float = 3.0
    """How many times the most that it used a container must have been granted to give memory
    back."""
    keep_times: float = 1.5
    """How many times the most that it used it keeps."""
    keep_mib: int = 1024
    """MiB that it keeps beyond the most that it used, at least."""
    least_age_s: float = 86_400.0
    """Seconds that it must have run until what it has not used is thought to be spare."""
    confidence: float = 0.9
    """Of what was measured, at least."""


def give_back(
    situation: ClusterView, rules: ResizeRules, waits: WaitingPod
) -> Slices[PlanSpec | str]:
    """A share made smaller so that a waiting pod fits, or why there is none. A slice reads one
    container, or tries one."""
    if situation.ledger.allowance(waits.request.namespace).exceeded(minimum_usage(waits.request)):
        return f"{waits.pod.name} waits for its quota"
    refused = Seats(situation, ()).refusals(waits.pod)
    spare = []
    for measured in situation.measured:
        resizable = _resizable(situation, rules, measured)
        if resizable is not None and resizable[0].grant.node not in refused:
            found = _spare(situation, rules, *resizable)
            if found is not None:
                spare.append(found)
        yield
    for one, share, seen, kept in sorted(spare, key=lambda s: s[3] - s[1].memory_bytes):
        parts = _fits_then(situation, waits, one, share, kept)
        if parts is None:
            yield
            continue
        gain = parts * situation.rules.worth.horizon_s
        meta = waits.pod.metadata
        return PlanSpec(
            kind=PlanKind.RESIZE,
            reason=f"{waits.pod.name} has waited {situation.now - waits.since:.0f} s for memory; "
            f"{one.pod.name} was granted {share.memory_mib} MiB of card {share.card} and has used "
            f"{_peak(seen) // MIB} at most: with {kept // MIB} MiB for it the other "
            f"fits on {one.grant.node}, {gain:.0f} card-seconds are won within "
            f"{situation.rules.worth.horizon_s:.0f} s",
            steps=(_step(one, share, memory=f"{kept // MIB}Mi"),),
            for_pod=PodOfPlan(namespace=meta.namespace or "default", name=meta.name, uid=meta.uid),
            gain=round(gain, 1),
        )
    return "nobody on a node that would do has so much memory to spare"


def stale(situation: ClusterView, spec: PlanSpec) -> str:
    """Why the plan does not hold (any more), in words; empty when it does. Whether the shares can
    be had the scheduler decides."""
    there = still_there(situation, spec)
    if isinstance(there, str):
        return there
    for one in there:
        if why := _untouchable(situation, one):
            return f"{one.pod.name} is left alone: {why}"
    if spec.for_pod is None:
        return ""
    waits = situation.waiting.get(spec.for_pod.uid)
    if waits is None:
        return f"{spec.for_pod.namespace}/{spec.for_pod.name} no longer waits"
    return waits_for_others(situation, waits)


def grow(situation: ClusterView, rules: ResizeRules) -> Slices[PlanSpec | str]:
    """A share made larger for a container that is held back, or why there is none. A slice reads
    one container, or tries one."""
    held = []
    for measured in situation.measured:
        if measured.waiting_percent >= rules.waiting_percent:
            resizable = _resizable(situation, rules, measured)
            if resizable is not None and _throttled(resizable[1], measured):
                held.append(resizable)
        yield
    held.sort(key=lambda h: (-h[2].waiting_percent, h[0].uid, h[1].container))
    why = "no container is held back by its own cores"
    for one, share, seen in held:
        found = _larger(situation, rules, one, share, seen)
        if not isinstance(found, str):
            return found
        why = found
        yield
    return why


def _throttled(share: Share, seen: SmoothContainer) -> bool:
    """Whether its own cores hold it back."""
    return 0 < share.cores_percent < 100 and seen.cores_percent >= _HELD * share.cores_percent


def _larger(
    situation: ClusterView, rules: ResizeRules, one: RunningPod, share: Share, seen: SmoothContainer
) -> PlanSpec | str:
    fleet = situation.ledger.fleet
    place = fleet.locate(one.grant.node, share.card)
    card = fleet.card(one.grant.node, share.card)
    if place is None or card is None:
        return f"card {share.card} is not there"
    free = percent(int(fleet.cards.cores_total[place] - fleet.cards.cores_used[place]))
    more = min(free, rules.step_percent)
    if more < 1:
        return f"card {share.card} has no cores left"
    use = {(card.vendor, card.model): QuotaUsage(cores_milli=milli(more))}
    over = situation.ledger.allowance(one.request.namespace).exceeded(use)
    if over:
        return f"{one.pod.name} is at its quota: {over}"
    cores = percent(milli(share.cores_percent) + milli(more))
    horizon_s = situation.rules.worth.horizon_s
    gain = seen.waiting_percent / 100 * more / 100 * horizon_s
    return PlanSpec(
        kind=PlanKind.RESIZE,
        reason=f"{one.pod.name} was held back {seen.waiting_percent:.0f} % of the time by its "
        f"{share.cores_percent:g} % of card {share.card} on {one.grant.node}, of which {free:g} % "
        f"are nobody's: with {cores:g} % it wins {gain:.0f} card-seconds within {horizon_s:.0f} s",
        steps=(_step(one, share, cores=cores),),
        gain=round(gain, 1),
    )


def _resizable(
    situation: ClusterView, rules: ResizeRules, seen: SmoothContainer
) -> tuple[RunningPod, Share, SmoothContainer] | None:
    """The share that was measured, if it may be resized."""
    one = situation.running.get(seen.uid)
    if one is None or seen.confidence < rules.confidence or _untouchable(situation, one):
        return None
    mine = [s for s in one.grant.shares if (s.container, s.card) == (seen.container, seen.card)]
    if len(mine) != 1 or mine[0].lent:
        return None
    if mine[0].role is Role.APP and not mine[0].exclusive:
        return one, mine[0], seen
    return None


def _untouchable(situation: ClusterView, one: RunningPod) -> str:
    """Why no plan resizes the pod now; empty if one may."""
    spent = situation.spent
    reasons = (
        (one.uid in spent.busy, "another plan is about it, or was a short time ago"),
        (spent.resized.get(one.uid, 0) > situation.now, "it was resized a short time ago"),
        (bool(one.pod.metadata.deletion_timestamp), "it is being deleted"),
    )
    left = spared(one, situation.rules.move)
    return left or next((text for holds, text in reasons if holds), "")


def _spare(
    situation: ClusterView, rules: ResizeRules, one: RunningPod, share: Share, seen: SmoothContainer
) -> tuple[RunningPod, Share, SmoothContainer, int] | None:
    """What the container keeps, in bytes; None where it has nothing to spare."""
    peak = _peak(seen)
    if share.memory_bytes < rules.spare_times * peak:
        return None
    if situation.now - one.since < rules.least_age_s:
        return None
    kept = max(int(rules.keep_times * peak), peak + rules.keep_mib * MIB, _least(one))
    kept = -(-kept // MIB) * MIB
    return (one, share, seen, kept) if kept < share.memory_bytes else None


def _peak(seen: SmoothContainer) -> int:
    """The most of a day, where the agent says it: what is smoothed is forgotten sooner."""
    return max(seen.memory_peak_bytes, seen.memory_day_peak_bytes)


def _least(one: RunningPod) -> int:
    """What the owner says that it needs; what makes no sense keeps all of it."""
    text = one.pod.metadata.annotations.get(LEAST_MEMORY_KEY)
    if text is None:
        return 0
    try:
        return quantity_value(text)
    except BadQuantity:
        return 1 << 62


def _fits_then(
    situation: ClusterView, waits: WaitingPod, one: RunningPod, share: Share, kept: int
) -> float | None:
    """Cards that the waiting pod would hold on the node; None where it would not fit."""
    trial, node, wanted = situation.ledger.fleet.snapshot(), one.grant.node, units(waits.request)
    row = trial.rows.get(node)
    if row is None or not isinstance(Placer(trial).fit(row, wanted, NO_LIMITS), NoFit):
        return None
    trial.charge(node, share.card, Charge(memory_bytes=kept - share.memory_bytes))
    shares = Placer(trial).fit(row, wanted, NO_LIMITS)
    return None if isinstance(shares, NoFit) else parts_of(trial, node, shares)


def _step(
    one: RunningPod, share: Share, *, memory: str = "", cores: float | None = None
) -> PlanStep:
    return PlanStep(
        pod=one.named, container=share.container, card=share.card, memory=memory, cores=cores
    )
