"""What is used of Koordinator's ElasticQuotas, written by the scheduler that leads, on the cluster
in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tessera_scheduler.gangs.settings import GangWrite
from tests.scheduler.fake_cluster import leading, until
from tests.scheduler.gangs.gang_cluster import CRDS, WHOLE, GangCluster, whole
from tests.scheduler.gangs.test_queues_hold import definition

pytestmark = pytest.mark.looptime

API = "scheduling.sigs.k8s.io/v1alpha1"
QUOTAS = f"/apis/{API}/namespaces/default/elasticquotas"
PREFIX = "quota.scheduling.koordinator.sh/"


class QuotaCluster(GangCluster):
    """With ElasticQuotas of cards."""

    def __init__(self, cards: int = 4) -> None:
        super().__init__(cards=cards, apis=())
        self.make(CRDS, definition(API, "elasticquotas", "ElasticQuota", "Namespaced"))

    def quota(self, name: str, least: int, most: int) -> None:
        spec = {"min": {"nvidia.com/gpu": least}, "max": {"nvidia.com/gpu": most, "cpu": 64}}
        meta = {"name": name}
        body = {"apiVersion": API, "kind": "ElasticQuota", "metadata": meta, "spec": spec}
        self.make(QUOTAS, body)

    def in_quota(self, name: str, quota: str) -> None:
        labels = {PREFIX + "name": quota}
        self.pod(name, WHOLE, schedulerName="tessera-scheduler")
        self.call("PATCH", self.path(name), {"metadata": {"labels": labels}})

    def used(self, name: str) -> Any:
        return self.call("GET", f"{QUOTAS}/{name}").get("status", {}).get("used")

    def noted(self, name: str, key: str) -> Any:
        notes = self.call("GET", f"{QUOTAS}/{name}")["metadata"].get("annotations", {})
        return msgspec.json.decode(notes.get(PREFIX + key, "null"))

    def writes(self, name: str) -> int:
        return sum(verb == "PATCH" and path == f"{QUOTAS}/{name}" for verb, path in self.kube.calls)


def writing(*kinds: GangWrite) -> Any:
    return whole(write=kinds or (GangWrite.PROFILES, GangWrite.ELASTIC_QUOTAS))


async def test_what_pods_use_wait_for_and_may_have_is_written() -> None:
    cluster = QuotaCluster(cards=2)
    cluster.quota("team", 1, 3)
    async with leading(cluster, config=writing()) as scheduler:
        await until(lambda: cluster.used("team") == {"nvidia.com/gpu": "0"}, 10)
        for n in range(3):
            cluster.in_quota(f"p{n}", "team")
        await cluster.schedule(scheduler, 8)
        await until(lambda: cluster.used("team") == {"nvidia.com/gpu": "2"}, 10)
        assert cluster.noted("team", "request") == {"nvidia.com/gpu": "3"}
        assert cluster.noted("team", "runtime") == {"nvidia.com/gpu": "2"}
        for n in range(3):
            cluster.delete(f"p{n}")
        await until(lambda: cluster.used("team") == {"nvidia.com/gpu": "0"}, 10)
        before = cluster.writes("team")
        await asyncio.sleep(20)
        assert cluster.writes("team") == before


@pytest.mark.parametrize("kind", [GangWrite.PROFILES, GangWrite.KOORDINATOR])
async def test_quotas_that_are_not_named_are_left_to_their_own_scheduler(kind: GangWrite) -> None:
    cluster = QuotaCluster()
    cluster.quota("team", 1, 3)
    async with leading(cluster, config=writing(kind)):
        await asyncio.sleep(20)
        assert cluster.writes("team") == 0
