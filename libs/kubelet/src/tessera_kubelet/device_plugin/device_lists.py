"""What a plugin has, by resource. Every watcher gets the whole list again on every change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tessera_kubelet.device_plugin.types import PluginDevice


class DeviceLists:
    """The devices of each resource. A resource is named by its first `put` and stays."""

    def __init__(self) -> None:
        self._devices: dict[str, tuple[PluginDevice, ...]] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._named = asyncio.Event()

    @property
    def resources(self) -> tuple[str, ...]:
        """In the order in which they were named."""
        return tuple(self._devices)

    @property
    def named(self) -> asyncio.Event:
        """Is set when one more resource than now has a name."""
        return self._named

    def put(self, resource: str, devices: Sequence[PluginDevice]) -> None:
        """Replace all devices of the resource. Kubelet gets the list at once if it changed, and a
        new resource is registered. Raises ValueError for an id that comes twice."""
        now = tuple(devices)
        if len({device.id for device in now}) < len(now):
            raise ValueError(f"{resource}: an id comes twice; kubelet would count it once")
        if self._devices.get(resource) == now:
            return
        new = resource not in self._devices
        self._devices[resource] = now
        if new:
            self._changed[resource] = asyncio.Event()
            self._named, named = asyncio.Event(), self._named
            named.set()
        else:
            self._changed[resource], changed = asyncio.Event(), self._changed[resource]
            changed.set()

    def now(self, resource: str) -> tuple[tuple[PluginDevice, ...], asyncio.Event]:
        """The devices, and what is set when they are not these any more. Raises KeyError."""
        return self._devices[resource], self._changed[resource]
