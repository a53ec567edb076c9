"""The processes of `scale`: started, asked whether they are ready, and ended."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from benchmarks.scale_cluster import CLUSTER
from tessera_embedded.apiserver import ApiServer
from tessera_embedded.parent import ends_with_parent

READY_S: Final = 900.0
"""A list of 100,000 pods takes minutes where services and API server share two cores."""
OF: Final[Mapping[str, Mapping[str, str]]] = {
    "rebalancer": {"TESSERA_PLANS_WORTH_WAIT_S": "10"},
    "scheduler": {
        "TESSERA_EXTENDER_PORT": "0",
        "TESSERA_WEBHOOK_HTTP_PORT": "0",
        "TESSERA_WEBHOOK_HTTP_HOST": "127.0.0.1",
        "TESSERA_VISIBILITY_HTTP_PORT": "0",
        "TESSERA_VISIBILITY_HTTP_HOST": "127.0.0.1",
        "TESSERA_WEBHOOK_REGISTRATION_HOST": "127.0.0.1",
    },
}
"""Settings of a service alone: free ports, and plans for pods that have waited for seconds."""


class Program:
    """A process that writes figures."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.figures = folder / f"{name}.figures"
        self.log = folder / f"{name}.log"
        self.ports = folder / f"{name}.ports"
        self.process: asyncio.subprocess.Process

    @asynccontextmanager
    async def running(self, *argv: str, **environ: str) -> AsyncGenerator[Program]:
        """Run it until left."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, *argv, env=environ, stdout=log, stderr=log,
                preexec_fn=ends_with_parent(),
            )  # fmt: skip
        try:
            yield self
        finally:
            if self.process.returncode is None:
                self.process.terminate()
            await self.process.wait()

    def seconds(self, kind: type[Any], since: float) -> list[Any]:
        """Its figures since a Unix time."""
        lines = self.figures.read_bytes().splitlines() if self.figures.exists() else []
        found = [msgspec.json.decode(line, type=kind) for line in lines]
        return [each for each in found if each.at >= since]

    def problem(self) -> str:
        """Why it has ended; empty while it runs."""
        status = self.process.returncode
        tail = self.log.read_text(errors="replace").splitlines()[-3:] if status is not None else []
        return f"{self.name} ended with {status}: {' | '.join(tail)}" if status is not None else ""

    async def url(self, server: str = "http") -> str:
        """Where one of its servers is."""
        while True:
            found = json.loads(self.ports.read_bytes()) if self.ports.exists() else {}
            if server in found:
                return f"http://127.0.0.1:{found[server]}"
            await asyncio.sleep(0.2)

    async def begun(self) -> None:
        """Wait until it has written figures. Raises TimeoutError."""
        async with asyncio.timeout(READY_S):
            while True:
                if self.figures.exists() or self.problem():
                    return
                await asyncio.sleep(0.5)

    async def ready(self) -> None:
        """Wait until it says that it is ready. Raises TimeoutError."""
        async with asyncio.timeout(READY_S), aiohttp.ClientSession() as session:
            while True:
                if self.problem():
                    raise RuntimeError(self.problem())
                try:
                    async with session.get(f"{await self.url()}/readyz") as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.5)


def environment(server: ApiServer, nats: str, program: Program) -> dict[str, str]:
    """As a manifest would set it; a token in a file is what a pod has. The library that reads
    kubeconfigs would take 38 MiB, which no pod needs."""
    token = program.ports.with_suffix(".token")
    token.write_text(server.token)
    return {
        "TESSERA_KUBE_URL": server.url,
        "TESSERA_KUBE_TOKEN_FILE": str(token),
        "TESSERA_KUBE_CA_FILE": str(server.ca_path),
        "TESSERA_PROCESS_PORTS_FILE": str(program.ports),
        "TESSERA_BUS_URL": nats,
        "TESSERA_BUS_CLUSTER": CLUSTER,
        "TESSERA_HTTP_PORT": "0",
        **OF.get(program.name, {}),
    }
