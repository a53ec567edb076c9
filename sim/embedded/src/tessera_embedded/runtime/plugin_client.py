"""One plugin, as the runtime that it connected to sees it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from tessera_kubelet.errors import (
    AdjustmentUnsupported,
    CallFailed,
    CallTimedOut,
    ContainerRefused,
    GrpcCode,
    LinkLost,
    Oversized,
    PluginRejected,
)
from tessera_kubelet.nri import protobuf
from tessera_kubelet.nri.mux import Trunk
from tessera_kubelet.nri.settings import RuntimeSettings
from tessera_kubelet.nri.ttrpc import Client, Server
from tessera_kubelet.nri.types import Adjustment, ContainerInfo, NriEvent, PodSandbox
from tessera_kubelet.proto import nri_pb2 as pb

T = TypeVar("T", bound=Message)

_KNOWN_TO_NRI = 14
"""NRI 0.10 numbers its events so far; the ones after REMOVE_CONTAINER never happen here."""


class HostedPlugin:
    """A connected plugin. Once `gone` is set it is not asked any more."""

    def __init__(self, trunk: Trunk, settings: RuntimeSettings) -> None:
        """Nothing is said before `register`."""
        self.gone = asyncio.Event()
        self.why_gone = ""
        self._settings = settings
        self._client = Client(trunk, protobuf.PLUGIN_CONNECTION)
        self._registered: asyncio.Future[pb.RegisterPluginRequest] = (
            asyncio.get_running_loop().create_future()
        )
        self.name = ""
        """Index and name: "10-tessera"; empty before it has registered."""
        self._events = 0
        Server(
            trunk,
            protobuf.RUNTIME_CONNECTION,
            protobuf.RUNTIME_SERVICE,
            {"RegisterPlugin": self._register_plugin},
        )

    async def register(self) -> None:
        """Wait until the plugin says who it is, and ask which events it wants. Raises
        PluginRejected, LinkLost."""
        within_s = self._settings.register_s
        try:
            async with asyncio.timeout(within_s):
                asked = await self._registered
        except TimeoutError as e:
            raise PluginRejected(f"it did not register within {within_s} s") from e
        self.name = f"{asked.plugin_idx}-{asked.plugin_name}"
        configure = pb.ConfigureRequest(
            runtime_name=self._settings.name,
            runtime_version=self._settings.version,
            registration_timeout=int(within_s * 1000),
            request_timeout=int(self._settings.request_s * 1000),
        )
        answer = await self._decoded_call("Configure", configure, pb.ConfigureResponse)
        if answer.events >> _KNOWN_TO_NRI:
            raise PluginRejected(f"it subscribes to events that do not exist: {answer.events:#x}")
        self._events = answer.events or protobuf.mask(NriEvent)

    async def synchronize(
        self, pods: Sequence[PodSandbox], containers: Sequence[ContainerInfo]
    ) -> None:
        """Send it all that there is. Raises PluginRejected, LinkLost."""
        for piece in _pieces(pods, containers, self._settings.sync_bytes):
            answer = await self._decoded_call("Synchronize", piece, pb.SynchronizeResponse)
            if answer.more != piece.more:
                raise PluginRejected("it does not take Synchronize in several messages")

    async def create_container(self, pod: PodSandbox, container: ContainerInfo) -> Adjustment:
        """What it adds; nothing when it is gone or did not subscribe. Raises ContainerRefused."""
        asked = pb.CreateContainerRequest(
            pod=protobuf.sandbox_message(pod), container=protobuf.container_message(container)
        )
        try:
            payload = await self._request(NriEvent.CREATE_CONTAINER, "CreateContainer", asked)
            if payload is None:
                return Adjustment()
            return protobuf.adjustment(pb.CreateContainerResponse.FromString(payload).adjust)
        except CallFailed as e:
            raise ContainerRefused(f'plugin "{self.name}": {e.message}') from e
        except (DecodeError, AdjustmentUnsupported) as e:
            raise ContainerRefused(f'plugin "{self.name}" gave an unusable answer: {e}') from e

    async def stop_container(self, pod: PodSandbox, container: ContainerInfo) -> None:
        """Send it. Raises CallFailed."""
        stopped = pb.StopContainerRequest(
            pod=protobuf.sandbox_message(pod), container=protobuf.container_message(container)
        )
        await self._request(NriEvent.STOP_CONTAINER, "StopContainer", stopped)

    async def notify(
        self, event: NriEvent, pod: PodSandbox, container: ContainerInfo | None
    ) -> None:
        """Send it. Raises CallFailed."""
        change = pb.StateChangeEvent(
            event=pb.Event.ValueType(event),
            pod=protobuf.sandbox_message(pod),
            container=protobuf.container_message(container) if container is not None else None,
        )
        await self._request(event, "StateChange", change)

    def cut(self, why: str) -> None:
        """Have its connection closed."""
        if not self.gone.is_set():
            self.why_gone = why
            self.gone.set()

    async def _request(self, event: NriEvent, method: str, message: Message) -> bytes | None:
        """The answer; None when the plugin did not subscribe, or does not answer and is cut."""
        if self.gone.is_set() or not self._events & protobuf.mask([event]):
            return None
        try:
            return await self._call(method, message)
        except (CallTimedOut, LinkLost) as e:
            self.cut(str(e))
            return None

    async def _decoded_call(self, method: str, message: Message, answer: type[T]) -> T:
        try:
            return answer.FromString(await self._call(method, message))
        except (CallFailed, DecodeError, Oversized, CallTimedOut) as e:
            raise PluginRejected(f"{method} failed: {e}") from e

    async def _call(self, method: str, message: Message) -> bytes:
        return await self._client.call(
            protobuf.PLUGIN_SERVICE,
            method,
            message.SerializeToString(),
            within_s=self._settings.request_s,
        )

    def _register_plugin(self, payload: bytes) -> bytes:
        asked = pb.RegisterPluginRequest.FromString(payload)
        if not asked.plugin_name:
            raise CallFailed(GrpcCode.INVALID_ARGUMENT, "plugin_name: is empty")
        if not re.fullmatch("[0-9]{2}", asked.plugin_idx):
            raise CallFailed(
                GrpcCode.INVALID_ARGUMENT, f'plugin_idx: "{asked.plugin_idx}" must be two digits'
            )
        if self._registered.done():
            raise CallFailed(GrpcCode.FAILED_PRECONDITION, "the plugin is registered already")
        self._registered.set_result(asked)
        return b""


def _pieces(
    pods: Sequence[PodSandbox], containers: Sequence[ContainerInfo], limit: int
) -> Iterator[pb.SynchronizeRequest]:
    """The whole state in messages of at most `limit` bytes, or of one object each."""
    piece, size = pb.SynchronizeRequest(), 0
    for one in _singles(pods, containers):
        more = one.ByteSize()
        if size and size + more > limit:
            piece.more = True
            yield piece
            piece, size = pb.SynchronizeRequest(), 0
        piece.MergeFrom(one)
        size += more
    yield piece


def _singles(
    pods: Iterable[PodSandbox], containers: Iterable[ContainerInfo]
) -> Iterator[pb.SynchronizeRequest]:
    for pod in pods:
        yield pb.SynchronizeRequest(pods=[protobuf.sandbox_message(pod)])
    for container in containers:
        yield pb.SynchronizeRequest(containers=[protobuf.container_message(container)])
