"""Groups, pods and queues for tests of statuses."""

from __future__ import annotations

from typing import Any

import msgspec

from tessera_core.gang_status.groups import GangSituation, StatusGroup
from tessera_core.gang_status.pod_counts import MemberPod, PodCounts, count_pods
from tessera_core.gangs.gang import GangOrigin
from tessera_core.gangs.queue_objects import QueueObject
from tessera_core.machines.gang import GangPhase

NOW = "2026-03-01T10:00:00Z"
LATER = "2026-03-01T10:05:00Z"


def a_group(
    least: int = 2,
    phase: str = "",
    *,
    name: str = "g",
    origin: GangOrigin = GangOrigin.VOLCANO,
    status: dict[str, Any] | None = None,
    managed: list[dict[str, Any]] | None = None,
    **spec: Any,
) -> StatusGroup:
    """As the API server would show it."""
    whole = {**(status or {}), **({"phase": phase} if phase else {})}
    written = {
        "metadata": {
            "name": name,
            "namespace": "team",
            "resourceVersion": "7",
            "managedFields": managed or [],
        },
        "spec": {"minMember": least, **spec},
        "status": whole,
    }
    return msgspec.convert(written, StatusGroup).of(origin)


def pods(*words: str) -> PodCounts:
    """Counts of pods, each in a few words: a phase, and `waits`, `bound` or `terminating`, and
    `role=x`."""
    return count_pods(a_pod(f"p{number}", text) for number, text in enumerate(words))


def a_pod(name: str, text: str, **requests: int) -> MemberPod:
    """One pod in such words."""
    parts = text.split()
    phase = parts[0]
    role = next((part.partition("=")[2] for part in parts if part.startswith("role=")), "")
    bound = phase in ("Running", "Succeeded", "Failed") or "bound" in parts
    return MemberPod(
        uid=f"uid-{name}", namespace="team", name=name, phase=phase, node="n1" if bound else "",
        role=role, terminating="terminating" in parts, requests=requests,
    )  # fmt: skip


def waits(reason: str = "0 of 2 members fit now", *, tried: bool = True) -> GangSituation:
    """A gang that waits for room."""
    return GangSituation(phase=GangPhase.QUEUED, reason=reason, tried=tried)


STARTED = GangSituation(phase=GangPhase.STARTED)


def a_queue(name: str, **spec: Any) -> QueueObject:
    """A Volcano Queue; `state` is its status'."""
    state = spec.pop("state", "Open")
    written = {"metadata": {"name": name}, "spec": spec, "status": {"state": state}}
    return msgspec.convert(written, QueueObject)
