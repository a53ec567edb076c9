"""One pod's life on the node: init containers one after the other, then the rest, to the end."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tessera_embedded.node.container import ContainerRecord, ContainerRunner, sandbox_of
from tessera_embedded.node.environment import NoProgram
from tessera_embedded.node.pod_status import (
    ContainerProgress,
    ProcessEnded,
    ProcessRunning,
    ProcessWaiting,
    backoff_s,
    pod_status,
)
from tessera_embedded.node.pods import ContainerSpec, NodePod
from tessera_embedded.node.processes import NodeProcess
from tessera_embedded.runtime.runtime import Runtime
from tessera_kubelet.errors import NodeError
from tessera_kubelet.nri.types import NriEvent
from tessera_runtime.clock import Clock


class Worker:
    """Carries one pod. `told` is called whenever its status changed."""

    def __init__(
        self, pod: NodePod, carrier: ContainerRunner, runtime: Runtime, clock: Clock,
        on_change: Callable[[], None],
    ) -> None:  # fmt: skip
        self.pod = pod
        self.over = False
        """Set when every process has ended and none will be started again."""
        self._carrier = carrier
        self._runtime = runtime
        self._clock = clock
        self._on_change = on_change
        self._states = {
            c.name: ContainerProgress() for c in (*pod.spec.init_containers, *pod.spec.containers)
        }
        self._running = {name: asyncio.Event() for name in self._states}
        self._processes: dict[str, NodeProcess] = {}
        self._leave = asyncio.Event()

    def status(self) -> dict[str, Any]:
        """The pod's status now."""
        return pod_status(self.pod, self._states, self._clock.time())

    @property
    def states(self) -> Mapping[str, ContainerProgress]:
        """Container -> where it is."""
        return self._states

    def leave(self) -> None:
        """End all containers and start none again."""
        self._leave.set()
        for running in self._running.values():
            running.set()

    async def run(self) -> None:
        """Carry the pod until it has ended; ends its processes when cancelled, too."""
        await self._quietly(NriEvent.RUN_POD_SANDBOX)
        try:
            async with asyncio.TaskGroup() as tasks:
                life = tasks.create_task(self._live(tasks), name=f"pod {self.pod.metadata.name}")
                leaving = tasks.create_task(self._leave.wait(), name="pod leaves")
                await asyncio.wait((life, leaving), return_when=asyncio.FIRST_COMPLETED)
                leaving.cancel()
                self.leave()  # sidecars end when the others have
                await self._stop_all()
        finally:
            await self._stop_all()
            self.over = True
            self._on_change()
        await self._quietly(NriEvent.STOP_POD_SANDBOX)
        await self._quietly(NriEvent.REMOVE_POD_SANDBOX)

    async def clean(self) -> None:
        """Remove what the pod left on disk."""
        place = self._carrier.folder / "pods" / self.pod.uid
        await asyncio.to_thread(shutil.rmtree, place, True)  # noqa: FBT003  (ignore_errors)

    async def _live(self, tasks: asyncio.TaskGroup) -> None:
        for container in self.pod.spec.init_containers:
            if container.sidecar:
                tasks.create_task(self._carry(container, "Always"), name=container.name)
                await self._running[container.name].wait()
            elif not await self._carry(container, self._init_policy()):
                return
        async with asyncio.TaskGroup() as apps:
            for container in self.pod.spec.containers:
                apps.create_task(
                    self._carry(container, self.pod.spec.restart_policy), name=container.name
                )

    def _init_policy(self) -> str:
        return "Never" if self.pod.spec.restart_policy == "Never" else "OnFailure"

    async def _carry(self, container: ContainerSpec, policy: str) -> bool:
        """Run the container as its policy wants; True when it ended well for good."""
        state = self._states[container.name]
        found = self._carrier.adopt(self.pod, container)
        while found or not self._leave.is_set():
            code = await (self._follow(container, *found) if found else self._once(container))
            found = None
            again = code is None or policy == "Always" or (policy == "OnFailure" and code)
            if not again:
                return code == 0
            await self._rest(state, counted=code is not None)
        return False

    async def _rest(self, state: ContainerProgress, *, counted: bool) -> None:
        """Wait for the back-off; a container that ended counts as started once more."""
        settings = self._carrier.description
        wait_s = backoff_s(state.restarts, settings.backoff_first_s, settings.backoff_most_s)
        if counted and isinstance(state.where, ProcessEnded):
            state.last, state.restarts = state.where, state.restarts + 1
            state.where = ProcessWaiting(
                "CrashLoopBackOff", f"back-off {wait_s:g}s restarting container"
            )
            self._on_change()
        try:
            async with asyncio.timeout(wait_s):
                await self._leave.wait()
        except TimeoutError:
            return

    async def _once(self, container: ContainerSpec) -> int | None:
        """Create, start and follow it; None when it could not be created or started."""
        state = self._states[container.name]
        self._put(container, ProcessWaiting("ContainerCreating"))
        try:
            made = await self._carrier.create(self._runtime, self.pod, container, state.restarts)
        except (NodeError, NoProgram) as e:
            self._put(container, ProcessWaiting("CreateContainerError", str(e)))
            return None
        if self._leave.is_set():
            return None
        since = self._clock.time()
        try:
            process = await self._carrier.run(self.pod, container, made, (since, state.restarts))
        except OSError as e:
            self._put(container, ProcessWaiting("RunContainerError", str(e)))
            return None
        self._processes[container.name] = process
        state.id = made[1].id
        with suppress(NodeError):
            await self._carrier.started(self._runtime, state.id)
        return await self._ended(container, process, since, state.id)

    async def _follow(
        self, container: ContainerSpec, kept: ContainerRecord, process: NodeProcess
    ) -> int | None:
        state = self._states[container.name]
        state.restarts, state.id = kept.restarts, kept.container.id
        return await self._ended(container, process, kept.since, kept.container.id)

    async def _ended(
        self, container: ContainerSpec, process: NodeProcess, since: float, id_: str
    ) -> int:
        self._processes[container.name] = process
        self._put(container, ProcessRunning(since))
        if self._leave.is_set():
            await self._stop(process)
        code = await process.wait()
        self._processes.pop(container.name, None)
        self._put(container, ProcessEnded(code, since, self._clock.time()))
        with suppress(NodeError):
            await self._carrier.stopped(self._runtime, id_)
        return code

    async def _stop_all(self) -> None:
        async with asyncio.TaskGroup() as stops:
            for name, process in list(self._processes.items()):
                stops.create_task(self._stop(process), name=f"stop {name}")

    async def _stop(self, process: NodeProcess) -> None:
        await self._carrier.stop(process, self.pod.spec.termination_grace_period_seconds)

    def _put(
        self, container: ContainerSpec, where: ProcessWaiting | ProcessRunning | ProcessEnded
    ) -> None:
        self._states[container.name].where = where
        if isinstance(where, ProcessRunning):
            self._running[container.name].set()
        self._on_change()

    async def _quietly(self, event: NriEvent) -> None:
        with suppress(NodeError):
            await self._runtime.notify(event, sandbox_of(self.pod))
