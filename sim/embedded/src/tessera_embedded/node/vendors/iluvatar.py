"""Iluvatar's gpu-manager: it allocates the cards whose numbers the scheduler wrote on the pod, and
limits containers that have one."""

from __future__ import annotations

from typing import Final

from tessera_core.dialects.iluvatar.result_annotations import ASSIGNED, CARD_NUMBERS
from tessera_embedded.node.vendor_toolkits import Toolkit, ToolkitAllocation, ToolkitRequest

_UNIT_MIB: Final = 256


def _allocate(asked: ToolkitRequest) -> ToolkitAllocation | None:
    numbers = asked.pod.metadata.annotations.get(f"{CARD_NUMBERS}{asked.position}", "")
    if not numbers:
        return None
    cards = numbers.split(",")
    if len(cards) > 1:
        return ToolkitAllocation(cards=cards)
    return ToolkitAllocation(
        cards=cards, memory_mib=asked.amount("iluvatar.ai/vcuda-memory") * _UNIT_MIB,
        cores_percent=asked.amount("iluvatar.ai/vcuda-core"),
    )  # fmt: skip


TOOLKIT: Final = Toolkit(vendor="iluvatar", allocate=_allocate, settles={ASSIGNED: "true"})
