"""The devices that kubelet is given to count, where a device plugin gives the cards: ids without
any meaning, of every resource name that it allocates.

How much is free is in the scheduler's ledger. So there are twice as many ids as the cards amount
to, and that does not change with what is in use, nor with the health of a single card.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

from tessera_agent.device_plugin.allocations import Allocations
from tessera_agent.devices.monitor import DeviceMonitor
from tessera_core.inventory.extended_resources import amounts_of
from tessera_core.registry.registry import DialectRegistry
from tessera_kubelet.device_plugin.device_lists import DeviceLists
from tessera_kubelet.device_plugin.types import PluginDevice
from tessera_runtime import logs
from tessera_schema.cards import Card

_log: Final = logs.named("tessera.agent.offering")
MOST_IDS: Final = 100_000
"""Ids of one name. Kubelet reads 4 MiB at most, and writes all of them whenever a pod starts."""
_SPARE: Final = 2
"""A pod that is about to end keeps its ids while its successor starts."""
_COMPARE_S: Final = 1.0
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class DeviceListUpdater:
    """Keeps kubelet's lists of devices in line with the cards."""

    def __init__(
        self, lists: DeviceLists, registry: DialectRegistry, vendor: str, names: frozenset[str],
        devices: DeviceMonitor, allocations: Allocations,
    ) -> None:  # fmt: skip
        """Nothing is listed before the cards are known, nor before `allocations` are."""
        self.lists = lists
        self.names = names
        self._registry = registry
        self._vendor = vendor
        self._devices = devices
        self._allocations = allocations
        self._listed: dict[str, tuple[int, bool]] = {}

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
        healthy = not left and any(card.healthy for card in state.cards)
        for name, wanted in amounts(self._registry, self._vendor, self.names, state.cards).items():
            now = wanted, healthy
            if self._listed.get(name) == now:
                continue
            self._listed[name] = now
            count = min(wanted, MOST_IDS)
            if count < wanted:
                _log.warning("kubelet is told of less than there is", name=name, told=count)
            devices = [PluginDevice(id=_id(number), healthy=healthy) for number in range(count)]
            self.lists.put(name, devices)


def amounts(
    registry: DialectRegistry, vendor: str, names: Iterable[str], cards: Iterable[Card]
) -> Mapping[str, int]:
    """The number of ids of each name."""
    amounted = amounts_of(registry, vendor, cards)
    return {name: _SPARE * amounted.get(name, 0) for name in sorted(names)}


def _id(number: int) -> str:
    """Short: kubelet keeps every one of them several times."""
    digits = ""
    while True:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
        if not number:
            return digits
