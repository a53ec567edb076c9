"""The Binding: one write that places a pod and records what it was given."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.client import Answer
from tests.contract.cluster import Cluster, OpenCluster
from tests.contract.objects import a_binding, a_pod

OTHER_UID = "12345678-1234-1234-1234-123456789012"


async def bind(cluster: Cluster, name: str = "p", node: str = "n1", **metadata: Any) -> Answer:
    path = f"{cluster.pods}/{name}/binding"
    return await cluster.admin.post(path, a_binding(name, node, **metadata))


async def read(cluster: Cluster, name: str = "p") -> Any:
    return (await cluster.admin.get(f"{cluster.pods}/{name}")).done


async def test_a_binding_sets_the_node_and_says_scheduled(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        answer = await bind(cluster)
        pod = await read(cluster)
    assert (answer.status, answer.body["kind"], answer.body["status"]) == (201, "Status", "Success")
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["status"]["phase"] == "Pending"
    (condition,) = pod["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert condition["lastTransitionTime"]


async def test_its_annotations_are_written_in_the_same_write(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p", annotations={"kept": "1", "replaced": "1"})
        async with cluster.admin.watch(
            cluster.pods, resourceVersion=made["metadata"]["resourceVersion"]
        ) as watch:
            await bind(cluster, annotations={"replaced": "2", "a.dev/grant": "{}"})
            kind, pod = await watch.next()
            await cluster.pod("after")
            assert await watch.take(1) == [("ADDED", "after")]
    assert (kind, pod["spec"]["nodeName"]) == ("MODIFIED", "n1")
    assert pod["metadata"]["annotations"] == {"kept": "1", "replaced": "2", "a.dev/grant": "{}"}


async def test_its_labels_are_not_copied(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p", labels={"kept": "1"})
        await bind(cluster, labels={"new": "2"})
        pod = await read(cluster)
    assert pod["metadata"]["labels"] == {"kept": "1"}


async def test_a_bound_pod_is_not_bound_again(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        before = await cluster.bound("p", "n1")
        answers = [await bind(cluster, node=node, annotations={"k": "v"}) for node in ("n1", "n2")]
        after = await read(cluster)
    for answer in answers:
        assert 'is already assigned to node "n1"' in answer.refused(409, "Conflict")
    assert before == after


async def test_another_pod_of_that_name_is_not_bound(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        before = await cluster.pod("p")
        answer = await bind(cluster, uid=OTHER_UID, annotations={"k": "v"})
        after = await read(cluster)
    assert "UID in precondition" in answer.refused(409, "Conflict")
    assert before == after


async def test_a_changed_pod_is_not_bound_at_its_old_version(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p")
        version = made["metadata"]["resourceVersion"]
        changed = await cluster.name_of("p", message="changed")
        stale = await bind(cluster, resourceVersion=version, annotations={"k": "v"})
        unbound = await read(cluster)
        uid = made["metadata"]["uid"]
        version = changed["metadata"]["resourceVersion"]
        fresh = await bind(cluster, uid=uid, resourceVersion=version)
    assert "ResourceVersion in precondition" in stale.refused(409, "Conflict")
    assert unbound == changed
    assert fresh.status == 201


async def test_a_pod_that_is_not_there_is_not_bound(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        absent = await bind(cluster)
        await cluster.pod("p")
        await cluster.admin.delete(f"{cluster.pods}/p")
        deleted = await bind(cluster)
    for answer in (absent, deleted):
        assert answer.refused(404, "NotFound") == 'pods "p" not found'


async def test_a_pod_that_is_going_is_not_bound(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p", finalizers=["a.dev/x"])
        await cluster.admin.delete(f"{cluster.pods}/p")
        answer = await bind(cluster)
        await cluster.admin.patch(f"{cluster.pods}/p", {"metadata": {"finalizers": None}})
    assert "is being deleted" in answer.refused(409, "Conflict")


async def test_a_pod_with_a_gate_is_not_bound(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p", schedulingGates=[{"name": "a.dev/wait"}])
        gated = await bind(cluster)
        await cluster.admin.patch(f"{cluster.pods}/p", {"spec": {"schedulingGates": []}})
        free = await bind(cluster)
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "PodScheduled", "False", "SchedulingGated",
    )  # fmt: skip
    assert "non-empty .spec.schedulingGates" in gated.refused(409, "Conflict")
    assert free.status == 201


async def test_of_several_bindings_one_is_made(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        async with asyncio.TaskGroup() as group:
            tries = [
                group.create_task(
                    bind(cluster, node=f"n{i}", annotations={"by": f"n{i}"}), name=f"binder {i}"
                )
                for i in range(6)
            ]
        pod = await read(cluster)
    assert sorted(each.result().status for each in tries) == [201, 409, 409, 409, 409, 409]
    assert pod["metadata"]["annotations"] == {"by": pod["spec"]["nodeName"]}


async def test_a_condition_that_was_false_is_turned(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await cluster.name_of("p", conditions=[{**waiting, "message": "no room"}])
        await bind(cluster)
        pod = await read(cluster)
    (condition,) = pod["status"]["conditions"]
    assert condition["status"] == "True"
    assert not condition.keys() & {"reason", "message"}


async def test_annotations_of_a_binding_are_not_measured(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        answer = await bind(cluster, annotations={"k": "v" * (256 * 1024 + 1)})
        later = await cluster.admin.patch(f"{cluster.pods}/p/status", {"status": {"message": "m"}})
    assert answer.status == 201
    assert "metadata.annotations: Too long" in later.refused(422, "Invalid")


async def test_a_binding_without_a_node_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        answer = await bind(cluster, node="")
        pod = await read(cluster)
    assert (answer.status, answer.body["message"]) == (500, "target.name: Required value")
    assert "nodeName" not in pod["spec"]


async def test_a_binding_that_names_another_pod_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        answer = await cluster.admin.post(f"{cluster.pods}/p/binding", a_binding("q", "n1"))
    answer.refused(400, "BadRequest")


async def test_a_binding_tried_on_trial_binds_nothing(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        answer = await cluster.admin.post(
            f"{cluster.pods}/p/binding", a_binding("p", "n1"), dryRun="All"
        )
        pod = await read(cluster)
    assert answer.status == 201
    assert "nodeName" not in pod["spec"]


async def test_a_pod_can_be_created_with_its_node(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = (await cluster.admin.post(cluster.pods, a_pod("p", nodeName="n1"))).done
        answer = await bind(cluster)
    assert made["spec"]["nodeName"] == "n1"
    answer.refused(409, "Conflict")


@pytest.mark.parametrize("field", ["nodeName", "schedulerName"])
async def test_a_pods_place_is_not_changed_by_a_patch(
    open_cluster: OpenCluster, field: str
) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        answer = await cluster.admin.patch(f"{cluster.pods}/p", {"spec": {field: "n1"}})
    assert "pod updates may not change fields other than" in answer.refused(422, "Invalid")
