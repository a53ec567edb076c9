"""What kubelet calls on one resource's socket, answered by the plugin.

Kubelet waits for Allocate without an end and admits no other pod meanwhile: so the plugin has a
time for its answer here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from tessera_kubelet.device_plugin import protobuf
from tessera_kubelet.device_plugin.device_lists import DeviceLists
from tessera_kubelet.device_plugin.types import AllocateRefused, DevicePlugin
from tessera_kubelet.errors import CallFailed, GrpcCode
from tessera_kubelet.grpc_channel import Call, Stream
from tessera_kubelet.proto import deviceplugin_pb2 as pb

T = TypeVar("T")
M = TypeVar("M", bound=Message)
_log = logging.getLogger("tessera_kubelet.deviceplugin.asked")


class DevicePluginServicer:
    """Answers kubelet's calls for one resource."""

    def __init__(
        self, resource: str, offers: DeviceLists, plugin: DevicePlugin, answer_s: float
    ) -> None:
        """`answer_s`: seconds that the plugin has for an answer."""
        self.watched = asyncio.Event()
        """Set while a watcher gets the devices."""
        self.unwatched = asyncio.Event()
        """Set once there is no watcher any more."""
        self._watchers = 0
        self._resource = resource
        self._offers = offers
        self._plugin = plugin
        self._answer_s = answer_s

    def calls(self) -> dict[str, Call]:
        """The unary calls, by method."""
        return {
            "GetDevicePluginOptions": self._options,
            "GetPreferredAllocation": self._preferred,
            "Allocate": self._allocate,
            "PreStartContainer": self._pre_start,
        }

    def streams(self) -> dict[str, Stream]:
        """The streaming calls, by method."""
        return {"ListAndWatch": self._list_and_watch}

    async def _options(self, _: bytes) -> bytes:
        return protobuf.OPTIONS.SerializeToString()

    async def _list_and_watch(self, _: bytes) -> AsyncGenerator[bytes]:
        self._watchers += 1
        self.unwatched.clear()
        self.watched.set()
        try:
            while True:
                devices, changed = self._offers.now(self._resource)
                yield protobuf.devices_message(devices).SerializeToString()
                await changed.wait()
        finally:
            self._watchers -= 1
            if not self._watchers:
                self.watched.clear()
                self.unwatched.set()

    async def _preferred(self, message: bytes) -> bytes:
        request = _read(pb.PreferredAllocationRequest, message)
        answer = pb.PreferredAllocationResponse()
        for one in request.container_requests:
            answer.container_responses.add(device_ids=self._advice(one))
        return answer.SerializeToString()

    def _advice(self, one: pb.ContainerPreferredAllocationRequest) -> list[str]:
        """The plugin's; none at all if it fails, as kubelet would fail the pod for an error."""
        available, must = list(one.available_device_ids), list(one.must_include_device_ids)
        try:
            return list(
                self._plugin.preferred(self._resource, available, must, one.allocation_size)
            )
        except Exception:  # noqa: BLE001  (any error of the plugin, which only gives advice here)
            _log.exception("no advice on ids", extra={"resource": self._resource})
            return []

    async def _allocate(self, message: bytes) -> bytes:
        answer = pb.AllocateResponse()
        for one in _read(pb.AllocateRequest, message).container_requests:
            ids = list(one.devices_ids)
            match await self._answer("Allocate", self._plugin.allocate, ids):
                case AllocateRefused(why=why):
                    raise CallFailed(GrpcCode.FAILED_PRECONDITION, why)
                case given:
                    answer.container_responses.append(protobuf.allocation_message(given))
        return answer.SerializeToString()

    async def _pre_start(self, message: bytes) -> bytes:
        ids = list(_read(pb.PreStartContainerRequest, message).devices_ids)
        refused = await self._answer("PreStartContainer", self._plugin.pre_start, ids)
        if refused is not None:
            raise CallFailed(GrpcCode.FAILED_PRECONDITION, refused.why)
        return pb.PreStartContainerResponse().SerializeToString()

    async def _answer(
        self, method: str, decide: Callable[[str, list[str]], Awaitable[T]], ids: list[str]
    ) -> T:
        limit = asyncio.timeout(self._answer_s)
        try:
            async with limit:
                return await decide(self._resource, ids)
        except Exception as e:
            if limit.expired():
                words = f"{method} of {self._resource} was not decided within {self._answer_s} s"
                raise CallFailed(GrpcCode.DEADLINE_EXCEEDED, words) from e
            _log.exception("a call failed", extra={"method": method, "resource": self._resource})
            raise CallFailed(GrpcCode.INTERNAL, f"{type(e).__name__}: {e}") from e


def _read(kind: type[M], message: bytes) -> M:
    try:
        return kind.FromString(message)
    except DecodeError as e:
        raise CallFailed(GrpcCode.INVALID_ARGUMENT, f"not a {kind.__name__}: {e}") from e
