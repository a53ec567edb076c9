"""Settings of the two sides of the device plugin protocol."""

from __future__ import annotations

from msgspec import Struct


class DevicePluginSettings(Struct, frozen=True, kw_only=True):
    """Settings of a plugin."""

    prefix: str = "tessera"
    """How the names of the plugin's own sockets begin; 1 to 16 of a-z, 0-9 and -."""
    call_s: float = 10.0
    """Seconds that a call of the plugin may take: to its own socket, and to kubelet, which dials
    back before it answers and gives that 10 s itself."""
    watch_s: float = 10.0
    """Seconds from kubelet's answer until it must have asked for the list of devices."""
    answer_s: float = 20.0
    """Seconds that the plugin has for an answer before the call fails. Kubelet admits no other pod
    while it waits for Allocate, and waits 30 s for PreStartContainer."""
    poll_s: float = 1.0
    """Seconds between looks at the sockets: a kubelet that starts deletes the plugin's
    without notice."""
    retry_s: float = 5.0
    """Seconds until the next attempt after kubelet refused one."""
    drain_s: float = 2.0
    """Seconds that calls under way have to end when the plugin stops."""
    message_bytes: int = 64 << 20
    """The size of a message at most, either way; 60,000 ids are about 2 MiB, and gRPC's own limit
    is 4 MiB."""


class KubeletSettings(Struct, frozen=True, kw_only=True):
    """Settings of a simulated kubelet."""

    dial_s: float = 10.0
    """Seconds to reach a plugin that registers: kubelet's own number."""
    pre_start_s: float = 30.0
    """Seconds that a plugin has for PreStartContainer: kubelet's own number."""
    message_bytes: int = 4 << 20
    """The size of a plugin's message at most: gRPC's own number, which kubelet leaves as it is."""
