"""What changes a status into the one that it should be, as a merge patch (RFC 7386)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tessera_core.gang_status.groups import StatusGroup


def status_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that differ; None for one that is not there any more."""
    changed: dict[str, Any] = {
        key: value for key, value in after.items() if before.get(key) != value
    }
    return {**changed, **{key: None for key in before if key not in after}}


def status_patch(group: StatusGroup, status: Mapping[str, Any]) -> bytes:
    """The merge patch that writes the status, refused where the object has changed since it was
    read; empty where nothing differs."""
    changed = status_changes(group.status, status)
    if not changed:
        return b""
    meta = {"resourceVersion": group.metadata.resource_version}
    return msgspec.json.encode({"metadata": meta, "status": changed})


def only_words(group: StatusGroup, status: Mapping[str, Any]) -> bool:
    """Whether nothing but words of conditions differ: types and statuses are the same."""
    changed = status_changes(group.status, status)
    if set(changed) != {"conditions"}:
        return False
    return _shape(group.conditions) == _shape(changed["conditions"])


def _shape(conditions: object) -> list[tuple[object, object, object]]:
    items = conditions if isinstance(conditions, list | tuple) else ()
    return [(each.get("type"), each.get("status"), each.get("reason")) for each in items]
