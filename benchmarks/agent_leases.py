"""What the Leases of 5,000 agents cost a real API server and its etcd, and what those of as many
kubelets cost, which every cluster has anyway.

    python benchmarks/agent_leases.py --nodes 5000 --seconds 60 --rounds 2

Each renewal is sent by `Heartbeat`, as an agent sends it, and with the headers of its own user: a
kubelet's is decided by the Node authorizer, an agent's by its role and the policy `tessera-leases`.
The watches that there are in a cluster are open: the controller manager's of all Leases, and two
schedulers' of the agents' Leases. Not here: a token or certificate for each node, and a connection.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
import statistics
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import aiohttp
import uvloop
import yaml
from msgspec import Struct

sys.path.insert(0, str(Path(__file__).parents[1]))

from tessera_runtime.clock import SystemClock
from tessera_runtime.errors import Transient
from tessera_runtime.kube.api import Kube
from tessera_runtime.kube.client import HttpKube, open_kube
from tessera_runtime.kube.heartbeat import Heartbeat, HeartbeatSettings, agent_lease_name
from tessera_runtime.kube.settings import KubeSettings
from tests.contract.client import Client, Json, open_client
from tests.contract.real import ControlPlane, real_control_plane

AGENTS: Final = HeartbeatSettings()
KUBELETS: Final = HeartbeatSettings(namespace="kube-node-lease", renew_s=10.5, lasts_s=40)
"""Kubelet renews every 10 s, give or take 4 %; a heartbeat comes a random tenth sooner."""
ACCOUNT: Final = "system:serviceaccount:tessera-system:tessera-agent"
NODE_KEY: Final = "authentication.kubernetes.io%2Fnode-name"
ALL_LEASES: Final = "/apis/coordination.k8s.io/v1/leases"
AGENT_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{AGENTS.namespace}/leases"
SCHEDULERS: Final = 2
REFUSED: Final = 403
_BASE: Final = Path(__file__).parents[1] / "deploy" / "kustomize" / "base"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
_ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
_PATHS: Final = {
    "Role": f"{_RBAC}/roles",
    "RoleBinding": f"{_RBAC}/rolebindings",
    "ValidatingAdmissionPolicy": f"{_ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{_ADMISSION}/validatingadmissionpolicybindings",
}
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_COUNTED: Final = ("etcd_mvcc_put_total", "etcd_disk_wal_write_bytes_total")


class NodeUser(Struct, frozen=True):
    """Credentials: the user that the front proxy names."""

    url: str
    tls: ssl.SSLContext
    named: dict[str, str]
    proxy: str | None = None
    server_name: str | None = None
    namespace: str = ""

    async def headers(self, *, renew: bool = False) -> dict[str, str]:
        """The same always."""
        del renew
        return self.named


class Costs(Struct, frozen=True):
    """Of a span of time, per second."""

    renewals: float
    server_ms: float
    """Milliseconds of processor time of the API server."""
    etcd_ms: float
    puts: float
    """Writes of etcd."""
    log_kib: float
    """KiB that etcd appends to its log."""
    server_mib: float
    """Memory of the API server at the end, not per second."""


def _user(control: ControlPlane, tls: ssl.SSLContext, node: str, *, agent: bool) -> NodeUser:
    named = {"X-Remote-User": f"system:node:{node}", "X-Remote-Group": "system:nodes"}
    if agent:
        named = {
            "X-Remote-User": ACCOUNT, "X-Remote-Group": "system:serviceaccounts",
            f"X-Remote-Extra-{NODE_KEY}": node,
        }  # fmt: skip
    return NodeUser(control.url, tls, named)


@asynccontextmanager
async def _beating(
    control: ControlPlane, session: aiohttp.ClientSession, tls: ssl.SSLContext,
    settings: HeartbeatSettings, nodes: int, *, agent: bool,
) -> AsyncGenerator[Sequence[Heartbeat]]:  # fmt: skip
    """Have every node renew a Lease for the length of the block, all of them once before it."""
    random, made, clock = Random(1), list[Heartbeat](), SystemClock()
    async with asyncio.TaskGroup() as group:
        for i in range(nodes):
            node = f"node-{i:05}"
            kube = HttpKube(
                session, _user(control, tls, node, agent=agent), KubeSettings(call_s=60)
            )
            lease = agent_lease_name("nvidia", node) if agent else node
            made.append(
                Heartbeat(
                    kube, settings, lease=lease, identity=node, clock=clock, owner=lambda: None,
                    random=random,
                )
            )  # fmt: skip
        start = [
            group.create_task(_begin(one, random.uniform(0, settings.renew_s)), name="heartbeat")
            for one in made
        ]
        for one in made:
            await one.announced.wait()
        try:
            yield made
        finally:
            for task in start:
                task.cancel()


async def _begin(heartbeat: Heartbeat, after_s: float) -> None:
    await asyncio.sleep(after_s)
    await heartbeat.run(lambda: True)


async def _watch(kube: Kube, path: str) -> None:
    """Read all that comes, as an informer does."""
    while True:
        with suppress(Transient):
            async with kube.stream(path, query={"watch": "1"}) as lines:
                async for _ in lines:
                    pass


async def _install(admin: Client) -> None:
    for name in (AGENTS.namespace, KUBELETS.namespace):
        await admin.post("/api/v1/namespaces", {"metadata": {"name": name}})
    documents: list[dict[str, Any]] = []
    for file in ("agents/access/account.yaml", "policies/leases.yaml"):
        documents += yaml.safe_load_all((_BASE / file).read_text())
    for document in documents:
        namespace = document["metadata"].get("namespace", "")
        if document["kind"] not in _PATHS or namespace not in {"", AGENTS.namespace}:
            continue
        path = _PATHS[document["kind"]].format(namespace=namespace)
        (await admin.post(path, document)).done  # noqa: B018  (checks)


async def _until_policy_holds(admin: Client) -> None:
    """A policy takes effect a while after it was written: until then this would be created."""
    body: Json = {"metadata": {"name": "of-nobody"}, "spec": {}}
    async with asyncio.timeout(60):
        while True:
            if (await admin.post(AGENT_LEASES, body, dryRun="All")).status == REFUSED:
                return
            await asyncio.sleep(0.2)


async def _measure(control: ControlPlane, seconds: float, beats: Sequence[Heartbeat]) -> Costs:
    before = await _counters(control, beats)
    await asyncio.sleep(seconds)
    after = await _counters(control, beats)
    took = after[0] - before[0]
    sent, server, etcd, puts, log = (
        (b - a) / took for a, b in zip(before[1:], after[1:], strict=True)
    )
    memory = _mib(control.pids["kube-apiserver"])
    return Costs(sent, server * 1000, etcd * 1000, puts, log / 1024, memory)


async def _counters(control: ControlPlane, beats: Sequence[Heartbeat]) -> list[float]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{control.etcd_url}/metrics") as answer,
    ):
        text = await answer.text()
    rows = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    pids, now = control.pids, asyncio.get_running_loop().time()
    cpu = [_cpu_s(pids[name]) for name in ("kube-apiserver", "etcd")]
    return [
        now,
        sum(one.renewals for one in beats),
        *cpu,
        *(float(rows[name]) for name in _COUNTED),
    ]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / (1 << 20)


def _print(what: str, found: Sequence[Costs]) -> None:
    values = [
        statistics.median(getattr(one, name) for one in found) for name in Costs.__struct_fields__
    ]
    words = ("renewals/s", "ms/s API server", "ms/s etcd", "etcd writes/s", "KiB/s of log", "MiB")
    print(f"{what:22}", *(f"{v:8.1f} {w}" for v, w in zip(values, words, strict=True)), flush=True)


async def run(nodes: int, seconds: float, rounds: int) -> None:
    """Measure without renewals, with kubelets', and with agents'; print medians."""
    found: dict[str, list[Costs]] = {"none": [], "kubelets": [], "agents": []}
    with tempfile.TemporaryDirectory(prefix="leases-") as folder:
        async with real_control_plane(Path(folder)) as control, AsyncExitStack() as stack:
            admin = await stack.enter_async_context(
                open_client(control.url, control.ca_path, control.token)
            )
            await _install(admin)
            await _until_policy_holds(admin)
            kube = await stack.enter_async_context(
                open_kube(KubeSettings(kubeconfig=str(control.kubeconfig)))
            )
            tls = ssl.create_default_context(cafile=str(control.ca_path))
            tls.load_cert_chain(Path(folder) / "front-proxy.pem", Path(folder) / "front-proxy.key")
            connector = aiohttp.TCPConnector(ssl=tls, limit=64)
            session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
            group = await stack.enter_async_context(asyncio.TaskGroup())
            watched = (ALL_LEASES, *[AGENT_LEASES] * SCHEDULERS)
            watches = [group.create_task(_watch(kube, path), name=path) for path in watched]
            for _ in range(rounds):
                found["none"].append(await _measure(control, seconds, ()))
                _print("none", found["none"][-1:])
                for what, settings in (("kubelets", KUBELETS), ("agents", AGENTS)):
                    async with _beating(
                        control, session, tls, settings, nodes, agent=settings is AGENTS
                    ) as beats:
                        found[what].append(await _measure(control, seconds, beats))
                    _print(what, found[what][-1:])
            for watch in watches:
                watch.cancel()
    print("medians:")
    for what, costs in found.items():
        _print(what, costs)


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=60, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=2)
    chosen = parser.parse_args()
    uvloop.run(run(chosen.nodes, chosen.seconds, chosen.rounds))


if __name__ == "__main__":
    main()
