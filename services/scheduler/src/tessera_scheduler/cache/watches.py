"""What the API server and the bus tell, brought to the books.

Nodes, what describes their cards, and quotas are read first: what a running pod holds of a card can
be told only when the card is known. Kinds whose definition is not installed are looked for again
from time to time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from random import Random
from typing import Generic, NoReturn, TypeVar

import msgspec

from tessera_runtime import logs
from tessera_runtime.bus.api import Bus, Message, Resync
from tessera_runtime.errors import ApiNotFound, TesseraError
from tessera_runtime.informers import namespaces
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.lists import UnreadableObject
from tessera_runtime.kube.reflector import Handler, ListWatch, Reflector
from tessera_runtime.kube.settings import KubeSettings
from tessera_scheduler.cache.handlers import (
    CustomResourceHandler,
    HandlerTargets,
    NodeHandler,
    PodHandler,
    QuotaHandler,
)
from tessera_scheduler.cache.pod_reader import PodSummary
from tessera_scheduler.cache.quotas import GPU_QUOTA, QuotaSummary
from tessera_scheduler.settings import LedgerSettings
from tessera_schema.annotation_keys import GROUP
from tessera_schema.subjects import DEVICES_BUCKET

T = TypeVar("T")

LIVING = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
"""Pods that hold something. One that ends is told as deleted."""
QUOTAS = "/api/v1/resourcequotas"
OWN_QUOTAS = f"/apis/{GROUP}/v1alpha1/acceleratorquotas"

_log = logs.named("tessera.scheduler.watching")


class RestartableReflector(Generic[T]):
    """A reflector that can be told to begin again with a list."""

    def __init__(self, make: Callable[[], Reflector[T]]) -> None:
        """`make` gives a reflector that has not run."""
        self._make = make
        self._current = make()
        self._begin = asyncio.Event()
        self._synced = asyncio.Event()

    async def run(self) -> NoReturn:
        """List and watch."""
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

    @property
    def there(self) -> bool:
        """Whether the first list was read."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Wait for the first list, whichever that is."""
        await self._synced.wait()

    async def refresh(self) -> None:
        """Wait for a list that was asked for just now, by a quorum read."""
        self._current = self._make()
        self._begin.set()
        await self._current.synced.wait()

    async def _notice(self, reflector: Reflector[T]) -> None:
        await reflector.synced.wait()
        self._synced.set()


class Watches:
    """All watches of the scheduler."""

    def __init__(
        self,
        kube: Kube,
        bus: Bus,
        told: HandlerTargets,
        settings: LedgerSettings,
        calls: KubeSettings,
        random: Random,
        gpu_quota: str = "",
    ) -> None:
        """`calls` says how lists and watches are made, `random` spreads them in time, `gpu_quota`
        where GPU Manager's quotas are."""
        self._gpu_quota_at = gpu_quota
        self._kube = kube
        self._bus = bus
        self._told = told
        self._settings = settings
        self._calls = calls
        self._random = random
        self._nodes_read = asyncio.Event()
        self.pods: RestartableReflector[PodSummary] = RestartableReflector(
            lambda: self._reflector(
                ListWatch(paths.PODS, told.reader.read, LIVING), PodHandler(told), "pods"
            )
        )

    @property
    def warm(self) -> bool:
        """Whether the books have seen everything once."""
        return self._nodes_read.is_set() and self.pods.there

    async def synced(self) -> None:
        """Wait until the books have seen everything once."""
        await self._nodes_read.wait()
        await self.pods.synced()

    async def pods_anew(self) -> None:
        """Wait for a list of all pods that was asked for just now, by a quorum read."""
        await self._nodes_read.wait()
        await self.pods.refresh()

    async def run(self) -> NoReturn:
        """Watch everything, pods last."""
        told = self._told
        customs = sorted({p for d in told.registry.readers.values() for p in d.custom_resources})
        nodes = self._reflector(ListWatch(paths.NODES, told.nodes.read), NodeHandler(told), "nodes")
        quotas = self._reflector(
            ListWatch(QUOTAS, told.limits.read_resource_quota),
            QuotaHandler("ResourceQuota", told),
            "resourcequotas",
        )
        own = ListWatch(OWN_QUOTAS, told.limits.read_accelerator_quota)
        known = self._reflector(
            namespaces.watched(), namespaces.LedgerNamespaces(told.ledger, told.freed), "namespaces"
        )
        theirs = self._gpu_quota()
        async with asyncio.TaskGroup() as group:
            settled = []
            for path in customs:
                watched = ListWatch(path, told.nodes.read_custom)
                sink = CustomResourceHandler(path, told, self._look_at)
                settled.append(event := asyncio.Event())
                group.create_task(self._if_there(watched, sink, event), name=f"watcher of {path}")
            for event in settled:
                await event.wait()
            group.create_task(nodes.run(), name="node watcher")
            group.create_task(quotas.run(), name="quota watcher")
            group.create_task(known.run(), name="namespace watcher")
            there = asyncio.Event()
            limits = QuotaHandler("AcceleratorQuota", told)
            group.create_task(self._if_there(own, limits, there), name="own quota watcher")
            group.create_task(self._listen(), name="device listener")
            if theirs is not None:
                group.create_task(theirs.run(), name="GPU quota watcher")
                await theirs.synced.wait()
            for event in (nodes.synced, quotas.synced, known.synced, there):
                await event.wait()
            self._nodes_read.set()
            await self.pods.run()
        raise AssertionError("watches never end")

    def _gpu_quota(self) -> Reflector[QuotaSummary] | None:
        """GPU Manager's quotas; None where nobody wants them."""
        namespace, _, name = self._gpu_quota_at.partition("/")
        if not name:
            return None
        watched = ListWatch(
            paths.in_core(namespace, "configmaps"), self._told.limits.read_gpu_quota,
            {"fieldSelector": f"metadata.name={name}"},
        )  # fmt: skip
        return self._reflector(watched, QuotaHandler(GPU_QUOTA, self._told), "configmaps")

    def _reflector(self, watched: ListWatch[T], sink: Handler[T], kind: str) -> Reflector[T]:
        def unreadable(what: UnreadableObject) -> None:
            self._told.measures.undecodable.labels(kind).inc()
            _log.warning(
                "object not readable", path=what.path, name=what.object.name,
                namespace=what.object.namespace, why=what.why,
            )  # fmt: skip

        return Reflector(
            self._kube, watched, sink, settings=self._calls, random=self._random,
            unreadable=unreadable,
        )  # fmt: skip

    async def _if_there(
        self, watched: ListWatch[T], sink: Handler[T], settled: asyncio.Event
    ) -> NoReturn:
        """Watch a kind once its definition is installed; `settled` once that is known."""
        while True:
            wait_s = self._settings.errand_first_s
            try:
                await self._kube.call(Verb.GET, watched.path, query={"limit": "1"})
                break
            except ApiNotFound:
                settled.set()
                wait_s = self._settings.custom_s
            except TesseraError as e:
                _log.warning("kind not looked for", path=watched.path, why=str(e))
            await asyncio.sleep(wait_s)
        reflector = self._reflector(watched, sink, watched.path.rpartition("/")[2])
        async with asyncio.TaskGroup() as group:
            group.create_task(reflector.run(), name=f"reflector of {watched.path}")
            await reflector.synced.wait()
            settled.set()
        raise AssertionError("watches never end")

    def _look_at(self, node: str) -> None:
        """What describes the node's cards has changed: read the node anew."""

        async def errand() -> bool:
            try:
                raw = await self._kube.call(Verb.GET, paths.node(node))
            except ApiNotFound:
                return True
            with suppress(msgspec.DecodeError):  # its own watch tells what is wrong with it
                self._told.nodes.changed(self._told.nodes.read(raw))
            return True

        if self._nodes_read.is_set():
            self._told.errands.add("look at node", node, errand)

    # -- the bus

    async def _listen(self) -> NoReturn:
        await self._nodes_read.wait()  # nodes show who speaks for them
        async with self._bus.watch(DEVICES_BUCKET) as told:
            await self._hear(told)
        raise AssertionError("watches never end")

    async def _hear(self, told: AsyncIterator[Message | Resync]) -> None:
        async for item in told:
            if isinstance(item, Message) and self._told.states.take(
                item, self._told.steady.time(), audited=self.pods.there
            ):
                self._told.freed()
