"""What of an ElasticQuota of Koordinator is written back, in the names that the quota has: what is
used, what is asked for, and what the quota may have now.

Only names of cards are written, since pods without cards are not counted. Source: Koordinator
a7a1b76, the controller of its plugin for elastic quotas.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_core.gang_scheduling.view import QueueDemand
from tessera_core.gang_status.enqueue import named_amounts
from tessera_core.gang_status.groups import StatusMeta
from tessera_core.gangs.queue_objects import QueueObjectSpec, QueueReader
from tessera_schema.kube import Quantity

_PREFIX: Final = "quota.scheduling.koordinator.sh/"
RUNTIME: Final = _PREFIX + "runtime"
"""Annotation: JSON, resource name -> what the quota may have as everybody asks now."""
REQUEST: Final = _PREFIX + "request"
"""Annotation: JSON, resource name -> what its pods, and the quotas below it, ask for."""
_TREE: Final = _PREFIX + "tree-id"
_BUILT_IN: Final = frozenset({
    "koordinator-root-quota", "koordinator-system-quota", "koordinator-default-quota",
})  # fmt: skip
"""Of no team: their numbers are of pods that name no quota."""
_decode: Final = msgspec.json.Decoder(dict[str, Quantity]).decode


class WrittenUse(Struct, frozen=True):
    """The status."""

    used: dict[str, Quantity] = {}


class StatusQuota(Struct, frozen=True):
    """An ElasticQuota as it is written. The kind has no status subresource."""

    metadata: StatusMeta = StatusMeta()
    spec: QueueObjectSpec = QueueObjectSpec()
    status: WrittenUse = WrittenUse()

    @property
    def id(self) -> str:
        """Namespace and name."""
        return f"{self.metadata.namespace or 'default'}/{self.metadata.name}"


def quota_patch(quota: StatusQuota, demand: QueueDemand, reader: QueueReader) -> bytes:
    """The merge patch that writes the numbers, refused where the object has changed since it was
    read; empty where nothing differs, and for a quota of no team. What is used and asked for is
    rounded up, what the quota may have down. A quota of a tree of its own has no `runtime`: which
    nodes the tree has is not read."""
    if quota.metadata.name in _BUILT_IN:
        return b""
    names = sorted({**quota.spec.min, **quota.spec.max})
    written = {REQUEST: reader.card_quantities(demand.requested, names, ceil)}
    if not quota.metadata.labels.get(_TREE):
        written[RUNTIME] = reader.card_quantities(demand.entitled, names, floor)
    notes = quota.metadata.annotations
    annotations = {
        key: _json(amounts) for key, amounts in written.items()
        if _amounts(notes.get(key, "")) != amounts
    }  # fmt: skip
    used = _changes(quota.status.used, reader.card_quantities(demand.used, names, ceil))
    if not annotations and not used:
        return b""
    meta: dict[str, Any] = {"resourceVersion": quota.metadata.resource_version}
    patch: dict[str, Any] = {"metadata": meta}
    if annotations:
        meta["annotations"] = annotations
    if used:
        patch["status"] = {"used": used}
    return msgspec.json.encode(patch)


def _changes(before: Mapping[str, Quantity], after: Mapping[str, int]) -> dict[str, str | None]:
    """Names whose amounts differ; None for one that is not counted."""
    known = named_amounts(before)
    changed: dict[str, str | None] = {
        name: str(amount) for name, amount in after.items() if known.get(name) != amount
    }
    return {**changed, **{name: None for name in before if name not in after}}


def _amounts(text: str) -> Mapping[str, int] | None:
    """The amounts of an annotation; None for one that cannot be read, or is not there."""
    try:
        return named_amounts(_decode(text))
    except msgspec.DecodeError:
        return None


def _json(amounts: Mapping[str, int]) -> str:
    return msgspec.json.encode({name: str(amounts[name]) for name in sorted(amounts)}).decode()
