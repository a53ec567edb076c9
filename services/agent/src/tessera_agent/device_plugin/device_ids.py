"""The ids of devices that kubelet counts. They stand for no card; where kubelet is shown NUMA
nodes, an id says which it is of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tessera_kubelet.device_plugin.types import PluginDevice

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_OF: Final = "."


def plain_devices(count: int, *, healthy: bool) -> list[PluginDevice]:
    """So many devices that are close to nothing."""
    return [PluginDevice(id=_id(number), healthy=healthy) for number in range(count)]


def numa_devices(
    counts: Mapping[int, int], healthy: Iterable[int], most: int
) -> list[PluginDevice]:
    """So many devices of each NUMA node; `most` of all, each node's part cut alike. Those of nodes
    that are not `healthy` are unhealthy."""
    total, well = max(sum(counts.values()), 1), frozenset(healthy)
    return [
        PluginDevice(id=f"{node}{_OF}{_id(number)}", healthy=node in well, numa=(node,))
        for node, count in sorted(counts.items())
        for number in range(count if total <= most else count * most // total)
    ]


def numa_nodes_of(ids: Iterable[str]) -> frozenset[int]:
    """The NUMA nodes that these ids are of; none for plain ones."""
    parts = (id_.partition(_OF) for id_ in ids)
    return frozenset(int(node) for node, of, _ in parts if of and node.isdecimal())


def _id(number: int) -> str:
    """Short: kubelet keeps every one of them several times."""
    digits = ""
    while True:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
        if not number:
            return digits
