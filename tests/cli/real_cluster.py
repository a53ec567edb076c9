"""The embedded API server with objects in it, and the command that reads it."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from tessera_embedded.apiserver import Account, ApiServer, ApiServerEnvironment, open_apiserver
from tessera_runtime.errors import ApiConflict
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tests.cli.conftest import Ran, Tessera


class CommandCluster:
    """A server, and `tessera` for it."""

    def __init__(self, server: ApiServer, kube: Kube, tessera: Tessera, uids: list[str]) -> None:
        self.server, self.kube = server, kube
        self._tessera = tessera
        self._uids = uids

    async def run(self, *arguments: str, user: str = "") -> Ran:
        """Run the command as the administrator, or as another account."""
        file = self.server.kubeconfig
        if user:
            text = await asyncio.to_thread(file.read_text)
            file = file.with_name(user)
            changed = text.replace(self.server.token, self.server.tokens[user])
            await asyncio.to_thread(file.write_text, changed)
        return await asyncio.to_thread(self._tessera, *arguments, "--kubeconfig", str(file))

    async def put(self, *objects: dict[str, Any]) -> None:
        """Create nodes and pods; pods have the uid and the status that they say."""
        for one in objects:
            body, meta = msgspec.json.encode(one), one["metadata"]
            if one["kind"] == "Node":
                await self.kube.call(Verb.POST, paths.NODES, body=body)
                continue
            await self._namespace(meta["namespace"])
            self._uids.append(meta["uid"])
            await self.kube.call(Verb.POST, paths.in_core(meta["namespace"], "pods"), body=body)
            where = paths.pod(meta["namespace"], meta["name"], "status")
            status = msgspec.json.encode({"status": one["status"]})
            await self.kube.call(Verb.PATCH, where, body=status, kind=Body.MERGE_PATCH)

    async def _namespace(self, name: str) -> None:
        with suppress(ApiConflict):
            body = msgspec.json.encode({"metadata": {"name": name}})
            await self.kube.call(Verb.POST, paths.NAMESPACES, body=body)


@asynccontextmanager
async def command_cluster(
    folder: Path, tessera: Tessera, accounts: Iterable[Account] = ()
) -> AsyncGenerator[CommandCluster]:
    """A cluster without nodes and pods."""
    uids: list[str] = []
    world = ApiServerEnvironment(
        time.time, lambda: uids.pop() if uids else str(uuid.uuid4()), lambda: "abcde"
    )
    async with open_apiserver(folder, keep=False, accounts=tuple(accounts), world=world) as server:
        settings = KubeSettings(kubeconfig=str(server.kubeconfig))
        async with open_kube(settings, name="test") as kube:
            yield CommandCluster(server, kube, tessera, uids)
