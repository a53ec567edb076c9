"""What HAMi's scheduler exports to Prometheus, from Tessera's ledger: its names, labels and units.

Memory is in bytes. Cores are percent of a card despite the names, and `device_cores` are what the
card has; `hami_node_gpu_memory_allocated_ratio` is 0 to 1 and left out for a card of unknown
memory. The older names, which HAMi writes on demand, mean the same with other labels. All cards
are reported, of whatever vendor, and everybody's use of them. Instances of MIG have no metric
here: cards in that mode take no pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Final

from tessera_core.fleet.cores import percent
from tessera_core.fleet.fleet import Fleet
from tessera_core.hami_metrics.family import Family, older
from tessera_schema.cards import Card
from tessera_schema.grants import Grant

_CARD: Final = ("node", "device_uuid", "device_index")
_POD: Final = ("namespace", "node", "pod", "container_index", "device_uuid")
_LEGACY: Final = {
    "hami_gpu_memory_limit_bytes": "GPUDeviceMemoryLimit",
    "hami_gpu_core_limit_ratio": "GPUDeviceCoreLimit",
    "hami_gpu_memory_allocated_bytes": "GPUDeviceMemoryAllocated",
    "hami_gpu_shared_count": "GPUDeviceSharedNum",
    "hami_gpu_core_allocated_ratio": "GPUDeviceCoreAllocated",
    "hami_node_gpu_overview": "nodeGPUOverview",
    "hami_node_gpu_memory_allocated_ratio": "nodeGPUMemoryPercentage",
    "hami_vgpu_memory_allocated_bytes": "vGPUMemoryAllocated",
    "hami_vgpu_core_allocated_ratio": "vGPUCoreAllocated",
}
_LEGACY_LABELS: Final = {
    "node": "nodeid", "device_uuid": "deviceuuid", "device_index": "deviceidx",
    "device_type": "devicetype", "device_cores": "devicecores",
    "device_memory_limit": "devicememorylimit",
}  # fmt: skip
_LEGACY_POD: Final = {
    "namespace": "podnamespace", "node": "nodename", "pod": "podname",
    "container_index": "containeridx", "device_uuid": "deviceuuid",
}  # fmt: skip
_NOT_YET: Final = {"hami_node_gpu_memory_allocated_ratio": "device_type"}
"""Labels that the older name does not have."""


def families(fleet: Fleet, grants: Iterable[Grant], *, legacy: bool = False) -> list[Family]:
    """All of it. The fleet must not change meanwhile: give a snapshot."""
    families = [*_of_cards(fleet), *_of_pods(fleet, grants)]
    return [*families, *map(_older, families)] if legacy else families


def _of_cards(fleet: Fleet) -> list[Family]:
    typed = (*_CARD, "device_type")
    limit = Family("hami_gpu_memory_limit_bytes", typed, [])
    cores = Family("hami_gpu_core_limit_ratio", typed, [])
    sharers = Family("hami_gpu_shared_count", typed, [])
    cores_used = Family("hami_gpu_core_allocated_ratio", typed, [])
    used = Family("hami_gpu_memory_allocated_bytes", (*_CARD, "device_cores", "device_type"), [])
    overview = Family(
        "hami_node_gpu_overview",
        (*_CARD, "device_cores", "device_memory_limit", "device_type"),
        [],
    )
    ratio = Family("hami_node_gpu_memory_allocated_ratio", typed, [])
    held = fleet.cards
    for node, row in fleet.rows.items():
        for column, card in enumerate(fleet.facts[row]):
            at = row, column
            base, has = (node, card.id, str(card.index)), f"{card.cores_percent:g}"
            memory = float(held.memory_used[at])
            limit.samples.append(((*base, card.model), card.memory_bytes))
            cores.samples.append(((*base, card.model), 100 if card.cores_percent else 0))
            sharers.samples.append(((*base, card.model), float(held.sharers[at])))
            part = _part(card, percent(int(held.cores_used[at])))
            cores_used.samples.append(((*base, card.model), part))
            used.samples.append(((*base, has, card.model), memory))
            overview.samples.append(((*base, has, str(card.memory_mib), card.model), memory))
            if card.memory_bytes:
                ratio.samples.append(((*base, card.model), memory / card.memory_bytes))
    return [limit, cores, sharers, cores_used, used, overview, ratio]


def _of_pods(fleet: Fleet, grants: Iterable[Grant]) -> list[Family]:
    memory = Family("hami_vgpu_memory_allocated_bytes", _POD, [])
    cores = Family("hami_vgpu_core_allocated_ratio", _POD, [])
    for grant in grants:
        for share in grant.shares:
            base = grant.namespace, grant.node, grant.name, str(share.position), share.card
            memory.samples.append((base, share.memory_bytes))
            card = fleet.card(grant.node, share.card)
            part = _part(card, share.cores_percent) if card is not None else 0
            cores.samples.append((base, part))
    return [memory, cores]


def _part(card: Card, cores: float) -> float:
    return ceil(cores / card.cores_percent * 100) if card.cores_percent else 0


def _older(family: Family) -> Family:
    labels = _LEGACY_POD if family.labels is _POD else _LEGACY_LABELS
    missing = _NOT_YET.get(family.name)
    kept = {label: name for label, name in labels.items() if label != missing}
    return older(family, _LEGACY[family.name], kept)
