"""Open a scheduler on an API server: `async with open_scheduler(kubeconfig, config): ...`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tessera_embedded.scheduling.cache import SchedulerCache
from tessera_embedded.scheduling.config import Configuration, read_configuration
from tessera_embedded.scheduling.extenders import ExtenderClient
from tessera_embedded.scheduling.scheduler import EmbeddedScheduler
from tessera_embedded.scheduling.status import PodStatusWriter
from tessera_embedded.scheduling.types import NodeInfo, PodInfo, read_node, read_pod
from tessera_runtime.clock import SystemClock
from tessera_runtime.kube import paths
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.reflector import ListWatch, Reflector, WatchEventType
from tessera_runtime.kube.settings import KubeSettings


class _Nodes:
    """Passes nodes to the cache."""

    def __init__(self, view: SchedulerCache) -> None:
        self._view = view

    def on_list(self, items: list[NodeInfo], started: float, now: float) -> None:
        del started, now
        self._view.relist_nodes(items)

    def on_event(self, change: WatchEventType, item: NodeInfo, now: float) -> None:
        del now
        self._view.node(item, gone=change is WatchEventType.DELETED)


class _Pods:
    """Passes pods to the cache."""

    def __init__(self, view: SchedulerCache) -> None:
        self._view = view

    def on_list(self, items: list[PodInfo], started: float, now: float) -> None:
        del started
        self._view.relist_pods(items, now)

    def on_event(self, change: WatchEventType, item: PodInfo, now: float) -> None:
        self._view.pod(item, now, gone=change is WatchEventType.DELETED)


@asynccontextmanager
async def open_scheduler(
    kubeconfig: Path, config: Configuration | Path
) -> AsyncGenerator[EmbeddedScheduler]:
    """Schedule until the context ends. Raises config.BadConfiguration and BadSettings."""
    if isinstance(config, Path):
        config = read_configuration(await asyncio.to_thread(config.read_bytes))
    settings = KubeSettings(kubeconfig=str(kubeconfig))
    async with open_kube(settings) as kube, aiohttp.ClientSession(read_bufsize=2**20) as session:
        callers = [ExtenderClient(session, extender) for extender in config.extenders]
        scheduler = EmbeddedScheduler(config, callers, PodStatusWriter(kube, SystemClock()))
        nodes = Reflector(
            kube, ListWatch(paths.NODES, read_node), _Nodes(scheduler.view), settings=settings
        )
        pods = Reflector(
            kube, ListWatch(paths.PODS, read_pod), _Pods(scheduler.view), settings=settings
        )
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(nodes.run(), name="node watcher"),
                tasks.create_task(pods.run(), name="pod watcher"),
            ]
            await nodes.synced.wait()
            await pods.synced.wait()
            running.append(tasks.create_task(scheduler.run(), name="scheduler"))
            try:
                yield scheduler
            finally:
                for task in running:
                    task.cancel()
