"""Mthreads' toolkit: it knows one list of card numbers for the pod."""

from __future__ import annotations

from typing import Final

from tessera_core.dialects.mthreads.result_annotations import GPU_INDEX
from tessera_embedded.node.vendor_toolkits import Toolkit, ToolkitAllocation, ToolkitRequest

_UNIT_MIB: Final = 512
_CORES: Final = 16


def _allocate(asked: ToolkitRequest) -> ToolkitAllocation | None:
    numbers = asked.pod.metadata.annotations.get(GPU_INDEX, "")
    if not numbers:
        return None
    return ToolkitAllocation(
        cards=numbers.split(","), memory_mib=asked.amount("mthreads.com/sgpu-memory") * _UNIT_MIB,
        cores_percent=asked.amount("mthreads.com/sgpu-core") * 100 // _CORES,
    )  # fmt: skip


TOOLKIT: Final = Toolkit(vendor="mthreads", allocate=_allocate)
