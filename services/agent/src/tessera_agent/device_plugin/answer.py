"""Kubelet's answer for a container: its cards as a device plugin hands them over, its variables,
and the mounts of its files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from tessera_agent.devices.monitor import DeviceMonitor
from tessera_agent.readers.device_handover import (
    DeviceHandover,
    HandedOverDevices,
    HandoverMethod,
    hand_over,
)
from tessera_core.dialect_kit.contract import Vendor
from tessera_core.node.container_admission import Granted
from tessera_kubelet.device_plugin.types import ContainerAllocation, DeviceNode
from tessera_schema.injections import Mount


class AllocationRenderer:
    """Renders what kubelet gets for containers of one vendor's cards."""

    def __init__(
        self, vendor: Vendor, handover: DeviceHandover, method: HandoverMethod,
        devices: DeviceMonitor,
    ) -> None:  # fmt: skip
        self.vendor = vendor
        self._handover = handover
        self._method = method
        self._devices = devices

    async def hand_over(self, granted: Granted) -> HandedOverDevices:
        """The container's cards. Raises NoDeviceNode."""
        cards = self._devices.cards or {}
        own = [cards[card] for card in dict.fromkeys(s.card for s in granted.shares)]
        return await asyncio.to_thread(
            hand_over, self._handover, self._method, granted.injection, own
        )

    def render(
        self, devices: HandedOverDevices, env: Mapping[str, str], mounts: Sequence[Mount]
    ) -> ContainerAllocation:
        """The answer for a container with these devices, variables and mounts of files."""
        injection = devices.injection
        return ContainerAllocation(
            env={**self._harmless_env(), **env},
            mounts=(*injection.mounts, *mounts),
            annotations=injection.annotations,
            devices=tuple(DeviceNode(path=path, source=path) for path in injection.devices),
            cdi_devices=devices.cdi,
        )

    def render_without_cards(self, env: Mapping[str, str]) -> ContainerAllocation:
        """The answer for a container that holds nothing."""
        return ContainerAllocation(env={**self._harmless_env(), **env})

    def _harmless_env(self) -> Mapping[str, str]:
        """Variables by which an image would get other devices, emptied: kubelet does not say what
        the image sets, and the answer's variables replace the image's."""
        guarded = self.vendor.guarded_env.items()
        return {name: "" for name, harmless in guarded if "" in harmless and "*" not in name}
