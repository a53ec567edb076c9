"""One plugin's resource, as the kubelet that it registered with sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from google.protobuf.message import DecodeError, Message
from msgspec.structs import replace

from tessera_kubelet.background import open_tasks
from tessera_kubelet.device_plugin import protobuf
from tessera_kubelet.device_plugin.settings import KubeletSettings
from tessera_kubelet.device_plugin.types import ContainerAllocation, PluginDevice
from tessera_kubelet.errors import LinkGarbled, NodeError
from tessera_kubelet.grpc_channel import open_channel
from tessera_kubelet.proto import deviceplugin_pb2 as pb

M = TypeVar("M", bound=Message)


class HostedResource:
    """What one registration brought. `devices` are what was reported last; all of them are
    unhealthy once the plugin stopped reporting."""

    def __init__(
        self,
        socket: Path,
        asked: pb.RegisterRequest,
        settings: KubeletSettings,
        changed: Callable[[], None],
    ) -> None:
        """Nothing is dialled before `reach`."""
        self.asked = asked.options
        """The options that came with the registration; kubelet 1.34 does not read them."""
        self.devices: tuple[PluginDevice, ...] = ()
        self.lists = 0
        """How often the devices were reported."""
        self.replaced = asyncio.Event()
        """Set when the resource was registered again: this one is not asked any more."""
        self.options = pb.DevicePluginOptions()
        """The plugin's, once it was reached."""
        self._socket = socket
        self._settings = settings
        self._changed = changed

    async def reach(self) -> None:
        """Dial back, and ask for options. Raises NodeError."""
        within_s = self._settings.dial_s
        self.options = await self._call(
            "GetDevicePluginOptions", pb.Empty(), pb.DevicePluginOptions, within_s=within_s
        )

    async def live(self) -> None:
        """Receive devices until the plugin ends it, or is replaced."""
        async with open_tasks() as tasks:
            watching = tasks.create_task(self._watch(), name=f"watch {self._socket.name}")
            watching.add_done_callback(lambda _: self.replaced.set())
            await self.replaced.wait()
        self.devices = tuple(replace(device, healthy=False) for device in self.devices)
        self._changed()

    async def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> tuple[str, ...]:
        """The plugin's advice; nothing when it gives none. Raises NodeError."""
        if not self.options.get_preferred_allocation_available:
            return ()
        asked = pb.PreferredAllocationRequest()
        asked.container_requests.add(
            available_device_ids=available,
            must_include_device_ids=must_include,
            allocation_size=size,
        )
        answer = await self._call("GetPreferredAllocation", asked, pb.PreferredAllocationResponse)
        responses = answer.container_responses
        return tuple(responses[0].device_ids) if responses else ()

    async def allocate(self, ids: Sequence[str]) -> ContainerAllocation:
        """What the container gets. Raises CallFailed when the plugin refused, NodeError."""
        asked = pb.AllocateRequest()
        asked.container_requests.add(devices_ids=ids)
        answer = await self._call("Allocate", asked, pb.AllocateResponse)
        if not answer.container_responses:
            raise LinkGarbled("Allocate was answered for no container")
        return protobuf.allocation(answer.container_responses[0])

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Ask whether the container may start, if the plugin wants to be asked. Raises CallFailed
        when the plugin refused, NodeError."""
        if self.options.pre_start_required:
            asked = pb.PreStartContainerRequest(devices_ids=ids)
            within_s = self._settings.pre_start_s
            await self._call(
                "PreStartContainer", asked, pb.PreStartContainerResponse, within_s=within_s
            )

    async def _watch(self) -> None:
        method, size = f"/{protobuf.PLUGIN_SERVICE}/ListAndWatch", self._settings.message_bytes
        async with open_channel(self._socket, message_bytes=size) as channel:
            with suppress(NodeError):
                async for message in channel.stream(method, b""):
                    self.devices = protobuf.devices(_read(pb.ListAndWatchResponse, message))
                    self.lists += 1
                    self._changed()

    async def _call(
        self, method: str, asked: Message, answer: type[M], *, within_s: float | None = None
    ) -> M:
        path, message = f"/{protobuf.PLUGIN_SERVICE}/{method}", asked.SerializeToString()
        async with open_channel(
            self._socket, message_bytes=self._settings.message_bytes
        ) as channel:
            return _read(answer, await channel.call(path, message, within_s=within_s))


def _read(kind: type[M], message: bytes) -> M:
    try:
        return kind.FromString(message)
    except DecodeError as e:
        raise LinkGarbled(f"not a {kind.__name__}: {e}") from e
