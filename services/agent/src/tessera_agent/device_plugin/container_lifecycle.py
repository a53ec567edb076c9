"""The lifecycle of containers whose cards a device plugin gave: no runtime reports it, so it is
what the API server shows of them, and for a pod that was deleted by force, which of its containers
still has processes.

It is seconds behind at times. Until a container is shown to run it counts as about to, from the
moment in which its start was allowed; a status from before that is of an earlier run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from math import floor
from typing import Final, NoReturn

from tessera_agent.admission.prepare import ContainerPreparer
from tessera_agent.api.pod_view import ContainerRun, ContainerView, PodView
from tessera_agent.api.pods import NodePods
from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerKey
from tessera_agent.device_plugin.allocations import Allocations, RecordedAllocation
from tessera_agent.device_plugin.recovery import AllocationRecovery
from tessera_agent.usage.process_owners import containers_in
from tessera_kubelet.errors import NodeError
from tessera_runtime import logs

_log: Final = logs.named("tessera.agent.lives")
_BEFORE: Final = float("-inf")


class ContainerLifecycle:
    """Follows containers whose cards a device plugin gave."""

    def __init__(
        self, holdings: ContainerRegistry, pods: NodePods, allocations: Allocations,
        recovery: AllocationRecovery, preparer: ContainerPreparer, *, proc_folder: str,
        look_s: float,
    ) -> None:  # fmt: skip
        """`look_s`: seconds between two reconciliations while no event comes."""
        self._holdings = holdings
        self._pods = pods
        self._allocations = allocations
        self._recovery = recovery
        self._preparer = preparer
        self._proc_folder = proc_folder
        self._look_s = look_s
        self._last: dict[ContainerKey, str] = {}
        """The id by which a container ran last."""

    async def load(self) -> None:
        """Load what was allocated before, as far as it was recorded."""
        await self._allocations.load()
        self._recovery.rebuild()

    async def follow(self) -> NoReturn:
        """Reconcile whenever the API server shows a change, for ever."""
        while not self._pods.listed:
            await self._wait(self._pods.next_change)
        while not self._allocations.known.is_set():
            await self._recover()
        await self._recovery.adopt()
        while True:
            change = self._pods.next_change
            self.reconcile()
            self._holdings.synchronized = 1
            await self._forget_gone()
            await self._wait(change)

    async def _wait(self, change: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._look_s):
                await change.wait()

    async def _recover(self) -> None:
        try:
            await self._recovery.recover()
        except NodeError as e:
            _log.warning("allocations not recovered", why=str(e))
            await asyncio.sleep(self._look_s)

    # -- what the API server shows

    def reconcile(self) -> None:
        """Reconcile once: every container gets the stage that the API server shows."""
        started = {one.key: one.started_at for one in self._allocations}
        for held in self._holdings:
            shown = self._pods.get(held.key.uid)
            container = shown.get(held.key.container) if shown else None
            if shown is None or container is None or shown.ended:
                continue
            if _is_over(container, shown):
                self._end(held)
            else:
                self._move(held, container, started.get(held.key, 0.0))

    def _move(self, held: Holding, container: ContainerView, started_at: float) -> None:
        run = container.runs
        if run is not None and self._runs_as(run, held, started_at):
            if held.id == run.id and held.stage is ContainerStage.RUNNING:
                return
            self._last[held.key] = run.id
            moved = self._holdings.change(
                held.key, held.id, id=run.id, stage=ContainerStage.RUNNING
            )
            if moved is not None and moved.since == _BEFORE:
                self._preparer.found_running(moved)
            elif moved is not None:
                self._preparer.started(moved)
        elif any(self._ended_as(ended, held, started_at) for ended in container.ended):
            self._end(held)

    def _runs_as(self, run: ContainerRun, held: Holding, started_at: float) -> bool:
        """Whether this is the container as it runs now, not as it did before its last start."""
        if held.id:
            return run.id == held.id or run.id != self._last.get(held.key)
        return self._is_new(run, held, started_at)

    def _ended_as(self, run: ContainerRun, held: Holding, started_at: float) -> bool:
        """The same of one that has ended."""
        if held.id:
            return run.id == held.id
        return held.stage is not ContainerStage.ALLOCATED and self._is_new(run, held, started_at)

    def _is_new(self, run: ContainerRun, held: Holding, started_at: float) -> bool:
        """Whether the run began after the start that was allowed last; its times are in whole
        seconds."""
        late = run.started_at is None or run.started_at.timestamp() >= floor(started_at)
        return late and run.id != self._last.get(held.key)

    def _end(self, held: Holding) -> None:
        if held.stage in (ContainerStage.CREATED, ContainerStage.RUNNING):
            if held.id:
                self._last[held.key] = held.id
            self._holdings.change(held.key, held.id, stage=ContainerStage.ENDED, pid=0)

    # -- what is gone

    async def _forget_gone(self) -> None:
        """Forget what is gone: pods that have ended, and those that are not shown any more and of
        which nothing runs."""
        left = [held for held in self._holdings if self._pods.is_gone(held.key.uid, held.since)]
        alive: frozenset[str] = frozenset()
        if any(self._may_live(held) for held in left):
            alive = await asyncio.to_thread(containers_in, self._proc_folder)
        for held in left:
            if not self._may_live(held) or held.id not in alive:
                self._holdings.forget(held.key, asyncio.get_running_loop().time())
                self._last.pop(held.key, None)
        holding = {held.key.uid for held in self._holdings}
        for uid in {held.key.uid for held in left} - holding:
            self._holdings.lose(uid)
        await self._forget(one for one in self._allocations if one.uid not in holding)

    def _may_live(self, held: Holding) -> bool:
        return held.stage is ContainerStage.RUNNING and self._pods.get(held.key.uid) is None

    async def _forget(self, of_nobody: Iterable[RecordedAllocation]) -> None:
        """Containers that hold nothing have allocations too."""
        gone = [
            one for one in of_nobody
            if (shown := self._pods.get(one.uid)) is None or shown.ended
        ]  # fmt: skip
        if gone:
            await self._allocations.forget(gone)


def _is_over(container: ContainerView, pod: PodView) -> bool:
    """Whether it is an init container, and those after it have begun."""
    return container.init and any(c.began for c in pod.containers if not c.init)
