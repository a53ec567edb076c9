"""The runtime's side: asks the plugins that connect about every container, as containerd does.

It holds no pods: what runs is known from `state`, and carrying adjustments out is the caller's
part. Faithful to NRI 0.10 also where that is weak: a plugin that fails while it is being asked
about a container counts as having been asked, so that one container gets through without the plugin
even where it is required. From the next call on it is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from tessera_embedded.runtime.merge import Merge
from tessera_embedded.runtime.plugin_client import HostedPlugin
from tessera_embedded.runtime.required import check_required
from tessera_kubelet.background import open_tasks
from tessera_kubelet.errors import NodeError, SocketUnusable
from tessera_kubelet.nri.mux import Trunk
from tessera_kubelet.nri.settings import RuntimeSettings
from tessera_kubelet.nri.types import Adjustment, ContainerInfo, NriEvent, PodSandbox


class Joined(Struct, frozen=True, kw_only=True):
    """A plugin is asked from now on."""

    plugin: str
    """Index and name."""


class Left(Struct, frozen=True, kw_only=True):
    """A plugin is not asked any more, or never was."""

    plugin: str
    """Index and name; empty when it had not registered."""
    why: str


Observer = Callable[[Joined | Left], None]
State = Callable[[], tuple[Sequence[PodSandbox], Sequence[ContainerInfo]]]


class Runtime:
    """The plugins of one runtime. Calls are made one after the other, as NRI makes them."""

    def __init__(self, settings: RuntimeSettings, state: State, observe: Observer) -> None:
        """Made by `open_runtime`."""
        self._settings = settings
        self._state = state
        self._observe = observe
        self._plugins: list[HostedPlugin] = []
        self._one_at_a_time = asyncio.Lock()
        self._changed = asyncio.Condition()

    @property
    def plugins(self) -> tuple[str, ...]:
        """Index and name ("10-tessera") of those that are connected, in the order of asking."""
        return tuple(plugin.name for plugin in self._plugins if not plugin.gone.is_set())

    async def until(self, *plugins: str) -> None:
        """Wait until exactly these are connected, by index and name in the order of asking."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.plugins == plugins)

    async def create_container(self, pod: PodSandbox, container: ContainerInfo) -> Adjustment:
        """What the container gets on top of what is in `container`. Raises ContainerNotCreated,
        with the plugin's own words where a plugin refused."""
        merge = Merge(container)
        async with self._one_at_a_time, self._forgetting():
            consulted = [plugin.name for plugin in self._plugins]
            for plugin in self._plugins:
                merge.add(plugin.name, await plugin.create_container(pod, merge.container))
            check_required(consulted, pod, container, self._settings)
        return merge.adjustment

    async def stop_container(self, pod: PodSandbox, container: ContainerInfo) -> None:
        """Report that a container's process ended. Raises CallFailed when a plugin says so; the
        plugins after it are then not notified, as in NRI."""
        async with self._one_at_a_time, self._forgetting():
            for plugin in self._plugins:
                await plugin.stop_container(pod, container)

    async def notify(
        self, event: NriEvent, pod: PodSandbox, container: ContainerInfo | None = None
    ) -> None:
        """Send an event that needs no answer; pods' events have no container. Raises CallFailed
        when a plugin says so; the plugins after it are then not notified, as in NRI."""
        async with self._one_at_a_time, self._forgetting():
            for plugin in self._plugins:
                await plugin.notify(event, pod, container)

    async def host(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Have a plugin as long as its connection lasts."""
        trunk = Trunk(reader, writer, write_s=self._settings.request_s)
        plugin = HostedPlugin(trunk, self._settings)
        try:
            async with trunk.reading("NRI runtime"):
                await plugin.register()
                await self._join(plugin)
                await plugin.gone.wait()
        except NodeError as e:
            plugin.cut(str(e))
        await self._notify(Left(plugin=plugin.name, why=plugin.why_gone))

    async def _join(self, plugin: HostedPlugin) -> None:
        async with self._one_at_a_time:
            await plugin.synchronize(*self._state())
            self._plugins.append(plugin)
            self._plugins.sort(key=lambda p: p.name[:2])
        await self._notify(Joined(plugin=plugin.name))

    async def _notify(self, event: Joined | Left) -> None:
        self._observe(event)
        async with self._changed:
            self._changed.notify_all()

    @asynccontextmanager
    async def _forgetting(self) -> AsyncGenerator[None]:
        """Forget, after the call, the plugins that are gone."""
        try:
            yield
        finally:
            self._plugins = [plugin for plugin in self._plugins if not plugin.gone.is_set()]


@asynccontextmanager
async def open_runtime(
    socket: Path,
    settings: RuntimeSettings,
    *,
    state: State = lambda: ((), ()),
    observe: Observer = lambda _: None,
) -> AsyncGenerator[Runtime]:
    """Listen for plugins while the block lasts. `state`: the pods and containers that there are,
    asked whenever a plugin connects. The socket's file may stay behind; whatever listens there next
    takes it over. Raises SocketUnusable."""
    runtime = Runtime(settings, state, observe)
    open_ = True
    async with open_tasks() as tasks:

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if not open_:
                writer.transport.abort()
                return
            task = tasks.create_task(runtime.host(reader, writer), name="NRI connection")
            task.add_done_callback(lambda _: writer.transport.abort())

        try:
            server = await asyncio.start_unix_server(connected, socket)
        except OSError as e:
            raise SocketUnusable(f"{socket}: {e.strerror or e}") from e
        try:
            yield runtime
        finally:
            open_ = False
            server.close()
