"""The parts of an agent whose cards kubelet gives to containers, through a device plugin.

They take the place of the runtime's plugin, on nodes whose container runtime has no NRI. Nobody
else imports this: it brings gRPC, some 10 MB.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from tessera_agent.admission.admission import Cards, ContainerAdmitter
from tessera_agent.admission.prepare import ContainerPreparer
from tessera_agent.api.pods import NodePods
from tessera_agent.containers.holdings import ContainerRegistry
from tessera_agent.containers.hook_files import HookFiles
from tessera_agent.device_plugin import allocate as allocating
from tessera_agent.device_plugin import container_lifecycle, device_list
from tessera_agent.device_plugin import pre_start as starting
from tessera_agent.device_plugin.allocate import Allocator
from tessera_agent.device_plugin.allocations import Allocations
from tessera_agent.device_plugin.container_lifecycle import ContainerLifecycle
from tessera_agent.device_plugin.device_list import DeviceListUpdater
from tessera_agent.device_plugin.pod_finder import PodFinder
from tessera_agent.device_plugin.pre_start import PreStartCheck
from tessera_agent.devices.competing_plugins import PREFIX
from tessera_agent.devices.monitor import DeviceMonitor
from tessera_agent.events import EventPublisher
from tessera_agent.readers.device_handover import DeviceHandover
from tessera_agent.settings import AgentSettings
from tessera_core.dialect_kit.lending_terms import variables_of
from tessera_core.inventory.extended_resources import allocated_names
from tessera_core.registry.registry import DialectRegistry as Dialects
from tessera_kubelet.device_plugin.device_lists import DeviceLists
from tessera_kubelet.device_plugin.registration import serve
from tessera_kubelet.device_plugin.settings import DevicePluginSettings
from tessera_kubelet.device_plugin.types import (
    AllocateRefused,
    ContainerAllocation,
    ResourceNotRegistered,
    ResourceRegistered,
)
from tessera_kubelet.pod_resources import PodResources, open_pod_resources
from tessera_runtime import logs
from tessera_runtime.clock import Clock
from tessera_runtime.kube.api import Kube

_log: Final = logs.named("tessera.agent.kubelet")
_MORE_S: Final = 10.0
"""Seconds that an answer may take besides waiting for its pod."""


class DevicePluginDependencies(Struct, frozen=True, kw_only=True):
    """What they are made of."""

    settings: AgentSettings
    dialects: Dialects
    kube: Kube
    clock: Clock
    judge: ContainerAdmitter
    preparing: ContainerPreparer
    holdings: ContainerRegistry
    pods: NodePods
    files: HookFiles
    teller: EventPublisher
    cards: Cards
    devices: DeviceMonitor
    handing: DeviceHandover


class KubeletDelivery:
    """A device plugin of every name by which kubelet gives the vendor's cards."""

    def __init__(self, tools: DevicePluginDependencies, resources: PodResources) -> None:
        """Nothing was asked, and nothing is known of what was allocated before."""
        do, settings = tools, tools.settings
        vendor, loop = do.dialects.vendors[settings.vendor], asyncio.get_running_loop()
        self.names = allocated_names(do.dialects, settings.vendor)
        self.allocations = Allocations(Path(settings.folder), settings.vendor)
        self.offers = DeviceLists()
        self._folder = Path(settings.inventory.kubelet_folder) / "device-plugins"
        self._settings = DevicePluginSettings(
            prefix=PREFIX, answer_s=settings.plugin.wait_s + _MORE_S
        )
        self._registered: dict[str, str] = dict.fromkeys(self.names, "not offered yet")
        self._allocator = Allocator(
            allocating.AllocatorDependencies(
                settings=settings.plugin, vendor=vendor, handing=do.handing, judge=do.judge,
                finder=PodFinder(
                    do.kube, do.pods, self.allocations, resources, settings.plugin.wait_s / 2,
                    variables_of(do.dialects.readers),
                ),
                preparing=do.preparing, allocations=self.allocations, cards=do.cards,
                teller=do.teller, now=loop.time,
            )
        )  # fmt: skip
        self._starting = PreStartCheck(
            starting.PreStartDependencies(
                judge=do.judge, preparing=do.preparing, holdings=do.holdings, pods=do.pods,
                allocations=self.allocations, resources=resources, teller=do.teller,
                clock=do.clock,
            )
        )  # fmt: skip
        self.lives = ContainerLifecycle(
            container_lifecycle.LifecycleDependencies(
                dialects=do.dialects.readers, names=self.names, holdings=do.holdings, pods=do.pods,
                allocations=self.allocations, resources=resources, preparing=do.preparing,
                files=do.files, proc_folder=settings.usage.proc_folder,
                look_s=settings.plugin.look_s, now=loop.time,
            )
        )  # fmt: skip
        self._offering = DeviceListUpdater(
            self.offers,
            device_list.OfferedCards(
                registry=do.dialects, vendor=settings.vendor, names=self.names,
                seen=lambda: do.devices.seen, left_to_others=lambda: do.devices.left_to_others,
                ready=self.allocations.known.is_set,
            ),
        )  # fmt: skip

    async def load(self) -> None:
        """Know what was allocated before."""
        await self.allocations.load()
        self.lives.rebuild()

    def problem(self) -> str:
        """Why kubelet cannot give any card now; empty when it can."""
        if not self.allocations.known.is_set():
            return "what was allocated before could not be read, and is not known again yet"
        why = next((f"{name}: {why}" for name, why in self._registered.items() if why), "")
        return f"kubelet does not ask for {why}" if why else ""

    def work(self) -> Mapping[str, Coroutine[Any, Any, Any]]:
        """What runs for as long as the agent does, by its name."""
        return {
            "containers' lives": self.lives.follow(),
            "offers to kubelet": self._offering.keep(),
            "kubelet": serve(self._folder, self.offers, self, self._settings, self._observe),
        }

    def _observe(self, now: ResourceRegistered | ResourceNotRegistered) -> None:
        match now:
            case ResourceRegistered(resource=resource):
                self._registered[resource] = ""
                _log.info("registered with kubelet", resource=resource)
            case ResourceNotRegistered(resource=resource, why=why):
                self._registered[resource] = why
                _log.warning("not registered with kubelet", resource=resource, why=why)

    # -- tessera_kubelet.device_plugin.types.Plugin

    async def allocate(
        self, resource: str, ids: Sequence[str]
    ) -> ContainerAllocation | AllocateRefused:
        """See `Plugin`."""
        return await self._allocator.allocate(resource, ids)

    async def pre_start(self, resource: str, ids: Sequence[str]) -> AllocateRefused | None:
        """See `Plugin`."""
        return await self._starting.pre_start(resource, ids)

    def preferred(
        self, resource: str, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        """See `Plugin`."""
        return self._allocator.preferred(resource, available, must_include, size)


@asynccontextmanager
async def open_kubelet_delivery(tools: DevicePluginDependencies) -> AsyncGenerator[KubeletDelivery]:
    """These parts, which know what was allocated before; their work is the caller's to begin."""
    settings = tools.settings
    socket = Path(settings.inventory.kubelet_folder) / "pod-resources" / "kubelet.sock"
    async with open_pod_resources(socket, settings.plugin.call_s) as resources:
        opened = KubeletDelivery(tools, resources)
        await opened.load()
        yield opened
