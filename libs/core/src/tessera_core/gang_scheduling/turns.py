"""Whose turn it is among gangs that wait for room, and how patient they are."""

from __future__ import annotations

from tessera_core.gang_scheduling.attempt import MOST_MISSES, GangAttempt
from tessera_core.gang_scheduling.registry import GangBundle
from tessera_core.gangs.gang import GangMembers
from tessera_core.machines.gang import GangPhase


def turn_of(bundle: GangBundle, attempt: GangAttempt) -> tuple[object, ...]:
    """The bundle's place in the order, least first: broken gangs, then higher priority, older
    gangs, names. One that has missed often comes behind its equals."""
    broken = attempt.phase is GangPhase.BROKEN
    priority = max(map(_priority, bundle.gangs))
    often = attempt.misses >= MOST_MISSES
    return not broken, -priority, often, min(map(_created, bundle.gangs)), bundle.key


def patience_of(bundle: GangBundle) -> float | None:
    """How many seconds an incomplete start may hold its place; None = nobody says."""
    said = [each.gang.patience_s for each in bundle.gangs if each.gang.patience_s is not None]
    return min(said, default=None)


def _priority(members: GangMembers) -> int:
    if members.gang.priority is not None:
        return members.gang.priority
    return max((member.pod.spec.priority or 0 for member in members.waiting), default=0)


def _created(members: GangMembers) -> str:
    stamps = (member.pod.metadata.creation_timestamp or "" for member in members.waiting)
    return members.gang.created or min(stamps, default="")
