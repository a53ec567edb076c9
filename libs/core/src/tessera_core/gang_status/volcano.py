"""The status of Volcano's PodGroups.

`Inqueue` is vital: Volcano's Job controller creates no pods of a Job whose PodGroup is `Pending`.
Source: Volcano ed72c7c, the scheduler's job updater and its gang plugin.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tessera_core.gang_status.groups import GangSituation, StatusGroup
from tessera_core.gang_status.pod_counts import PodCounts
from tessera_core.machines.gang import GangPhase

PENDING: Final = "Pending"
INQUEUE: Final = "Inqueue"
RUNNING: Final = "Running"
COMPLETED: Final = "Completed"
UNKNOWN: Final = "Unknown"
_UNSCHEDULABLE: Final = "Unschedulable"
_SCHEDULED: Final = "Scheduled"
_READY: Final = "tasks in gang are ready to be scheduled"


def volcano_phase(group: StatusGroup, counts: PodCounts, *, unschedulable: bool) -> str:
    """The phase that follows from the pods. A group that waits stays in the queue if it was let
    in; whether one that is Pending is let in now is `enqueue.EnqueueRoom`'s to say."""
    if counts.running and unschedulable:
        return UNKNOWN
    if counts.scheduled and counts.scheduled >= group.spec.min_member:
        ended = counts.succeeded + counts.failed == counts.scheduled
        return COMPLETED if ended else RUNNING
    return INQUEUE if group.phase == INQUEUE else PENDING


def volcano_status(
    group: StatusGroup, counts: PodCounts, gang: GangSituation, *, may_enter: bool, now: str
) -> dict[str, Any]:
    """The whole status as it should be. `may_enter` says whether its queue has room for a group
    that is Pending; `now` is RFC 3339."""
    phase = volcano_phase(group, counts, unschedulable=gang.unschedulable)
    if phase == PENDING and may_enter:
        phase = INQUEUE
    numbers = {
        "running": counts.running, "succeeded": counts.succeeded, "failed": counts.failed,
    }  # fmt: skip
    status = group.status_with(phase, numbers)
    conditions = _conditions(group, counts, gang, now)
    if conditions:
        status["conditions"] = conditions
    return status


def _conditions(
    group: StatusGroup, counts: PodCounts, gang: GangSituation, now: str
) -> list[Mapping[str, Any]]:
    found = group.conditions
    if gang.phase is GangPhase.STARTED:
        found = _with(found, _condition(_SCHEDULED, _READY, "", now))
        return [_over(each, now) if each.get("type") == _UNSCHEDULABLE else each for each in found]
    if not gang.unschedulable or not counts.exist:
        return list(found)
    least = group.spec.min_member
    lacking = max(least - counts.scheduled, 0)
    message = f"{lacking}/{counts.exist} tasks in gang unschedulable: {gang.reason}"
    reason = _lack(group, counts)
    return list(_with(found, _condition(_UNSCHEDULABLE, reason, message, now)))


def _lack(group: StatusGroup, counts: PodCounts) -> str:
    spec = group.spec
    if counts.exist - counts.failed < spec.min_member:
        return "NotEnoughTasks"
    counted = spec.min_member >= sum(spec.min_task_member.values())
    short = (counts.roles.get(role, 0) < least for role, least in spec.min_task_member.items())
    return "NotEnoughPodsOfTask" if counted and any(short) else "NotEnoughResources"


def _condition(kind: str, reason: str, message: str, now: str) -> dict[str, Any]:
    text = "\n".join((kind, reason, message))
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return {
        "type": kind, "status": "True", "transitionID": digest, "lastTransitionTime": now,
        "reason": reason, "message": message,
    }  # fmt: skip


def _over(condition: Mapping[str, Any], now: str) -> Mapping[str, Any]:
    """The condition, which is not true any more."""
    if condition.get("status") == "False":
        return condition
    return {**condition, "status": "False", "lastTransitionTime": now}


def _with(
    conditions: Sequence[Mapping[str, Any]], made: Mapping[str, Any]
) -> tuple[Mapping[str, Any], ...]:
    """The conditions with this one in the place of that of its type, which stays where it says the
    same."""
    before = next((each for each in conditions if each.get("type") == made["type"]), None)
    said = ("status", "reason", "message")
    if before is not None and all((before.get(key) or "") == made[key] for key in said):
        return tuple(conditions)
    if before is None:
        return (*conditions, made)
    return tuple(made if each is before else each for each in conditions)
