"""Koordinator's words: resources, annotations, labels, and what users may configure.

Amounts of a request are named by `ResourceKind`; on the wire of results the names are constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal

from msgspec import Struct

VENDOR: Final = "nvidia"
DIALECT: Final = "koordinator"


class ResourceKind(StrEnum):
    """What one resource name of a container says."""

    WHOLE = "whole cards"
    GPU = "gpu"
    SHARED = "gpu.shared"
    CORE = "gpu-core"
    MEMORY = "gpu-memory"
    RATIO = "gpu-memory-ratio"


class KoordinatorOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """What users may configure of the Koordinator dialect."""

    resource_gpu: str = "koordinator.sh/gpu"
    """Percent of cores and memory alike, 100 = one card (upstream's wrapper resource)."""
    resource_shared: str = "koordinator.sh/gpu.shared"
    """Number of cards over which the request is spread evenly."""
    resource_core: str = "koordinator.sh/gpu-core"
    """Cores in percent, all cards of the request together."""
    resource_memory: str = "koordinator.sh/gpu-memory"
    """Memory in bytes, all cards of the request together."""
    resource_ratio: str = "koordinator.sh/gpu-memory-ratio"
    """Memory in percent of a card, all cards of the request together."""
    resource_whole: str = "nvidia.com/gpu"
    """Whole cards. Read here only in pods that are Koordinator's by another sign."""
    scheduler_name: str = "koord-scheduler"
    """A pod with this schedulerName speaks Koordinator, also where it names whole cards only."""
    scoring_strategy: Literal["LeastAllocated", "MostAllocated"] = "LeastAllocated"
    """Which nodes and cards come first: DeviceShareArgs' scoringStrategy.type and its default."""
    isolation_library: str = "/usr/local/vgpu/libvgpu.so"
    """Where a container finds the isolation library: koordlet's
    --hami-core-library-directory-path, which despite its name is a file, and its default."""
    device_plugin_adaption: bool = False
    """Write bind-timestamp and gpu-minors too, which patched device plugins read: the scheduler's
    feature gate DevicePluginAdaption and its default."""
    best_effort_priorities: tuple[Literal["koord-mid", "koord-batch", "koord-free"], ...] = (
        "koord-batch", "koord-free",
    )  # fmt: skip
    """Koordinator's priority classes of which pods are best-effort where they name no class of
    Tessera's: these are promised nothing there either; koord-mid is."""

    def __post_init__(self) -> None:
        """Raise ValueError for names that are empty or mean two things, and a relative path."""
        seen: set[str] = set()
        for kind, name in self.names.items():
            if not name:
                raise ValueError(f"the resource name of {kind.value} is empty: name it")
            spellings = {name, DEPRECATED.get(kind, name)}
            if spellings & seen:
                raise ValueError(f"resource {name} is configured twice: rename one of them")
            seen |= spellings
        if not self.isolation_library.startswith("/"):
            raise ValueError(f"isolation_library: {self.isolation_library!r} must begin with /")

    @property
    def names(self) -> Mapping[ResourceKind, str]:
        """Resource name of each kind."""
        return {
            ResourceKind.WHOLE: self.resource_whole,
            ResourceKind.GPU: self.resource_gpu,
            ResourceKind.SHARED: self.resource_shared,
            ResourceKind.CORE: self.resource_core,
            ResourceKind.MEMORY: self.resource_memory,
            ResourceKind.RATIO: self.resource_ratio,
        }


DEPRECATED: Final[Mapping[ResourceKind, str]] = {
    ResourceKind.GPU: "kubernetes.io/gpu",
    ResourceKind.CORE: "kubernetes.io/gpu-core",
    ResourceKind.MEMORY: "kubernetes.io/gpu-memory",
    ResourceKind.RATIO: "kubernetes.io/gpu-memory-ratio",
}
"""Names of old releases, rewritten wherever they are read."""
FOREIGN: Final = frozenset({
    "amd.com/gpu", "dcu.com/gpu",
    "huawei.com/npu-core", "huawei.com/npu-cpu", "huawei.com/npu-dvpp",
})  # fmt: skip
"""Cards of other vendors, which Koordinator asks for together with its own names."""
UNPLACED: Final = frozenset({
    "koordinator.sh/rdma", "koordinator.sh/fpga", "kubernetes.io/rdma", "kubernetes.io/fpga",
})  # fmt: skip
"""Devices that Koordinator gives in addition to cards and that are not placed here."""

WIRE_CORE: Final = "koordinator.sh/gpu-core"
WIRE_MEMORY: Final = "koordinator.sh/gpu-memory"
WIRE_RATIO: Final = "koordinator.sh/gpu-memory-ratio"

ALLOCATED: Final = "scheduling.koordinator.sh/device-allocated"
BIND_TIME: Final = "scheduling.koordinator.sh/bind-timestamp"
GPU_MINORS: Final = "scheduling.koordinator.sh/gpu-minors"
RESULT_KEYS: Final = (ALLOCATED, BIND_TIME, GPU_MINORS)
HINT: Final = "scheduling.koordinator.sh/device-allocate-hint"
JOINT: Final = "scheduling.koordinator.sh/device-joint-allocate"
PARTITION_SPEC: Final = "scheduling.koordinator.sh/gpu-partition-spec"
"""What a pod says about where its cards lie."""
CHOICES: Final = frozenset({HINT, JOINT, PARTITION_SPEC})
PARTITION_TABLE: Final = "scheduling.koordinator.sh/gpu-partitions"
"""On a Device: which cards are joined."""

ISOLATION_LABEL: Final = "koordinator.sh/gpu-isolation-provider"
ISOLATION_HAMI: Final = "hami-core"
"""The documentation's spelling; the code's is HAMi-core. Case is ignored."""
CORE_NODE_LABEL: Final = "hami.io/vgpu-node"
"""Written on pods with HAMi-core: the node that they are on."""
VENDOR_LABEL: Final = "node.koordinator.sh/gpu-vendor"
PARTITION_LABEL: Final = "node.koordinator.sh/gpu-partition-policy"
MODEL_LABELS: Final = ("node.koordinator.sh/gpu-model", "kubernetes.io/gpu-model")
"""Today's and the deprecated label."""


def isolated(labels: Mapping[str, str]) -> bool:
    """True when a pod's labels ask for HAMi-core, in either spelling."""
    return labels.get(ISOLATION_LABEL, "").lower() == ISOLATION_HAMI
