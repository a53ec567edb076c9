"""What the throughput benchmark runs on: a control plane with many nodes, and one of those that
place pods: kube-scheduler alone, with an extender that does nothing, with Tessera."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import aiohttp
from aiohttp import web
from msgspec import Struct

from tessera_core.registry.kube_scheduler_config import configuration
from tessera_core.registry.registry import load
from tessera_embedded.nats_server import NatsServer
from tessera_runtime.errors import ApiConflict, ApiNotFound
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube, Verb
from tessera_schema.annotation_keys import SCHEDULER
from tests.cluster.objects import a_card_node
from tests.cluster.plane import HOME, LEASES, Plane

KINDS: Final = ("plain", "do-nothing", "tessera", "telemetry", "bare")
"""What places pods. `plain` is kube-scheduler alone, with the same pods, configuration and webhook
as the two after it; `telemetry` is Tessera with its traces exported; `bare` is kube-scheduler alone
in a cluster without us, as it is by default: it counts every resource, and scores as many nodes as
it likes."""
NAMESPACE: Final = "throughput"
START_S: Final = 120.0
NODE_S: Final = 1.0
"""Seconds that kwok may take for each node to say that it is there."""
NODE_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_QUICK: Final = {"leaderElection": {"leaderElect": False}}
_PROGRAMS: Final = {
    "plain": [str(Path(__file__).with_name("throughput_idle.py"))],
    "do-nothing": [str(Path(__file__).with_name("throughput_idle.py"))],
    "tessera": ["-m", "tessera_scheduler"],
    "telemetry": ["-m", "tessera_scheduler"],
}
_ALONGSIDE: Final = ("etcd", "kube-apiserver", "nats-server")
"""What every kind stands on, as processes are called."""
_HOOKS: Final = [
    f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/tessera"
    for kind in ("mutating", "validating")
]


class KubeScheduler(Struct, frozen=True, kw_only=True):
    """Another kube-scheduler than the one that Tessera is tested with."""

    program: Path | None = None
    profile: Mapping[str, object] = {}
    """More fields of each profile."""
    flags: Sequence[str] = ("--secure-port=0",)


class Placing(Struct, frozen=True, kw_only=True):
    """What runs now."""

    pids: Mapping[str, int]
    """Program -> process."""
    status: str = ""
    """Base URL of the service's own server; empty where there is no service."""

    def cpu_s(self) -> dict[str, float]:
        """Processor time that each program has used, and this process, which creates the pods."""
        pids = {**self.pids, "client": os.getpid()}
        return {name: _cpu_s(pid) for name, pid in pids.items()}

    async def metrics(self) -> dict[str, float]:
        """The service's counters."""
        if not self.status:
            return {}
        url = f"{self.status}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            text = await answer.text()
        rows = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in rows}


async def prepare(
    kube: Kube, nodes: int, cards: int, counted: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Make the namespace and the nodes, and wait until kwok is done with them. `counted` is what
    kubelet counts on each node besides processor, memory and pods: resource -> amount."""
    await _make(kube, "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    left = [a_card_node(f"node-{i:05}", cards, mib=81920)[1] for i in range(nodes)]
    for node in left:
        for amounts in node["status"].values():
            amounts.update(counted)

    async def client() -> None:
        while left:
            await _make(kube, "/api/v1/nodes", left.pop())

    async with asyncio.TaskGroup() as group:
        for i in range(16):
            group.create_task(client(), name=f"client {i}")
    async with asyncio.timeout(nodes * NODE_S):
        while True:
            if await _count(kube, NODE_LEASES) >= nodes and await _all_ready(kube):
                return
            await asyncio.sleep(1)


async def _count(kube: Kube, path: str) -> int:
    found = json.loads(await kube.call(Verb.GET, path, query={"limit": "1"}))
    return len(found["items"]) + int(found["metadata"].get("remainingItemCount", 0))


async def _all_ready(kube: Kube) -> bool:
    found = json.loads(await kube.call(Verb.GET, paths.NODES))
    ready = {"type": "Ready", "status": "True"}
    return all(
        any(ready.items() <= said.items() for said in node["status"].get("conditions", ()))
        for node in found["items"]
    )


@asynccontextmanager
async def placing(
    kind: str, plane: Plane, kube: Kube, nats: NatsServer, folder: Path, pin: Mapping[str, str],
    stock: KubeScheduler = KubeScheduler(),  # noqa: B008  (frozen)
) -> AsyncGenerator[Placing]:  # fmt: skip
    """Run one of KINDS until left, ready when this is entered. `pin` are more variables of the
    service."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    await _forget(kube)
    pids = await asyncio.to_thread(_children)
    status = extender = ""
    async with AsyncExitStack() as stack:
        if kind != "bare":
            file = folder / "ports.json"
            env = _environment(plane, nats, file)
            if kind == "telemetry":
                env["OTEL_EXPORTER_OTLP_ENDPOINT"] = await stack.enter_async_context(_collector())
            argv = [sys.executable, *_PROGRAMS[kind]]
            log = folder / f"{kind}.log"
            service = await stack.enter_async_context(_process(argv, {**env, **pin}, log))
            pids["service"] = service.pid
            try:
                async with asyncio.timeout(START_S):
                    ports = await _listening(service, file)
                    status = f"http://127.0.0.1:{ports['http']}"
                    extender = f"http://127.0.0.1:{ports['extender']}"
                    await _ready(service, f"{status}/readyz")
                    await _registered(kube)
            except (TimeoutError, ProcessLookupError):
                raise RuntimeError(f"{kind}: not ready: {_end_of(log)}") from None
        made = configuration(load(), extender, [SCHEDULER])
        if kind == "plain":
            _alone(made)
        elif kind == "bare":
            del made["extenders"], made["percentageOfNodesToScore"]
        for profile in made["profiles"]:
            profile |= stock.profile
        connection = {"kubeconfig": str(plane.control.kubeconfig), "qps": 1000, "burst": 2000}
        file = folder / "kube-scheduler.json"
        file.write_text(json.dumps({**made, **_QUICK, "clientConnection": connection}))
        program = stock.program or plane.binaries / "kube-scheduler"
        argv = [str(program), f"--config={file}", *stock.flags]
        log = folder / "kube-scheduler.log"
        scheduler = await stack.enter_async_context(_process(argv, {}, log))
        yield Placing(pids={**pids, "kube-scheduler": scheduler.pid}, status=status)


def _alone(made: dict[str, Any]) -> None:
    """Take the extender out; what it lets kube-scheduler ignore is ignored all the same."""
    (extender,) = made.pop("extenders")
    ignored = [r["name"] for r in extender["managedResources"] if r["ignoredByScheduler"]]
    args = {
        "apiVersion": made["apiVersion"], "kind": "NodeResourcesFitArgs",
        "ignoredResources": ignored,
    }  # fmt: skip
    for profile in made["profiles"]:
        profile["pluginConfig"] = [{"name": "NodeResourcesFit", "args": args}]


def _environment(plane: Plane, nats: NatsServer, ports: Path) -> dict[str, str]:
    """`ports` is where it writes on which ports it listens."""
    local = "127.0.0.1"
    return {
        **plane.account, "TESSERA_BUS_URL": nats.url, "TESSERA_EXTENDER_PORT": "0",
        "TESSERA_HTTP_PORT": "0", "TESSERA_PROCESS_PORTS_FILE": str(ports),
        "TESSERA_WEBHOOK_HTTP_HOST": local, "TESSERA_WEBHOOK_HTTP_PORT": "0",
        "TESSERA_VISIBILITY_HTTP_HOST": local, "TESSERA_VISIBILITY_HTTP_PORT": "0",
        "TESSERA_VISIBILITY_REGISTER": "false",
        "TESSERA_WEBHOOK_REGISTRATION_HOST": local,
    }  # fmt: skip


@asynccontextmanager
async def _process(
    argv: Sequence[str], env: Mapping[str, str], log: Path
) -> AsyncGenerator[asyncio.subprocess.Process]:
    variables = {"PATH": os.defpath, "PYTHONPATH": str(Path(__file__).parents[1]), **env}
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *argv, env=variables, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield process
        if process.returncode is not None:
            raise RuntimeError(f"{argv[0]} ended: {_end_of(log)}")
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _listening(service: asyncio.subprocess.Process, file: Path) -> Mapping[str, int]:
    """The ports of a service, once it has written them all."""
    while True:
        ports = await asyncio.to_thread(_counters, file)
        if ports.keys() >= {"extender", "http", "webhook"}:
            return ports
        await _pause(service)


def _counters(file: Path) -> Mapping[str, int]:
    return dict(json.loads(file.read_text())) if file.exists() else {}


async def _ready(service: asyncio.subprocess.Process, url: str) -> None:
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(url) as answer:
                if answer.status == 200:
                    return
            await _pause(service)


async def _pause(service: asyncio.subprocess.Process) -> None:
    if service.returncode is not None:
        raise ProcessLookupError(service.pid)
    await asyncio.sleep(0.1)


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]


async def _registered(kube: Kube) -> None:
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


@asynccontextmanager
async def _collector() -> AsyncGenerator[str]:
    """The base URL of one that takes whatever comes, and keeps nothing."""

    async def take(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(content_type="application/x-protobuf")

    app = web.Application(client_max_size=64 * 2**20)
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _children() -> dict[str, int]:
    """The processes that run together with what is measured, by name."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:  # it has ended meanwhile
            continue
        name, fields = text.partition("(")[2].rpartition(")")[0], text.rpartition(")")[2].split()
        if int(fields[1]) == os.getpid() and name in _ALONGSIDE:
            found[name] = int(stat.parent.name)
    return found


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
