"""The change of one node: files, `config dump`, restart, an answer; or the former files again.

The former files are stored before the first is written and until containerd has answered. A process
that dies in between begins its next start with `recover`: the former files, and a restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from tessera_agent.containerd.host import CommandFailed, ContainerdHost
from tessera_agent.containerd.node_files import StoredFiles
from tessera_core.node.containerd_config import ContainerdFiles, Toml
from tessera_runtime import logs

_log: Final = logs.named("tessera.containerd")
_POLL_S: Final = 0.5
Healthy = Callable[[Toml], Awaitable[str]]
"""Takes containerd's configuration; why the node is not as it was, empty when it is."""
Accepted = Callable[[Toml], str]
"""Takes containerd's configuration; why it is not the wanted one, empty when it is."""


class ChangeFailed(Exception):
    """The node has its former files again; the message says why, and whether containerd answers."""


class NodeChange:
    """Changes the files of one node."""

    def __init__(
        self, files: StoredFiles, host: ContainerdHost, *, answer_s: float, settle_s: float
    ) -> None:
        """`answer_s`: seconds in which the node has to be healthy after a restart; `settle_s`: for
        how long without a break."""
        self._files = files
        self._host = host
        self._answer_s = answer_s
        self._settle_s = settle_s

    async def apply(
        self, former: ContainerdFiles, wanted: ContainerdFiles, accepted: Accepted, healthy: Healthy
    ) -> None:
        """Give the node the wanted files and restart its containerd. Raises ChangeFailed once the
        former files are back."""
        dump: Toml = {}
        try:
            await asyncio.to_thread(self._write, former, wanted)
            dump = await self._host.dump()
            problem = accepted(dump)
        except (CommandFailed, OSError) as e:
            problem = str(e)
        if problem:
            await asyncio.to_thread(self._put_back, former)
            raise ChangeFailed(f"{problem}; containerd was not restarted")
        problem = await self._restarted(dump, healthy)
        if problem:
            _log.alert("containerd does not answer: the former files are put back", why=problem)
            raise ChangeFailed(f"{problem}; {await self._former_again(former)}")
        await asyncio.to_thread(self._end, wanted)

    async def recover(self) -> bool:
        """Put back what a change left that did not end; whether there was one. Raises ChangeFailed
        where containerd does not answer with its former files either."""
        former = await asyncio.to_thread(self._files.begun)
        if former is None:
            return False
        _log.warning("a change did not end: the former files are put back")
        said = await self._former_again(former)
        if said != AGAIN:
            raise ChangeFailed(f"a change did not end; {said}")
        return True

    async def _former_again(self, former: ContainerdFiles) -> str:
        await asyncio.to_thread(self._files.write, former)
        try:
            dump = await self._host.dump()
        except CommandFailed as e:
            with suppress(CommandFailed):
                await self._host.restart()
            return f"its former files are back, and it cannot read them: {e}"
        # The agent may have been away before: containerd's own answer has to do.
        if problem := await self._restarted(dump, self._host.problem):
            return f"its former files are back, and it does not answer with them either: {problem}"
        await asyncio.to_thread(self._files.end)
        return AGAIN

    async def _restarted(self, dump: Toml, healthy: Healthy) -> str:
        _log.info("restarting containerd")
        try:
            await self._host.restart()
        except CommandFailed as e:
            return f"containerd did not start: {e}"
        loop = asyncio.get_running_loop()
        until, since = loop.time() + self._answer_s, float("inf")
        problem = ""
        while loop.time() < until or (since < float("inf") and not problem):
            before, problem = problem, await healthy(dump)
            if problem != before:
                _log.info("restarted", problem=problem)
            now = loop.time()
            since = float("inf") if problem else min(since, now)
            if now - since >= self._settle_s:
                return ""
            await asyncio.sleep(_POLL_S)
        return f"not as before {self._answer_s:g} s after the restart: {problem}"

    def _write(self, former: ContainerdFiles, wanted: ContainerdFiles) -> None:
        if wanted.config != former.config and wanted.drop_in is not None:
            self._files.back_up(former.config)
        self._files.begin(former)
        self._files.write(wanted)

    def _put_back(self, former: ContainerdFiles) -> None:
        self._files.write(former)
        self._files.end()

    def _end(self, wanted: ContainerdFiles) -> None:
        if wanted.drop_in is None:
            self._files.drop_backup(wanted.config)
        self._files.end()


AGAIN: Final = "its former files are back, and containerd answers with them"
