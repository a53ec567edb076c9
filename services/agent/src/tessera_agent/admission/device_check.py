"""Checks whether a vendor's own plugin gave a container the cards that its pod was granted.

The plugin answered kubelet before the runtime asks the agent, so all of it is in the container that
the runtime shows. A mismatch is reported and runs all the same: kubelet keeps the plugin's answer
for as long as the pod lives, so that a refusal would never end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from tessera_agent.devices.monitor import DeviceMonitor
from tessera_agent.events import ContainerAlert, EventPublisher
from tessera_core.dialect_kit.contract import Vendor
from tessera_core.node.device_mismatch import device_mismatch
from tessera_kubelet.nri.types import ContainerInfo, PodSandbox
from tessera_schema.cards import Card
from tessera_schema.grants import Share

_AGAIN_S: Final = 1.0
"""Seconds between two checks whether the cards are known."""


class DeviceCheck:
    """Compares what was granted with the devices that a container has."""

    def __init__(self, vendor: Vendor, devices: DeviceMonitor, publisher: EventPublisher) -> None:
        self._vendor = vendor
        self._devices = devices
        self._publisher = publisher
        self._later: dict[str, tuple[PodSandbox, ContainerInfo, Sequence[Share]]] = {}
        """Containers by id that came before any card was known."""

    def check(self, pod: PodSandbox, container: ContainerInfo, shares: Sequence[Share]) -> None:
        """Check a container that holds these shares, which is about to be created or runs."""
        if not self._vendor.own_plugin_allocates:
            return
        cards = self._devices.cards
        if cards is None:
            self._later[container.id] = pod, container, shares
        else:
            self._compare(pod, container, shares, cards)

    async def keep(self) -> None:
        """Wait until the cards are known, and check the first containers by them."""
        while True:
            cards = self._devices.cards
            if cards is not None:
                break
            await asyncio.sleep(_AGAIN_S)
        for pod, container, shares in self._later.values():
            self._compare(pod, container, shares, cards)
        self._later.clear()

    def _compare(
        self, pod: PodSandbox, container: ContainerInfo, shares: Sequence[Share],
        cards: Mapping[str, Card],
    ) -> None:  # fmt: skip
        shown, paths = self._vendor.device_evidence, (device.path for device in container.devices)
        mismatch = device_mismatch(shown, shares, cards, container.env, paths)
        if mismatch:
            self._publisher.alert(
                pod, container.name, ContainerAlert.OTHER_CARDS,
                f"{mismatch}: other pods may have that card; delete the pod, and see whether the "
                f"{self._vendor.name} plugin numbers cards as the node's tools do",
            )  # fmt: skip
