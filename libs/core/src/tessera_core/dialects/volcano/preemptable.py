"""Pods of which Volcano may take their resources, by their own word."""

from __future__ import annotations

from typing import Final

from tessera_core.dialect_kit import Pod

KEY: Final = "volcano.sh/preemptable"
"""Annotation, or else label."""
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
"""As Volcano reads it: all else is false."""


def preemptable(pod: Pod) -> str:
    """What of the pod says that it is; empty = nothing does. Volcano takes silence for true, which
    is not read so here: no cores are granted only to a pod that says so."""
    meta = pod.metadata
    said = meta.annotations.get(KEY, meta.labels.get(KEY, ""))
    return f"{KEY}: {said}" if said in _TRUE else ""
