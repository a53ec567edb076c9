"""The agent as a process on the island: on real NRI, with simulated cards."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from tessera_core.trust.grants import Signer, published_key
from tessera_schema.grants import GRANT_KEY, Grant, Share, encode_grant
from tessera_schema.injections import Injection
from tests.agent.machine import NVML, ROOT, built
from tests.agent.nri.runtime_node import a_share
from tests.node.island import Island, Process
from tests.node.runtime import Containerd

NODE = "worker-1"
SIGNER = Signer(bytes(range(32)))
NOWHERE = "127.0.0.1:9"
READY_S = 60.0
POLL_S = 0.02
INSTALLER = ROOT / "deploy/images/install-hook"


class Agent:
    """The process, and the folder of its containers' files."""

    def __init__(self, process: Process, ports: Path, folder: Path) -> None:
        self.process = process
        self.folder = folder
        self._ports = ports

    async def ready(self) -> None:
        """Wait until containers can get cards."""
        async with asyncio.timeout(READY_S):
            while not await self.answers("/readyz", 200):
                self.process.check()
                await asyncio.sleep(POLL_S)

    def url(self, path: str) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{msgspec.json.decode(self._ports.read_bytes())['http']}{path}"

    async def kill(self) -> None:
        """End it as a machine that fails would."""
        await self.process.stop()
        self._ports.unlink()

    async def restart(self) -> None:
        """Start it again."""
        await self.process.start()
        await self.ready()

    async def killed_and_restarted(self) -> None:
        """Both."""
        await self.kill()
        await self.restart()

    async def answers(self, path: str, status: int, text: str = "") -> bool:
        """Whether it answers so; it does not while nobody listens."""
        found, body = await self._get(path)
        return found == status and text in body

    async def metric(self, line: str) -> float:
        """The first sample whose name and labels begin so; 0 where there is none."""
        _, text = await self._get("/metrics")
        found = [s.rpartition(" ")[2] for s in text.splitlines() if s.startswith(line)]
        return float(found[0]) if found else 0.0

    async def shows(self, line: str, least: float) -> bool:
        """Whether that sample is at least so large."""
        return await self.metric(line) >= least

    async def _get(self, path: str) -> tuple[int, str]:
        try:
            port = msgspec.json.decode(self._ports.read_bytes())["http"]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return 0, ""
        try:
            request = f"GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n"
            writer.write(request.encode())
            head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        finally:
            writer.close()
            await writer.wait_closed()
        return (int(head.split()[1]) if head else 0), body


async def install_hook(island: Island) -> None:
    """Put on the node what an installation puts there."""
    await island.run("sh", INSTALLER, built("libtessera.so"))


@asynccontextmanager
async def an_agent(
    runtime: Containerd, env: Mapping[str, str] | None = None, *, ready: bool = True,
    vendor: str = "nvidia", settings: Mapping[str, str] | None = None,
) -> AsyncGenerator[Agent]:  # fmt: skip
    """A vendor's agent until the block ends. Without `env`, which says where the API server is, it
    knows the key that grants are signed with from its disk, and nothing else of the cluster.
    `settings`: further variables of the agent."""
    island = runtime.island
    name = "agent" if vendor == "nvidia" else f"agent-{vendor}"
    folder, ports = island.folder / name, island.folder / f"{name}-ports.json"
    library = {"TESSERA_READER_LIBRARY": str(NVML)} if vendor == "nvidia" else {}
    folder.mkdir(exist_ok=True)
    if env is None:
        keys = msgspec.json.encode(dict([published_key(SIGNER.public)]))
        (folder / "grant-keys.json").write_bytes(keys)
    if library:
        await install_hook(island)
    process = await island.start(
        name, sys.executable, "-m", "tessera_agent",
        env={
            "PATH": "/usr/bin:/bin", "TMPDIR": str(runtime.machine), "TESSERA_NODE": NODE,
            "TESSERA_VENDOR": vendor, "TESSERA_FOLDER": str(folder),
            "TESSERA_NRI_SOCKET": str(runtime.nri), **library,
            "TESSERA_PROCESS_PORTS_FILE": str(ports),
            "TESSERA_KUBE_URL": f"http://{NOWHERE}", "TESSERA_BUS_URL": f"nats://{NOWHERE}",
            **(env or {}), **(settings or {}),
        },
    )  # fmt: skip
    agent = Agent(process, ports, folder)
    if ready:
        await agent.ready()
    yield agent
    process.check()


def grant_of(
    uid: str, *shares: Share, given: Mapping[str, Injection] | None = None, **more: str
) -> dict[str, str]:
    """The annotations of a pod that the scheduler gave these shares."""
    grant = Grant(uid=uid, namespace="team", name="job", node=NODE, shares=shares,
                  given=given or {})  # fmt: skip
    return {GRANT_KEY: SIGNER.sign(encode_grant(replace(grant, **more)))}


def a_part(runtime: Containerd, mib: int, card: int = 0, **more: Any) -> Share:
    """A part of a card of the machine."""
    return replace(a_share(card=card, mib=mib), card=runtime.cards[card], **more)


async def until(holds: Callable[[], bool | Awaitable[bool]], within_s: float = READY_S) -> None:
    """Wait until something is so. Raises TimeoutError."""
    async with asyncio.timeout(within_s):
        while True:
            answer = holds()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(POLL_S)
