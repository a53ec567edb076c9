"""What an agent costs its node: memory, by what it imports as well, and processor time.

The agent runs as a process of its own, as in a pod: with an embedded API server, a real NATS
server, and a container runtime that asks it over the wire of NRI. The node has simulated cards, and
in each container a process under the hook that uses one of them; half of them launch kernels all
the time, so that cores are lent and hooks are corrected.

    .venv/bin/python benchmarks/agent.py [--cards 8 --containers 80 --seconds 30]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[1]))

from tessera_core.hook import limits_file, usage_file
from tessera_core.trust.grants import Signer, published_key
from tessera_embedded.apiserver.server import open_apiserver
from tessera_embedded.nats_server import open_nats
from tessera_embedded.runtime.merge import amended
from tessera_embedded.runtime.runtime import Runtime, open_runtime
from tessera_kubelet.nri.settings import RuntimeSettings
from tessera_kubelet.nri.types import ContainerInfo, NriContainerState, NriEvent, PodSandbox
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.annotation_keys import SIGNING_KEYS
from tessera_schema.cards import MIB
from tessera_schema.grants import GRANT_KEY, Grant, Share, encode_grant
from tests.agent.machine import NVML, SIM, built, polling

NODE: Final = "node-1"
NAMESPACE: Final = "team"
SYSTEM: Final = "tessera-system"
SIGNER: Final = Signer(bytes(range(32)))
START_S: Final = 120.0
SETTLE_S: Final = 20.0
"""Seconds in which everything comes to rest after the last container started."""
MOST_RSS_MB: Final = 80
MOST_PERCENT: Final = 1.0
"""Of a core."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_KIB: Final = 1024
_IMPORTS: Final = """
import builtins, collections, sys
sizes, stack, real = collections.Counter(), ["tessera"], builtins.__import__
page = 4096
def rss():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * page
last = rss()
def note():
    global last
    now = rss()
    sizes[stack[-1]] += now - last
    last = now
def counted(name, globals=None, locals=None, fromlist=(), level=0):
    inside = globals.get("__name__", "") if level and globals else name
    note()
    stack.append("tessera" if inside.startswith("tessera") else inside.partition(".")[0])
    try:
        return real(name, globals, locals, fromlist, level)
    finally:
        note()
        stack.pop()
builtins.__import__ = counted
import tessera_agent.main
from tessera_core.registry import registry
registry.load()
print(*(f"{name} {size}" for name, size in sizes.most_common(12)), sep="\\n")
"""


class Cost(Struct, frozen=True, kw_only=True):
    """What a process takes."""

    rss_kib: int
    pss_kib: int
    private_kib: int
    """What nothing else has mapped, such as libraries that other processes use too."""
    cpu_s: float
    """So far."""


class SimulatedNode:
    """A node whose containers are processes here."""

    def __init__(self, folder: Path, kube: Kube, cards: Sequence[str]) -> None:
        """`cards` are the ids of the simulated machine's cards."""
        self.folder = folder
        self.cards = cards
        self.runtime: Runtime
        self._kube = kube
        self._runs: list[tuple[PodSandbox, ContainerInfo]] = []
        self._processes: list[asyncio.subprocess.Process] = []

    def state(self) -> tuple[list[PodSandbox], list[ContainerInfo]]:
        """What the runtime says that there is."""
        return [pod for pod, _ in self._runs], [container for _, container in self._runs]

    async def run(self, number: int, shared_by: int, *, busy: bool) -> None:
        """Bind a pod, create its container on the card that it shares with others, and start it."""
        name, index = f"job-{number}", number % len(self.cards)
        share = Share(
            container="main", position=0, vendor="nvidia", dialect="hami", card=self.cards[index],
            index=index, memory_bytes=2000 * MIB, cores_percent=100 // shared_by,
        )  # fmt: skip
        body = {
            "metadata": {"name": name},
            "spec": {"nodeName": NODE, "containers": [{"name": "main", "image": "work"}]},
        }
        uid = await _make(self._kube, paths.in_core(NAMESPACE, "pods"), body)
        grant = Grant(uid=uid, namespace=NAMESPACE, name=name, node=NODE, shares=(share,))
        pod = PodSandbox(
            id=f"sb-{number}", name=name, uid=uid, namespace=NAMESPACE,
            annotations={GRANT_KEY: SIGNER.sign(encode_grant(grant))},
        )  # fmt: skip
        container = ContainerInfo(id=f"{pod.id}-main", sandbox_id=pod.id, name="main")
        given = await self.runtime.create_container(pod, container)
        mounts = {mount.destination: mount.source for mount in given.mounts}
        process = await self._start(mounts, self.cards[index], busy=busy)
        running = msgspec.structs.replace(
            amended(container, given), state=NriContainerState.RUNNING, pid=process.pid
        )
        self._runs.append((pod, running))
        await self.runtime.notify(NriEvent.POST_START_CONTAINER, pod, running)

    async def end(self) -> None:
        """Stop all processes."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            await process.wait()

    async def _start(
        self, mounts: Mapping[str, str], card: str, *, busy: bool
    ) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            str(built("tessera-work")),
            env={
                "LD_PRELOAD": str(built("libtessera.so")), "LD_LIBRARY_PATH": str(SIM),
                "TESSERA_LIMITS": mounts[limits_file.PATH],
                "TESSERA_USAGE": mounts[usage_file.PATH],
                "TESSERA_SIM_STATE": str(_state(self.folder)), "TESSERA_SIM_DEVICES": card,
                "WORK_BUSY": str(int(busy)),
            },
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        self._processes.append(process)
        return process


def _state(folder: Path) -> Path:
    """The simulated machine, where a process finds it whose TMPDIR this is."""
    return folder / f"tessera-sim-{os.getuid()}"


def _machine(folder: Path, cards: int) -> list[str]:
    built("libtessera.so")
    environ = {
        "TESSERA_SIM_STATE": str(_state(folder)),
        "TESSERA_SIM_CONFIG": f"cards={cards} memory=80g",
    }
    with polling(NVML, environ) as poller:
        return [str(card["id"]) for card in poller.poll()["cards"]]


async def _make(kube: Kube, path: str, body: object) -> str:
    """Create an object; its uid."""
    answer = await kube.call(Verb.POST, path, body=msgspec.json.encode(body))
    return str(msgspec.json.decode(answer)["metadata"]["uid"])


async def _prepare(kube: Kube) -> None:
    for namespace in (NAMESPACE, SYSTEM, "tessera-agent-leases"):
        await _make(kube, paths.NAMESPACES, {"metadata": {"name": namespace}})
    await _make(kube, paths.NODES, {"metadata": {"name": NODE}})
    keys = {"metadata": {"name": SIGNING_KEYS}, "data": dict([published_key(SIGNER.public)])}
    await _make(kube, paths.in_core(SYSTEM, "configmaps"), keys)


@asynccontextmanager
async def a_node(cards: int) -> AsyncGenerator[tuple[SimulatedNode, int]]:
    """A node without containers, and the process number of its agent, which is ready."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tessera-agent-")))
        found = await asyncio.to_thread(_machine, folder, cards)
        server = await stack.enter_async_context(open_apiserver(folder, keep=False))
        nats = await stack.enter_async_context(open_nats(folder / "nats"))
        token = folder / "token"
        token.write_text(server.token)
        account = KubeSettings(
            url=server.url, token_file=token, ca_file=server.ca_path, call_s=START_S
        )
        kube = await stack.enter_async_context(open_kube(account))
        await _prepare(kube)
        node = SimulatedNode(folder, kube, found)
        socket = folder / "nri.sock"
        node.runtime = await stack.enter_async_context(
            open_runtime(socket, RuntimeSettings(request_s=60), state=node.state)
        )
        environ = {
            "PATH": os.defpath, "TMPDIR": str(folder), "TESSERA_NODE": NODE,
            "TESSERA_VENDOR": "nvidia", "TESSERA_FOLDER": str(folder / "agent"),
            "TESSERA_NRI_SOCKET": str(socket), "TESSERA_READER_LIBRARY": str(NVML),
            "TESSERA_KUBE_URL": server.url, "TESSERA_KUBE_TOKEN_FILE": str(token),
            "TESSERA_KUBE_CA_FILE": str(server.ca_path), "TESSERA_BUS_URL": nats.url,
        }  # fmt: skip
        agent = await stack.enter_async_context(_an_agent(environ, folder / "agent.log"))
        stack.push_async_callback(node.end)
        async with asyncio.timeout(START_S):
            await node.runtime.until("10-tessera")
        yield node, agent.pid


@asynccontextmanager
async def _an_agent(
    environ: Mapping[str, str], log: Path
) -> AsyncGenerator[asyncio.subprocess.Process]:
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tessera_agent", env=environ, stdout=output, stderr=output
        )
    try:
        yield process
        if process.returncode is not None:
            raise RuntimeError(f"the agent ended with {process.returncode}: {await _read(log)}")
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _read(log: Path) -> str:
    text = await asyncio.to_thread(log.read_text)
    return text[-2000:]


def cost(pid: int) -> Cost:
    """Of a process, now."""
    rows = [line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    sizes = {row[0]: int(row[1]) for row in rows if row[-1] == "kB"}
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Cost(
        rss_kib=sizes["Rss:"], pss_kib=sizes["Pss:"],
        private_kib=sizes["Private_Clean:"] + sizes["Private_Dirty:"],
        cpu_s=(int(fields[11]) + int(fields[12])) / _TICKS,
    )  # fmt: skip


async def imports() -> str:
    """What importing the agent, and the dialects, adds to the memory of a bare interpreter, in KiB,
    by package and without the packages that it imports."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _IMPORTS, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    rows = [line.split() for line in out.decode().splitlines()]
    return "  ".join(f"{name} {int(size) / _KIB / _KIB:.1f}" for name, size in rows)


async def run(cards: int, containers: int, seconds: float) -> bool:
    """Measure, and print. Whether it stays within its bounds."""
    print(f"imports, MiB: {await imports()}", flush=True)
    async with a_node(cards) as (node, pid):
        await asyncio.sleep(5)
        print(f"no container: {_row(cost(pid))}", flush=True)
        for number in range(containers):
            await node.run(number, max(containers // cards, 1), busy=number // cards % 2 == 0)
        await asyncio.sleep(SETTLE_S)
        before = cost(pid)
        await asyncio.sleep(seconds)
        after = cost(pid)
    percent = (after.cpu_s - before.cpu_s) / seconds * 100
    print(f"{cards} cards, {containers} containers: {_row(after)}")
    load = os.getloadavg()[0]
    print(f"processor, percent of a core over {seconds:g} s: {percent:.2f} (load {load:.0f})")
    small = after.rss_kib / _KIB <= MOST_RSS_MB
    print(f"{'ok  ' if small else 'NOT '}at most {MOST_RSS_MB} MB")
    print(f"{'ok  ' if percent <= MOST_PERCENT else 'NOT '}at most {MOST_PERCENT:g} percent")
    return small and percent <= MOST_PERCENT


def _row(used: Cost) -> str:
    names = ("RSS", "PSS", "private")
    sizes = (used.rss_kib, used.pss_kib, used.private_kib)
    parts = (f"{name} {size / _KIB:.1f}" for name, size in zip(names, sizes, strict=True))
    return f"{'  '.join(parts)} MiB"


def main() -> None:
    """Read the arguments, and measure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--cards", type=int, default=8)
    parser.add_argument("--containers", type=int, default=80)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args()
    sys.exit(0 if asyncio.run(run(options.cards, options.containers, options.seconds)) else 1)


if __name__ == "__main__":
    main()
