"""Pods that are made to hold up the scheduler, tried through an API server that calls the webhook:
they are refused, and the Lease, which is kept on the same loop, is renewed between each two."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tessera_runtime.kube.lease import Lease, open_lease
from tessera_runtime.kube.settings import LeaseSettings
from tests.contract.client import Json
from tests.webhook.cluster import HOME, KINDS, open_cluster, the_webhook

PODS = "/api/v1/namespaces/team/pods"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases"
SETTINGS = LeaseSettings(name="loop", namespace=HOME, duration_s=15, renew_s=0.1, retry_s=0.1)
SHARE = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}


def a_pod(containers: list[Json], notes: Json | None = None, **spec: object) -> Json:
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "large", "annotations": notes or {}},
        "spec": {"containers": containers, **spec},
    }  # fmt: skip


def a_container(name: str = "c", **more: object) -> Json:
    return {"name": name, "image": "i", "resources": {"limits": SHARE}, **more}


def many_volumes(n: int) -> Json:
    mounts = [{"name": f"v{i}", "mountPath": f"/d/{i}"} for i in range(n)]
    volumes = [{"name": f"v{i}", "hostPath": {"path": f"/d/{i}"}} for i in range(n)]
    return a_pod([a_container(volumeMounts=mounts)], volumes=volumes)


def many_containers(n: int) -> Json:
    return a_pod([a_container(f"c{i}") for i in range(n)])


def many_keys(n: int) -> Json:
    return a_pod([a_container()], notes={f"tessera.dev/{i}": "" for i in range(n)})


def one_long_value(size: int) -> Json:
    return a_pod([a_container(env=[{"name": "V", "value": "x" * size}])])


ATTACKS: dict[str, tuple[Json, str]] = {
    "volumes, few bytes": (many_volumes(2_000), "spec.volumes: 2000: "),
    "volumes": (many_volumes(20_000), "object: "),
    "keys, few bytes": (many_keys(10_000), "metadata.annotations: 10000: "),
    "keys": (many_keys(60_000), "object: "),
    "containers, few bytes": (many_containers(800), "spec.containers: 800: "),
    "containers": (many_containers(6_000), "object: "),
    "a long value": (one_long_value(2_800 << 10), "object: "),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_pods_that_would_hold_up_the_loop_are_refused(kind: str, tmp_path: Path) -> None:
    async with open_cluster(kind, tmp_path) as cluster, the_webhook(cluster):
        (await cluster.admin.post(LEASES, {"metadata": {"name": SETTINGS.name}})).done  # noqa: B018  (checks)
        async with open_lease(cluster.kube, SETTINGS, identity="us", call_s=5) as lease:
            await lease.held.wait()
            for pod, begins in ATTACKS.values():
                answer = await cluster.admin.post(PODS, pod, dryRun="All")
                assert f"denied the request: {begins}" in answer.refused(422, "Invalid")
                await renewed(lease)
            plain = one_long_value(2_000 << 10)
            del plain["spec"]["containers"][0]["resources"]
            assert (await cluster.admin.post(PODS, plain, dryRun="All")).status == 201
            assert lease.generation == 1
            (await cluster.admin.post(PODS, a_pod([a_container()]))).done  # noqa: B018  (checks)


async def renewed(lease: Lease) -> None:
    """Wait for the next renewal; the Lease is held all the time."""
    before = lease.remaining()
    assert before > 0
    async with asyncio.timeout(60):
        while (now := lease.remaining()) <= before:
            before = now
            await asyncio.sleep(0.02)
