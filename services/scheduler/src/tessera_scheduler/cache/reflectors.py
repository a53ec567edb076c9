"""Reflectors of the scheduler: of kinds that every cluster has, of kinds whose definition may be
installed later, and one that can begin again with a list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Generic, NoReturn, Protocol, TypeVar

import msgspec

from tessera_runtime import logs
from tessera_runtime.errors import ApiNotFound, TesseraError
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.lists import UnreadableObject
from tessera_runtime.kube.reflector import Handler, ListWatch, Reflector
from tessera_runtime.kube.settings import KubeSettings
from tessera_runtime.metrics import Counter
from tessera_scheduler.cache.nodes import NodeCache
from tessera_scheduler.cache.settings import LedgerSettings
from tessera_scheduler.retry_queue import RetryQueue

T = TypeVar("T")

_log = logs.named("tessera.scheduler.watches")


class Watch(Protocol):
    """Something that is listed and watched."""

    @property
    def synced(self) -> asyncio.Event:
        """Set once the first list was handled, or there is nothing to list."""
        ...

    async def run(self) -> NoReturn:
        """List and watch, until cancelled."""
        ...


class ReflectorFactory:
    """Makes reflectors that count and log objects that cannot be read."""

    def __init__(
        self,
        *,
        kube: Kube,
        settings: LedgerSettings,
        calls: KubeSettings,
        random: Random,
        undecodable: Counter,
    ) -> None:
        """`calls` says how lists and watches are made, `random` spreads them in time."""
        self._kube = kube
        self._settings = settings
        self._calls = calls
        self._random = random
        self._undecodable = undecodable

    def make(self, watched: ListWatch[T], handler: Handler[T], kind: str) -> Reflector[T]:
        """A reflector of a kind that every cluster has."""

        def unreadable(what: UnreadableObject) -> None:
            self._undecodable.labels(kind).inc()
            _log.warning(
                "object not readable", path=what.path, name=what.object.name,
                namespace=what.object.namespace, why=what.why,
            )  # fmt: skip

        return Reflector(
            self._kube, watched, handler, settings=self._calls, random=self._random,
            unreadable=unreadable,
        )  # fmt: skip

    def optional(self, watched: ListWatch[T], handler: Handler[T]) -> OptionalReflector[T]:
        """A reflector of a kind whose definition may not be installed."""
        reflector = self.make(watched, handler, watched.path.rpartition("/")[2])
        return OptionalReflector(self._kube, watched.path, reflector, self._settings)


class OptionalReflector(Generic[T]):
    """Watches a kind once its definition is installed."""

    def __init__(
        self, kube: Kube, path: str, reflector: Reflector[T], settings: LedgerSettings
    ) -> None:
        """`path` is that of the kind's lists."""
        self._kube = kube
        self._path = path
        self._reflector = reflector
        self._settings = settings
        self.synced = asyncio.Event()
        """Set once the first list was handled, or the definition is known to be missing."""

    async def run(self) -> NoReturn:
        """Wait for the definition, then list and watch, until cancelled."""
        while True:
            wait_s = self._settings.retry_first_s
            try:
                await self._kube.call(Verb.GET, self._path, query={"limit": "1"})
                break
            except ApiNotFound:
                self.synced.set()
                wait_s = self._settings.custom_s
            except TesseraError as e:
                _log.warning("kind not looked for", path=self._path, why=str(e))
            await asyncio.sleep(wait_s)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reflector.run(), name=f"reflector of {self._path}")
            await self._reflector.synced.wait()
            self.synced.set()
        raise AssertionError("watches never end")


class RestartableReflector(Generic[T]):
    """A reflector that can begin again with a list."""

    def __init__(self, make: Callable[[], Reflector[T]]) -> None:
        """`make` gives a reflector that has not run."""
        self._make = make
        self._current = make()
        self._begin = asyncio.Event()
        self.synced = asyncio.Event()
        """Set once the first list was handled."""

    async def run(self) -> NoReturn:
        """List and watch, until cancelled."""
        while True:
            self._begin.clear()
            async with asyncio.TaskGroup() as group:
                tasks = (
                    group.create_task(self._current.run(), name="pod watcher"),
                    group.create_task(self._notice(self._current), name="first list"),
                )
                await self._begin.wait()
                for task in tasks:
                    task.cancel()

    async def refresh(self) -> None:
        """Begin again, and wait for the list: it is a quorum read that begins after this call."""
        self._current = self._make()
        self._begin.set()
        await self._current.synced.wait()

    async def _notice(self, reflector: Reflector[T]) -> None:
        await reflector.synced.wait()
        self.synced.set()


class NodeRefresher:
    """Reads a node again when something else that describes its cards has changed."""

    def __init__(
        self, kube: Kube, nodes: NodeCache, retry_queue: RetryQueue, nodes_read: asyncio.Event
    ) -> None:
        """Before all nodes were read once (`nodes_read`) nothing is read again."""
        self._kube = kube
        self._nodes = nodes
        self._retry_queue = retry_queue
        self._nodes_read = nodes_read

    def refresh(self, node: str) -> None:
        """Read the node soon."""

        async def read() -> bool:
            try:
                raw = await self._kube.call(Verb.GET, paths.node(node))
            except ApiNotFound:
                return True
            if not self._nodes.is_known(node):  # gone meanwhile, or not selected any more
                return True
            with suppress(msgspec.DecodeError):  # its own watch reports what is wrong with it
                self._nodes.on_update(self._nodes.read(raw))
            return True

        if self._nodes_read.is_set() and self._nodes.is_known(node):
            self._retry_queue.add("look at node", node, read)
