"""The status of Koordinator's PodGroups, and the mark of members whose gang waited too long.

Source: Koordinator a7a1b76, the controller of PodGroups.
"""

from __future__ import annotations

from typing import Any, Final

from tessera_core.gang_status.groups import StatusGroup
from tessera_core.gang_status.pod_counts import PodCounts

TIMEOUT: Final = "gang.scheduling.koordinator.sh/timeout"
"""Annotation of a member whose gang did not start within its waiting time."""
PENDING: Final = "Pending"
PRE_SCHEDULING: Final = "PreScheduling"
SCHEDULING: Final = "Scheduling"
SCHEDULED: Final = "Scheduled"
RUNNING: Final = "Running"
FAILED: Final = "Failed"
FINISHED: Final = "Finished"


def koordinator_phase(group: StatusGroup, counts: PodCounts) -> str:
    """The phase that follows from the pods."""
    least = max(group.spec.min_member, 1)
    going = counts.running + counts.succeeded
    ended = counts.failed + going if counts.failed else 0
    rules = (
        (FINISHED, counts.succeeded >= least),
        (FAILED, ended >= least),
        (RUNNING, going >= least),
        (PENDING, counts.exist < least),
        (SCHEDULED, counts.scheduled >= least),
        (SCHEDULING, counts.scheduled > 0),
    )
    return next((phase for phase, holds in rules if holds), PRE_SCHEDULING)


def koordinator_status(group: StatusGroup, counts: PodCounts, now: str) -> dict[str, Any]:
    """The whole status as it should be; `now` is RFC 3339. Whose pods the group is for
    (`occupiedBy`) is written when enough of them are there, and stays until there are too few."""
    phase = koordinator_phase(group, counts)
    numbers = {
        "scheduled": counts.scheduled, "running": counts.running, "succeeded": counts.succeeded,
        "failed": counts.failed,
    }  # fmt: skip
    status = group.status_with(phase, numbers)
    if counts.owners and phase != PENDING and group.phase in ("", PENDING):
        status["occupiedBy"] = ",".join(counts.owners)
    if phase == SCHEDULING and not status.get("scheduleStartTime"):
        status["scheduleStartTime"] = now
    return status
