"""Kubelet's side, played: takes registrations, receives devices, admits containers, restarts.

For tests and for nodes that are not real. Faithful to kubelet 1.34 also where that is hard on
plugins: it says nothing when it restarts, and deletes every socket of its folder before it makes
its own. It knows nothing of NUMA.
"""

from __future__ import annotations

import asyncio
import re
import stat
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from google.protobuf.message import DecodeError

from tessera_embedded.kubelet.device_manager import FakeDeviceManager
from tessera_embedded.kubelet.plugin_client import HostedResource
from tessera_kubelet import pod_resources as podresources
from tessera_kubelet.background import open_tasks
from tessera_kubelet.device_plugin import protobuf
from tessera_kubelet.device_plugin.settings import KubeletSettings
from tessera_kubelet.device_plugin.sockets import kubelets_socket
from tessera_kubelet.device_plugin.types import PluginDevice
from tessera_kubelet.errors import CallFailed, GrpcCode, NodeError
from tessera_kubelet.grpc_channel import open_server
from tessera_kubelet.proto import deviceplugin_pb2 as pb


class FakeKubelet:
    """A node's."""

    def __init__(self, folder: Path, pod_resources: Path, settings: KubeletSettings) -> None:
        """Made by `open_kubelet`."""
        self.pods = FakeDeviceManager(lambda resource: self._hosted.get(resource))
        self.registrations: list[tuple[str, str]] = []
        """Resource and socket of all that were taken, the oldest first."""
        self._folder = folder
        self._pod_resources = pod_resources
        self._settings = settings
        self._hosted: dict[str, HostedResource] = {}
        self._changed = asyncio.Event()
        self._wanted, self._unwanted = asyncio.Event(), asyncio.Event()
        self._up, self._down = asyncio.Event(), asyncio.Event()

    def devices(self, resource: str) -> tuple[PluginDevice, ...]:
        """What its plugin reported last: all unhealthy when the plugin is gone, nothing when none
        has registered since kubelet started. The number of all is the node's capacity, that of the
        healthy ones its allocatable."""
        return self._hosted[resource].devices if resource in self._hosted else ()

    def hosted(self, resource: str) -> HostedResource:
        """The plugin that registered this last. Raises KeyError."""
        return self._hosted[resource]

    async def until(self, wanted: Callable[[], bool]) -> None:
        """Wait until this holds; looked at again whenever a plugin comes, reports, or goes."""
        while not wanted():
            self._changed.clear()
            await self._changed.wait()

    async def until_offered(self, resource: str, healthy: int) -> None:
        """Wait until so many are allocatable."""
        await self.until(lambda: sum(d.healthy for d in self.devices(resource)) == healthy)

    async def start(self) -> None:
        """Delete every socket of the folder, then listen."""
        self._unwanted.clear()
        self._wanted.set()
        await self._up.wait()

    async def kill(self) -> None:
        """Be gone without a word; the socket stays, and nobody listens."""
        self._wanted.clear()
        self._unwanted.set()
        await self._down.wait()

    async def restart(self) -> None:
        """Be gone, and start."""
        await self.kill()
        await self.start()

    async def live(self) -> None:
        """Be up when that is wanted. Raises SocketUnusable."""
        while True:
            await self._wanted.wait()
            await asyncio.to_thread(_remove_sockets, self._folder)
            async with open_tasks() as tasks:
                await self._be_up(tasks)
            self._hosted.clear()
            self._up.clear()
            self._down.set()
            self._changed.set()

    async def _be_up(self, tasks: asyncio.TaskGroup) -> None:
        async def register(message: bytes) -> bytes:
            return await self._register(tasks, message)

        size = self._settings.message_bytes
        aside = self._folder / ".kubelet.sock"  # or its server's end would remove it
        async with (
            open_server(
                self._pod_resources,
                podresources.SERVICE,
                {"List": self._list},
                {},
                drain_s=0,
                message_bytes=size,
            ),
            open_server(
                aside,
                protobuf.REGISTRATION_SERVICE,
                {"Register": register},
                {},
                drain_s=0,
                message_bytes=size,
            ),
        ):
            await asyncio.to_thread(aside.rename, kubelets_socket(self._folder))
            self._down.clear()
            self._up.set()
            await self._unwanted.wait()

    async def _register(self, tasks: asyncio.TaskGroup, message: bytes) -> bytes:
        asked = _checked(message)
        resource = asked.resource_name
        hosted = HostedResource(
            self._folder / asked.endpoint, asked, self._settings, self._changed.set
        )
        try:
            await hosted.reach()
        except NodeError as e:
            raise CallFailed(GrpcCode.UNKNOWN, f"the plugin cannot be reached: {e}") from e
        before, self._hosted[resource] = self._hosted.get(resource), hosted
        if before is not None:
            before.replaced.set()
        self.registrations.append((resource, asked.endpoint))
        tasks.create_task(hosted.live(), name=f"plugin of {resource}")
        self._changed.set()
        return pb.Empty().SerializeToString()

    async def _list(self, _: bytes) -> bytes:
        return podresources.message(self.pods.holdings()).SerializeToString()


@asynccontextmanager
async def open_kubelet(
    folder: Path,
    *,
    pod_resources: Path,
    settings: KubeletSettings = KubeletSettings(),  # noqa: B008  (it is frozen)
) -> AsyncGenerator[FakeKubelet]:
    """A kubelet whose folder for device plugins this is, while the block lasts. `pod_resources`:
    where it serves PodResources. Raises SocketUnusable."""
    kubelet = FakeKubelet(folder, pod_resources, settings)
    async with open_tasks() as tasks:
        tasks.create_task(kubelet.live(), name="kubelet")
        await kubelet.start()
        yield kubelet


def _checked(message: bytes) -> pb.RegisterRequest:
    """What a plugin answers on which options it wants. Raises CallFailed."""
    try:
        asked = pb.RegisterRequest.FromString(message)
    except DecodeError as e:
        raise CallFailed(GrpcCode.INTERNAL, f"not a RegisterRequest: {e}") from e
    if asked.version != protobuf.VERSION:
        raise CallFailed(
            GrpcCode.UNKNOWN, f'API version "{asked.version}" is not {protobuf.VERSION}'
        )
    if not _is_extended(asked.resource_name):
        words = f'"{asked.resource_name}" is not the name of an extended resource'
        raise CallFailed(GrpcCode.UNKNOWN, words)
    return asked


def _is_extended(resource: str) -> bool:
    domain, slash, name = resource.partition("/")
    label = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
    return (
        bool(slash)
        and "kubernetes.io/" not in resource
        and len(f"requests.{domain}") <= 253
        and not domain.startswith("requests.")
        and re.fullmatch(rf"{label}(\.{label})*", domain) is not None
        and re.fullmatch("[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", name) is not None
    )


def _remove_sockets(folder: Path) -> None:
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # plugins remove their own meanwhile
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink()
