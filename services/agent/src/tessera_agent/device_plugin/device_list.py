"""The devices that kubelet is given to count, where a device plugin gives the cards: ids without
any meaning, of every resource name that it allocates.

How much is free is in the scheduler's ledger. So there are twice as many ids as the cards amount
to, and that does not change with what is in use, nor with the health of a single card. Where
kubelet is shown NUMA nodes, each has the ids of its own cards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NoReturn

from tessera_agent.device_plugin.allocations import Allocations
from tessera_agent.device_plugin.device_ids import numa_devices, plain_devices
from tessera_agent.devices.monitor import DeviceMonitor
from tessera_core.inventory.extended_resources import amounts_of
from tessera_core.registry.registry import DialectRegistry
from tessera_kubelet.device_plugin.device_lists import DeviceLists
from tessera_runtime import logs
from tessera_schema.cards import Card

_log: Final = logs.named("tessera.agent.offering")
MOST_IDS: Final = 100_000
"""Ids of one name. Kubelet reads 4 MiB at most, and writes all of them whenever a pod starts."""
_SPARE: Final = 2
"""A pod that is about to end keeps its ids while its successor starts."""
_COMPARE_S: Final = 1.0
_Amount = tuple[Mapping[int, int], frozenset[int] | bool]
"""How many ids by NUMA node, and which of the nodes, or whether any, are healthy."""


class DeviceListUpdater:
    """Keeps kubelet's lists of devices in line with the cards."""

    def __init__(
        self, lists: DeviceLists, registry: DialectRegistry, vendor: str, names: frozenset[str],
        devices: DeviceMonitor, allocations: Allocations, *, numa: bool,
    ) -> None:  # fmt: skip
        """Nothing is listed before the cards are known, nor before `allocations` are. `numa`:
        whether kubelet is shown NUMA nodes."""
        self.lists = lists
        self.names = names
        self._registry = registry
        self._vendor = vendor
        self._devices = devices
        self._allocations = allocations
        self._numa = numa
        self._listed: dict[str, _Amount] = {}

    async def keep(self) -> NoReturn:
        """Compare, and list what changed, for ever."""
        while True:
            self.reconcile()
            await asyncio.sleep(_COMPARE_S)

    def reconcile(self) -> None:
        """Compare once. A name is registered by its first list, so there is none while another
        plugin hands out the cards."""
        state, left = self._devices.latest, self._devices.left_to_others
        if not state.complete or not state.cards:
            return
        if not self.lists.resources and (left or not self._allocations.known.is_set()):
            return
        healthy = () if left else tuple(card for card in state.cards if card.healthy)
        nodes = frozenset(card.numa for card in healthy)
        for name, wanted in self._amounts(state.cards).items():
            now = wanted, nodes if self._numa else bool(healthy)
            if self._listed.get(name) == now:
                continue
            self._listed[name] = now
            total = sum(wanted.values())
            if total > MOST_IDS:
                _log.warning("kubelet is told of less than there is", name=name, told=MOST_IDS)
            if self._numa:
                devices = numa_devices(wanted, nodes, MOST_IDS)
            else:
                devices = plain_devices(min(total, MOST_IDS), healthy=bool(healthy))
            self.lists.put(name, devices)

    def _amounts(self, cards: Sequence[Card]) -> Mapping[str, Mapping[int, int]]:
        """By name and NUMA node, how many ids; all of node 0 where kubelet is shown none."""
        numbers = sorted({card.numa for card in cards}) if self._numa else [0]
        found: dict[str, dict[int, int]] = {}
        for node in numbers:
            own = [card for card in cards if not self._numa or card.numa == node]
            for name, count in amounts(self._registry, self._vendor, self.names, own).items():
                found.setdefault(name, {})[node] = count
        return found


def amounts(
    registry: DialectRegistry, vendor: str, names: Iterable[str], cards: Iterable[Card]
) -> Mapping[str, int]:
    """The number of ids of each name."""
    amounted = amounts_of(registry, vendor, cards)
    return {name: _SPARE * amounted.get(name, 0) for name in sorted(names)}
