"""Eviction: a deletion that budgets may refuse."""

from __future__ import annotations

from typing import Any

from tests.contract.client import Answer, Json
from tests.contract.cluster import Cluster, OpenCluster

BUDGETS = "apis/policy/v1"


async def evict(cluster: Cluster, name: str = "p", **options: Any) -> Answer:
    body: Json = {
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": cluster.own}, "deleteOptions": options,
    }  # fmt: skip
    return await cluster.admin.post(f"{cluster.pods}/{name}/eviction", body)


async def a_budget(cluster: Cluster, allowed: int) -> None:
    """A budget for pods with the label, whose status says how many may go now."""
    path = cluster.path("poddisruptionbudgets", BUDGETS)
    body: Json = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    }  # fmt: skip
    made = await cluster.make(path, body)
    status = {
        "disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2,
        "observedGeneration": made["metadata"]["generation"],
    }  # fmt: skip
    assert (await cluster.admin.patch(f"{path}/b/status", {"status": status})).status == 200


async def a_ready_pod(cluster: Cluster, name: str = "p") -> None:
    await cluster.bound(name, labels={"app": "a"})
    await cluster.name_of(name, phase="Running", conditions=[{"type": "Ready", "status": "True"}])


async def test_an_evicted_pod_is_deleted_with_its_time(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await a_ready_pod(cluster)
        answer = await evict(cluster, gracePeriodSeconds=9)
        pod = (await cluster.admin.get(f"{cluster.pods}/p")).done
    assert (answer.status, answer.body["status"]) == (201, "Success")
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 9


async def test_an_evicted_pod_says_why_it_goes(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await a_ready_pod(cluster)
        await evict(cluster)
        pod = (await cluster.admin.get(f"{cluster.pods}/p")).done
    (condition,) = [c for c in pod["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")


async def test_a_waiting_pod_goes_at_once(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        assert (await evict(cluster)).status == 201
        gone = await cluster.admin.get(f"{cluster.pods}/p")
    gone.refused(404, "NotFound")


async def test_a_budget_that_is_used_up_refuses_for_now(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await a_ready_pod(cluster)
        await a_budget(cluster, 0)
        answer = await evict(cluster)
        pod = (await cluster.admin.get(f"{cluster.pods}/p")).done
    message = answer.refused(429, "TooManyRequests")
    assert "would violate the pod's disruption budget" in message
    assert "deletionTimestamp" not in pod["metadata"]


async def test_a_budget_is_used_up_by_evictions(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        for name in ("p", "q"):
            await a_ready_pod(cluster, name)
        await a_budget(cluster, 1)
        first, second = await evict(cluster, "p"), await evict(cluster, "q")
        path = cluster.path("poddisruptionbudgets", BUDGETS, "b")
        budget = (await cluster.admin.get(path)).done
    assert first.status == 201
    second.refused(429, "TooManyRequests")
    assert budget["status"]["disruptionsAllowed"] == 0
    assert list(budget["status"]["disruptedPods"]) == ["p"]


async def test_another_pods_budget_does_not_matter(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await a_budget(cluster, 0)
        await cluster.bound("p", labels={"app": "other"})
        assert (await evict(cluster)).status == 201


async def test_what_is_not_there_is_not_evicted(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        answer = await evict(cluster)
    answer.refused(404, "NotFound")


async def test_another_pod_than_was_meant_is_not_evicted(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await a_ready_pod(cluster)
        uid = "12345678-1234-1234-1234-123456789012"
        answer = await evict(cluster, preconditions={"uid": uid})
        pod = (await cluster.admin.get(f"{cluster.pods}/p")).done
    assert answer.status == 409
    assert "deletionTimestamp" not in pod["metadata"]
