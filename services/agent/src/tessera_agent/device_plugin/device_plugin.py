"""Cards that kubelet gives: one device plugin of every resource name by which it allocates them.

It takes the place of the runtime's plugin, on nodes whose container runtime has no NRI.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from tessera_agent.device_plugin.allocate import Allocator
from tessera_agent.device_plugin.allocations import Allocations
from tessera_agent.device_plugin.container_lifecycle import ContainerLifecycle
from tessera_agent.device_plugin.device_list import DeviceListUpdater
from tessera_agent.device_plugin.pre_start import PreStartCheck
from tessera_kubelet.device_plugin.registration import serve
from tessera_kubelet.device_plugin.settings import DevicePluginSettings
from tessera_kubelet.device_plugin.types import (
    AllocateRefused,
    ContainerAllocation,
    ResourceNotRegistered,
    ResourceRegistered,
)
from tessera_runtime import logs

_log: Final = logs.named("tessera.agent.kubelet")


class KubeletDelivery:
    """Has kubelet ask for each container that asks for the vendor's cards; a
    `tessera_kubelet.device_plugin.types.DevicePlugin`."""

    def __init__(
        self, allocations: Allocations, allocator: Allocator, pre_start_check: PreStartCheck,
        lifecycle: ContainerLifecycle, updater: DeviceListUpdater, folder: Path,
        settings: DevicePluginSettings,
    ) -> None:  # fmt: skip
        """`folder`: kubelet's, for device plugins."""
        self.names = updater.names
        self._allocations = allocations
        self._allocator = allocator
        self._pre_start_check = pre_start_check
        self._lifecycle = lifecycle
        self._updater = updater
        self._folder = folder
        self._settings = settings
        self._unregistered: dict[str, str] = dict.fromkeys(self.names, "not offered yet")
        """Resource name -> why kubelet does not ask for it."""

    def problem(self) -> str:
        """Why kubelet cannot give any card now; empty when it can."""
        if not self._allocations.known.is_set():
            return "what was allocated before could not be read, and is not known again yet"
        why = next((f"{name}: {why}" for name, why in self._unregistered.items()), "")
        return f"kubelet does not ask for {why}" if why else ""

    def work(self) -> Mapping[str, Callable[[], Coroutine[Any, Any, Any]]]:
        """What runs for as long as the agent does, by the name of its task."""
        lists = self._updater.lists
        return {
            "containers' lives": self._lifecycle.follow,
            "offers to kubelet": self._updater.keep,
            "kubelet": partial(serve, self._folder, lists, self, self._settings, self._observe),
        }

    def _observe(self, now: ResourceRegistered | ResourceNotRegistered) -> None:
        match now:
            case ResourceRegistered(resource=resource):
                self._unregistered.pop(resource, None)
                _log.info("registered with kubelet", resource=resource)
            case ResourceNotRegistered(resource=resource, why=why):
                self._unregistered[resource] = why
                _log.warning("not registered with kubelet", resource=resource, why=why)

    # -- tessera_kubelet.device_plugin.types.DevicePlugin

    async def allocate(
        self, resource: str, ids: Sequence[str]
    ) -> ContainerAllocation | AllocateRefused:
        """What the container gets for which kubelet chose these ids."""
        return await self._allocator.allocate(resource, ids)

    async def pre_start(self, resource: str, ids: Sequence[str]) -> AllocateRefused | None:
        """Whether the container that has these ids may start now."""
        return await self._pre_start_check.pre_start(resource, ids)

    def preferred(
        self, resource: str, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        """Which ids kubelet should choose."""
        return self._allocator.preferred(resource, available, must_include, size)
