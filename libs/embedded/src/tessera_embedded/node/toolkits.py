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


class Asked(Struct, frozen=True, kw_only=True):
    """A container that is about to start."""

    pod: NodePod
    container: str
    position: int
    """In `spec.containers`; -1 for init containers."""
    env: Mapping[str, str]
    """As the process will have it, NRI's adjustments included."""


class Toolkit(Struct, frozen=True, kw_only=True):
    """One vendor's."""

    vendor: str
    cards: Callable[[Asked], Sequence[str]]
    """The cards that the container sees, by id or index; none = no driver either."""
    settles: Mapping[str, str] = {}
    """Annotations that it writes on a pod once it has allocated."""


def load_toolkits() -> dict[str, Toolkit]:
    """All of them, by vendor."""
    names = sorted(found.name for found in pkgutil.iter_modules(vendors.__path__))
    modules = [importlib.import_module(f"{vendors.__name__}.{name}") for name in names]
    return {m.TOOLKIT.vendor: m.TOOLKIT for m in modules}
