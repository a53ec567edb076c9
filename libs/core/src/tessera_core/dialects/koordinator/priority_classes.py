"""Koordinator's priority classes, as far as they say that a pod is promised nothing.

A label names the class, or the pod's priority class does, or its priority lies in the class's
range. Source: Koordinator's `apis/extension/priority.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tessera_core.dialect_kit import Pod
from tessera_core.dialects.koordinator.names import KoordinatorOptions

LABEL: Final = "koordinator.sh/priority-class"
_RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "koord-prod": (9000, 9999),
    "koord-mid": (7000, 7999),
    "koord-batch": (5000, 5999),
    "koord-free": (3000, 3999),
}


def priority_class(options: KoordinatorOptions, pod: Pod) -> str:
    """What of the pod names a class of which pods are best-effort; empty = nothing does."""
    label = pod.metadata.labels.get(LABEL, "")
    named = label or pod.spec.priority_class_name
    if named not in _RANGES and pod.spec.priority is not None:
        within = (n for n, (low, high) in _RANGES.items() if low <= pod.spec.priority <= high)
        named = next(within, "")
    if named not in options.best_effort_priorities:
        return ""
    return f"label {LABEL}: {named}" if label == named else f"priority class {named}"
