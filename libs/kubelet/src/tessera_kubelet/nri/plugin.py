"""The plugin's side: an agent that a runtime calls for every container it creates.

The runtime drops a plugin that does not answer in time (2 s unless configured) and goes on without
it, so every answer is given at once, from memory. `serve` keeps the connection, for ever. Whatever
the runtime did while there was none shows in the next `synchronize`: containers that started in
between did so unadjusted, unless the runtime requires the plugin.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, Protocol

from msgspec import Struct

from tessera_kubelet.errors import (
    CallFailed,
    CallTimedOut,
    GrpcCode,
    PluginNameInvalid,
    PluginRejected,
    SocketNotListening,
    TransientNodeError,
)
from tessera_kubelet.nri import protobuf
from tessera_kubelet.nri.mux import Trunk
from tessera_kubelet.nri.settings import NriPluginSettings
from tessera_kubelet.nri.ttrpc import Client, Handler, Server
from tessera_kubelet.nri.types import (
    Adjustment,
    ContainerInfo,
    CreationRefused,
    NriEvent,
    PodSandbox,
)
from tessera_kubelet.proto import nri_pb2 as pb


class NriPlugin(Protocol):
    """An agent, as a runtime sees it. Every method returns at once, from memory. One that raises
    fails the runtime's call: `synchronize` then costs the connection, `create_container` the
    container's creation, the others nothing."""

    def synchronize(self, pods: Sequence[PodSandbox], containers: Sequence[ContainerInfo]) -> None:
        """All that the runtime has. Comes first on every connection."""

    def create_container(
        self, pod: PodSandbox, container: ContainerInfo
    ) -> Adjustment | CreationRefused:
        """What this container gets. Asked again, with another container id, when its creation
        failed or the container restarts."""
        ...

    def container_started(self, pod: PodSandbox, container: ContainerInfo) -> None:
        """Its process runs."""

    def container_stopped(self, pod: PodSandbox, container: ContainerInfo) -> None:
        """Its process ended. May come more than once."""

    def container_removed(self, pod: PodSandbox, container: ContainerInfo) -> None:
        """It is gone from the runtime."""

    def pod_stopped(self, pod: PodSandbox) -> None:
        """No container of the pod runs, or will."""

    def pod_removed(self, pod: PodSandbox) -> None:
        """It is gone from the runtime."""


class Connected(Struct, frozen=True, kw_only=True):
    """The runtime has sent its state and calls the plugin for containers from now on."""

    runtime: str
    version: str
    answer_within_s: float
    """Seconds that the runtime waits for an answer before it drops the plugin."""


class Disconnected(Struct, frozen=True, kw_only=True):
    """Containers are created without the plugin, or not at all; attempts go on."""

    why: str


Observer = Callable[[Connected | Disconnected], None]

_SUBSCRIBED = (
    NriEvent.CREATE_CONTAINER,
    NriEvent.POST_START_CONTAINER,
    NriEvent.STOP_CONTAINER,
    NriEvent.REMOVE_CONTAINER,
    NriEvent.STOP_POD_SANDBOX,
    NriEvent.REMOVE_POD_SANDBOX,
)


async def serve(
    socket: Path, plugin: NriPlugin, settings: NriPluginSettings, observe: Observer = lambda _: None
) -> NoReturn:
    """Be the runtime's plugin until cancelled, and connect again whenever the connection ends.
    Calls `observe` with each change. Raises PluginNameInvalid."""
    _check(settings)
    loop = asyncio.get_running_loop()
    reported: Connected | Disconnected | None = None

    def report(now: Connected | Disconnected) -> None:
        nonlocal reported
        if now != reported:
            reported = now
            observe(now)

    wait_s = settings.retry_first_s
    while True:
        began = loop.time()
        try:
            await _session(socket, plugin, settings, report)
        except TransientNodeError as e:
            report(Disconnected(why=str(e)))
        if loop.time() - began > settings.retry_longest_s:
            wait_s = settings.retry_first_s
        await asyncio.sleep(wait_s)
        wait_s = min(wait_s * 2, settings.retry_longest_s)


def _check(settings: NriPluginSettings) -> None:
    if not settings.name:
        raise PluginNameInvalid("name: is empty; give the plugin one")
    if not re.fullmatch("[0-9]{2}", settings.index):
        raise PluginNameInvalid(f'index: "{settings.index}" must be two digits, such as "10"')


async def _session(
    socket: Path, plugin: NriPlugin, settings: NriPluginSettings, report: Observer
) -> NoReturn:
    try:
        async with asyncio.timeout(settings.register_s):
            reader, writer = await asyncio.open_unix_connection(socket)
    except OSError as e:
        raise SocketNotListening(f"{socket}: {e.strerror or str(e) or 'no answer'}") from e
    trunk = Trunk(reader, writer, write_s=settings.write_s)
    calls = _Calls(plugin)
    Server(trunk, protobuf.PLUGIN_CONNECTION, protobuf.PLUGIN_SERVICE, calls.handlers())
    client = Client(trunk, protobuf.RUNTIME_CONNECTION)
    async with trunk.reading("NRI plugin"):
        await _register(client, calls, settings)
        report(calls.runtime)
        await asyncio.Event().wait()  # the end of the connection ends it
    raise AssertionError("reading ends with an error")


async def _register(client: Client, calls: _Calls, settings: NriPluginSettings) -> None:
    name = pb.RegisterPluginRequest(plugin_name=settings.name, plugin_idx=settings.index)
    payload, within_s = name.SerializeToString(), settings.register_s
    try:
        async with asyncio.timeout(within_s):
            await client.call(
                protobuf.RUNTIME_SERVICE, "RegisterPlugin", payload, within_s=within_s
            )
            await calls.synchronized.wait()
    except (TimeoutError, CallTimedOut) as e:
        raise CallTimedOut(f"the runtime did not take the plugin in within {within_s} s") from e
    except CallFailed as e:
        raise PluginRejected(f"the runtime rejected the plugin: {e.message}") from e


class _Calls:
    """Answers the runtime's calls on one connection."""

    def __init__(self, plugin: NriPlugin) -> None:
        self.synchronized = asyncio.Event()
        self.runtime = Connected(runtime="", version="", answer_within_s=0)
        self._plugin = plugin
        self._pods: list[PodSandbox] = []
        self._containers: list[ContainerInfo] = []

    def handlers(self) -> dict[str, Handler]:
        return {
            "Configure": self._configure,
            "Synchronize": self._synchronize,
            "Shutdown": _nothing,
            "CreateContainer": self._create_container,
            "StopContainer": self._stop_container,
            "StateChange": self._state_change,
            "UpdateContainer": _nothing,
            "UpdatePodSandbox": _nothing,
            "ValidateContainerAdjustment": _nothing,
        }

    def _configure(self, payload: bytes) -> bytes:
        request = pb.ConfigureRequest.FromString(payload)
        self.runtime = Connected(
            runtime=request.runtime_name,
            version=request.runtime_version,
            answer_within_s=request.request_timeout / 1000,
        )
        return pb.ConfigureResponse(events=protobuf.mask(_SUBSCRIBED)).SerializeToString()

    def _synchronize(self, payload: bytes) -> bytes:
        request = pb.SynchronizeRequest.FromString(payload)
        self._pods += map(protobuf.sandbox, request.pods)
        self._containers += map(protobuf.container, request.containers)
        if not request.more:
            pods, self._pods = self._pods, []
            containers, self._containers = self._containers, []
            self._plugin.synchronize(pods, containers)
            self.synchronized.set()
        return pb.SynchronizeResponse(more=request.more).SerializeToString()

    def _create_container(self, payload: bytes) -> bytes:
        request = pb.CreateContainerRequest.FromString(payload)
        pod, container = protobuf.sandbox(request.pod), protobuf.container(request.container)
        match self._plugin.create_container(pod, container):
            case CreationRefused(why=why):
                raise CallFailed(GrpcCode.FAILED_PRECONDITION, why)
            case Adjustment() as given:
                adjust = protobuf.adjustment_message(given)
                return pb.CreateContainerResponse(adjust=adjust).SerializeToString()

    def _stop_container(self, payload: bytes) -> bytes:
        request = pb.StopContainerRequest.FromString(payload)
        self._plugin.container_stopped(
            protobuf.sandbox(request.pod), protobuf.container(request.container)
        )
        return b""

    def _state_change(self, payload: bytes) -> bytes:
        request = pb.StateChangeEvent.FromString(payload)
        pod, container = protobuf.sandbox(request.pod), protobuf.container(request.container)
        match int(request.event):
            case NriEvent.POST_START_CONTAINER:
                self._plugin.container_started(pod, container)
            case NriEvent.REMOVE_CONTAINER:
                self._plugin.container_removed(pod, container)
            case NriEvent.STOP_POD_SANDBOX:
                self._plugin.pod_stopped(pod)
            case NriEvent.REMOVE_POD_SANDBOX:
                self._plugin.pod_removed(pod)
            case _:
                pass  # not subscribed to
        return b""


def _nothing(_: bytes) -> bytes:
    """The empty answer to a call that the plugin did not subscribe to, or need not answer."""
    return b""
