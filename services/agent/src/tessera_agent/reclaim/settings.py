"""What can be set of reclaim."""

from __future__ import annotations

from msgspec import Struct

from tessera_runtime.kube.settings import Seconds


class ReclaimSettings(Struct, frozen=True, kw_only=True):
    """Memory of best-effort containers, taken back for owners (docs/classes.md)."""

    enabled: bool = False
    """Whether best-effort containers are ended where an owner waits for memory that it was
    granted. The agent needs the capability KILL for those that do not run as root."""
    tick_s: Seconds = 0.1
    """Seconds between looks: an owner waits 5 at most."""
    grace_s: Seconds = 1.0
    """Seconds from the request to end to the end by force."""
    closed_s: Seconds = 3600.0
    """Seconds for which no best-effort container begins on a card where an owner was short of
    memory."""
