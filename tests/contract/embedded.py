"""The embedded control plane behind the same face as the real one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tessera_embedded.apiserver import Account, ApiServer, Rule, open_apiserver
from tessera_embedded.scheduling.open import open_scheduler
from tests.contract.client import Json

_EDITS = Rule(("get", "patch", "update"), ("pods",))
ACCOUNTS = (
    Account("reader", (Rule(("get", "list", "watch"), ("pods",)),), ("contract:readers",)),
    Account("editor", (_EDITS,), ("contract:editors",)),
    Account("resizer", (_EDITS, Rule(("update",), ("pods/resize",))), ("contract:resizers",)),
    Account("nobody", (), ("contract:others",)),
)


class EmbeddedPlane:
    """A server that can be ended and opened again on the same port and folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: ApiServer
        self._open = asyncio.Event()
        self._end = asyncio.Event()
        self._over = False
        self._port = 0

    @property
    def url(self) -> str:
        """Where it is."""
        return self._server.url

    @property
    def ca_path(self) -> Path:
        """Who signed its certificate."""
        return self._server.ca_path

    @property
    def token(self) -> str:
        """The administrator's."""
        return self._server.token

    @property
    def tokens(self) -> Mapping[str, str]:
        """User -> token."""
        return self._server.tokens

    async def restart(self) -> None:
        """End it, and open it again where it was."""
        self._open.clear()
        self._end.set()
        await self._open.wait()

    async def forget_history(self) -> None:
        """Let versions and pages from before be unknown."""
        self._server.store.compact()

    @asynccontextmanager
    async def scheduler(self, config: Json) -> AsyncGenerator[None]:
        """Run the embedded scheduler for the length of the block."""
        path = self._folder / "scheduler.json"
        path.write_text(json.dumps(config))
        async with open_scheduler(self._server.kubeconfig, path):
            yield

    async def keep(self) -> None:
        """Open one server after the other, in this task, until it is over."""
        while not self._over:
            self._end.clear()
            opened = open_apiserver(self._folder, port=self._port, accounts=ACCOUNTS)
            async with opened as self._server:
                self._port = int(self._server.url.rpartition(":")[2])
                self._open.set()
                await self._end.wait()

    async def opened(self) -> None:
        """Wait for the first server."""
        await self._open.wait()

    def close(self) -> None:
        """Let this server be the last."""
        self._over = True
        self._end.set()


@asynccontextmanager
async def embedded_control_plane(folder: Path) -> AsyncGenerator[EmbeddedPlane]:
    """An embedded control plane with its files in this folder."""
    plane = EmbeddedPlane(folder)
    async with asyncio.TaskGroup() as group:
        group.create_task(plane.keep(), name="embedded API server")
        await plane.opened()
        try:
            yield plane
        finally:
            plane.close()
