"""What kube-scheduler says of nodes that do not fit: the pod's condition, and its event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from tessera_core.kube.node_affinity import Refusal
from tessera_schema.reasons import Reason

_WORDS: Final = {
    Reason.NODE_NOT_SELECTED: "node(s) didn't match Pod's node affinity/selector",
    Reason.NODE_TAINTED: "node(s) had untolerated taint(s)",
    Reason.NODE_UNSCHEDULABLE: "node(s) were unschedulable",
}


def said(refusals: Mapping[str, Refusal]) -> dict[str, tuple[str, ...]]:
    """Node -> kube-scheduler's words for why its own filters leave it out."""
    return {node: _said(*refusal) for node, refusal in refusals.items()}


def _said(reason: Reason, message: str) -> tuple[str, ...]:
    if reason is not Reason.NODE_INSUFFICIENT_RESOURCE:
        return (_WORDS.get(reason, message),)
    names = [part.partition(":")[0] for part in message.split("; ")]
    return tuple("Too many pods" if name == "pods" else f"Insufficient {name}" for name in names)


def summary(nodes: int, failed: Iterable[Iterable[str]]) -> str:
    """The condition's message: `0/3 nodes are available: 2 Insufficient cpu, 1 ...`."""
    if not nodes:
        return "no nodes available to schedule pods"
    counts = Counter(word for words in failed for word in words if word)
    parts = sorted(f"{count} {word}" for word, count in counts.items())
    listed = f": {', '.join(parts)}" if parts else ""
    return f"0/{nodes} nodes are available{listed}."
