"""Volcano's annotation and label keys, word for word."""

from __future__ import annotations

from typing import Final

DIALECT: Final = "volcano"
VENDOR: Final = "nvidia"

GPU_INDEX: Final = "volcano.sh/gpu-index"
PREDICATE_TIME: Final = "volcano.sh/predicate-time"
GPU_ASSIGNED: Final = "volcano.sh/gpu-assigned"
UNHEALTHY_IDS: Final = "volcano.sh/gpu-unhealthy-ids"

VGPU_REGISTER: Final = "volcano.sh/node-vgpu-register"
VGPU_NODE: Final = "volcano.sh/vgpu-node"
VGPU_TIME: Final = "volcano.sh/vgpu-time"
VGPU_IDS: Final = "volcano.sh/vgpu-ids-new"
VGPU_TO_ALLOCATE: Final = "volcano.sh/devices-to-allocate"
BIND_PHASE: Final = "volcano.sh/bind-phase"
BIND_TIME: Final = "volcano.sh/bind-time"

VGPU_MODE: Final = "volcano.sh/vgpu-mode"
VGPU_USE_UUID: Final = "volcano.sh/vgpu-use-gpuuuid"
VGPU_NOUSE_UUID: Final = "volcano.sh/vgpu-nouse-gpuuuid"
VGPU_PODGROUP_POLICY: Final = "volcano.sh/vgpu-podgroup-policy"
USE_TYPE: Final = "nvidia.com/use-gputype"
NOUSE_TYPE: Final = "nvidia.com/nouse-gputype"
CHOICES: Final = frozenset({
    VGPU_MODE, VGPU_USE_UUID, VGPU_NOUSE_UUID, VGPU_PODGROUP_POLICY, USE_TYPE, NOUSE_TYPE,
})  # fmt: skip

RESULT_KEYS: Final = (
    GPU_INDEX,
    PREDICATE_TIME,
    GPU_ASSIGNED,
    VGPU_NODE,
    VGPU_TIME,
    VGPU_IDS,
    VGPU_TO_ALLOCATE,
    BIND_PHASE,
    BIND_TIME,
)

HAMI_CORE: Final = "hami-core"
MIG: Final = "mig"
MPS: Final = "mps"
