"""Somebody with the role `edit` in one namespace, and nothing else, asks why its pod waits."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tessera_schema.visibility import PLURAL, ROOT
from tests.cluster.cluster import SERVICES, OpenCluster, RealCluster
from tests.cluster.objects import a_share, a_share_pod
from tests.cluster.plane import HOME
from tests.contract.client import Client, open_client

RBAC = "rbac.authorization.k8s.io"


@asynccontextmanager
async def a_tenant(cluster: RealCluster) -> AsyncGenerator[Client]:
    """The user `tenant`, with the role `edit` in the test's namespace."""
    await cluster.make(f"/apis/{RBAC}/v1/namespaces/{cluster.own}/rolebindings", {
        "metadata": {"name": "tenant", "namespace": cluster.own},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "tenant"}],
    })  # fmt: skip
    control = cluster.plane.control
    async with open_client(control.url, control.ca_path, control.tokens["tenant"]) as client:
        yield client


async def reached(cluster: RealCluster) -> None:
    """A Service that leads to this machine, until the API server passes requests on."""
    await cluster.make(SERVICES, {
        "metadata": {"name": "tessera-scheduler", "namespace": HOME},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    })  # fmt: skip

    async def served() -> bool:
        return (await cluster.admin.get(ROOT)).status == 200

    await cluster.until(served, "the aggregated API")


async def test_role_edit_is_told_why_and_what_would_help(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster, a_tenant(cluster) as tenant:
        await reached(cluster)
        first, second = await cluster.nodes(2, mib=20000)
        other = f"{cluster.own}-b"
        await cluster.namespace(other)
        body = a_share_pod("infer-3", a_share(15000))
        await cluster.make(cluster.pods_path(namespace=other), body)
        await cluster.until_bound("infer-3", namespace=other)
        await cluster.pod("train", a_share(12000))
        await cluster.until_bound("train")
        await cluster.pod("p", a_share(9000))
        path = f"{ROOT}/namespaces/{cluster.own}/{PLURAL}"

        async def waiting() -> bool:
            answer = await tenant.get(f"{path}/p")
            return answer.status == 200 and answer.body["verdict"] == "waiting"

        await cluster.until(waiting, "an explanation")
        told = (await tenant.get(f"{path}/p", cards="true")).done
        nodes = {node["name"]: node for node in told["nodes"]}
        assert set(nodes) == {first, second}
        held = {
            (holder.get("namespace", ""), holder.get("name", ""))
            for node in nodes.values() for card in node["cards"] for holder in card["holders"]
        }  # fmt: skip
        assert held == {("", ""), (cluster.own, "train")}
        assert "infer-3" not in str(told)
        assert other not in str(told)
        assert "the largest free part is 7.81 GiB on" in told["advice"]
        assert "ask for at most" in told["advice"]
        admin = (await cluster.admin.get(f"{path}/p", cards="true")).done
        assert "infer-3" in str(admin["nodes"])
        listed = (await tenant.get(path)).done
        assert [item["metadata"]["name"] for item in listed["items"]] == ["p"]

        elsewhere = await tenant.get(f"{ROOT}/namespaces/{other}/{PLURAL}/infer-3")
        assert (elsewhere.status, elsewhere.body["reason"]) == (403, "Forbidden")
        none = await tenant.get(f"{path}/nosuch")
        assert (none.status, none.body["message"]) == (404, 'pods "nosuch" not found')
