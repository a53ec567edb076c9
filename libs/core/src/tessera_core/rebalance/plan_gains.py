"""What plans have really gained, and whether more of them are worth proposing.

A gain is measured over the same seconds for which it was expected. Where plans of late brought too
little of what they promised, something is not as it is thought here: then nothing is proposed for a
while. Plans that a person made or that are under way are not touched by that.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from tessera_core.rebalance.plan_budget import Former
from tessera_schema.plans import PlanPhase


class GainRules(Struct, frozen=True, kw_only=True):
    """When proposing stops by itself."""

    plans: int = 5
    """So many plans, the last that were measured, are looked at; fewer are no ground to stop."""
    share: float = 0.3
    """Of the gain that they expected, how much must have come."""
    pause_s: float = 21_600.0
    """Seconds for which nothing is proposed after the last of them ended."""


class Pause(Struct, frozen=True, kw_only=True):
    """Nothing is proposed."""

    until: float
    """Unix time."""
    why: str
    """In numbers."""
    last: str
    """Name of the plan that was measured last."""


def pause(plans: Iterable[Former], rules: GainRules, now: float) -> Pause | None:
    """Whether the last plans gained too little."""
    measured = sorted(
        (p for p in plans if p.status.gained is not None and p.spec.gain > 0),
        key=lambda p: p.ended,
    )[-rules.plans :]
    if len(measured) < rules.plans:
        return None
    expected = sum(p.spec.gain for p in measured)
    came = sum(p.status.gained or 0 for p in measured)
    until = measured[-1].ended + rules.pause_s
    if came >= rules.share * expected or until <= now:
        return None
    why = (
        f"the last {len(measured)} plans gained {came:.0f} of {expected:.0f} card-seconds, "
        f"{rules.share:.0%} was asked"
    )
    return Pause(until=until, why=why, last=measured[-1].name)


def by_placement(
    plan: Former, placed: float | None, left: float | None, horizon_s: float, now: float
) -> float | None:
    """Card-seconds that the pod for which room was made had of it; None = not known yet.

    `placed` is when it got its node, `left` when it ended, None where it did not.
    """
    over = plan.ended + horizon_s
    if placed is None:
        return 0.0 if now >= over or left is not None else None
    if now < over and left is None:
        return None
    held_s = max(min(left if left is not None else over, over) - max(placed, plan.ended), 0)
    return round(plan.spec.gain * min(held_s / horizon_s, 1), 1)


def by_contention(plan: Former, after: float | None, horizon_s: float, now: float) -> float | None:
    """Card-seconds that others had of a move: as much as contention (percent) fell; None = not
    known yet. It counts for nothing where nobody knows any more how contended the card is."""
    if now < plan.ended + horizon_s:
        return None
    before = plan.status.before
    if after is None or before <= 0:
        return 0.0
    return round(plan.spec.gain * max(before - after, 0) / before, 1)


def measurable(plan: Former) -> bool:
    """True for a plan whose gain is still to be measured."""
    return plan.status.phase is PlanPhase.DONE and plan.status.gained is None
