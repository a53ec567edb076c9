"""The vendor's container toolkit, where an operator installs it on the node and says by a file that
it is ready. Until then neither the runtime nor kubelet has this agent to ask, and no card is
published.

A container that was created before the toolkit was there never sees the driver, the agent's own
included: an agent that waited and finds no driver ends, and is started again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from tessera_agent.delivery.node_files import is_there
from tessera_agent.delivery.settings import ToolkitSettings
from tessera_runtime import logs
from tessera_runtime.errors import Transient

_log: Final = logs.named("tessera.agent.toolkit")


class ToolkitNotReady(Transient):
    """The agent must be started again before it can give cards."""


class ToolkitGate:
    """Opens once, when the toolkit's file is there. It stays open: an operator writes the file
    again whenever it checks the node, and what runs is not affected by that."""

    def __init__(self, settings: ToolkitSettings) -> None:
        self._settings = settings
        self._restart = asyncio.Event()
        self._waited = False
        self.opened = asyncio.Event()
        """Set once the toolkit is ready, from the start where it is not waited for."""
        if not settings.file:
            self.opened.set()

    def problem(self) -> str:
        """Why no card can be given; empty when the toolkit is ready."""
        if self.opened.is_set():
            return ""
        return (
            f"the container toolkit is not ready: {self._settings.file} is not there: see the "
            "operator's pods on this node"
        )

    async def check(self) -> bool:
        """Whether the toolkit is ready; the file is looked for until it was
        there once. Each poll of the cards does so."""
        if not self.opened.is_set():
            if await asyncio.to_thread(is_there, Path(self._settings.file)):
                _log.info("toolkit ready", file=self._settings.file)
                self.opened.set()
            else:
                self._waited = True
        return self.opened.is_set()

    async def hold(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Do `work` once the toolkit is ready."""
        await self.opened.wait()
        await work()

    def report_missing_driver(self) -> None:
        """The toolkit is ready, and the agent's own container has no driver."""
        if self._waited:
            self._restart.set()

    async def run(self) -> None:
        """Wait for the toolkit. Raises ToolkitNotReady after the bound, and where the agent's
        container is older than the toolkit and has no driver."""
        try:
            async with asyncio.timeout(self._settings.wait_s):
                await self.opened.wait()
        except TimeoutError as e:
            raise ToolkitNotReady(
                f"{self.problem()}; waited for {self._settings.wait_s:g} s, and wait again after a "
                "restart"
            ) from e
        await self._restart.wait()
        raise ToolkitNotReady(
            "the container toolkit became ready after this container was created, which has no "
            "driver: it is started again"
        )
