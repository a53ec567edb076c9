"""What HAMi's monitor exports on each node, from an agent's last measurement.

Memory is in bytes, use in percent. `vdevice_index` counts the cards of a container, in the order of
its shares. HAMi's monitor says what of a container's memory contexts, modules and buffers are;
where Tessera's hook measures, contexts and modules are one figure, under the name of contexts. A
container that only the driver measures has no such samples, and a card whose driver does not say
how busy it is has none of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tessera_core.hami_metrics.family import Family, older
from tessera_schema.cards import Card
from tessera_schema.messages.device_reports import DRIVER, CardUse, NodeUsage

_HOST: Final = ("node", "device_index", "device_uuid", "device_type")
_CONTAINER: Final = ("namespace", "pod", "container", "vdevice_index", "device_uuid")
_LEGACY_HOST: Final = {
    "node": "nodeid", "device_index": "deviceidx", "device_uuid": "deviceuuid",
    "device_type": "devicetype",
}  # fmt: skip
_LEGACY_CONTAINER: Final = {
    "namespace": "podnamespace", "pod": "podname", "container": "ctrname",
    "vdevice_index": "vdeviceid", "device_uuid": "deviceuuid",
}  # fmt: skip
_LEGACY: Final = {
    "hami_host_gpu_memory_used_bytes": ("HostGPUMemoryUsage", _LEGACY_HOST),
    "hami_host_gpu_utilization_ratio": ("HostCoreUtilization", _LEGACY_HOST),
    "hami_vgpu_memory_used_bytes": ("vGPU_device_memory_usage_in_bytes", _LEGACY_CONTAINER),
    "hami_vgpu_memory_limit_bytes": ("vGPU_device_memory_limit_in_bytes", _LEGACY_CONTAINER),
    "hami_container_device_utilization_ratio": (
        "Device_utilization_desc_of_container", _LEGACY_CONTAINER,
    ),
    "hami_container_last_kernel_elapsed_seconds": (
        "Device_last_kernel_of_container", _LEGACY_CONTAINER,
    ),
}  # fmt: skip
_LEGACY_BREAKDOWN: Final = (
    *_LEGACY_CONTAINER.values(), "context", "module", "data", "offset",
)  # fmt: skip


def families(
    usage: NodeUsage, cards: Sequence[Card], now_s: float, *, legacy: bool = False
) -> list[Family]:
    """All of it. `cards` are the node's as they were published, `now_s` is Unix time."""
    found = [*_of_cards(usage, cards), *_of_containers(usage, now_s)]
    if not legacy:
        return found
    renamed = [older(one, *_LEGACY[one.name]) for one in found if one.name in _LEGACY]
    return [*found, *renamed, _breakdown(usage)]


def _of_cards(usage: NodeUsage, cards: Sequence[Card]) -> list[Family]:
    memory = Family("hami_host_gpu_memory_used_bytes", _HOST, [])
    busy = Family("hami_host_gpu_utilization_ratio", _HOST, [])
    # HAMi's does not name its node.
    controller = Family("hami_host_gpu_memory_controller_utilization_ratio", _HOST[1:], [])
    known = {card.id: card for card in cards}
    for load in usage.cards:
        card = known.get(load.card)
        if card is not None:
            labels = (usage.node, str(card.index), card.id, card.model)
            memory.samples.append((labels, load.memory_used_bytes))
            busy.samples.append((labels, load.cores_percent))
            if load.memory_busy_percent >= 0:
                controller.samples.append((labels[1:], load.memory_busy_percent))
    return [memory, busy, controller]


def _of_containers(usage: NodeUsage, now_s: float) -> list[Family]:
    def family(name: str) -> Family:
        return Family(name, _CONTAINER, [])

    used, limit = family("hami_vgpu_memory_used_bytes"), family("hami_vgpu_memory_limit_bytes")
    again = family("hami_container_device_memory_bytes")
    busy = family("hami_container_device_utilization_ratio")
    since = family("hami_container_last_kernel_elapsed_seconds")
    contexts = family("hami_vgpu_memory_context_bytes")
    modules = family("hami_vgpu_memory_module_bytes")
    buffers = family("hami_vgpu_memory_buffer_bytes")
    for labels, use in _uses(usage):
        used.samples.append((labels, use.memory_bytes))
        again.samples.append((labels, use.memory_bytes))
        limit.samples.append((labels, use.memory_limit_bytes))
        busy.samples.append((labels, use.cores_percent))
        if use.last_active:
            since.samples.append((labels, int(max(now_s - use.last_active, 0))))
        if use.measured_by != DRIVER:
            contexts.samples.append((labels, use.context_bytes))
            modules.samples.append((labels, use.module_bytes))
            buffers.samples.append((labels, use.buffer_bytes))
    return [used, limit, again, busy, since, contexts, modules, buffers]


def _breakdown(usage: NodeUsage) -> Family:
    """The older metric that has the kinds of memory in its labels."""
    samples: list[tuple[tuple[str, ...], float]] = []
    for labels, use in _uses(usage):
        kinds = use.context_bytes, use.module_bytes, use.buffer_bytes
        offset = max(use.memory_bytes - sum(kinds), 0)
        samples.append(((*labels, *map(str, (*kinds, offset))), use.memory_bytes))
    return Family("Device_memory_desc_of_container", _LEGACY_BREAKDOWN, samples)


def _uses(usage: NodeUsage) -> Iterator[tuple[tuple[str, ...], CardUse]]:
    for container in usage.containers:
        for position, use in enumerate(container.cards):
            of = container.namespace, container.pod, container.container
            yield (*of, str(position), use.card), use
