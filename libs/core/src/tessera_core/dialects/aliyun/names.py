"""Words of Aliyun's gpushare, and what may be configured."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

from tessera_core.dialect_kit import MIB

DIALECT: Final = "aliyun"
VENDOR: Final = "nvidia"
WHOLE: Final = 100
"""Percent of a card's compute."""
CORE_STEP: Final = 5
"""Percent. ACK takes multiples of it alone."""
UNIT_BYTES: Final = {"GiB": 1024 * MIB, "MiB": MIB}

COUNT_LABEL: Final = "aliyun.com/gpu-count"
"""Of a pod: over how many cards its amounts are divided."""
WHOLE_DEVICE_LABEL: Final = "ack.gpushare.placement"
"""Of a pod: `require-whole-device` has ACK take cards that nobody uses."""
MODEL_LABEL: Final = "aliyun.accelerator/nvidia_name"
"""Of a node: the model of its cards."""
NODE_COUNT: Final = "aliyun.com/gpu-count"
"""Of a node's capacity: how many cards it has. No pod asks for it."""

INDEX: Final = "ALIYUN_COM_GPU_MEM_IDX"
"""Result, and variable: the card's minor number. One card, or -1 for none."""
BY_POD: Final = "ALIYUN_COM_GPU_MEM_POD"
"""Result, and variable: units of memory of the whole pod."""
BY_CONTAINER: Final = "ALIYUN_COM_GPU_MEM_CONTAINER"
"""Variable: units of memory of the container."""
BY_CARD: Final = "ALIYUN_COM_GPU_MEM_DEV"
"""Result, and variable: units of memory that a card has."""
GIVEN: Final = "ALIYUN_COM_GPU_MEM_ASSIGNED"
"""Result: `false` until the device plugin has given the card."""
TIME: Final = "ALIYUN_COM_GPU_MEM_ASSUME_TIME"
"""Result: when the card was chosen, in nanoseconds."""
GIVEN_TIME: Final = "ALIYUN_COM_GPU_MEM_ASSIGN_TIME"

ALLOCATION: Final = "scheduler.framework.gpushare.allocation"
"""Result of ACK: `{"<container>": {"<minor>": units of memory}}`; the number of the container
counts app containers from 0."""
CORE_ALLOCATION: Final = "gpushare.alibabacloud.com/core-percentage"
"""Result of ACK: the same in percent of compute."""
ACK_GIVEN: Final = "scheduler.framework.gpushare.assigned"
ACK_TIME: Final = "scheduler.framework.gpushare.assume-time"

ASSIGNED: Final = frozenset((GIVEN, ACK_GIVEN))
RESULT_KEYS: Final = (
    INDEX, BY_POD, BY_CARD, GIVEN, TIME, GIVEN_TIME, ALLOCATION, CORE_ALLOCATION, ACK_GIVEN,
    ACK_TIME, "gpushare.alibabacloud.com/core-tflops", "gpushare.alibabacloud.com/device-resource",
)  # fmt: skip
"""The last two are ACK's own: compute in TFLOPS, and units of memory by card."""


class AliyunOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Resource names, and what the device plugin was started with."""

    memory: str = "aliyun.com/gpu-mem"
    """Resource: memory, in units of `memory_unit`, of all the pod's cards together."""
    core: str = "aliyun.com/gpu-core.percentage"
    """Resource: percent of a card's compute, of all the pod's cards together."""
    memory_unit: Literal["GiB", "MiB"] = "GiB"
    """What one unit of memory is: the device plugin's --memory-unit and its default."""
    placement: Literal["binpack", "spread"] = "binpack"
    """Which card comes first: the fullest that has room, or the one with the fewest pods. ACK reads
    it from the node label `ack.node.gpu.placement`; the extender knows binpack alone."""
    disable_isolation: bool = False
    """Set CGPU_DISABLE=true in containers, as the device plugin does on nodes that are labelled
    `cgpu.disable.isolation: "true"`. It switches Aliyun's kernel module off, not Tessera's
    limits."""

    def __post_init__(self) -> None:
        """Raise ValueError for names that are empty or mean two things."""
        if not self.memory or not self.core:
            raise ValueError("memory and core need a name each")
        if self.memory == self.core:
            raise ValueError(f"resource {self.memory} is configured twice: rename one of them")

    @property
    def unit_bytes(self) -> int:
        """Bytes of one unit of memory."""
        return UNIT_BYTES[self.memory_unit]
