"""A plugin for tests, and a node that has it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tessera_embedded.kubelet.kubelet import FakeKubelet, open_kubelet
from tessera_kubelet.background import open_tasks
from tessera_kubelet.device_plugin.device_lists import DeviceLists
from tessera_kubelet.device_plugin.registration import serve
from tessera_kubelet.device_plugin.settings import DevicePluginSettings
from tessera_kubelet.device_plugin.types import (
    AllocateRefused,
    ContainerAllocation,
    PluginDevice,
    ResourceNotRegistered,
    ResourceRegistered,
)

CARD, SLICE = "vendor.example/card", "vendor.example/slice"
SOON = DevicePluginSettings(poll_s=0.02, retry_s=0.05)
TWO = (PluginDevice("c0"), PluginDevice("c1"))

Give = Callable[[str, Sequence[str]], Awaitable[ContainerAllocation | AllocateRefused]]
Start = Callable[[str, Sequence[str]], Awaitable[AllocateRefused | None]]


class FakePlugin:
    """Answers as it was configured to, and records every call."""

    def __init__(
        self,
        give: Give | ContainerAllocation | AllocateRefused | None = None,
        start: Start | AllocateRefused | None = None,
    ) -> None:
        self.give = give or ContainerAllocation()
        self.start = start
        self.advice: Sequence[str] = ()
        self.allocated: list[tuple[str, tuple[str, ...]]] = []
        self.started: list[tuple[str, tuple[str, ...]]] = []
        self.advised: list[tuple[str, tuple[str, ...], tuple[str, ...], int]] = []

    async def allocate(
        self, resource: str, ids: Sequence[str]
    ) -> ContainerAllocation | AllocateRefused:
        self.allocated.append((resource, tuple(ids)))
        return await self.give(resource, ids) if callable(self.give) else self.give

    async def pre_start(self, resource: str, ids: Sequence[str]) -> AllocateRefused | None:
        self.started.append((resource, tuple(ids)))
        return await self.start(resource, ids) if callable(self.start) else self.start

    def preferred(
        self, resource: str, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        self.advised.append((resource, tuple(available), tuple(must_include), size))
        return self.advice


class Observations:
    """What `serve` reports to its observer; can be waited for."""

    def __init__(self) -> None:
        self.seen: list[ResourceRegistered | ResourceNotRegistered] = []
        self._changed = asyncio.Event()

    def __call__(self, observed: ResourceRegistered | ResourceNotRegistered) -> None:
        self.seen.append(observed)
        self._changed.set()

    def why(self) -> list[str]:
        return [
            observed.why for observed in self.seen if isinstance(observed, ResourceNotRegistered)
        ]

    async def until(self, wanted: Callable[[], bool]) -> None:
        while not wanted():
            self._changed.clear()
            await self._changed.wait()

    async def until_registered(self, times: int = 1) -> None:
        await self.until(lambda: sum(isinstance(n, ResourceRegistered) for n in self.seen) >= times)

    async def until_reported(self, words: str) -> None:
        await self.until(lambda: any(words in why for why in self.why()))


def offering(*devices: PluginDevice, resource: str = CARD) -> DeviceLists:
    offers = DeviceLists()
    offers.put(resource, devices or TWO)
    return offers


@asynccontextmanager
async def running(
    folder: Path,
    plugin: FakePlugin,
    offers: DeviceLists | None = None,
    settings: DevicePluginSettings = SOON,
) -> AsyncGenerator[Observations]:
    """The plugin of whatever kubelet is there, or will be."""
    observed = Observations()
    async with open_tasks() as tasks:
        tasks.create_task(
            serve(folder, offers or offering(), plugin, settings, observed),
            name="plugin under test",
        )
        yield observed


@asynccontextmanager
async def a_node(
    folder: Path,
    plugin: FakePlugin | None = None,
    offers: DeviceLists | None = None,
    settings: DevicePluginSettings = SOON,
) -> AsyncGenerator[tuple[FakeKubelet, Observations]]:
    """Kubelet, and the plugin, which has sent kubelet all that it offers now."""
    offers = offers or offering()
    async with (
        open_kubelet(folder, pod_resources=folder / "pods.sock") as kubelet,
        running(folder, plugin or FakePlugin(), offers, settings) as observed,
    ):
        await kubelet.until(lambda: all(map(kubelet.devices, offers.resources)))
        await observed.until_registered(len(offers.resources))
        yield kubelet, observed
