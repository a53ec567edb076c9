"""What planning says of a gang, and of each of its pods."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tessera_core.admission.admit import AdmittedPod
from tessera_core.admission.pod_groups import group_warning
from tessera_core.gangs.gang import Gang
from tessera_core.gangs.reservation import GangUnschedulable
from tessera_schema.kube import Pod
from tessera_schema.reasons import Reason
from tessera_schema.verdicts import PlanOutcome, UnmetReason, Verdict


class GangOutcome(Struct, frozen=True, kw_only=True):
    """The answer for one gang."""

    gang: Gang
    verdict: Verdict
    """PLACED: enough of it starts. REJECTED: it can never start as it is."""
    members: int
    """Pods that wait."""
    placed: int = 0
    message: str
    remedy: str = ""
    """What would help; empty for a gang that is placed."""


class GangNotPlaced(Struct, frozen=True):
    """Why nothing of a bundle is placed."""

    verdict: Verdict
    """WAITING, or REJECTED where nothing that ends or is freed would change it."""
    message: str
    remedy: str


def fitting(found: GangUnschedulable) -> str:
    """How many fit, as `2 of 3 members fit`."""
    who = "members"
    if found.short is not None and found.of > 1:
        who = f"members like {found.short.pod.name}"
    return f"{found.fitting} of {found.of} {who} fit"


def waits(found: GangUnschedulable) -> GangNotPlaced:
    """The answer for members that fit once others have left."""
    if found.over:
        remedy = "wait for pods to end, or raise the quota"
        return GangNotPlaced(Verdict.WAITING, found.over, remedy)
    maybe = ", as far as the search went" if found.exhausted else ""
    return GangNotPlaced(
        Verdict.WAITING, f"{fitting(found)} now{maybe}: none is placed",
        "wait for pods to end, add nodes, or ask for less",
    )  # fmt: skip


def not_placed(
    pod: Pod, found: AdmittedPod | PlanOutcome, verdict: Verdict, message: str
) -> PlanOutcome:
    """The answer for a pod whose gang is not placed; one that has an answer of its own keeps it."""
    if isinstance(found, PlanOutcome) and (found.verdict is Verdict.REJECTED or found.unserved):
        return without_group_warning(found)
    outcome = PlanOutcome(
        pod=pod, verdict=verdict, message=message,
        reasons=(UnmetReason(reason=Reason.GANG_WAITING, message=message),),
    )  # fmt: skip
    if isinstance(found, AdmittedPod):
        outcome = replace(
            outcome, dialects=found.dialects, containers=found.containers,
            annotations=found.annotations, warnings=found.warnings,
        )  # fmt: skip
    return without_group_warning(outcome)


def in_no_gang(pod: Pod, why: str) -> PlanOutcome:
    """The answer for a pod that names gangs or queues that contradict each other."""
    reason = UnmetReason(reason=Reason.INVALID_REQUEST, message=why)
    return PlanOutcome(pod=pod, verdict=Verdict.REJECTED, message=why, reasons=(reason,))


def barred(pod: Pod, why: str) -> PlanOutcome:
    """The answer for a member that others than Tessera hold back."""
    reason = UnmetReason(reason=Reason.GANG_WAITING, message=why)
    return PlanOutcome(pod=pod, verdict=Verdict.WAITING, message=why, reasons=(reason,))


def without_group_warning(outcome: PlanOutcome) -> PlanOutcome:
    """The outcome without the warning that pods of a group are placed one by one."""
    text = group_warning(outcome.pod)
    return replace(outcome, warnings=tuple(w for w in outcome.warnings if w != text))
