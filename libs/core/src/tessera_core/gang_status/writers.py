"""Who else writes an object's status: two schedulers that write one object would undo each other's
work for ever."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tessera_core.gang_status.groups import StatusGroup, StatusMeta

RECENT_S: Final = 600.0
"""Seconds for which a write of somebody else keeps Tessera from writing."""
_STATUS: Final = "f:status"
_PHASE: Final = "f:phase"


def other_writer(
    group: StatusGroup, own: str, now: float, seconds: Callable[[str], float | None]
) -> str:
    """The field manager that wrote the group's status within `RECENT_S`; empty for none. `own` is
    Tessera's, `seconds` reads RFC 3339. An empty status, or a phase that is still Pending, is what
    those write that create the object."""
    fresh = group.phase in ("", "Pending")
    return wrote_lately(group.metadata, own, now, seconds, but=_PHASE if fresh else "")


def wrote_lately(
    meta: StatusMeta,
    own: str,
    now: float,
    seconds: Callable[[str], float | None],
    only: str = "",
    but: str = "",
) -> str:
    """Who else wrote fields of the status lately: `only` that one, or any `but` that one; empty
    for nobody."""
    for entry in meta.managed_fields:
        status = entry.fields_v1.get(_STATUS)
        fields = status.keys() - {".", but} if isinstance(status, dict) else set()
        if entry.manager == own or not (fields & {only} if only else fields):
            continue
        at = seconds(entry.time)
        if at is not None and now - at < RECENT_S:
            return entry.manager or "unnamed"
    return ""
