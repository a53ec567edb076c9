"""The plugin's side: registers each resource with kubelet, and stays registered.

Kubelet forgets its plugins when it restarts and announces nothing, so the sockets are polled.
Containers that run do not need this, only those that are to start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from tessera_core.machines.registration import (
    Accepted,
    Event,
    RegistrationPhase,
    SocketAppeared,
    SocketVanished,
    StopRequested,
    advance,
)
from tessera_kubelet.background import open_tasks
from tessera_kubelet.device_plugin import protobuf
from tessera_kubelet.device_plugin.device_lists import DeviceLists
from tessera_kubelet.device_plugin.server import DevicePluginServicer
from tessera_kubelet.device_plugin.settings import DevicePluginSettings
from tessera_kubelet.device_plugin.sockets import (
    FileIdentity,
    file_identity,
    kubelets_socket,
    plugins_socket,
)
from tessera_kubelet.device_plugin.types import (
    DevicePlugin,
    ResourceNotRegistered,
    ResourceRegistered,
)
from tessera_kubelet.errors import CallTimedOut, NodeError, SocketNotListening, SocketUnusable
from tessera_kubelet.grpc_channel import open_channel, open_server
from tessera_kubelet.proto import deviceplugin_pb2 as pb

Observer = Callable[[ResourceRegistered | ResourceNotRegistered], None]


async def serve(
    folder: Path,
    offers: DeviceLists,
    plugin: DevicePlugin,
    settings: DevicePluginSettings,
    observe: Observer = lambda _: None,
) -> NoReturn:
    """Be kubelet's plugin for all resources in `offers`, until cancelled. Waits for a kubelet that
    is not there. `folder`: kubelet's, for device plugins. Calls `observe` with each change. Raises
    PluginNameInvalid, SocketUnusable."""
    served: set[str] = set()
    async with open_tasks() as tasks:
        while True:
            named = offers.named
            for resource in set(offers.resources) - served:
                served.add(resource)
                registration = _Registration(folder, resource, offers, plugin, settings, observe)
                tasks.create_task(registration.run(), name=f"device plugin of {resource}")
            await named.wait()
    raise AssertionError("it ends with an error")


class _Vanished(Exception):
    """A socket is gone, or kubelet does not watch the devices any more."""


class _Registration:
    """Keeps one resource registered."""

    def __init__(
        self,
        folder: Path,
        resource: str,
        offers: DeviceLists,
        plugin: DevicePlugin,
        settings: DevicePluginSettings,
        observe: Observer,
    ) -> None:
        self._resource = resource
        self._settings = settings
        self._observe = observe
        self._kubelets = kubelets_socket(folder)
        self._own = plugins_socket(folder, settings.prefix, resource)
        self._new_servicer = partial(
            DevicePluginServicer, resource, offers, plugin, settings.answer_s
        )
        self._phase = RegistrationPhase.DETACHED
        self._reported: ResourceRegistered | ResourceNotRegistered | None = None

    async def run(self) -> NoReturn:
        try:
            while True:
                try:
                    await self._attach(await self._kubelet())
                except _Vanished as e:
                    self._report(ResourceNotRegistered(resource=self._resource, why=str(e)))
                except SocketUnusable as e:
                    self._report(ResourceNotRegistered(resource=self._resource, why=str(e)))
                    await asyncio.sleep(self._settings.retry_s)
        finally:
            if self._phase is RegistrationPhase.DETACHED:
                self._move(StopRequested())

    async def _kubelet(self) -> FileIdentity:
        """Kubelet's socket, as soon as there is one."""
        while (kubelet := await file_identity(self._kubelets)) is None:
            why = f"{self._kubelets}: kubelet is not there"
            self._report(ResourceNotRegistered(resource=self._resource, why=why))
            await asyncio.sleep(self._settings.poll_s)
        return kubelet

    async def _attach(self, kubelet: FileIdentity) -> NoReturn:
        """Listen, register and answer for as long as kubelet is this one. Raises _Vanished,
        SocketUnusable."""
        servicer = self._new_servicer()
        try:
            async with open_server(
                self._own,
                protobuf.PLUGIN_SERVICE,
                servicer.calls(),
                servicer.streams(),
                drain_s=self._settings.drain_s,
                message_bytes=self._settings.message_bytes,
            ):
                self._move(SocketAppeared())
                try:
                    await self._while_there(kubelet, servicer)
                except asyncio.CancelledError:
                    self._move(StopRequested())
                    raise
        finally:
            if self._phase is not RegistrationPhase.DETACHED:
                self._move(SocketVanished())

    async def _while_there(self, kubelet: FileIdentity, servicer: DevicePluginServicer) -> NoReturn:
        own = await file_identity(self._own)
        async with open_tasks() as tasks:
            tasks.create_task(self._registered(servicer), name=f"registration of {self._resource}")
            while True:
                if await file_identity(self._kubelets) != kubelet:
                    raise _Vanished(f"{self._kubelets}: kubelet went away or restarted")
                if own is None or await file_identity(self._own) != own:
                    raise _Vanished(f"{self._own}: somebody removed it")
                if servicer.unwatched.is_set():
                    await self._unwatched()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._settings.poll_s):
                        await servicer.unwatched.wait()
        raise AssertionError("it ends with an error")

    async def _unwatched(self) -> NoReturn:
        """Start again, but not at once: a kubelet that was killed leaves its socket. Raises
        _Vanished."""
        why = f"{self._kubelets}: kubelet does not watch the devices any more"
        self._report(ResourceNotRegistered(resource=self._resource, why=why))
        await asyncio.sleep(self._settings.poll_s)
        raise _Vanished(why)

    async def _registered(self, servicer: DevicePluginServicer) -> None:
        """Try until kubelet watches the devices."""
        while True:
            try:
                await self._register(servicer)
                break
            except NodeError as e:
                self._report(ResourceNotRegistered(resource=self._resource, why=str(e)))
                near = isinstance(e, SocketNotListening)
                await asyncio.sleep(self._settings.poll_s if near else self._settings.retry_s)
        self._move(Accepted())
        self._report(ResourceRegistered(resource=self._resource))

    async def _register(self, servicer: DevicePluginServicer) -> None:
        """Raises NodeError."""
        call_s, message_bytes = self._settings.call_s, self._settings.message_bytes
        async with open_channel(self._own, message_bytes=message_bytes) as channel:
            method = f"/{protobuf.PLUGIN_SERVICE}/GetDevicePluginOptions"
            await channel.call(method, b"", within_s=call_s)
        message = pb.RegisterRequest(
            version=protobuf.VERSION,
            endpoint=self._own.name,
            resource_name=self._resource,
            options=protobuf.OPTIONS,
        ).SerializeToString()
        async with open_channel(self._kubelets, message_bytes=message_bytes) as channel:
            method = f"/{protobuf.REGISTRATION_SERVICE}/Register"
            await channel.call(method, message, within_s=call_s)
        watch_s = self._settings.watch_s
        try:
            async with asyncio.timeout(watch_s):
                await servicer.watched.wait()
        except TimeoutError as e:
            raise CallTimedOut(
                f"kubelet took the registration and did not ask for the devices within {watch_s} s"
            ) from e

    def _move(self, event: Event) -> None:
        self._phase = advance(self._phase, event)

    def _report(self, now: ResourceRegistered | ResourceNotRegistered) -> None:
        if now != self._reported:
            self._reported = now
            self._observe(now)
