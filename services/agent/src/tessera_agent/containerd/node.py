"""One node: compares its files with what is wanted, waits for its turn, changes them.

`problem` is empty while the node is as wanted, so the pods of the component are ready where it is
done, and `kubectl rollout status` shows how far it has come.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, Protocol

from msgspec.structs import replace

from tessera_agent.containerd.change import Accepted, ChangeFailed, Healthy, NodeChange
from tessera_agent.containerd.host import CommandFailed, ContainerdHost
from tessera_agent.containerd.node_files import StoredFiles
from tessera_agent.containerd.settings import DropInMode, DropInSettings
from tessera_agent.containerd.turn import NodeTurn
from tessera_core.node import containerd_config, containerd_drop_in
from tessera_core.node.containerd_config import ContainerdFiles, ContainerdRefused, Toml
from tessera_core.node.containerd_drop_in import RuntimeFacts
from tessera_runtime import logs
from tessera_runtime.errors import TesseraError
from tessera_runtime.kube.events import EventRecorder, ObjectRef

_log: Final = logs.named("tessera.containerd")
WAITS: Final = "the agent is not there yet: it is required as soon as it is"
NO_AGENT: Final = "the agent is not there for containerd"


class AgentProbe(Protocol):
    """Whether the agent is there for containerd."""

    async def ready(self) -> bool:
        """Whether containers get their cards now."""
        ...


class PlannedChange:
    """What a node's files have to become."""

    def __init__(
        self, present: ContainerdFiles, wanted: ContainerdFiles, accepted: Accepted
    ) -> None:
        """`accepted`: why a configuration of containerd is not the wanted one."""
        self.present = present
        self.wanted = wanted
        self.accepted = accepted
        self.later = ""
        """What the node still waits for once its files are as wanted."""
        self.agent = False
        """Whether the agent is there for containerd, and has to be there after a restart."""


class ContainerdNode:
    """Keeps one node as wanted."""

    def __init__(
        self,
        settings: DropInSettings,
        files: StoredFiles,
        host: ContainerdHost,
        turn: NodeTurn,
        agent: AgentProbe,
        events: EventRecorder,
    ) -> None:
        """Nothing is read before `step`."""
        self.problem = "the node has not been compared yet"
        """Why it is not as wanted; empty when it is."""
        self._unrecorded = ""
        """Why a change failed, until the Lease says so: without that it would be tried again."""
        self._settings = settings
        self._files = files
        self._host = host
        self._turn = turn
        self._agent = agent
        self._events = events
        self._about = ObjectRef("Node", settings.node, uid=settings.node)
        self._change = NodeChange(
            files, host, answer_s=settings.answer_s, settle_s=settings.settle_s
        )

    async def step(self) -> None:
        """Compare once, and change what is not as wanted, if it is this node's turn."""
        try:
            problem = await self._compared()
        except (ContainerdRefused, CommandFailed) as e:
            problem = str(e)
            self._events.record(self._about, "ContainerdNotConfigured", problem, warning=True)
        except TesseraError as e:
            problem = f"the API server: {e}"
        if problem != self.problem:
            _log.info("compared", problem=problem)
        self.problem = problem

    async def _compared(self) -> str:
        if why := await self._former_problem():
            return why
        plan = await self._plan()
        if plan.present == plan.wanted:
            await self._turn.release()
            return plan.later
        if why := await self._turn.take():
            return why
        try:
            await self._change.apply(plan.present, plan.wanted, plan.accepted, self._healthy(plan))
        except ChangeFailed as e:
            return await self._failed(str(e))
        done = f"containerd was restarted: {self._settings.mode}"
        self._events.record(self._about, "ContainerdConfigured", done)
        await self._turn.release()
        return plan.later

    async def _former_problem(self) -> str:
        """Why a former change is in the way; empty where there is none, or once it is put right."""
        if self._unrecorded:
            return await self._failed(self._unrecorded)
        if await asyncio.to_thread(self._files.begun) is None:
            return ""
        if why := await self._turn.take():
            return why
        try:
            await self._change.recover()
        except ChangeFailed as e:
            return await self._failed(str(e))
        return ""

    async def _plan(self) -> PlannedChange:
        present = await asyncio.to_thread(self._files.read)
        release = containerd_drop_in.release_of(await self._host.version())
        if self._settings.mode is DropInMode.REMOVE:
            return await self._removal(present, release)
        path = self._files.paths.config
        containerd_config.version_of(present.config, path, containerd_config.VERSIONS[-1])
        bare = await self._dump_of(replace(present, drop_in=None))
        runtime = RuntimeFacts(release=release, bare=bare)
        ready = await self._agent.ready()
        plugin = self._plugin(present, release, ready=ready)
        lacks = containerd_drop_in.lacking(
            runtime, timeout=self._settings.request_timeout, plugin=plugin
        )
        waits = self._settings.require and not plugin and containerd_drop_in.can_require(release)
        if waits and containerd_drop_in.nri_is_on(bare):
            wanted = present  # one restart is enough: once the agent is there
        else:
            wanted = await self._candidate(present, runtime, lacks)
        plan = PlannedChange(present, wanted, partial(_problem_of, bare, lacks))
        plan.later = WAITS if waits else ""
        plan.agent = ready
        return plan

    def _plugin(self, present: ContainerdFiles, release: tuple[int, int], *, ready: bool) -> str:
        """What is required now; empty = nothing."""
        name = self._settings.plugin
        if not self._settings.require or not containerd_drop_in.can_require(release):
            return ""
        required = containerd_drop_in.already_requires(present.drop_in, name)
        return name if ready or required else ""

    async def _removal(self, present: ContainerdFiles, release: tuple[int, int]) -> PlannedChange:
        wanted = containerd_drop_in.removed(present, release, self._files.paths)
        plan = PlannedChange(present, wanted, lambda _: "")
        if present == wanted and containerd_drop_in.requires(
            await self._host.dump(), self._settings.plugin
        ):
            plan.later = (
                f"containerd still requires {self._settings.plugin}, by another file than "
                "Tessera's drop-in: take it out of required_plugins and restart containerd"
            )
        return plan

    async def _candidate(
        self, present: ContainerdFiles, runtime: RuntimeFacts, lacks: Toml
    ) -> ContainerdFiles:
        """The files that containerd reads as wanted. Raises ContainerdRefused."""
        problem = ""
        paths = self._files.paths
        for files in containerd_drop_in.candidates(present, runtime, lacks, paths):
            try:
                problem = _problem_of(runtime.bare, lacks, await self._dump_of(files))
            except CommandFailed as e:
                problem = str(e)
            if not problem:
                return files
        raise ContainerdRefused(
            f"{paths.drop_in}: with it {problem}: if another file that {paths.config} imports sets "
            f"them after it, take the table of {containerd_drop_in.NRI} out of that"
        )

    async def _dump_of(self, files: ContainerdFiles) -> Toml:
        """What containerd would read of these. Raises CommandFailed."""
        staged = await asyncio.to_thread(self._files.stage, files)
        try:
            return await self._host.dump(staged)
        finally:
            await asyncio.to_thread(self._files.drop_stage)

    def _healthy(self, plan: PlannedChange) -> Healthy:
        async def problem(dump: Toml) -> str:
            if why := await self._host.problem(dump):
                return why
            return "" if not plan.agent or await self._agent.ready() else NO_AGENT

        return problem

    async def _failed(self, why: str) -> str:
        self._unrecorded = why
        self._events.record(self._about, "ContainerdRestartFailed", why, warning=True)
        await self._turn.fail(why)
        self._unrecorded = ""
        return why


def _problem_of(bare: Toml, lacks: Toml, dump: Toml) -> str:
    return containerd_drop_in.problem_of(bare, dump, lacks)
