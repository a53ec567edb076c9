"""What becomes of containers whose cards a device plugin gave: no runtime tells it, so it is what
the API server shows of them, and of a pod that was deleted by force, which of its containers still
has processes.

It is seconds behind at times. Until a container is shown to run it counts as about to, from the
moment in which its start was allowed; what is shown of it from before that is of an earlier life.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from math import floor
from typing import Final, NoReturn

from msgspec import Struct

from tessera_agent.admission.prepare import ContainerPreparer, EarlierAdjustment
from tessera_agent.api.pod_view import ContainerRun, ContainerView, PodView
from tessera_agent.api.pods import NodePods
from tessera_agent.containers.adjustment import limits_of, terms_in
from tessera_agent.containers.holdings import ContainerRegistry, ContainerStage, Holding
from tessera_agent.containers.hook_files import ContainerKey, HookFiles
from tessera_agent.device_plugin.allocations import Allocations, RecordedAllocation
from tessera_agent.device_plugin.recovery import given_files, recovered_allocations
from tessera_agent.usage.process_owners import containers_in
from tessera_core.dialect_kit.contract import Dialect
from tessera_kubelet.errors import NodeError
from tessera_kubelet.pod_resources import PodResources
from tessera_runtime import logs
from tessera_schema.grants import Grant
from tessera_schema.injections import Injection

_log: Final = logs.named("tessera.agent.lives")
_BEFORE: Final = float("-inf")


class LifecycleDependencies(Struct, frozen=True, kw_only=True):
    """What is held against what is shown."""

    dialects: Mapping[str, Dialect]
    names: frozenset[str]
    """Of the resources that kubelet allocates."""
    holdings: ContainerRegistry
    pods: NodePods
    allocations: Allocations
    resources: PodResources
    preparing: ContainerPreparer
    files: HookFiles
    proc_folder: str
    look_s: float
    now: Callable[[], float]
    """The loop's clock."""


class ContainerLifecycle:
    """Follows containers."""

    def __init__(self, tools: LifecycleDependencies) -> None:
        """Nothing is known."""
        self._do = tools
        self._last: dict[ContainerKey, str] = {}
        """The id by which a container ran last."""
        self.synchronized = 0
        """1 once what was given before is known, and all pods were shown."""

    def rebuild(self) -> None:
        """Know what was allocated before, by what was written of it."""
        for one in self._do.allocations:
            found = self._rebuilt(one)
            if found is not None:
                self._do.holdings.put(found)

    async def follow(self) -> NoReturn:
        """Look whenever something is shown, for ever."""
        do = self._do
        while not do.pods.listed:
            await self._news(do.pods.told)
        while not do.allocations.known.is_set():
            await self._recover()
        await self._adopt()
        while True:
            told = do.pods.told
            self.reconcile()
            self.synchronized = 1
            await self._bury()
            await self._news(told)

    async def _news(self, told: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._do.look_s):
                await told.wait()

    # -- what was before

    async def _recover(self) -> None:
        """The file is lost: what it held is known to kubelet, and was made on this node."""
        do = self._do
        try:
            holdings = await do.resources.list()
        except NodeError as e:
            _log.warning("allocations not recovered", why=str(e))
            await asyncio.sleep(do.look_s)
            return
        made = await asyncio.to_thread(do.files.known)
        found = recovered_allocations(holdings, tuple(do.pods), frozenset(made), do.names)
        try:
            await do.allocations.put(*found)
        except OSError as e:
            _log.warning("allocations not written", why=str(e))
        self.rebuild()
        do.allocations.known.set()
        _log.info("allocations recovered", count=len(found))

    async def _adopt(self) -> None:
        """Containers that have files, and of which nothing else is known here."""
        do = self._do
        made = await asyncio.to_thread(do.files.known)
        for one in given_files(do.pods, frozenset(made)):
            if do.holdings.get(one.key) is None and (found := self._rebuilt(one)) is not None:
                do.holdings.put(found)

    def _rebuilt(self, one: RecordedAllocation) -> Holding | None:
        do, pod = self._do, one.sandbox

        def given(grant: Grant | None) -> Injection:
            return grant.given.get(one.container, Injection()) if grant else Injection()

        was = EarlierAdjustment(
            limits=partial(limits_of, pod, one.container),
            terms=lambda shares: terms_in(
                do.dialects, one.notes, shares, one.env, given(do.holdings.granted(one.uid))
            ),
        )  # fmt: skip
        stage = ContainerStage.CREATED if one.started_at else ContainerStage.ALLOCATED
        return do.preparing.found(pod, one.info, stage, was, adjusted=True)

    # -- what is shown

    def reconcile(self) -> None:
        """Once: every container to where it is shown to be."""
        do = self._do
        started = {one.key: one.started_at for one in do.allocations}
        for held in do.holdings:
            shown = do.pods.get(held.key.uid)
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
            moved = self._do.holdings.change(
                held.key, held.id, id=run.id, stage=ContainerStage.RUNNING
            )
            if moved is not None and moved.since != _BEFORE:
                self._do.preparing.started(moved)
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
        """Times are shown in whole seconds."""
        late = run.started_at is None or run.started_at.timestamp() >= floor(started_at)
        return late and run.id != self._last.get(held.key)

    def _end(self, held: Holding) -> None:
        if held.stage in (ContainerStage.CREATED, ContainerStage.RUNNING):
            if held.id:
                self._last[held.key] = held.id
            self._do.holdings.change(held.key, held.id, stage=ContainerStage.ENDED, pid=0)

    # -- what is gone

    async def _bury(self) -> None:
        """Forget what is gone: pods that have ended, and those that are not shown any more and of
        which nothing runs."""
        do = self._do
        left = [held for held in do.holdings if do.pods.is_gone(held.key.uid, held.since)]
        alive: frozenset[str] = frozenset()
        if any(self._may_live(held) for held in left):
            alive = await asyncio.to_thread(containers_in, do.proc_folder)
        for held in left:
            if not self._may_live(held) or held.id not in alive:
                do.holdings.forget(held.key, do.now())
                self._last.pop(held.key, None)
        holding = {held.key.uid for held in do.holdings}
        for uid in {held.key.uid for held in left} - holding:
            do.holdings.lose(uid)
        await self._forget(one for one in do.allocations if one.uid not in holding)

    def _may_live(self, held: Holding) -> bool:
        return held.stage is ContainerStage.RUNNING and self._do.pods.get(held.key.uid) is None

    async def _forget(self, of_nobody: Iterable[RecordedAllocation]) -> None:
        """Containers that hold nothing have allocations too."""
        pods = self._do.pods
        gone = [
            one for one in of_nobody
            if (shown := pods.get(one.uid)) is None or shown.ended
        ]  # fmt: skip
        if gone:
            await self._do.allocations.forget(gone)


def _is_over(container: ContainerView, pod: PodView) -> bool:
    """Whether it is an init container, and those after it have begun."""
    return container.init and any(c.began for c in pod.containers if not c.init)
