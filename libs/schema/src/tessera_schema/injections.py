"""What a container that holds shares is given when it is created."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Mount(Struct, frozen=True, kw_only=True):
    """A bind mount."""

    destination: str
    source: str
    read_only: bool = True


class Injection(Struct, frozen=True, kw_only=True):
    """What the agent gives a container when it is created."""

    env: Mapping[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    devices: tuple[str, ...] = ()
    """Device nodes, by path."""
    annotations: Mapping[str, str] = {}
