"""From a quota that is exceeded to cores that are lowered: the monitor as a process of its own, a
real nats-server, and an agent that a container runtime asks."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from tessera_agent.admission.resize import ResizeSettings
from tessera_core.hook.limits_file import CardLimit
from tessera_embedded.apiserver import ApiServer, open_apiserver
from tessera_embedded.nats_server import open_nats
from tessera_embedded.runtime.runtime import open_runtime
from tessera_kubelet.nri.settings import RuntimeSettings
from tessera_kubelet.nri.types import Adjustment
from tessera_runtime.bus.client import open_bus
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_runtime.kube.client import open_kube
from tessera_runtime.kube.settings import KubeSettings
from tessera_schema.grants import GRANT_KEY
from tessera_testing.bus import FakeBus
from tessera_testing.kube import FakeKube
from tests.agent.limitsfile import limits_of
from tests.agent.nri.runtime_node import NODE, SIGNER, SYSTEM, Node, a_grant, a_pod, a_share, signed
from tests.quota.cluster import CRDS, DEFINITION, HOME, keys_of
from tests.quota.test_the_process_runs import QUOTAS, a_process, environment, status_of

NAMESPACE = "default"
PODS = paths.in_core(NAMESPACE, "pods")
WHOLE_S = 120.0


async def make(kube: Kube, path: str, body: object) -> dict[str, str]:
    meta: dict[str, str] = json.loads(
        await kube.call(Verb.POST, path, body=json.dumps(body).encode())
    )["metadata"]
    return meta


@asynccontextmanager
async def a_cluster(folder: Path) -> AsyncGenerator[tuple[ApiServer, Kube]]:
    """An API server that knows quotas, a node, and the keys of grants."""
    async with (
        open_apiserver(folder / "api", keep=False) as server,
        open_kube(KubeSettings(kubeconfig=str(server.kubeconfig))) as kube,
    ):
        await make(kube, CRDS, DEFINITION)
        await make(kube, "/api/v1/namespaces", {"metadata": {"name": HOME}})
        for namespace in (HOME, SYSTEM):
            await make(kube, paths.in_core(namespace, "configmaps"), keys_of(SIGNER))
        await make(kube, paths.NODES, {"metadata": {"name": NODE}})
        yield server, kube


async def a_job(kube: Kube, node: Node) -> Adjustment:
    """A pod that holds 40 percent of a card, and its container."""
    spec = {"nodeName": NODE, "containers": [{"name": "main", "image": "i"}]}
    made = await make(kube, PODS, {"metadata": {"name": "job"}, "spec": spec})
    grant = a_grant("job", a_share(cores_percent=40), uid=made["uid"], namespace=NAMESPACE)
    text = signed(grant)
    patch = json.dumps({"metadata": {"annotations": {GRANT_KEY: text}}}).encode()
    await kube.call(Verb.PATCH, f"{PODS}/job", body=patch, kind=Body.MERGE_PATCH)
    pod = replace(a_pod("job", text), uid=made["uid"], namespace=NAMESPACE)
    return await node.run(pod)


async def is_throttled(kube: Kube) -> None:
    """Wait until the quota's status says so, which is where a monitor that comes later reads it."""
    async with asyncio.timeout(WHOLE_S):
        while (await status_of(kube)).get("phase") != "Throttled":
            await asyncio.sleep(0.05)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(WHOLE_S):
        while True:
            if true():
                return
            await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_throttle_reaches_the_limits_file_and_outlives_the_monitor(tmp_path: Path) -> None:
    async with (
        a_cluster(tmp_path) as (server, kube),
        open_nats(tmp_path / "nats") as nats,
        open_bus(BusSettings(url=nats.url, arrange=True), "agent", NODE) as bus,
    ):
        node = Node(tmp_path, cast("FakeKube", kube), cast("FakeBus", bus))
        environ = environment(server, tmp_path / "ports.json") | {
            "TESSERA_BUS_URL": nats.url, "TESSERA_THROTTLE_AFTER_S": "0",
        }  # fmt: skip
        async with open_runtime(node.socket, RuntimeSettings(), state=node.state) as node.runtime:
            async with node.agent(resize=ResizeSettings(look_s=0.05)):
                given = await a_job(kube, node)

                def card() -> CardLimit:
                    return limits_of(given).cards[0]

                quota = {
                    "apiVersion": "tessera.dev/v1alpha1", "kind": "AcceleratorQuota",
                    "metadata": {"name": "q"},
                    "spec": {"hard": {"cards": 0}, "throttle": {"coresPercent": 25}},
                }  # fmt: skip
                await make(kube, QUOTAS, quota)
                async with a_process(environ, tmp_path / "log"):
                    await until(lambda: card().cores_permille == 100)
                    await is_throttled(kube)
            assert card().cores_permille == 100  # neither the monitor nor the agent runs
            async with node.agent(resize=ResizeSettings(look_s=0.05)) as agent:
                await agent.limits.reconcile()
                assert card().cores_permille == 100
                more = json.dumps({"spec": {"hard": {"cards": 1}}}).encode()
                await kube.call(Verb.PATCH, f"{QUOTAS}/q", body=more, kind=Body.MERGE_PATCH)
                async with a_process(environ, tmp_path / "log"):
                    await until(lambda: card().cores_permille == 400)
