"""Quotas by labels of namespaces, and GPU Manager's ConfigMap, with an installation's rights."""

from __future__ import annotations

from typing import Any

from tests.cluster.cluster import OpenCluster, RealCluster
from tests.cluster.monitor import monitoring
from tests.cluster.objects import a_share
from tests.contract.client import Json

MAPS = "/api/v1/namespaces/kube-system/configmaps"
QUARTER = a_share(6000)


async def label(cluster: RealCluster, **labels: str | None) -> None:
    path = f"/api/v1/namespaces/{cluster.own}"
    assert (await cluster.admin.patch(path, {"metadata": {"labels": labels}})).status == 200


async def stays_waiting(cluster: RealCluster, name: str) -> None:
    """The pod is refused for its quota."""

    async def reported() -> bool:
        pods = {pod["metadata"]["name"]: pod for pod in await cluster.pods()}
        said = [c.get("message", "") for c in pods[name]["status"].get("conditions", ())]
        return any("ResourceQuotaNotFit" in message for message in said)

    await cluster.until(reported, f"{name} refused for its quota")
    assert name not in {pod["metadata"]["name"] for pod in await cluster.bound()}


async def test_a_namespace_is_limited_while_it_has_the_labels(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster, monitoring(cluster) as monitor:
        await cluster.nodes(1, cards=4)
        await label(cluster, team=cluster.own)
        selector: dict[str, Any] = {"matchLabels": {"team": cluster.own}}
        spec = {"namespaceSelector": selector, "hard": {"cards": 1}}
        await monitor.quota("q", spec, "default")
        await monitor.until_status("q", "default", phase="Within", used__cards=0)
        try:
            await cluster.pod("a", QUARTER)
            await cluster.until_bound("a")
            await cluster.pod("b", QUARTER)
            await stays_waiting(cluster, "b")
            await monitor.until_status("q", "default", used__cards=1, waiting__pods=1)
            await label(cluster, team=None)
            await cluster.until_bound("a", "b")
            await monitor.until_status("q", "default", used__cards=0)
        finally:
            path = "/apis/tessera.dev/v1alpha1/namespaces/default/acceleratorquotas/q"
            await cluster.admin.delete(path)


async def test_gpu_managers_quotas_hold_while_they_are_there(open_cluster: OpenCluster) -> None:
    body: Json = {
        "metadata": {"name": "gpuquota"},
        "data": {"gpu_quota": "{}"},
    }
    async with open_cluster() as cluster:
        await cluster.nodes(1, cards=4)
        body["data"]["gpu_quota"] = f'{{"{cluster.own}": {{"quota": {{"T4": 8}}}}}}'
        await cluster.make(MAPS, body)
        try:
            await cluster.pod("a", QUARTER)
            await stays_waiting(cluster, "a")
        finally:
            await cluster.admin.delete(f"{MAPS}/gpuquota")
        await cluster.until_bound("a")
