"""What may be configured. The names in brackets are those of HAMi's device-config.yaml."""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec
from msgspec import Struct

from tessera_core.dialect_kit import INT32_MAX, CardSettings
from tessera_core.dialect_kit.hami_format import (
    CARD_POLICIES,
    NODE_POLICIES,
    DeviceConfigSection,
    card_words,
    log_level_of,
)

NAME: Final = "hami"
VENDOR: Final = "nvidia"
WORD: Final = "NVIDIA"
"""How device lists name the vendor."""
CORE_POLICIES: Final = ("", "default", "force", "disable")
HAMI_SECTION: Final = DeviceConfigSection(
    name="nvidia",
    keys={
        "resourceCountName": "count",
        "resourceMemoryName": "memory",
        "resourceMemoryPercentageName": "memory_percentage",
        "resourceCoreName": "core",
        "resourcePriorityName": "priority",
        "overwriteEnv": "overwrite_env",
        "defaultMemory": "default_memory",
        "defaultCores": "default_cores",
        "defaultGPUNum": "default_gpu_num",
        "memoryFactor": "memory_factor",
        "libCudaLogLevel": "lib_cuda_log_level",
        "disableCoreLimit": "disable_core_limit",
        "gpuCorePolicy": "gpu_core_policy",
        "runtimeClassName": "runtime_class_name",
        "deviceMemoryScaling": "device_memory_scaling",
        "deviceCoreScaling": "device_core_scaling",
        "deviceSplitCount": "device_split_count",
        "preConfiguredDeviceMemory": "pre_configured_device_memory",
    },
    text=frozenset({"libCudaLogLevel"}),
    elsewhere={
        "enableNumaTopology": "the agent's setting TESSERA_PLUGIN_NUMA shows kubelet NUMA nodes",
        "migProfileAllowlist": "cards in MIG mode take no pods yet",
        "knownMigGeometries": "cards in MIG mode take no pods yet",
    },
)
"""HAMi's own file."""


class HamiOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """Resource names, defaults and policies, as HAMi's `nvidia` section sets them."""

    ORDERS: ClassVar = ("node_scheduler_policy", "gpu_scheduler_policy")
    """Which of them name an order of nodes or cards."""

    count: str = "nvidia.com/gpu"
    """Resource: cards, as a number (resourceCountName)."""
    memory: str = "nvidia.com/gpumem"
    """Resource: memory of each card, in MiB times `memory_factor` (resourceMemoryName)."""
    memory_percentage: str = "nvidia.com/gpumem-percentage"
    """Resource: memory of each card, in percent of the card (resourceMemoryPercentageName)."""
    core: str = "nvidia.com/gpucores"
    """Resource: cores of each card, in percent of the card (resourceCoreName)."""
    priority: str = "nvidia.com/priority"
    """Resource: priority of the container's tasks, 0 before 1 (resourcePriorityName)."""
    memory_factor: int = 1
    """MiB in one unit of memory (memoryFactor)."""
    default_memory: int = 0
    """MiB for a container that gives neither memory nor percentage; 0 = the whole card
    (defaultMemory)."""
    default_cores: int = 0
    """Percent for a container that gives memory but no cores (defaultCores)."""
    default_gpu_num: int = 1
    """Cards for a container that gives memory or cores but no number; 0 = it is refused
    (defaultGPUNum)."""
    gpu_core_policy: str = ""
    """GPU_CORE_UTILIZATION_POLICY of containers that set none: default, force or disable
    (gpuCorePolicy)."""
    disable_core_limit: bool = False
    """Cores are promised but not limited: the same variable says `disable` (disableCoreLimit)."""
    runtime_class_name: str = ""
    """runtimeClassName of pods that set none; empty = left alone (runtimeClassName)."""
    overwrite_env: bool = False
    """Set NVIDIA_VISIBLE_DEVICES=none in containers that ask for no card, of pods that ask for
    nothing as well (overwriteEnv)."""
    lib_cuda_log_level: str = ""
    """LIBCUDA_LOG_LEVEL of containers that set none, by which the hook logs to standard error: 0
    errors, 1 warnings, 3 everything; empty = left alone (libCudaLogLevel)."""
    device_split_count: int = 0
    """Containers that may share a card; 0 = as the agent is set (deviceSplitCount)."""
    device_core_scaling: float = 1
    """Cores of a card that can be granted, over those that it has (deviceCoreScaling)."""
    pre_configured_device_memory: int = 0
    """MiB of a card whose driver does not say how much it has (preConfiguredDeviceMemory)."""
    device_memory_scaling: float = 1
    """Registered over real memory; above 1 sets CUDA_OVERSUBSCRIBE (deviceMemoryScaling)."""
    hook_path: str = "/usr/local"
    """Directory in the container that has `vgpu`, for the path of the usage file (HOOK_PATH)."""
    node_scheduler_policy: str = "binpack"
    """binpack or spread, for pods that say nothing (--node-scheduler-policy)."""
    gpu_scheduler_policy: str = "spread"
    """binpack, spread, numa, mutex, topology-aware or a comma chain of them, for pods that say
    nothing (--gpu-scheduler-policy)."""

    def __post_init__(self) -> None:
        """Raise ValueError for what contradicts itself or is out of bounds."""
        if len(set(self.names)) < len(self.names):
            raise ValueError("the five resources need five different names")
        for name, low, high in (
            ("memory_factor", 1, INT32_MAX),
            ("default_memory", 0, INT32_MAX),
            ("default_cores", 0, 100),
            ("default_gpu_num", 0, INT32_MAX),
        ):
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} {getattr(self, name)} is not between {low} and {high}")
        try:
            _ = self.card_settings
        except msgspec.ValidationError as e:
            raise ValueError(str(e)) from e
        if self.gpu_core_policy not in CORE_POLICIES:
            raise ValueError(f"gpu_core_policy {self.gpu_core_policy}: no such policy")
        if self.node_scheduler_policy not in NODE_POLICIES:
            raise ValueError(f"node_scheduler_policy {self.node_scheduler_policy}: no such policy")
        chain = card_words(self.gpu_scheduler_policy)
        if not chain or not set(chain) <= set(CARD_POLICIES):
            raise ValueError(f"gpu_scheduler_policy {self.gpu_scheduler_policy}: no such policy")

    @property
    def card_settings(self) -> CardSettings:
        """What they say of cards. Raises msgspec.ValidationError."""
        level = self.lib_cuda_log_level
        said = {
            "slots": self.device_split_count,
            "memory_scaling": self.device_memory_scaling,
            "core_scaling": self.device_core_scaling,
            "log_level": log_level_of(int(level)) if level.isdecimal() else 0,
            "unified_memory_mib": self.pre_configured_device_memory,
        }
        return msgspec.convert({name: value for name, value in said.items() if value}, CardSettings)

    @property
    def names(self) -> tuple[str, str, str, str, str]:
        """Every resource name."""
        return self.count, self.memory, self.memory_percentage, self.core, self.priority
