"""What may be configured, and the fixed numbers of Mthreads' sharing."""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec import Struct

from tessera_core.dialect_kit import MIB
from tessera_core.dialect_kit.hami_format import (
    CARD_POLICIES,
    NODE_POLICIES,
    DeviceConfigSection,
    card_words,
)

NAME: Final = "mthreads"
WORD: Final = "Mthreads"
"""How device lists and cards name the vendor."""
CORES: Final = 16
"""Core units of a card; one is 6.25 percent."""
WHOLE_MEMORY: Final = 96
"""Memory units that stand for a whole card in a manifest, whatever the card's size: 48 GiB, an
MTT S4000."""
MEMORY_UNIT: Final = 512 * MIB
SLICES: Final = (2, 4, 8, 16, 32, 64, 96)
"""Memory units that a share may have."""

HAMI_SECTION: Final = DeviceConfigSection(
    name="mthreads",
    keys={
        "resourceCountName": "count",
        "resourceMemoryName": "memory",
        "resourceCoreName": "core",
    },
)
"""HAMi's own file."""


class MthreadsOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Resource names, as HAMi's `mthreads` section sets them, and policies."""

    ORDERS: ClassVar = ("node_scheduler_policy", "gpu_scheduler_policy")
    """Which of them name an order of nodes or cards."""

    count: str = "mthreads.com/vgpu"
    """Resource: cards, as a number (resourceCountName)."""
    memory: str = "mthreads.com/sgpu-memory"
    """Resource: memory in units of 512 MiB (resourceMemoryName)."""
    core: str = "mthreads.com/sgpu-core"
    """Resource: cores in sixteenths of a card (resourceCoreName)."""
    node_scheduler_policy: str = "binpack"
    """binpack or spread, for pods that say nothing (--node-scheduler-policy)."""
    gpu_scheduler_policy: str = "spread"
    """binpack, spread, numa, mutex or a comma chain of them, for pods that say nothing
    (--gpu-scheduler-policy)."""

    def __post_init__(self) -> None:
        """Raise ValueError for names that repeat and policies that do not exist."""
        if len({self.count, self.memory, self.core}) < 3:
            raise ValueError("count, memory and core need three different resource names")
        if self.node_scheduler_policy not in NODE_POLICIES:
            raise ValueError(f"node_scheduler_policy {self.node_scheduler_policy}: no such policy")
        chain = card_words(self.gpu_scheduler_policy)
        if not chain or not set(chain) <= set(CARD_POLICIES):
            raise ValueError(f"gpu_scheduler_policy {self.gpu_scheduler_policy}: no such policy")
