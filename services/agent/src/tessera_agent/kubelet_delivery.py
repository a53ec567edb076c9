"""Composes the parts of an agent whose cards kubelet gives. Only such agents import this: it brings
gRPC, some 10 MB."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tessera_agent.agent import Agent
from tessera_agent.device_plugin.allocate import Allocator
from tessera_agent.device_plugin.allocations import Allocations
from tessera_agent.device_plugin.answer import AllocationRenderer
from tessera_agent.device_plugin.container_lifecycle import ContainerLifecycle
from tessera_agent.device_plugin.device_list import DeviceListUpdater
from tessera_agent.device_plugin.device_plugin import KubeletDelivery
from tessera_agent.device_plugin.pod_finder import PodFinder
from tessera_agent.device_plugin.pre_start import PreStartCheck
from tessera_agent.device_plugin.recovery import AllocationRecovery
from tessera_agent.devices.competing_plugins import PREFIX
from tessera_agent.settings import AgentSettings
from tessera_core.inventory.extended_resources import allocated_names
from tessera_core.registry.lending import variables_of
from tessera_kubelet.device_plugin.device_lists import DeviceLists
from tessera_kubelet.device_plugin.settings import DevicePluginSettings
from tessera_kubelet.pod_resources import PodResources, open_pod_resources
from tessera_runtime.service import ServiceEnvironment

_MORE_S: Final = 10.0
"""Seconds that an answer may take besides waiting for its pod."""


@asynccontextmanager
async def open_kubelet_delivery(
    environment: ServiceEnvironment[AgentSettings], agent: Agent
) -> AsyncGenerator[KubeletDelivery]:
    """The delivery, with what was allocated before loaded; its work is the caller's to start."""
    settings = environment.settings
    socket = Path(settings.inventory.kubelet_folder) / "pod-resources" / "kubelet.sock"
    async with open_pod_resources(socket, settings.plugin.call_s) as resources:
        allocations = Allocations(Path(settings.folder), settings.vendor, environment.clock)
        lifecycle = _lifecycle(environment, agent, allocations, resources)
        await lifecycle.load()
        yield KubeletDelivery(
            allocations,
            _allocator(environment, agent, allocations, resources),
            PreStartCheck(
                agent.admitter, agent.preparer, allocations, resources, holdings=agent.holdings,
                pods=agent.pods, publisher=agent.publisher,
            ),
            lifecycle,
            DeviceListUpdater(
                DeviceLists(), environment.registry, settings.vendor,
                allocated_names(environment.registry, settings.vendor), agent.devices, allocations,
                numa=settings.plugin.numa,
            ),
            Path(settings.inventory.kubelet_folder) / "device-plugins",
            DevicePluginSettings(prefix=PREFIX, answer_s=settings.plugin.wait_s + _MORE_S),
        )  # fmt: skip


def _allocator(
    environment: ServiceEnvironment[AgentSettings], agent: Agent, allocations: Allocations,
    resources: PodResources,
) -> Allocator:  # fmt: skip
    settings = environment.settings.plugin
    finder = PodFinder(
        environment.kube, agent.pods, allocations, resources, settings.wait_s / 2,
        variables_of(environment.registry.readers),
    )  # fmt: skip
    return Allocator(
        finder, agent.admitter, agent.preparer, allocations, AllocationRenderer(agent.vendor),
        agent.publisher, injector=agent.injector, wait_s=settings.wait_s,
    )  # fmt: skip


def _lifecycle(
    environment: ServiceEnvironment[AgentSettings], agent: Agent, allocations: Allocations,
    resources: PodResources,
) -> ContainerLifecycle:  # fmt: skip
    settings = environment.settings
    recovery = AllocationRecovery(
        allocated_names(environment.registry, settings.vendor), allocations, resources,
        pods=agent.pods, holdings=agent.holdings, files=agent.files, preparer=agent.preparer,
    )  # fmt: skip
    return ContainerLifecycle(
        agent.holdings, agent.pods, allocations, recovery, agent.preparer,
        proc_folder=settings.usage.proc_folder, look_s=settings.plugin.look_s,
    )  # fmt: skip
