"""What it costs a real kube-scheduler that an extender holds its bind calls, and the API server
that pods have scheduling gates. Gangs may stand on both (docs/decisions/0021).

    python benchmarks/blocked_binds.py --calls 64 256 512 --hold-s 60

Nothing of Tessera takes part but its clients: the extender here holds a call until it learns what
to answer, and sends the Binding itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from aiohttp import web

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.throughput_cluster import NAMESPACE, prepare
from benchmarks.throughput_load import empty
from tessera_runtime.errors import ApiConflict, ApiNotFound
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tests.cluster.plane import Plane, a_program, real_plane

RESOURCE: Final = "benchmarks.tessera.dev/part"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLAIMS: Final = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
GATE: Final = "benchmarks.tessera.dev/turn"
OTHERS: Final = 200
"""Pods that nobody holds, made while calls are held and while none is."""
AGAIN_S: Final = 20.0
"""For how long the attempts after a missed meeting are counted."""
HTTP_S: Final = 90
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class HoldingExtender:
    """Binds pods at once, but for those whose name begins with `member`: they wait for `answer`."""

    def __init__(self, kube: Kube) -> None:
        """Nothing is held."""
        self._kube = kube
        self.calls: Counter[str] = Counter()
        """Name -> calls."""
        self.bound: set[str] = set()
        self.blocked = 0
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def answer(self, error: str) -> None:
        """End all calls that are held: with this error, or with their Binding where it is empty."""
        was, self._answer = self._answer, asyncio.get_running_loop().create_future()
        was.set_result(error)

    async def bind(self, request: web.Request) -> web.Response:
        """The extender's verb."""
        args = await request.json()
        name = args["PodName"]
        self.calls[name] += 1
        if name.startswith("member"):
            self.blocked += 1
            try:
                error = await asyncio.shield(self._answer)
            finally:
                self.blocked -= 1
            if error:
                return web.json_response({"Error": error})
        target = {"apiVersion": "v1", "kind": "Node", "name": args["Node"]}
        body = json.dumps({"metadata": {"name": name, "uid": args["PodUID"]}, "target": target})
        try:
            await self._kube.call(Verb.POST, f"{PODS}/{name}/binding", body=body.encode())
        except (ApiConflict, ApiNotFound) as e:
            return web.json_response({"Error": str(e)})
        self.bound.add(name)
        return web.json_response({})


@asynccontextmanager
async def _placing(plane: Plane, extender: HoldingExtender) -> AsyncGenerator[int]:
    """Run the extender and a kube-scheduler that calls it; yields the latter's process id."""
    app = web.Application()
    app.router.add_post("/bind", extender.bind)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    managed = [{"name": RESOURCE, "ignoredByScheduler": True}]
    made = {
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {
            "kubeconfig": str(plane.control.kubeconfig), "qps": 1000, "burst": 2000,
        },
        "extenders": [{
            "urlPrefix": f"http://{host}:{port}", "bindVerb": "bind", "managedResources": managed,
            "httpTimeout": f"{HTTP_S}s",
        }],
    }  # fmt: skip
    file = plane.folder / "kube-scheduler.json"
    await asyncio.to_thread(file.write_text, json.dumps(made))
    scheduler = plane.binaries / "kube-scheduler"
    argv: Sequence[str | Path] = [scheduler, f"--config={file}", "--secure-port=0"]
    program = a_program(argv, plane.folder / "kube-scheduler.log", {"HOME": str(plane.folder)})
    program.start()
    try:
        yield program.pid
        program.check()
    finally:
        await asyncio.to_thread(program.stop)
        await runner.cleanup()


def _pod(name: str, *, gated: bool = False, claim: str = "") -> bytes:
    container: dict[str, Any] = {
        "name": "main", "image": "pause", "resources": {"limits": {RESOURCE: "1"}},
    }  # fmt: skip
    spec: dict[str, Any] = {"containers": [container]}
    if gated:
        spec["schedulingGates"] = [{"name": GATE}]
    if claim:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return json.dumps({"metadata": {"name": name}, "spec": spec}).encode()


async def _every(bodies: Sequence[tuple[Verb, str, bytes]], kube: Kube, clients: int = 16) -> float:
    """Make all calls; seconds."""
    left, begun = list(reversed(bodies)), time.perf_counter()

    async def client() -> None:
        while left:
            verb, path, body = left.pop()
            kind = Body.STRATEGIC_PATCH if verb is Verb.PATCH else Body.JSON
            await kube.call(verb, path, body=body, kind=kind)

    async with asyncio.TaskGroup() as group:
        for i in range(clients):
            group.create_task(client(), name=f"client {i}")
    return time.perf_counter() - begun


async def _until(holds: Callable[[], bool], most_s: float = 120.0) -> float:
    begun = time.perf_counter()
    while not holds():
        if time.perf_counter() - begun > most_s:
            raise TimeoutError
        await asyncio.sleep(0.05)
    return time.perf_counter() - begun


def _mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / (1 << 20)


async def _others(kube: Kube, extender: HoldingExtender) -> float:
    """Pods per second of those that nobody holds, from the first that is made to the last bound."""
    names = [f"other-{len(extender.bound)}-{i}" for i in range(OTHERS)]
    begun = time.perf_counter()
    await _every([(Verb.POST, PODS, _pod(name)) for name in names], kube)
    await _until(lambda: extender.bound.issuperset(names))
    return OTHERS / (time.perf_counter() - begun)


async def _block(
    kube: Kube, extender: HoldingExtender, pid: int, count: int, hold_s: float, *, missed: bool
) -> None:
    """Hold so many calls, then let them go or answer each with an error; print what it took."""
    extender.calls.clear()
    free, before = await _others(kube, extender), _mib(pid)
    begun = time.perf_counter()
    await _every([(Verb.POST, PODS, _pod(f"member-{i}")) for i in range(count)], kube)
    await _until(lambda: extender.blocked == count)
    arrived = time.perf_counter() - begun
    during, most = await _others(kube, extender), _mib(pid)
    await asyncio.sleep(max(0.0, hold_s - (time.perf_counter() - begun)))
    still = extender.blocked
    extender.answer("the gang missed its meeting" if missed else "")
    if missed:
        await asyncio.sleep(AGAIN_S)
        again = sum(extender.calls[f"member-{i}"] - 1 for i in range(count)) / count
        end = (
            f"missed: {extender.blocked} are held again after {AGAIN_S:.0f} s, attempts {again:.2f}"
        )
        extender.answer("")
    else:
        took = await _until(lambda: not extender.blocked)
        end = f"all bound {took:.2f} s after they were let go"
    print(
        f"{count:4} calls: arrived in {arrived:.1f} s, {still} still held after {hold_s:.0f} s; "
        f"others {free:.0f} pods/s before, {during:.0f} during; "
        f"memory {most - before:+.1f} MiB; {end}",
        flush=True,
    )
    await empty(kube, NAMESPACE)


async def _gates(kube: Kube, count: int) -> None:
    """What a gate costs: creating pods with and without, and taking the gates off."""
    for gated in (False, True):
        names, begun = [f"p{i}" for i in range(count)], time.perf_counter()
        made = await _every([(Verb.POST, PODS, _pod(n, gated=gated)) for n in names], kube)
        opened = 0.0
        if gated:
            body = json.dumps({"spec": {"schedulingGates": [{"$patch": "replace"}]}}).encode()
            opened = await _every([(Verb.PATCH, f"{PODS}/{n}", body) for n in names], kube)
        while True:
            if not await _unbound(kube):
                break
            await asyncio.sleep(0.2)
        each = [s / count * 1000 for s in (made, opened, time.perf_counter() - begun)]
        print(
            f"{count} pods {'with' if gated else 'without'} a gate, ms each, 16 calls at once: "
            f"made {each[0]:.2f}, opened {each[1]:.2f}, "
            f"from the first made to all bound {each[2]:.2f}",
            flush=True,
        )
        await empty(kube, NAMESPACE)


async def _unbound(kube: Kube) -> bool:
    query = {"fieldSelector": "spec.nodeName=", "limit": "1"}
    return bool(json.loads(await kube.call(Verb.GET, PODS, query=query))["items"])


async def _volumes(kube: Kube, extender: HoldingExtender) -> None:
    """What PreBind has done for a pod whose meeting is missed, and whose claim waited for it."""
    storage = {"kind": "StorageClass", "metadata": {"name": "local"},
               "provisioner": "kubernetes.io/no-provisioner",
               "volumeBindingMode": "WaitForFirstConsumer"}  # fmt: skip
    claim = {"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
        "resources": {"requests": {"storage": "1Gi"}},
    }}  # fmt: skip
    on = [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-00003"]}]
    volume = {"metadata": {"name": "disk"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local", "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": on}]}},
    }}  # fmt: skip
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    for path, made in ((classes, storage), ("/api/v1/persistentvolumes", volume), (CLAIMS, claim)):
        await kube.call(Verb.POST, path, body=json.dumps(made).encode())
    extender.calls.clear()
    await kube.call(Verb.POST, PODS, body=_pod("member-data", claim="data"))
    await _until(lambda: extender.blocked == 1)
    during = await _phase(kube)
    extender.answer("the gang missed its meeting")
    await _until(lambda: extender.blocked == 0)
    after = await _phase(kube)
    await _until(lambda: extender.blocked == 1)
    print(
        f"a claim is {during} while its pod's bind call is held, {after} after the meeting "
        f"was missed; attempts {extender.calls['member-data']}",
        flush=True,
    )
    extender.answer("")


async def _phase(kube: Kube) -> str:
    found = json.loads(await kube.call(Verb.GET, f"{CLAIMS}/data"))
    return f"{found['status'].get('phase')} to {found['spec'].get('volumeName', 'no volume')}"


async def run(calls: Sequence[int], hold_s: float, nodes: int, gated: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="tessera-blocked-") as folder:
        async with real_plane(Path(folder)) as plane:
            settings = KubeSettings(
                kubeconfig=str(plane.control.kubeconfig), call_s=30, gather_s=0, connections=600
            )
            async with open_kube(settings) as kube:
                await prepare(kube, nodes, 1)
                extender = HoldingExtender(kube)
                async with _placing(plane, extender) as pid:
                    await _others(kube, extender)
                    for count in calls:
                        await _block(kube, extender, pid, count, hold_s, missed=False)
                    await _block(kube, extender, pid, calls[0], min(hold_s, 10), missed=True)
                    await _gates(kube, gated)
                    await _volumes(kube, extender)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--calls", type=int, nargs="+", default=[64, 256, 512])
    parser.add_argument("--hold-s", type=float, default=60)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--gated", type=int, default=1000)
    given = parser.parse_args()
    asyncio.run(run(given.calls, given.hold_s, given.nodes, given.gated))
