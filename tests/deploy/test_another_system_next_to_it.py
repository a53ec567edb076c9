"""HAMi on the same real API server: all that its scheduler and its device plugin write passes,
before Tessera's manifests are applied and after, with the webhook registered."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import yaml
from msgspec.structs import replace

from tessera_schema.annotation_keys import SCHEDULER
from tests.contract.client import Answer, Client, Json
from tests.contract.objects import a_binding, a_node, a_pod
from tests.deploy.manifests import combined, kubectl
from tests.webhook.cluster import SETTINGS, Cluster, open_cluster, the_webhook

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
PODS: Final = "/api/v1/namespaces/team/pods"
NODE: Final = "/api/v1/nodes/gpu-1"
SETTLED_S: Final = 60.0
REGISTER: Final = (
    '[{"id":"GPU-1","index":0,"count":10,"devmem":24576,"devcore":100,"type":"NVIDIA-A10",'
    '"numa":0,"mode":"hami-core","health":true}]'
)
"""What its plugin writes on a node."""
HELD: Final = "GPU-1,NVIDIA,3000,30:;"
USUAL: Final = ("hami-scheduler", "hami-device-plugin")
RENAMED: Final = ("gpu-share-scheduler", "gpu-share-plugin")
"""Accounts as the usual installation names them, and as somebody else might."""


def notes(**annotations: str | None) -> Json:
    return {"metadata": {"annotations": annotations}}


async def account(admin: Client, name: str) -> Client:
    """A service account of kube-system that may do everything, as HAMi's chart lets its own."""
    group = "rbac.authorization.k8s.io"
    accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
    (await admin.post(accounts, {"metadata": {"name": name}})).done  # noqa: B018  (checks)
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}
    bound: Json = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    (await admin.post(f"{RBAC}/clusterrolebindings", bound)).done  # noqa: B018  (checks)
    made = (await admin.post(f"{accounts}/{name}/token", {"spec": {}})).done
    return admin.named(made["status"]["token"])


async def a_day_of(scheduler: Client, plugin: Client, pod: str) -> list[Answer]:
    """Everything that HAMi writes for one node and one pod, in its own order."""
    path, at = f"{PODS}/{pod}", "2026-11-23T10:00:00Z"
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"}
    made = a_pod(pod, limits=limits, schedulerName="hami-scheduler")
    annotated = {
        "hami.io/vgpu-node": "gpu-1", "hami.io/vgpu-time": "1763892000",
        "hami.io/vgpu-devices-to-allocate": HELD, "hami.io/vgpu-devices-allocated": HELD,
    }  # fmt: skip
    chosen: Json = {
        "metadata": {"annotations": annotated, "labels": {"hami.io/vgpu-node": "gpu-1"}}
    }
    binding = a_binding(pod, "gpu-1")
    amounts = {"nvidia.com/gpu": "10"}
    status: Json = {"status": {"capacity": amounts, "allocatable": amounts}}
    return [
        await plugin.patch(NODE, notes(**{"hami.io/node-nvidia-register": REGISTER})),
        await plugin.patch(f"{NODE}/status", status),
        await scheduler.patch(NODE, notes(**{"hami.io/node-handshake": "Requesting_now"})),
        await scheduler.post(PODS, made),
        await scheduler.patch(path, chosen),
        await scheduler.patch(NODE, notes(**{"hami.io/mutex.lock": f"{at},team,{pod}"})),
        await scheduler.patch(
            path, notes(**{"hami.io/bind-phase": "allocating", "hami.io/bind-time": "1763892000"})
        ),
        await scheduler.post(f"{path}/binding", binding),
        await plugin.patch(path, notes(**{"hami.io/vgpu-devices-to-allocate": ";"})),
        await plugin.patch(path, notes(**{"hami.io/bind-phase": "success"})),
        await plugin.patch(NODE, notes(**{"hami.io/mutex.lock": None})),
        await plugin.patch(f"{path}/status", notes(**{"hami.io/vgpu-time": "1763892001"})),
    ]


@asynccontextmanager
async def installed(cluster: Cluster, folder: Path, *components: str) -> AsyncGenerator[None]:
    """The base, which serves no other system's scheduler name, and the webhook as it is there."""
    await asyncio.to_thread(apply, folder, combined(folder, components))
    settings = replace(SETTINGS, schedulers=(SCHEDULER,))
    async with the_webhook(cluster, settings=settings):
        await in_force(cluster.admin)
        yield


def apply(folder: Path, objects: Iterable[Json]) -> None:
    """`kubectl apply` of these, by the administrator's kubeconfig of the control plane there."""
    made = folder / "made.yaml"
    made.write_text(yaml.safe_dump_all(objects))
    ran = subprocess.run(
        [kubectl(), f"--kubeconfig={folder}/admin.kubeconfig", "apply", "--server-side",
         "--force-conflicts", "-f", str(made)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr


async def in_force(admin: Client) -> None:
    """Wait until the policies are: they refuse a grant by a stranger."""
    stranger = await account(admin, "stranger")
    (await admin.post(PODS, a_pod("probe", schedulerName="x"))).done  # noqa: B018  (checks)
    async with asyncio.timeout(SETTLED_S):
        for key in ("tessera.dev/grant", "hami.io/vgpu-time"):
            while True:
                answer = await stranger.patch(f"{PODS}/probe", notes(**{key: "x"}), dryRun="All")
                if answer.status == 403 or answer.warnings:
                    break
                await asyncio.sleep(0.2)


def passed(answers: list[Answer]) -> list[str]:
    """The warnings of answers that all had to succeed."""
    assert [a.status for a in answers if a.status not in {200, 201}] == [], answers
    return [warning for answer in answers for warning in answer.warnings]


@pytest.mark.parametrize(
    ("accounts", "warned"), [(USUAL, False), (RENAMED, True)], ids=["usual", "renamed"]
)
async def test_what_it_writes_passes_before_and_after(
    tmp_path: Path, accounts: tuple[str, str], *, warned: bool
) -> None:
    async with open_cluster("real", tmp_path) as cluster:
        admin = cluster.admin
        (await admin.post("/api/v1/nodes", a_node("gpu-1"))).done  # noqa: B018  (checks)
        scheduler, plugin = [await account(admin, name) for name in accounts]
        assert passed(await a_day_of(scheduler, plugin, "before")) == []
        async with installed(cluster, tmp_path):
            warnings = passed(await a_day_of(scheduler, plugin, "after"))
            again = await plugin.patch(f"{PODS}/before", notes(**{"hami.io/bind-phase": "failed"}))
            passed([again])
            pod = (await admin.get(f"{PODS}/after")).done
    policy = [w for w in warnings if "tessera-foreign-keys" in w]
    assert bool(policy) is warned
    assert [w for w in warnings if w not in policy and "left alone" not in w] == []
    assert pod["spec"]["schedulerName"] == "hami-scheduler"
    assert pod["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] == HELD


async def test_strangers_are_refused_once_an_administrator_says_so(tmp_path: Path) -> None:
    async with open_cluster("real", tmp_path) as cluster:
        admin = cluster.admin
        (await admin.post("/api/v1/nodes", a_node("gpu-1"))).done  # noqa: B018  (checks)
        scheduler, plugin, renamed, other = [
            await account(admin, name) for name in (*USUAL, *RENAMED)
        ]
        async with installed(cluster, tmp_path, "strict-keys"):
            passed(await a_day_of(scheduler, plugin, "a"))
            answers = await a_day_of(renamed, other, "b")
    refused = [a for a in answers if a.status == 403]
    assert refused
    assert all("tessera-foreign-keys" in a.body["message"] for a in refused)
