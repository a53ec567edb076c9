"""Koordinator's Reservation: an object that holds cards of a node as a pod would, for pods to come.

Its scheduler writes on it what it writes on pods, and its status names the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

RESERVATION: Final = ("scheduling.koordinator.sh", "Reservation")
_ENDED: Final = ("Succeeded", "Failed", "Expired")


class ReservedCards(Struct, frozen=True):
    """A reservation as the ledger needs it."""

    pod: Mapping[str, Any] | None = None
    """The manifest of a running pod that holds the same; None where it holds nothing now."""
    gap: str = ""
    """What of it is not planned, or counted twice; empty for nothing."""


def reserved(raw: Mapping[str, Any]) -> ReservedCards:
    """What a Reservation holds."""
    meta, spec, status = _part(raw, "metadata"), _part(raw, "spec"), _part(raw, "status")
    if status.get("phase") in _ENDED:
        return ReservedCards()
    if not status.get("nodeName"):
        return ReservedCards(gap="it waits for a place itself: what it will hold is not planned")
    template = _part(spec, "template")
    inner = _part(template, "metadata")
    pod = {
        "metadata": {
            "name": f"reservation:{meta['name']}" if meta.get("name") else "",
            "namespace": inner.get("namespace"),
            "uid": meta.get("uid"),
            "labels": {**_part(inner, "labels"), **_part(meta, "labels")},
            "annotations": {**_part(inner, "annotations"), **_part(meta, "annotations")},
        },
        "spec": {**_part(template, "spec"), "nodeName": status["nodeName"]},
        "status": {"phase": "Running"},
    }
    used = "pods use it already: what they hold of it is counted twice"
    return ReservedCards(pod, used if status.get("currentOwners") else "")


def _part(raw: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = raw.get(name)
    return found if isinstance(found, dict) else {}
