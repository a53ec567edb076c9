"""What HAMi's web interface exports of cards and containers, and its pages query.

It computes this from the register of HAMi's device plugin, which Tessera's nodes do not have, and
from metrics of others. Here it is computed from the ledger (what cards have, and what of them is
granted) and from measurements (what is used of it). Memory is in MiB, cores are percent of a card.
Temperature, power and fans come from the vendor's own exporter, as with HAMi.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from tessera_core.hami_metrics.family import Family
from tessera_schema.cards import MIB, Card
from tessera_schema.grants import Grant
from tessera_schema.messages.device_reports import NodeUsage

if TYPE_CHECKING:  # agents export usage alone, and do without the fleet's arrays
    from tessera_core.fleet.fleet import Fleet

_CARD: Final = ("node", "provider", "device_type", "device_uuid", "driver_version", "device_no")
_USE: Final = (
    "node", "provider", "device_type", "device_uuid", "pod_name", "container_name",
    "namespace_name",
)  # fmt: skip
_GRANTED: Final = (*_USE, "container_pod_uuid")
_FULL: Final = 100.0


def allocation_families(fleet: Fleet, grants: Iterable[Grant]) -> list[Family]:
    """What cards have, and what of them is granted. The fleet must not change meanwhile."""
    count, memory = Family("hami_vgpu_count", _CARD, [], zoned=False), _sizes("hami_memory_size")
    cores, virtual = _sizes("hami_core_size"), _sizes("hami_vmemory_size")
    virtual_cores = _sizes("hami_vcore_size")
    for node, row in fleet.rows.items():
        for card in fleet.facts[row]:
            labels = _card_labels(node, card)
            count.samples.append((labels, card.slots))
            memory.samples.append((labels, card.memory_mib))
            virtual.samples.append((labels, card.memory_mib))
            cores.samples.append((labels, _FULL))
            virtual_cores.samples.append((labels, card.cores_percent))
    return [count, memory, virtual, cores, virtual_cores, *_granted(fleet, grants)]


def usage_families(usage: NodeUsage, cards: Sequence[Card]) -> list[Family]:
    """What is used of a node's cards, and by which container. `cards` are as published."""
    known = {card.id: card for card in cards}
    return [*_of_cards(usage, known), *_of_containers(usage, known)]


def _sizes(name: str) -> Family:
    return Family(name, _CARD, [], zoned=False)


def _card_labels(node: str, card: Card) -> tuple[str, ...]:
    """The interface names the vendor in capitals; it knows no version of the driver either."""
    return node, card.vendor.upper(), card.model, card.id, "", str(card.index)


def _granted(fleet: Fleet, grants: Iterable[Grant]) -> list[Family]:
    slots = Family("hami_container_vgpu_allocated", _GRANTED, [], zoned=False)
    memory = Family("hami_container_vmemory_allocated", _GRANTED, [], zoned=False)
    cores = Family("hami_container_vcore_allocated", _GRANTED, [], zoned=False)
    for grant in grants:
        for share in grant.shares:
            card = fleet.card(grant.node, share.card)
            model = card.model if card is not None else ""
            labels = (
                grant.node, share.vendor.upper(), model, share.card,
                grant.name, share.container, grant.namespace, f"{share.container}:{grant.uid}",
            )  # fmt: skip
            slots.samples.append((labels, 1))
            memory.samples.append((labels, share.memory_bytes // MIB))
            cores.samples.append((labels, share.cores_percent))
    return [slots, memory, cores]


def _of_cards(usage: NodeUsage, known: dict[str, Card]) -> list[Family]:
    names = ("hami_core_used", "hami_core_util", "hami_core_used_avg", "hami_core_util_avg")
    busy = [_sizes(name) for name in names]
    memory, part = _sizes("hami_memory_used"), _sizes("hami_memory_util")
    for load in usage.cards:
        card = known.get(load.card)
        if card is not None:
            labels = _card_labels(usage.node, card)
            for family in busy:
                family.samples.append((labels, load.cores_percent))
            memory.samples.append((labels, load.memory_used_bytes // MIB))
            part.samples.append((labels, _percent(load.memory_used_bytes, card.memory_bytes)))
    return [*busy, memory, part]


def _of_containers(usage: NodeUsage, known: dict[str, Card]) -> list[Family]:
    cores = Family("hami_container_core_used", _USE, [], zoned=False)
    cores_part = Family("hami_container_core_util", _USE, [], zoned=False)
    memory = Family("hami_container_memory_used", _USE, [], zoned=False)
    memory_part = Family("hami_container_memory_util", _USE, [], zoned=False)
    for container in usage.containers:
        of = container.pod, container.container, container.namespace
        for use in container.cards:
            card = known.get(use.card)
            if card is None:
                continue
            labels = (*_card_labels(usage.node, card)[:4], *of)
            cores.samples.append((labels, use.cores_percent))
            cores_part.samples.append(
                (labels, _percent(use.cores_percent, use.cores_limit_percent or _FULL))
            )
            memory.samples.append((labels, use.memory_bytes // MIB))
            whole = use.memory_limit_bytes or card.memory_bytes
            memory_part.samples.append((labels, _percent(use.memory_bytes, whole)))
    return [cores, cores_part, memory, memory_part]


def _percent(used: float, of: float) -> float:
    """To one decimal place, as the interface has it; 0 of nothing."""
    return round(100 * used / of, 1) if of else 0.0
