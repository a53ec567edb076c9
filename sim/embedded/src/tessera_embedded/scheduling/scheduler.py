"""The scheduling loop: one cycle at a time, bindings in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NoReturn

from tessera_embedded.scheduling.cache import SchedulerCache
from tessera_embedded.scheduling.config import Configuration
from tessera_embedded.scheduling.cycle import NoNodeFits, choose
from tessera_embedded.scheduling.extenders import ExtenderClient, ExtenderFailed, interested
from tessera_embedded.scheduling.queue import Queue
from tessera_embedded.scheduling.status import PodStatusWriter
from tessera_embedded.scheduling.types import PodInfo
from tessera_runtime.errors import TesseraError


class EmbeddedScheduler:
    """Places the pods that `view` learns of."""

    def __init__(
        self,
        config: Configuration,
        callers: Sequence[ExtenderClient],
        status_writer: PodStatusWriter,
    ) -> None:
        """Nothing is known yet; the follower of the API server fills `view`."""
        self._queue = Queue(config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds)
        self._ready = asyncio.Event()
        self.view = SchedulerCache(config, self._queue, self._ready.set)
        self._callers = callers
        self._status_writer = status_writer

    async def run(self) -> NoReturn:
        """Take pod after pod, until cancelled."""
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as bindings:
            while True:
                self._ready.clear()
                uid = self._queue.pop(loop.time())
                if uid is None:
                    await self._wait(self._queue.wait_until())
                    continue
                pod = self.view.waiting.get(uid)
                if pod is None:
                    self._queue.remove(uid)
                    continue
                await self._cycle(pod, bindings)

    async def _wait(self, until: float | None) -> None:
        try:
            async with asyncio.timeout_at(until):
                await self._ready.wait()
        except TimeoutError:
            return

    async def _cycle(self, pod: PodInfo, bindings: asyncio.TaskGroup) -> None:
        try:
            chosen = await choose(self.view, self._callers, pod)
        except ExtenderFailed as e:
            await self._failed(pod, "SchedulerError", str(e), error=True)
            return
        if isinstance(chosen, NoNodeFits):
            await self._failed(pod, "Unschedulable", chosen.message, error=False)
            return
        self.view.assume(pod.pod, chosen.node)
        bindings.create_task(self._bind(pod, chosen.node), name=f"bind {pod.pod.name}")

    async def _bind(self, pod: PodInfo, node: str) -> None:
        try:
            await self._bound(pod, node)
        except (ExtenderFailed, TesseraError) as e:
            self.view.forget(pod.uid)
            await self._failed(pod, "SchedulerError", f"binding rejected: {e}", error=True)
            return
        self._queue.remove(pod.uid)
        await self._status_writer.scheduled(pod, node)

    async def _bound(self, pod: PodInfo, node: str) -> None:
        for caller in self._callers:
            if caller.config.bind_verb and interested(caller.config, pod.pod):
                await caller.bind(pod, node)
                return
        await self._status_writer.bind(pod, node)

    async def _failed(self, pod: PodInfo, reason: str, message: str, *, error: bool) -> None:
        self._queue.failed(pod.uid, asyncio.get_running_loop().time(), error=error)
        self._ready.set()
        if pod.uid in self.view.waiting:
            await self._status_writer.failed(pod, reason, message)
        else:
            self._status_writer.gone(pod.uid)
