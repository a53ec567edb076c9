"""What a node is made of, as its description file says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct


class BadDescription(ValueError):
    """The file makes no sense; the message names the field."""


class NodeDescription(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node. Paths that are not absolute are the caller's to make so."""

    name: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    """On the Node from the start: what vendors' own programs publish there."""
    capacity: Mapping[str, str] = msgspec.field(
        default_factory=lambda: {"cpu": "64", "memory": "256Gi", "pods": "110"}
    )
    machines: Mapping[str, str] = {}
    """Vendor -> words that describe its simulated cards (`libs/hook/sim/README.md`)."""
    programs: Mapping[str, tuple[str, ...]] = {}
    """Image (a trailing `*` for its beginning) -> program and arguments; `*` is any image."""
    environment: Mapping[str, str] = {}
    """What every image sets."""
    driver_folder: str = ""
    """Where the simulated driver's libraries lie."""
    limiter: str = ""
    """The library that plays the limiters of vendors' own programs; empty = they limit nothing."""
    host_root: str = ""
    """Where the node's own `/usr/local/tessera` lies; empty = `/`."""
    required_plugins: tuple[str, ...] = ()
    """NRI plugins without which no container is created."""
    tolerate_annotation: str = "tolerate-missing-plugins.noderesource.dev"
    heartbeat_s: float = 10.0
    """Seconds between renewals of the node's Lease."""
    backoff_first_s: float = 1.0
    """Seconds until a container is tried again; doubled each time (kubelet begins with 10)."""
    backoff_most_s: float = 60.0


def read_description(path: Path) -> NodeDescription:
    """A node's description, in YAML or JSON. Raises BadDescription."""
    try:
        return msgspec.yaml.decode(path.read_bytes(), type=NodeDescription)
    except (msgspec.DecodeError, OSError) as e:
        raise BadDescription(f"{path}: {e}") from e
