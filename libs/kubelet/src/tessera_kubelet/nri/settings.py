"""Settings of the two sides of NRI."""

from __future__ import annotations

from msgspec import Struct


class NriPluginSettings(Struct, frozen=True, kw_only=True):
    """Settings of a plugin."""

    name: str = "tessera"
    """How the runtime lists the plugin, and requires it (`required_plugins`)."""
    index: str = "10"
    """Two digits: plugins are asked in this order, and each sees what the ones before did."""
    register_s: float = 10.0
    """Seconds from the connection until the runtime has sent its whole state; a runtime may hold
    the connection back for a while when several plugins come at once."""
    write_s: float = 2.0
    """Seconds that a runtime with 16 MiB of unread answers may take to read on; a live one has
    none unread."""
    retry_first_s: float = 0.05
    """Seconds until the first attempt after the runtime went away: it may be back at once, and
    the plugin does not see containers that it creates meanwhile."""
    retry_longest_s: float = 1.0
    """Seconds between attempts at most. A missing socket costs microseconds to find missing."""


class RuntimeSettings(Struct, frozen=True, kw_only=True):
    """Settings of a simulated runtime."""

    name: str = "tessera-embedded"
    """How the runtime calls itself."""
    version: str = "1"
    register_s: float = 5.0
    """Seconds from the connection until the plugin is registered: NRI's own number."""
    request_s: float = 2.0
    """Seconds that a plugin has for an answer before it is cut off: NRI's own number."""
    sync_bytes: int = 3 << 20
    """The size of a Synchronize message at most; what does not fit goes into the next one."""
    required_plugins: tuple[str, ...] = ()
    """Containers are not created without these, by name ("tessera") or index and name
    ("10-tessera")."""
    tolerate_missing_annotation: str = ""
    """Pods that carry this annotation with the value "true" do not need the required plugins.
    Followed by /container.NAME it speaks for one container, by /pod or nothing for all."""
