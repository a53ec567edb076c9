"""Deleting: preconditions, the time that a pod is given to end, finalizers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.client import Answer, Json
from tests.contract.cluster import Cluster, OpenCluster
from tests.contract.objects import a_config_map


async def events_of_deleting(
    cluster: Cluster, name: str = "p", body: Json | None = None, **query: str
) -> tuple[Answer, list[tuple[str, Any]]]:
    """Delete the pod; the answer, and each event's type and seconds of grace."""
    path = f"{cluster.pods}/{name}"
    since = (await cluster.admin.get(path)).done["metadata"]["resourceVersion"]
    async with cluster.admin.watch(
        cluster.pods, resourceVersion=since, fieldSelector=f"metadata.name={name}"
    ) as watch:
        answer = await cluster.admin.delete(path, body, **query)
        await cluster.pod("after")
        gone = (await cluster.admin.get(path)).status == 404
        events = [await watch.next() for _ in range(2 if gone else 1)]
    return answer, [
        (kind, item["metadata"].get("deletionGracePeriodSeconds")) for kind, item in events
    ]


async def test_a_waiting_pod_goes_at_once(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        answer, events = await events_of_deleting(cluster)
    assert answer.done["kind"] == "Pod"
    assert events == [("MODIFIED", 0), ("DELETED", 0)]


@pytest.mark.parametrize("phase", ["Pending", "Running"])
async def test_a_pod_on_a_node_is_given_its_time(open_cluster: OpenCluster, phase: str) -> None:
    async with open_cluster() as cluster:
        await cluster.bound("p", terminationGracePeriodSeconds=7)
        await cluster.name_of("p", phase=phase)
        answer, events = await events_of_deleting(cluster)
        reported = (await cluster.admin.get(f"{cluster.pods}/p")).done
    assert answer.done["metadata"]["deletionTimestamp"] == reported["metadata"]["deletionTimestamp"]
    assert (events, reported["status"]["phase"]) == ([("MODIFIED", 7)], phase)


async def test_its_node_ends_it_with_no_time_left(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = await cluster.bound("p")
        await cluster.admin.delete(f"{cluster.pods}/p")
        body: Json = {
            "gracePeriodSeconds": 0, "preconditions": {"uid": made["metadata"]["uid"]},
        }  # fmt: skip
        answer, events = await events_of_deleting(cluster, body=body)
    assert answer.done["metadata"]["uid"] == made["metadata"]["uid"]
    assert events == [("MODIFIED", 0), ("DELETED", 0)]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_has_ended_goes_at_once(open_cluster: OpenCluster, phase: str) -> None:
    async with open_cluster() as cluster:
        await cluster.bound("p")
        await cluster.name_of("p", phase=phase)
        _, events = await events_of_deleting(cluster)
    assert events == [("MODIFIED", 0), ("DELETED", 0)]


async def test_a_pod_is_deleted_by_force(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.bound("p")
        _, events = await events_of_deleting(cluster, gracePeriodSeconds="0")
    assert events == [("MODIFIED", 0), ("DELETED", 0)]


async def test_the_time_that_is_left_only_gets_shorter(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.bound("p")
        reported = []
        for seconds in ("10", "60", "5"):
            answer = await cluster.admin.delete(f"{cluster.pods}/p", gracePeriodSeconds=seconds)
            reported.append(answer.done["metadata"]["deletionGracePeriodSeconds"])
    assert reported == [10, 10, 5]


async def test_a_terminating_pod_can_still_be_changed(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.bound("p")
        await cluster.admin.delete(f"{cluster.pods}/p")
        reported = await cluster.name_of("p", phase="Succeeded")
        path = f"{cluster.pods}/p"
        noted = (await cluster.admin.patch(path, {"metadata": {"annotations": {"k": "v"}}})).done
    assert reported["metadata"]["deletionTimestamp"] == noted["metadata"]["deletionTimestamp"]
    assert (noted["status"]["phase"], noted["metadata"]["annotations"]) == ("Succeeded", {"k": "v"})


@pytest.mark.parametrize(
    "precondition",
    [{"uid": "12345678-1234-1234-1234-123456789012"}, {"resourceVersion": "1"}],
)
async def test_another_than_was_meant_is_not_deleted(
    open_cluster: OpenCluster, precondition: Json
) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        path = f"{cluster.pods}/p"
        answer = await cluster.admin.delete(path, {"preconditions": precondition})
        there = await cluster.admin.get(path)
    assert "in the precondition" in answer.refused(409, "Conflict")
    assert "deletionTimestamp" not in there.done["metadata"]


async def test_a_pod_of_the_same_name_is_another(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        first = await cluster.pod("p")
        await cluster.admin.delete(f"{cluster.pods}/p")
        second = await cluster.pod("p")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


async def test_an_object_with_a_finalizer_waits_for_it(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = cluster.path("configmaps", name="c")
        body = a_config_map("c")
        body["metadata"]["finalizers"] = ["a.dev/x", "b.dev/y"]
        made = await cluster.make(cluster.path("configmaps"), body)
        async with cluster.admin.watch(
            cluster.path("configmaps"), resourceVersion=made["metadata"]["resourceVersion"]
        ) as watch:
            waiting = (await cluster.admin.delete(path)).done
            for left in (["b.dev/y"], []):
                await cluster.admin.patch(path, {"metadata": {"finalizers": left}})
            kinds = [kind for kind, _ in [await watch.next() for _ in range(3)]]
        gone = await cluster.admin.get(path)
    assert waiting["metadata"]["deletionTimestamp"]
    assert kinds == ["MODIFIED", "MODIFIED", "DELETED"]
    gone.refused(404, "NotFound")


async def test_a_pod_with_a_finalizer_waits_for_it(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.bound("p", finalizers=["a.dev/x"])
        path = f"{cluster.pods}/p"
        _, events = await events_of_deleting(cluster, gracePeriodSeconds="0")
        more = await cluster.admin.patch(path, {"metadata": {"finalizers": ["a.dev/x", "b.dev/y"]}})
        last = await cluster.admin.patch(path, {"metadata": {"finalizers": None}})
        gone = await cluster.admin.get(path)
    assert events == [("MODIFIED", 0)]
    assert "no new finalizers can be added" in more.refused(422, "Invalid")
    assert last.status == 200
    gone.refused(404, "NotFound")


async def test_an_object_that_has_no_time_to_end_is_answered_with_a_status(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster() as cluster:
        made = await cluster.make(cluster.path("configmaps"), a_config_map("c"))
        answer = await cluster.admin.delete(cluster.path("configmaps", name="c"))
    assert (answer.done["kind"], answer.body["status"]) == ("Status", "Success")
    assert answer.body["details"] == {
        "name": "c", "kind": "configmaps", "uid": made["metadata"]["uid"],
    }  # fmt: skip


async def test_chosen_objects_are_deleted_together(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        for name, side in (("p", "left"), ("q", "left"), ("r", "right")):
            await cluster.pod(name, labels={"side": side})
        await cluster.admin.delete(cluster.pods, labelSelector="side=left")
        body = (await cluster.admin.get(cluster.pods)).done
    assert [item["metadata"]["name"] for item in body["items"]] == ["r"]
