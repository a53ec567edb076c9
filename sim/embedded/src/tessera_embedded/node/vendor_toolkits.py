"""What vendors' own programs on a node do for a container: which cards it sees.

A toolkit is one module in `vendors/` that offers `TOOLKIT`. It plays the vendor's container toolkit
or device plugin by what is known of it: what it reads, and what it writes when it has allocated.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from tessera_embedded.node import vendors
from tessera_embedded.node.pods import NodePod


class ToolkitRequest(Struct, frozen=True, kw_only=True):
    """A container that is about to start."""

    pod: NodePod
    container: str
    position: int
    """In `spec.containers`; -1 for init containers."""
    env: Mapping[str, str]
    """As the process will have it, NRI's adjustments included."""
    limits: Mapping[str, str] = {}
    """The container's resource limits: kubelet asks a device plugin for so many of each."""

    def amount(self, resource: str) -> int:
        """Whole units of a resource; 0 = none."""
        text = self.limits.get(resource, "0")
        return int(text) if text.isdecimal() else 0


class ToolkitAllocation(Struct, frozen=True, kw_only=True):
    """What a container is given."""

    cards: Sequence[str]
    """By id or index."""
    memory_mib: int = 0
    """Of each card; 0 = the vendor's program does not limit it."""
    cores_percent: int = 0
    """Likewise."""


class Toolkit(Struct, frozen=True, kw_only=True):
    """One vendor's."""

    vendor: str
    allocate: Callable[[ToolkitRequest], ToolkitAllocation | None]
    """None = neither card nor driver."""
    settles: Mapping[str, str] = {}
    """Annotations that it writes on a pod once it has allocated."""


def load_toolkits() -> dict[str, Toolkit]:
    """All of them, by vendor."""
    names = sorted(found.name for found in pkgutil.iter_modules(vendors.__path__))
    modules = [importlib.import_module(f"{vendors.__name__}.{name}") for name in names]
    return {m.TOOLKIT.vendor: m.TOOLKIT for m in modules}
