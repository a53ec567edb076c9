"""What users may configure, and the arguments of `volcano-scheduler.conf` read as such."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta, Struct

from tessera_core.dialect_kit import NodeOrder
from tessera_core.dialects.volcano.scheduler_config import read

Factor = Annotated[int, Meta(ge=1, le=65536)]


class VolcanoOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Volcano's GPU sharing. The defaults are Volcano's, with everything switched on."""

    ORDERS: ClassVar = ("node_order", "schedule_policy", "SchedulePolicy")
    """Which of them name an order of nodes or cards."""

    gpu_sharing: bool = True
    """Serve gpu-memory. Source: `GPUSharingEnable`."""
    gpu_number: bool = True
    """Serve gpu-number. Source: `GPUNumberEnable`; unlike Volcano, both may be on."""
    vgpu: bool = True
    """Serve vgpu-*. Source: `VGPUEnable`."""

    gpu_memory_resource: str = "volcano.sh/gpu-memory"
    """Resource name: blocks of `gpu_memory_factor` MiB on one card."""
    gpu_number_resource: str = "volcano.sh/gpu-number"
    """Resource name: whole idle cards."""
    vgpu_number_resource: str = "volcano.sh/vgpu-number"
    """Resource name: cards per container. Source: `resourceCountName`."""
    vgpu_memory_resource: str = "volcano.sh/vgpu-memory"
    """Resource name: blocks of `vgpu_memory_factor` MiB per card. Source: `resourceMemoryName`."""
    vgpu_cores_resource: str = "volcano.sh/vgpu-cores"
    """Resource name: percent of the cores per card. Source: `resourceCoreName`."""
    vgpu_memory_percentage_resource: str = "volcano.sh/vgpu-memory-percentage"
    """Resource name: percent of the memory per card; empty = not offered, as in Volcano's
    built-in configuration. Source: `resourceMemoryPercentageName`."""

    gpu_memory_factor: Factor = 1
    """MiB in one unit of gpu-memory. Source: the device plugin's `--gpu-memory-factor`."""
    vgpu_memory_factor: Factor = 1
    """MiB in one unit of vgpu-memory and of the register's memory. Source: `gpuMemoryFactor`."""
    vgpu_default_memory: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)] = 0
    """Units of vgpu-memory where none and no percentage is asked; 0 = the whole card.
    Source: `defaultMemory`."""
    vgpu_default_cores: Annotated[int, Meta(ge=0, le=100)] = 0
    """Percent where no vgpu-cores are asked. Source: `defaultCores`."""
    vgpu_default_number: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Cards where only vgpu-memory is asked. Source: `defaultGPUNum`."""

    schedule_policy: Literal["", "binpack", "spread"] = ""
    """Order of a node's cards for vgpu: most used memory first, fewest sharers first, or (empty)
    highest index first. Source: `SchedulePolicy`."""
    schedule_weight: Annotated[int, Meta(ge=0)] = 0
    """Above 0 the policy orders nodes as well. Source: `ScheduleWeight`."""
    node_order: Literal["binpack", "spread"] = "binpack"
    """Order of nodes otherwise. Volcano leaves it to its plugins for CPU and memory."""
    core_scaling: Annotated[float, Meta(ge=0.01, le=10_000)] = 1.0
    """Cores of a card that can be granted, over those that it has. Above 1, vgpu containers get
    CUDA_OVERSUBSCRIBE as well, which HAMi-core reads. Source: `deviceCoreScaling`."""
    disable_core_limit: bool = False
    """Give vgpu containers GPU_CORE_UTILIZATION_POLICY=disable. Source: `disableCoreLimit`."""
    preemptable_is_best_effort: bool = False
    """Pods that say `volcano.sh/preemptable: "true"` and name no class of Tessera's are
    best-effort: no cores are granted to them. Off, since Volcano's run at full speed."""

    arguments: dict[str, bool | int | float | str | list[Any] | dict[str, Any]] = {}
    """Arguments of the `predicates` or `deviceshare` plugin, as in volcano-scheduler.conf:
    `predicate.GPUSharingEnable` and `deviceshare.GPUSharingEnable` mean the same."""
    scheduler_conf: dict[str, Any] = {}
    """A whole volcano-scheduler.conf, of which these two plugins' arguments count where
    `arguments` does not say otherwise. What is not Tessera's in it is reported, not refused."""

    @property
    def gpushare_names(self) -> tuple[str, ...]:
        """Resource names of gpushare that are served."""
        wanted = (
            (self.gpu_memory_resource, self.gpu_sharing),
            (self.gpu_number_resource, self.gpu_number),
        )
        return tuple(name for name, on in wanted if on)

    @property
    def vgpu_names(self) -> tuple[str, ...]:
        """Resource names of vgpu that are served."""
        names = (
            self.vgpu_number_resource,
            self.vgpu_memory_resource,
            self.vgpu_cores_resource,
            self.vgpu_memory_percentage_resource,
        )
        return tuple(name for name in names if name) if self.vgpu else ()

    @property
    def allocated_names(self) -> frozenset[str]:
        """Names that Volcano's device plugins register."""
        return frozenset(
            (self.gpu_memory_resource, self.gpu_number_resource, self.vgpu_number_resource)
        )

    @property
    def vgpu_node_order(self) -> NodeOrder:
        """How nodes are ordered for vgpu."""
        named = self.schedule_policy if self.schedule_weight > 0 else ""
        return NodeOrder(named or self.node_order)


_PREFIXES: Final = ("predicate.", "deviceshare.")
_SETTINGS: Final = {
    "GPUSharingEnable": "gpu_sharing",
    "GPUNumberEnable": "gpu_number",
    "VGPUEnable": "vgpu",
    "SchedulePolicy": "schedule_policy",
    "ScheduleWeight": "schedule_weight",
}
_SWITCHES: Final = frozenset({"gpu_sharing", "gpu_number", "vgpu"})
_WITHOUT_EFFECT: Final = (
    "NodeLockEnable",  # the Binding is one write: nothing to lock
    "CacheEnable",
    "ProportionalEnable",
    "resources",
    "KnownGeometriesCM",
    "Ascend",
)
_TRUTHS: Final = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}


def settled(options: VolcanoOptions) -> tuple[VolcanoOptions, tuple[str, ...]]:
    """The options with `arguments` and `scheduler_conf` applied and names checked, and what of the
    latter is not Tessera's. Raises ValueError, naming the key."""
    conf = read(options.scheduler_conf)
    found: dict[str, Any] = {}
    warnings = list(conf.warnings)
    for key, written in conf.arguments.items():
        try:
            found |= _setting(key, written)
        except ValueError as e:
            warnings.append(f"volcano-scheduler.conf: {e}: it has no effect")
    for key, written in options.arguments.items():
        found |= _setting(key, written)
    try:
        made = msgspec.convert({**msgspec.structs.asdict(options), **found}, VolcanoOptions)
    except msgspec.ValidationError as e:
        raise ValueError(f"arguments: {e}") from e
    _check_names((*made.gpushare_names, *made.vgpu_names))
    return made, tuple(warnings)


def _setting(key: str, written: object) -> dict[str, Any]:
    """The option that an argument sets; none where it has no effect here."""
    suffix = next((key[len(p) :] for p in _PREFIXES if key.startswith(p)), "")
    setting = _SETTINGS.get(suffix)
    if setting is None:
        if suffix.startswith(_WITHOUT_EFFECT):
            return {}
        known = ", ".join(_SETTINGS)
        raise ValueError(
            f"arguments.{key}: not supported; take it out, or write one of {known} after "
            f"{' or '.join(_PREFIXES)}"
        )
    value = _truth(key, written) if setting in _SWITCHES else written
    try:
        msgspec.convert({setting: value}, VolcanoOptions)
    except msgspec.ValidationError as e:
        raise ValueError(f"arguments.{key}: {e}") from e
    return {setting: value}


def _truth(key: str, written: object) -> bool:
    """Go's ParseBool over a YAML bool or string."""
    truth = written if isinstance(written, bool) else _TRUTHS.get(str(written).lower())
    if truth is None:
        raise ValueError(f"arguments.{key}: {written!r}: write true or false")
    return truth


def _check_names(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not name:
            raise ValueError("a resource name is empty: name it, or switch its kind off")
        if name in seen:
            raise ValueError(f"resource {name} is configured twice: rename one of them")
        seen.add(name)
