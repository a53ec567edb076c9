"""One container, carried from the question to the agents to the end of its process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec.structs import replace

from tessera_embedded.node.environment import (
    on_node,
    program,
    translated,
    wanted,
    with_driver,
    with_limiter,
)
from tessera_embedded.node.pods import ContainerSpec, NodePod
from tessera_embedded.node.processes import (
    NodeProcess,
    ProcessRecord,
    is_alive,
    start,
    writing_below,
)
from tessera_embedded.node.settings import NodeDescription
from tessera_embedded.node.vendor_toolkits import Toolkit, ToolkitRequest
from tessera_embedded.runtime.merge import amended
from tessera_embedded.runtime.runtime import Runtime
from tessera_kubelet.nri.types import ContainerInfo, NriContainerState, NriEvent, PodSandbox

_KILLED_S: Final = 60.0
"""Seconds that a process may take to end after SIGKILL."""


class ContainerRecord(msgspec.Struct, frozen=True):
    """What is written down of a container, so that the next node process finds it."""

    sandbox: PodSandbox
    container: ContainerInfo
    process: ProcessRecord
    since: float
    restarts: int


class ContainerRunner:
    """Creates, starts, stops and remembers the containers of one node."""

    def __init__(
        self, description: NodeDescription, folder: Path, toolkits: dict[str, Toolkit]
    ) -> None:
        """`folder` holds `pods/` and `machines/`."""
        self.folder = folder
        self.description = description
        self._toolkits = {v: t for v, t in toolkits.items() if v in description.machines}
        self._runs: dict[str, tuple[PodSandbox, ContainerInfo]] = {}
        self._left: dict[tuple[str, str], ContainerRecord] = {}
        """(pod's uid, container) -> what a former node process left and nobody has taken over."""

    def machine(self, vendor: str) -> Path:
        """The state of a vendor's simulated cards: where a client whose TMPDIR is its folder looks
        for it by itself."""
        return self.folder / "machines" / vendor / f"tessera-sim-{os.getuid()}"

    def state(self) -> tuple[list[PodSandbox], list[ContainerInfo]]:
        """What runs, for a plugin that connects."""
        sandboxes = {sandbox.id: sandbox for sandbox, _ in self._runs.values()}
        return list(sandboxes.values()), [container for _, container in self._runs.values()]

    def settled(self, pod: NodePod) -> dict[str, str]:
        """What vendors' own programs write on the pod now that they have allocated."""
        notes: dict[str, str] = {}
        for toolkit in self._toolkits.values():
            asked = [
                ToolkitRequest(pod=pod, container=c.name, position=i, env={})
                for i, c in enumerate(pod.spec.containers)
            ]
            if toolkit.settles and any(toolkit.allocate(one) for one in asked):
                notes |= toolkit.settles
        return notes

    async def create(
        self, runtime: Runtime, pod: NodePod, container: ContainerSpec, restarts: int
    ) -> tuple[PodSandbox, ContainerInfo]:
        """Ask the agents, as the runtime does before a container is there. Raises
        ContainerNotCreated and environment.NoProgram."""
        sandbox = sandbox_of(pod)
        argv = program(self.description, container.image)
        by_image = self.description.environment.keys()
        info = ContainerInfo(
            id=_id(pod.uid, container.name, restarts), sandbox_id=sandbox.id, name=container.name,
            args=(*container.command, *container.args) or argv,
            env=wanted(self.description, pod, container), labels=_labels(pod, container.name),
            set_twice=frozenset(v.name for v in container.env) & by_image,
        )  # fmt: skip
        adjustment = await runtime.create_container(sandbox, info)
        return sandbox, replace(amended(info, adjustment), state=NriContainerState.CREATED)

    async def run(
        self,
        pod: NodePod,
        container: ContainerSpec,
        made: tuple[PodSandbox, ContainerInfo],
        kept: tuple[float, int],
    ) -> NodeProcess:
        """Start a created container's process. `kept`: since when, and how often it was started
        again. Raises OSError."""
        sandbox, info = made
        argv, env = program(self.description, container.image), self._env(pod, container, info)

        def started() -> tuple[NodeProcess, ContainerInfo]:
            """At one go: a process that was not written down would be lost to the next node."""
            process = start(argv, env, self._place(pod.uid, container.name))
            running = replace(info, state=NriContainerState.RUNNING, pid=process.pid)
            record = ContainerRecord(sandbox, running, process.record, *kept)
            self._write(pod.uid, container.name, record)
            return process, running

        begun = asyncio.get_running_loop().run_in_executor(None, started)
        try:
            process, info = await asyncio.shield(begun)
        except asyncio.CancelledError:
            with suppress(OSError):  # a thread cannot be cancelled: its process must be ended here
                await self.stop((await begun)[0], 0)
            raise
        self._runs[info.id] = sandbox, info
        return process

    async def started(self, runtime: Runtime, id_: str) -> None:
        """The container's process runs: notify the agents. Raises CallFailed."""
        sandbox, info = self._runs[id_]
        await runtime.notify(NriEvent.POST_START_CONTAINER, sandbox, info)

    def recall(self) -> None:
        """Know again what a former node process left running. Before any agent asks what runs: as
        at containerd, it gets all of it then, and not again."""
        for path in (self.folder / "pods").glob("*/*/kept"):
            kept = _read(path)
            if kept is not None and is_alive(kept.process):
                self._runs[kept.container.id] = kept.sandbox, kept.container
                self._left[kept.sandbox.uid, kept.container.name] = kept

    def adopt(
        self, pod: NodePod, container: ContainerSpec
    ) -> tuple[ContainerRecord, NodeProcess] | None:
        """The container that a former node process left; it may have ended since. Once."""
        kept = self._left.pop((pod.uid, container.name), None)
        return None if kept is None else (kept, NodeProcess(kept.process))

    def left_behind(self, bound: frozenset[str]) -> Iterator[tuple[str, NodeProcess]]:
        """Containers, by id, that a former node process left of pods that are not bound here any
        more, and their processes. Each once."""
        while gone := next((key for key in self._left if key[0] not in bound), None):
            kept = self._left.pop(gone)
            yield kept.container.id, NodeProcess(kept.process)

    async def stopped(self, runtime: Runtime, id_: str) -> None:
        """The container's process has ended: notify the agents."""
        found = self._runs.pop(id_, None)
        if found is not None:
            sandbox, info = found
            info = replace(info, state=NriContainerState.STOPPED, pid=0)
            await runtime.stop_container(sandbox, info)
            await runtime.notify(NriEvent.REMOVE_CONTAINER, sandbox, info)

    async def stop(self, process: NodeProcess, grace_s: float) -> int:
        """SIGTERM, then SIGKILL when the grace is over; the exit status."""
        process.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                return await process.wait()
        except TimeoutError:
            process.signal(signal.SIGKILL)
        async with asyncio.timeout(_KILLED_S):
            return await process.wait()

    def end_unrecorded(self) -> None:
        """Kill what a former node process started and did not live to write down. Before anything
        is started here."""
        pods = (self.folder / "pods").resolve()
        for pid, session, log in writing_below(pods):
            kept = _read(log.with_name("kept"))
            if kept is None or kept.process.pid != session:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _env(self, pod: NodePod, container: ContainerSpec, info: ContainerInfo) -> dict[str, str]:
        lookup = on_node(self.description.host_root)
        env = translated(info.env, info.mounts, lookup)
        positions = {c.name: i for i, c in enumerate(pod.spec.containers)}
        asked = ToolkitRequest(
            pod=pod, container=container.name, position=positions.get(container.name, -1), env=env,
            limits=container.resources.limits,
        )  # fmt: skip
        about, place = self.description, self._place(pod.uid, container.name)
        for vendor, toolkit in self._toolkits.items():
            given = toolkit.allocate(asked)
            if given is not None:
                env = with_driver(env, about.driver_folder, self.machine(vendor), given.cards)
                env = with_limiter(env, about.limiter, place, given.memory_mib, given.cores_percent)
        return env

    def _place(self, uid: str, container: str) -> Path:
        return self.folder / "pods" / uid / container

    def _write(self, uid: str, container: str, kept: ContainerRecord) -> None:
        path = self._place(uid, container) / "kept"
        new = path.with_suffix(".new")
        new.write_bytes(msgspec.json.encode(kept))
        new.replace(path)


def _read(path: Path) -> ContainerRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ContainerRecord)
    except (OSError, msgspec.DecodeError):
        return None


def sandbox_of(pod: NodePod) -> PodSandbox:
    """The pod as the runtime knows it."""
    meta = pod.metadata
    return PodSandbox(
        id=_id(meta.uid, "", 0), name=meta.name, uid=meta.uid, namespace=meta.namespace,
        labels=meta.labels, annotations=meta.annotations,
    )  # fmt: skip


def _labels(pod: NodePod, container: str) -> dict[str, str]:
    meta = pod.metadata
    return {
        "io.kubernetes.pod.name": meta.name, "io.kubernetes.pod.namespace": meta.namespace,
        "io.kubernetes.pod.uid": meta.uid, "io.kubernetes.container.name": container,
    }  # fmt: skip


def _id(uid: str, container: str, restarts: int) -> str:
    return uuid5(NAMESPACE_URL, f"{uid}/{container}/{restarts}").hex * 2
