"""Quota objects limit what is granted, and wake those who wait when they allow more."""

import asyncio

import msgspec
import pytest

from tessera_schema.annotation_keys import WAKE_KEY
from tessera_schema.cards import MIB
from tessera_schema.kube import Node
from tests.scheduler.fake_cluster import (
    FakeCluster,
    counted,
    leading,
    settings,
    until,
)

pytestmark = pytest.mark.looptime

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUOTAS = "/apis/tessera.dev/v1alpha1/namespaces/default/acceleratorquotas"


def define_quotas(cluster: FakeCluster) -> None:
    cluster.make(
        CRDS,
        {
            "metadata": {"name": "acceleratorquotas.tessera.dev"},
            "spec": {
                "group": "tessera.dev",
                "scope": "Namespaced",
                "names": {
                    "plural": "acceleratorquotas", "singular": "acceleratorquota",
                    "kind": "AcceleratorQuota", "listKind": "AcceleratorQuotaList",
                },
                "versions": [
                    {
                        "name": "v1alpha1", "served": True, "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object", "x-kubernetes-preserve-unknown-fields": True
                            }
                        },
                    }
                ],
            },
        },
    )  # fmt: skip


async def test_a_quota_holds_and_raising_it_wakes_kube_scheduler() -> None:
    cluster = FakeCluster(2)
    quota = "/api/v1/namespaces/default/resourcequotas"
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "5000"}}}
    cluster.make(quota, body)
    for name in ("a", "b"):
        cluster.pod(name, 4000)
    async with leading(cluster) as scheduler:
        assert cluster.filter(scheduler, "a").node_names == ("n0",)
        refused = cluster.filter(scheduler, "b")
        assert refused.failed_and_unresolvable_nodes == dict.fromkeys(
            cluster.nodes, "ResourceQuotaNotFit"
        )
        assert await cluster.bind(scheduler, "a", "n0") == ""
        await asyncio.sleep(10)
        was = woken(cluster)
        cluster.call(
            "PATCH", f"{quota}/q", {"spec": {"hard": {"limits.nvidia.com/gpumem": "8000"}}}
        )
        await until(lambda: woken(cluster) != was, 10)
        assert await cluster.place(scheduler, "b") == "n0"


async def test_a_pod_that_is_refused_before_another_has_left_is_requeued() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 16000)
    cluster.pod("b", 16000)
    async with leading(cluster) as scheduler:
        assert await cluster.place(scheduler, "a") == "n0"
        assert cluster.filter(scheduler, "b").node_names == ()
        await asyncio.sleep(10)
        was = woken(cluster)
        cluster.delete("a")  # kube-scheduler has seen it, and asks at once
        assert cluster.filter(scheduler, "b").node_names == ()
        await until(lambda: woken(cluster) != was, 10)
        assert await cluster.place(scheduler, "b") == "n0"


async def test_nobody_is_woken_while_nobody_waits() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        cluster.filter(scheduler, "a")
        await asyncio.sleep(60)
        assert counted(scheduler, "reservations_expired_total") == 1
        assert woken(cluster) == ""


def woken(cluster: FakeCluster) -> str:
    node = msgspec.json.decode(cluster.store.handle("GET", "/api/v1/nodes/n0").body, type=Node)
    return node.metadata.annotations.get(WAKE_KEY, "")


async def test_two_pods_race_for_the_rest_of_a_quota() -> None:
    cluster = FakeCluster(2)
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "5000"}}}
    cluster.make("/api/v1/namespaces/default/resourcequotas", body)
    async with leading(cluster) as scheduler:
        for n in range(5):
            cluster.pod(f"p{n}", 2000)
        async with asyncio.TaskGroup() as group:
            for n in range(5):
                group.create_task(cluster.place(scheduler, f"p{n}"), name=f"p{n}")
        assert sum(c.memory_bytes for c in cluster.truth().values()) == 4000 * MIB


async def test_our_own_quota_counts_once_its_definition_is_there() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 4000)
    async with leading(cluster, config=settings(custom_s=5)) as scheduler:
        assert cluster.filter(scheduler, "a").node_names == ("n0",)
        await asyncio.sleep(40)
        define_quotas(cluster)
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"memory": "2Gi"}}}
        cluster.make(
            QUOTAS, {"apiVersion": "tessera.dev/v1alpha1", "kind": "AcceleratorQuota"} | quota
        )
        await asyncio.sleep(10)
        assert cluster.filter(scheduler, "a").failed_and_unresolvable_nodes == {
            "n0": "ResourceQuotaNotFit"
        }
        cluster.call("PATCH", f"{QUOTAS}/q", {"spec": {"hard": {"memory": "nonsense"}}})
        await asyncio.sleep(1)
        assert cluster.filter(scheduler, "a").failed_and_unresolvable_nodes == {
            "n0": "ResourceQuotaNotFit"
        }
        cluster.call("DELETE", f"{QUOTAS}/q")
        await asyncio.sleep(1)
        assert cluster.filter(scheduler, "a").node_names == ("n0",)
