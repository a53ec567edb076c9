"""Removes the files of containers that are gone, and of those that went while no agent ran."""

from __future__ import annotations

import asyncio
from typing import Final

from tessera_agent.api.pods import NodePods
from tessera_agent.containers.holdings import ContainerRegistry
from tessera_agent.containers.hook_files import ContainerKey, HookFiles
from tessera_runtime import logs

_log: Final = logs.named("tessera.agent.measuring")


class FileCleanup:
    """Removes what containers leave behind: files, and what is remembered of their pods."""

    def __init__(
        self, holdings: ContainerRegistry, pods: NodePods, files: HookFiles, *, hooked: bool,
        keep_s: float,
    ) -> None:  # fmt: skip
        """Containers that are not `hooked` have no files here; the folder may be that of another
        vendor's agent then. `keep_s`: seconds that a container's files outlive it."""
        self._holdings = holdings
        self._pods = pods
        self._files = files
        self._hooked = hooked
        self._keep_s = keep_s
        self._swept = 0
        """`ContainerRegistry.synchronized` at the last sweep of all files."""

    async def sweep(self) -> None:
        """Remove files whose time has come; all that have no container once the containers of the
        node became known."""
        self._pods.keep_only(self._holdings.pods())
        due = self._holdings.retired(asyncio.get_running_loop().time() - self._keep_s)
        synchronized = self._holdings.synchronized
        if self._swept != synchronized and self._hooked:
            self._swept = synchronized
            due = (*due, *await asyncio.to_thread(self._files.known))
        for key in due:
            if self._holdings.get(key) is None and not self._holdings.is_retired(key):
                self._remove(key)

    def _remove(self, key: ContainerKey) -> None:
        """Runs on the loop: no container may be given the files meanwhile."""
        try:
            if self._hooked:
                self._files.remove(key)
        except (OSError, ValueError) as e:
            _log.warning("files not removed", uid=key.uid, container=key.container, why=str(e))
