"""Creating and replacing: what the server adds, and whose write wins."""

from __future__ import annotations

import asyncio
import re

from tests.contract.client import JSON_PATCH, Json
from tests.contract.cluster import Cluster, OpenCluster
from tests.contract.objects import a_config_map, a_pod


async def a_map(cluster: Cluster, **data: str) -> tuple[str, Json]:
    path = cluster.path("configmaps")
    return f"{path}/c", await cluster.make(path, a_config_map("c", **data))


async def test_a_created_object_is_answered_as_it_is_stored(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        answer = await cluster.admin.post(cluster.path("configmaps"), a_config_map("c", a="1"))
        stored = (await cluster.admin.get(cluster.path("configmaps", name="c"))).done
    made = answer.body
    metadata = made["metadata"]
    assert answer.status == 201
    assert made == stored
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["resourceVersion"].isdigit()
    assert (metadata["namespace"], made["data"]) == (cluster.own, {"a": "1"})


async def test_what_only_the_server_may_say_is_not_taken(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        body = a_config_map("c")
        body["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z"}
        made = (await cluster.admin.post(cluster.path("configmaps"), body)).done
        body["metadata"] = {"name": "d", "resourceVersion": "7"}
        refused = await cluster.admin.post(cluster.path("configmaps"), body)
    assert made["metadata"]["uid"] != "mine"
    assert not made["metadata"]["creationTimestamp"].startswith("2001")
    assert "resourceVersion should not be set" in refused.body["message"]


async def test_a_name_is_given_once(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        answer = await cluster.admin.post(cluster.pods, a_pod("p"))
    assert answer.refused(409, "AlreadyExists") == 'pods "p" already exists'
    assert answer.body["details"] == {"name": "p", "kind": "pods"}


async def test_a_name_is_made_from_its_beginning(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        names = set()
        for _ in range(3):
            body = a_pod(generateName="web-")
            del body["metadata"]["name"]
            names.add((await cluster.make(cluster.pods, body))["metadata"]["name"])
    assert len(names) == 3
    assert all(re.fullmatch(r"web-[a-z0-9]{5}", name) for name in names)


async def test_a_dry_run_writes_nothing(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        tried = await cluster.admin.post(cluster.pods, a_pod("p"), dryRun="All")
        absent = await cluster.admin.get(f"{cluster.pods}/p")
        await cluster.pod("p")
        await cluster.admin.delete(f"{cluster.pods}/p", dryRun="All")
        there = await cluster.admin.get(f"{cluster.pods}/p")
    assert tried.status == 201
    assert tried.body["metadata"]["uid"]
    absent.refused(404, "NotFound")
    assert there.status == 200


async def test_a_replacement_needs_the_newest_version(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path, made = await a_map(cluster, a="1")
        body = made | {"data": {"a": "2"}}
        changed = (await cluster.admin.put(path, body)).done
        stale = await cluster.admin.put(path, body)
    assert changed["data"] == {"a": "2"}
    assert int(changed["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert "the object has been modified" in stale.refused(409, "Conflict")


async def test_a_replacement_without_a_version_wins(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path, _ = await a_map(cluster, a="1", b="2")
        changed = (await cluster.admin.put(path, a_config_map("c", a="3"))).done
    assert changed["data"] == {"a": "3"}


async def test_a_replacement_of_another_uid_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path, _ = await a_map(cluster)
        body = a_config_map("c")
        body["metadata"]["uid"] = "12345678-1234-1234-1234-123456789012"
        answer = await cluster.admin.put(path, body)
    assert "Precondition failed: UID in precondition" in answer.refused(409, "Conflict")


async def test_a_write_that_changes_nothing_makes_no_version(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path, made = await a_map(cluster, a="1")
        same = (await cluster.admin.put(path, made)).done
        again = (await cluster.admin.patch(path, {"data": {"a": "1"}})).done
    version = made["metadata"]["resourceVersion"]
    assert [body["metadata"]["resourceVersion"] for body in (same, again)] == [version, version]


async def test_of_two_replacements_of_one_version_one_is_made(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path, made = await a_map(cluster)
        async with asyncio.TaskGroup() as group:
            tries = [
                group.create_task(
                    cluster.admin.put(path, made | {"data": {"by": str(i)}}), name=f"writer {i}"
                )
                for i in range(6)
            ]
    assert sorted(each.result().status for each in tries) == [200, 409, 409, 409, 409, 409]


async def test_the_status_is_written_apart_from_the_rest(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p")
        path = f"{cluster.pods}/p"
        both: Json = {"metadata": {"labels": {"k": "v"}}, "status": {"phase": "Running"}}
        main = (await cluster.admin.patch(path, both)).done
        status = (await cluster.admin.patch(f"{path}/status", both)).done
        both = {"spec": {"nodeName": "n1"}, "status": {"message": "hello"}}
        moved = (await cluster.admin.patch(f"{path}/status", both)).done
    assert made["status"]["phase"] == main["status"]["phase"] == "Pending"
    assert main["metadata"]["labels"] == {"k": "v"}
    assert status["status"]["phase"] == "Running"
    assert "nodeName" not in moved["spec"]
    assert moved["status"]["message"] == "hello"


async def test_the_status_of_a_new_pod_is_the_servers(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        body = a_pod("p") | {"status": {"phase": "Running", "message": "mine"}}
        made = (await cluster.admin.post(cluster.pods, body)).done
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


async def test_a_nodes_capacity_is_written_through_its_status(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = f"/api/v1/nodes/{await cluster.node()}"
        patch: list[Json] = [
            {"op": "add", "path": f"/status/{part}/a.dev~1gpu", "value": "8"}
            for part in ("capacity", "allocatable")
        ]
        main = (await cluster.admin.patch(path, patch, JSON_PATCH)).done
        status = (await cluster.admin.patch(f"{path}/status", patch, JSON_PATCH)).done
    assert "a.dev/gpu" not in main["status"]["capacity"]
    assert status["status"]["capacity"]["a.dev/gpu"] == "8"
    assert status["status"]["allocatable"]["a.dev/gpu"] == "8"


async def test_annotations_are_written_through_a_nodes_status_too(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster() as cluster:
        path = f"/api/v1/nodes/{await cluster.node()}/status"
        patch: Json = {"metadata": {"annotations": {"a.dev/k": "v"}}}
        changed = (await cluster.admin.patch(path, patch)).done
    assert changed["metadata"].get("annotations", {}) == {"a.dev/k": "v"}
