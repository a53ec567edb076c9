"""Pods that KAI may preempt."""

from __future__ import annotations

from typing import Final

from tessera_core.dialect_kit import Pod

LABEL: Final = "kai.scheduler/preemptibility"
_PREEMPTIBLE: Final = "preemptible"
_FROM: Final = 100
"""KAI preempts no pod from this priority on: that of its class `build`."""


def preemptible(pod: Pod) -> str:
    """What of the pod says that it is; empty = nothing does. A pod whose priority is not resolved
    says nothing."""
    said = pod.metadata.labels.get(LABEL, "")
    if said:
        return f"label {LABEL}: {said}" if said == _PREEMPTIBLE else ""
    priority = pod.spec.priority
    if not pod.spec.priority_class_name or priority is None or priority >= _FROM:
        return ""
    return f"priority {priority}"
