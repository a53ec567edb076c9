"""Facts of cards from NVML and sysfs that do not change while the driver is open: their ids, their
place in the machine, and the links between them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pynvml as nvml  # type: ignore[import-untyped]  # it publishes no types
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.dialect_kit.readings import CardReading, Link

_LEVELS: Final = {
    nvml.NVML_TOPOLOGY_INTERNAL: Link.SAME_BOARD,
    nvml.NVML_TOPOLOGY_SINGLE: Link.SINGLE_SWITCH,
    nvml.NVML_TOPOLOGY_MULTIPLE: Link.MULTI_SWITCH,
    nvml.NVML_TOPOLOGY_HOSTBRIDGE: Link.HOST_BRIDGE,
    nvml.NVML_TOPOLOGY_NODE: Link.SAME_CPU,
    nvml.NVML_TOPOLOGY_SYSTEM: Link.CROSS_CPU,
}
_MOST_LINKS: Final = 18
_NUMA_NODES: Final = 64


class NvmlFacts(Struct, frozen=True, kw_only=True):
    """The unchanging part of one card."""

    id: str
    card: CardReading

    def reading(self, **now: Any) -> CardReading:
        """The card with what is true now."""
        return replace(self.card, **now)


class _Lanes(Struct, frozen=True, kw_only=True):
    """NVLinks of one card that are up, by what is at the other end."""

    cards: Mapping[str, int]
    """Bus of the other card -> links."""
    switches: int


def facts_of(present: Mapping[int, Any], system_folder: str) -> tuple[NvmlFacts, ...]:
    """Of every card, by index and handle. Raises pynvml.NVMLError where a card does not answer."""
    ids = {i: str(nvml.nvmlDeviceGetUUID(handle)) for i, handle in present.items()}
    buses = {i: _bus(handle) for i, handle in present.items()}
    lanes = {i: _lanes(handle) for i, handle in present.items()}
    found = []
    for i, handle in present.items():
        others = [j for j in present if j != i]
        paths = {ids[j]: link for j in others if (link := _path(handle, present[j])) is not None}
        linked = {ids[j]: _between(lanes[i], lanes[j], buses[j]) for j in others}
        card = CardReading(
            id=ids[i], index=i, minor=_minor(handle), model=str(nvml.nvmlDeviceGetName(handle)),
            memory_bytes=memory_of(handle)[0],
            numa=_numa(handle, buses[i], system_folder), bus=buses[i], paths=paths,
            lanes={id_: count for id_, count in linked.items() if count},
        )  # fmt: skip
        found.append(NvmlFacts(id=ids[i], card=card))
    return tuple(found)


def memory_of(handle: Any) -> tuple[int, int]:
    """Bytes that the card has, and that are used. 0 of a card that has none of its own: it shares
    its host's memory. Raises pynvml.NVMLError."""
    try:
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    except nvml.NVMLError as e:
        if e.value == nvml.NVML_ERROR_NOT_SUPPORTED:
            return 0, 0
        raise
    return int(memory.total), int(memory.used)


def _between(one: _Lanes, other: _Lanes, other_bus: str) -> int:
    """Direct links, and those that meet in the switches both hang from."""
    return one.cards.get(other_bus, 0) + min(one.switches, other.switches)


def _minor(handle: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetMinorNumber(handle))
    except nvml.NVMLError:
        return -1


def _bus(handle: Any) -> str:
    """As sysfs spells it: `0000:17:00.0`."""
    try:
        return _spelt(nvml.nvmlDeviceGetPciInfo(handle))
    except nvml.NVMLError:
        return ""


def _spelt(pci: Any) -> str:
    return f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}.0"


def _numa(handle: Any, bus: str, system_folder: str) -> int:
    with suppress(OSError, ValueError):
        text = (Path(system_folder) / "bus/pci/devices" / bus / "numa_node").read_text()
        return max(int(text), 0)
    with suppress(nvml.NVMLError):
        scope = nvml.NVML_AFFINITY_SCOPE_NODE
        mask = int(nvml.nvmlDeviceGetMemoryAffinity(handle, 1, scope)[0])
        return next((node for node in range(_NUMA_NODES) if mask >> node & 1), 0)
    return 0


def _path(one: Any, other: Any) -> Link | None:
    with suppress(nvml.NVMLError):
        return _LEVELS.get(int(nvml.nvmlDeviceGetTopologyCommonAncestor(one, other)))
    return None


def _lanes(handle: Any) -> _Lanes:
    cards: dict[str, int] = {}
    switches = 0
    for link in range(_MOST_LINKS):
        try:
            if not nvml.nvmlDeviceGetNvLinkState(handle, link):
                continue
            if _ends_in_switch(handle, link):
                switches += 1
                continue
            bus = _spelt(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link))
        except nvml.NVMLError:
            continue
        cards[bus] = cards.get(bus, 0) + 1
    return _Lanes(cards=cards, switches=switches)


def _ends_in_switch(handle: Any, link: int) -> bool:
    try:
        kind = nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link)
    except nvml.NVMLError:
        return False
    return bool(kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH)
