"""The patch of an owner's manifest, and the command that applies it."""

from __future__ import annotations

import shlex
from typing import Any, Final

import msgspec

from tessera_core.utilization.dialect_amounts import AmountChange
from tessera_core.utilization.history import POD_KIND

_TEMPLATES: Final = {
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Kind -> where its pods' template is. Templates of Jobs cannot be changed, and those of other
kinds are not known here."""
FIXED: Final = frozenset({POD_KIND, "Job"})
"""Kinds whose manifest is changed for the next run alone."""


def pod_patch(change: AmountChange) -> dict[str, Any]:
    """The change as a part of a pod, or of a pod's template.

    Limits and requests: of these resources Kubernetes takes no two different amounts, and a
    template may have both.
    """
    if change.annotation:
        return {"metadata": {"annotations": {change.name: change.after}}}
    amounts = {change.name: change.after}
    container = {"name": change.container, "resources": {"limits": amounts, "requests": amounts}}
    return {"spec": {"initContainers" if change.init else "containers": [container]}}


def owner_patch(kind: str, change: AmountChange) -> dict[str, Any] | None:
    """A strategic merge patch of the owner; None where its template cannot be changed."""
    path = _TEMPLATES.get(kind)
    if path is None:
        return None
    patch: dict[str, Any] = pod_patch(change)
    for key in reversed(path):
        patch = {key: patch}
    return patch


def kubectl_patch(namespace: str, kind: str, name: str, change: AmountChange) -> str:
    """The command, as a shell takes it; empty where there is no patch."""
    patch = owner_patch(kind, change)
    if patch is None:
        return ""
    text = msgspec.json.encode(patch).decode()
    of = f"{kind.lower()}/{name}"
    return f"kubectl -n {shlex.quote(namespace)} patch {shlex.quote(of)} -p {shlex.quote(text)}"
