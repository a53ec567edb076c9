"""What the throughput benchmark runs on: a control plane with many nodes, and one of three things
that place pods: kube-scheduler alone, with an extender that does nothing, with Tessera."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
from msgspec import Struct

from tessera_core.kubescheduler import configuration
from tessera_core.registry import load
from tessera_embedded.natsserver import NatsServer
from tessera_runtime.errors import ApiConflict, ApiNotFound
from tessera_runtime.kube.api import Kube, Verb
from tessera_schema.keys import SCHEDULER
from tests.cluster.objects import a_card_node
from tests.cluster.plane import HOME, LEASES, Plane
from tests.contract.real import free_port

KINDS: Final = ("plain", "do-nothing", "tessera")
NAMESPACE: Final = "throughput"
START_S: Final = 120.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_QUICK: Final = {"leaderElection": {"leaderElect": False}}
_PROGRAMS: Final = {
    "do-nothing": [str(Path(__file__).with_name("throughput_idle.py"))],
    "tessera": ["-m", "tessera_scheduler"],
}
_HOOKS: Final = [
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/tessera"
    for kind in ("mutating", "validating")
]


class Placing(Struct, frozen=True, kw_only=True):
    """What runs now."""

    pids: Mapping[str, int]
    """Program -> process."""
    status: str = ""
    """Base URL of the service's metrics; empty where there is no service."""

    def cpu_s(self) -> dict[str, float]:
        """Processor time that each program has used."""
        return {name: _cpu_s(pid) for name, pid in self.pids.items()}

    async def metrics(self) -> dict[str, float]:
        """The service's counters."""
        if not self.status:
            return {}
        async with aiohttp.ClientSession() as session, session.get(self.status) as answer:
            text = await answer.text()
        rows = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in rows}


async def prepare(kube: Kube, nodes: int, cards: int) -> None:
    """Make the namespace and the nodes."""
    await _make(kube, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    left = [a_card_node(f"node-{i:05}", cards, mib=81920)[1] for i in range(nodes)]

    async def client() -> None:
        while left:
            await _make(kube, "/api/v1/nodes", left.pop())

    async with asyncio.TaskGroup() as group:
        for i in range(16):
            group.create_task(client(), name=f"client {i}")


@asynccontextmanager
async def placing(
    kind: str, plane: Plane, kube: Kube, nats: NatsServer, folder: Path, pin: Mapping[str, str]
) -> AsyncGenerator[Placing]:
    """Run one of KINDS until left, ready when this is entered. `pin` are more variables."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    await _forget(kube)
    pids: dict[str, int] = {}
    ports = {what: free_port() for what in ("extender", "http", "webhook")}
    status = ""
    async with AsyncExitStack() as stack:
        made = configuration(load(), f"http://127.0.0.1:{ports['extender']}", [SCHEDULER])
        if kind == "plain":
            del made["extenders"]
        else:
            env = _environment(plane, nats, ports)
            argv = [sys.executable, *_PROGRAMS[kind]]
            log = folder / f"{kind}.log"
            pids["service"] = await stack.enter_async_context(_process(argv, {**env, **pin}, log))
            status = f"http://127.0.0.1:{ports['http']}/metrics"
            await _ready(f"http://127.0.0.1:{ports['http']}/readyz", log)
            await _registered(kube)
        connection = {"kubeconfig": str(plane.control.kubeconfig), "qps": 1000, "burst": 2000}
        file = folder / "kube-scheduler.json"
        file.write_text(json.dumps({**made, **_QUICK, "clientConnection": connection}))
        argv = [str(plane.binaries / "kube-scheduler"), f"--config={file}", "--secure-port=0"]
        log = folder / "kube-scheduler.log"
        pids["kube-scheduler"] = await stack.enter_async_context(_process(argv, {}, log))
        yield Placing(pids=pids, status=status)


def _environment(plane: Plane, nats: NatsServer, ports: Mapping[str, int]) -> dict[str, str]:
    local = "127.0.0.1"
    return {
        **plane.account, "TESSERA_BUS_URL": nats.url,
        "TESSERA_EXTENDER_PORT": str(ports["extender"]),
        "TESSERA_HTTP_PORT": str(ports["http"]), "TESSERA_WEBHOOK_HTTP_HOST": local,
        "TESSERA_WEBHOOK_HTTP_PORT": str(ports["webhook"]),
        "TESSERA_WEBHOOK_REGISTRATION_HOST": local,
    }  # fmt: skip


@asynccontextmanager
async def _process(argv: Sequence[str], env: Mapping[str, str], log: Path) -> AsyncGenerator[int]:
    variables = {"PATH": os.defpath, "PYTHONPATH": str(Path(__file__).parents[1]), **env}
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *argv, env=variables, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield process.pid
        if process.returncode is not None:
            raise RuntimeError(f"{argv[0]} ended: {_end_of(log)}")
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _ready(url: str, log: Path) -> None:
    try:
        async with asyncio.timeout(START_S), aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.get(url) as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise RuntimeError(f"not ready in {START_S:g} s: {_end_of(log)}") from None


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]


async def _registered(kube: Kube) -> None:
    async with asyncio.timeout(START_S):
        for path in _HOOKS:
            while True:
                try:
                    await kube.call(Verb.GET, path)
                    break
                except ApiNotFound:
                    await asyncio.sleep(0.1)


async def _forget(kube: Kube) -> None:
    """As nobody had ever been here: no webhook, and a Lease that is free."""
    for path in (*_HOOKS, f"{LEASES}/{SCHEDULER}"):
        try:
            await kube.call(Verb.DELETE, path)
        except ApiNotFound:
            continue
    await _make(kube, LEASES, {"metadata": {"name": SCHEDULER, "namespace": HOME}, "spec": {}})


async def _make(kube: Kube, path: str, body: object) -> None:
    try:
        await kube.call(Verb.POST, path, body=json.dumps(body).encode())
    except ApiConflict:
        return


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
