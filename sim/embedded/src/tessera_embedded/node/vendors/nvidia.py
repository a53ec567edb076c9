"""NVIDIA's container toolkit: one variable names the cards."""

from __future__ import annotations

from typing import Final

from tessera_core.vendors.nvidia import NONE_VISIBLE, VISIBLE
from tessera_embedded.node.vendor_toolkits import Toolkit, ToolkitAllocation, ToolkitRequest

_NOTHING: Final = ("", NONE_VISIBLE, "none")


def _allocate(asked: ToolkitRequest) -> ToolkitAllocation | None:
    value = asked.env.get(VISIBLE, "")
    return None if value in _NOTHING else ToolkitAllocation(cards=value.split(","))


TOOLKIT: Final = Toolkit(vendor="nvidia", allocate=_allocate)
