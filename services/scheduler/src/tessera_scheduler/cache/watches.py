"""All lists and watches of the scheduler, and the order in which they begin.

Nodes, what describes their cards, and quotas are read first: what a running pod holds of a card is
known only when the card is known. Kinds whose definition is not installed are checked for again
from time to time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from tessera_core.ledger.ledger import Ledger
from tessera_runtime.informers import namespaces
from tessera_runtime.informers.installed_kinds import ACCELERATOR_QUOTAS, RESOURCE_QUOTAS
from tessera_runtime.kube import paths
from tessera_runtime.kube.reflector import ListWatch
from tessera_runtime.metrics import Counter
from tessera_scheduler.cache.device_states import DeviceStateListener
from tessera_scheduler.cache.handlers import CustomResourceHandler, NodeHandler, QuotaHandler
from tessera_scheduler.cache.nodes import NodeCache
from tessera_scheduler.cache.pod_events import PodEvents
from tessera_scheduler.cache.pod_reader import PodSummary
from tessera_scheduler.cache.quotas import GPU_QUOTA, QuotaCache
from tessera_scheduler.cache.reflectors import ReflectorFactory, RestartableReflector, Watch

LIVING = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
"""Selects pods that hold something. One that ends is shown as deleted."""


def custom_resource_watches(
    reflectors: ReflectorFactory,
    kinds: Iterable[str],
    nodes: NodeCache,
    refresh: Callable[[str], None],
) -> list[Watch]:
    """Watches of the kinds (API paths) by which other systems describe nodes' cards."""
    return [
        reflectors.optional(
            ListWatch(path, nodes.read_custom), CustomResourceHandler(path, nodes, refresh)
        )
        for path in sorted(kinds)
    ]


def node_watches(
    reflectors: ReflectorFactory,
    nodes: NodeCache,
    handler: NodeHandler,
    ledger: Ledger,
    pod_events: PodEvents,
    selector: str = "",
) -> list[Watch]:
    """Watches of the nodes that the label selector selects, and of namespaces, which say what
    limits and allowances count."""
    changed = namespaces.LedgerNamespaces(ledger, pod_events.freed.publish)
    query = {"labelSelector": selector} if selector else {}
    return [
        reflectors.make(ListWatch(paths.NODES, nodes.read, query), handler, "nodes"),
        reflectors.make(namespaces.watched(), changed, "namespaces"),
    ]


def quota_watches(
    reflectors: ReflectorFactory,
    quotas: QuotaCache,
    pod_events: PodEvents,
    relists: Counter,
    gpu_quota: str,
) -> list[Watch]:
    """Watches of quota objects; `gpu_quota` is namespace and name of GPU Manager's ConfigMap, empty
    where none is read."""

    def handler(kind: str) -> QuotaHandler:
        return QuotaHandler(kind, quotas, pod_events, relists)

    watches: list[Watch] = [
        reflectors.make(
            ListWatch(RESOURCE_QUOTAS, quotas.read_resource_quota),
            handler("ResourceQuota"), "resourcequotas",
        ),
        reflectors.optional(
            ListWatch(ACCELERATOR_QUOTAS, quotas.read_accelerator_quota),
            handler("AcceleratorQuota"),
        ),
    ]  # fmt: skip
    namespace, _, name = gpu_quota.partition("/")
    if name:
        config_map = ListWatch(
            paths.in_core(namespace, "configmaps"), quotas.read_gpu_quota,
            {"fieldSelector": f"metadata.name={name}"},
        )  # fmt: skip
        watches.append(reflectors.make(config_map, handler(GPU_QUOTA), "configmaps"))
    return watches


class Watches:
    """Runs all watches in their order."""

    def __init__(
        self,
        *,
        customs: Sequence[Watch],
        nodes: Sequence[Watch],
        pods: RestartableReflector[PodSummary],
        device_states: DeviceStateListener,
        nodes_read: asyncio.Event,
    ) -> None:
        """`customs` begin first, then `nodes`, what limits pods among them, then the pods.
        `nodes_read` is set before the pods begin."""
        self._customs = customs
        self._nodes = nodes
        self._pods = pods
        self._device_states = device_states
        self._nodes_read = nodes_read

    @property
    def warm(self) -> bool:
        """Whether the ledger has seen everything once."""
        return self._nodes_read.is_set() and self._pods.synced.is_set()

    async def synced(self) -> None:
        """Wait until the ledger has seen everything once."""
        await self._nodes_read.wait()
        await self._pods.synced.wait()

    async def refresh_pods(self) -> None:
        """Wait for a list of all pods, a quorum read that begins after this call."""
        await self._nodes_read.wait()
        await self._pods.refresh()

    async def run(self) -> NoReturn:
        """Watch everything, pods last, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for watches in (self._customs, self._nodes):
                for watch in watches:
                    group.create_task(watch.run(), name="watcher")
                for watch in watches:
                    await watch.synced.wait()
            self._nodes_read.set()
            group.create_task(
                self._device_states.run(self._nodes_read, self._pods.synced), name="device listener"
            )
            await self._pods.run()
        raise AssertionError("watches never end")
