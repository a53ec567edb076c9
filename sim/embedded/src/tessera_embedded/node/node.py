"""The node: it carries the pods that are bound to it, and reports them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from tessera_embedded.node.container import ContainerRunner
from tessera_embedded.node.pods import NodePod
from tessera_embedded.node.registration import Registration, insist
from tessera_embedded.node.worker import Worker
from tessera_embedded.runtime.runtime import Runtime
from tessera_kubelet.errors import NodeError
from tessera_runtime.clock import Clock
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_runtime.kube.reflector import WatchEventType

_LEFT_BEHIND_S: Final = 1.0
_json = msgspec.json.Encoder().encode


class EmbeddedNode:
    """Carries pods; a sink for the pods bound to it."""

    def __init__(self, kube: Kube, carrier: ContainerRunner, clock: Clock) -> None:
        """`runtime` is set before the first pod comes."""
        self.runtime: Runtime
        self.workers: dict[str, Worker] = {}
        self._kube = kube
        self._carrier = carrier
        self._clock = clock
        self._tasks: asyncio.TaskGroup
        self._changed: dict[str, asyncio.Event] = {}
        self._over: dict[str, bool] = {}
        """Pods that have ended, by uid, and whether they were deleted then. A watch may still show
        them as they were before."""

    async def run(self, tasks: asyncio.TaskGroup) -> None:
        """Register, and keep the Lease; pods are carried by tasks of this group."""
        self._tasks = tasks
        registration = Registration(self._kube, self._carrier.description, self._clock)
        await insist(registration.register)
        tasks.create_task(registration.beat(), name="heartbeat")

    # -- pods

    def on_list(self, items: list[NodePod], started: float, now: float) -> None:
        """All pods that are bound here."""
        del started, now
        shown = {pod.uid: pod for pod in items}
        self._over = {uid: gone for uid, gone in self._over.items() if uid in shown}
        self._tasks.create_task(self.sweep(frozenset(shown)), name="left behind")
        for uid, worker in self.workers.items():
            if uid not in shown:
                worker.leave()
        for pod in items:
            self._pod(pod)

    async def sweep(self, bound: frozenset[str]) -> None:
        """End what a former node process left, but for pods that are bound here, by uid."""
        for id_, process in self._carrier.left_behind(bound):
            try:
                await self._carrier.stop(process, _LEFT_BEHIND_S)
            finally:
                process.signal(signal.SIGKILL)  # nobody looks for it again
            with suppress(NodeError):
                await self._carrier.stopped(self.runtime, id_)

    def on_event(self, change: WatchEventType, item: NodePod, now: float) -> None:
        """One pod as it is now, or last was."""
        del now
        worker = self.workers.get(item.uid)
        if change is not WatchEventType.DELETED:
            self._pod(item)
            return
        self._over.pop(item.uid, None)
        if worker is not None:
            worker.leave()

    def _pod(self, pod: NodePod) -> None:
        worker = self.workers.get(pod.uid)
        if worker is None:
            deleted = self._over.get(pod.uid, False)
            ended = pod.ended or pod.uid in self._over
            if deleted or (ended and not pod.deleting):
                return
            changed = self._changed[pod.uid] = asyncio.Event()
            worker = Worker(pod, self._carrier, self.runtime, self._clock, changed.set)
            self.workers[pod.uid] = worker
            self._tasks.create_task(self._carry(worker), name=f"pod {pod.metadata.name}")
        worker.pod = pod
        if pod.deleting:
            worker.leave()

    async def _carry(self, worker: Worker) -> None:
        uid = worker.pod.uid
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.run(), name="containers")
            tasks.create_task(self._write_status(worker), name="status")
        await worker.clean()
        if worker.pod.deleting:  # also where that came while it was being cleared away
            await insist(lambda: self._delete(worker.pod))
        if self.workers.get(uid) is worker:
            del self.workers[uid]
            self._changed.pop(uid, None)
            self._over[uid] = worker.pod.deleting

    async def _write_status(self, worker: Worker) -> None:
        """Write the pod's status whenever it changes, until the pod is over."""
        changed = self._changed[worker.pod.uid]
        changed.set()
        said: Mapping[str, Any] = {}
        settled = False
        while True:
            await changed.wait()
            changed.clear()
            over, status = worker.over, worker.status()
            if status != said:
                await insist(partial(self._write, worker.pod, status))
                said = status
            if not settled and status["phase"] == "Running":
                settled = True
                await self._settle(worker.pod)
            if over:
                return

    async def _settle(self, pod: NodePod) -> None:
        notes = self._carrier.settled(pod)
        if notes:
            body = _json({"metadata": {"uid": pod.uid, "annotations": notes}})
            path = paths.pod(pod.metadata.namespace, pod.metadata.name)
            await insist(
                lambda: self._kube.call(Verb.PATCH, path, body=body, kind=Body.MERGE_PATCH)
            )

    async def _write(self, pod: NodePod, status: Mapping[str, Any]) -> None:
        meta = pod.metadata
        body = {
            "metadata": {"uid": pod.uid},
            "status": {**status, "startTime": meta.creation_timestamp},
        }
        path = paths.pod(meta.namespace, meta.name, "status")
        await self._kube.call(Verb.PATCH, path, body=_json(body), kind=Body.STRATEGIC_PATCH)

    async def _delete(self, pod: NodePod) -> None:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
        path = paths.pod(pod.metadata.namespace, pod.metadata.name)
        await self._kube.call(Verb.DELETE, path, body=_json(body))
