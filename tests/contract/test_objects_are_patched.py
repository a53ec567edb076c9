"""Patches of three kinds: what they change, and their preconditions."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.client import JSON_PATCH, MERGE, STRATEGIC, Json
from tests.contract.cluster import OpenCluster


async def test_a_merge_patch_sets_and_removes_keys(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p", labels={"keep": "1", "drop": "1"})
        patch: Json = {
            "metadata": {"labels": {"drop": None, "new": "2"}, "annotations": {"a.dev/x": "y"}}
        }
        changed = (await cluster.admin.patch(f"{cluster.pods}/p", patch, MERGE)).done
    assert changed["metadata"]["labels"] == {"keep": "1", "new": "2"}
    assert changed["metadata"]["annotations"] == {"a.dev/x": "y"}


async def test_a_merge_patch_replaces_a_list(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        node = await cluster.node()
        changed: Json = {}
        for key in ("a", "b"):
            patch = {"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}
            changed = (await cluster.admin.patch(f"/api/v1/nodes/{node}", patch, MERGE)).done
    assert [taint["key"] for taint in changed["spec"]["taints"]] == ["b"]


async def test_a_strategic_patch_merges_conditions_by_type(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        path = f"{cluster.pods}/p/status"
        changed: Json = {}
        for kind, status in (("Ready", "False"), ("Mine", "True"), ("Ready", "True")):
            patch: Json = {"status": {"conditions": [{"type": kind, "status": status}]}}
            changed = (await cluster.admin.patch(path, patch, STRATEGIC)).done
        reported = {c["type"]: c["status"] for c in changed["status"]["conditions"]}
        patch = {"status": {"conditions": [{"type": "Mine", "$patch": "delete"}]}}
        fewer = (await cluster.admin.patch(path, patch, STRATEGIC)).done
    assert reported == {"Ready": "True", "Mine": "True"}
    assert [c["type"] for c in fewer["status"]["conditions"]] == ["Ready"]


async def test_a_strategic_patch_merges_metadata(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p", annotations={"keep": "1", "drop": "1"}, finalizers=["a.dev/x"])
        patch: Json = {
            "metadata": {"annotations": {"drop": None, "new": "2"}, "finalizers": ["b.dev/y"]}
        }
        path = f"{cluster.pods}/p"
        changed = (await cluster.admin.patch(path, patch, STRATEGIC)).done
        await cluster.admin.patch(path, {"metadata": {"finalizers": []}}, MERGE)
    assert changed["metadata"]["annotations"] == {"keep": "1", "new": "2"}
    assert sorted(changed["metadata"]["finalizers"]) == ["a.dev/x", "b.dev/y"]


async def test_a_strategic_patch_replaces_taints(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = f"/api/v1/nodes/{await cluster.node()}"
        changed: Json = {}
        for key in ("a", "b"):
            patch = {"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}}
            changed = (await cluster.admin.patch(path, patch, STRATEGIC)).done
    assert [taint["key"] for taint in changed["spec"]["taints"]] == ["b"]


async def test_a_json_patch_tests_adds_replaces_and_removes(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p", labels={"old": "1", "turn": "1"})
        path = f"{cluster.pods}/p"
        patch: list[Json] = [
            {"op": "test", "path": "/metadata/labels/turn", "value": "1"},
            {"op": "replace", "path": "/metadata/labels/turn", "value": "2"},
            {"op": "remove", "path": "/metadata/labels/old"},
            {"op": "add", "path": "/metadata/labels/a.dev~1x", "value": "3"},
            {"op": "add", "path": "/metadata/annotations", "value": {"k": "v"}},
        ]
        changed = (await cluster.admin.patch(path, patch, JSON_PATCH)).done
        failed = await cluster.admin.patch(path, patch, JSON_PATCH)
        unchanged = (await cluster.admin.get(path)).done
    assert changed["metadata"]["labels"] == {"turn": "2", "a.dev/x": "3"}
    assert changed["metadata"]["annotations"] == {"k": "v"}
    failed.refused(422, "Invalid")
    assert unchanged == changed


async def test_a_json_patch_to_where_nothing_is_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        patch: list[Json] = [{"op": "add", "path": "/metadata/annotations/k", "value": "v"}]
        answer = await cluster.admin.patch(f"{cluster.pods}/p", patch, JSON_PATCH)
    answer.refused(422, "Invalid")


@pytest.mark.parametrize("how", [MERGE, STRATEGIC])
async def test_a_version_in_a_patch_is_a_precondition(open_cluster: OpenCluster, how: str) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p")
        path = f"{cluster.pods}/p"
        version = made["metadata"]["resourceVersion"]
        patch: Json = {"metadata": {"resourceVersion": version, "annotations": {"k": "v"}}}
        changed = await cluster.admin.patch(path, patch, how)
        patch["metadata"]["annotations"]["k"] = "w"
        stale = await cluster.admin.patch(path, patch, how)
    assert changed.status == 200
    assert "the object has been modified" in stale.refused(409, "Conflict")


async def test_a_uid_in_a_patch_must_be_the_objects(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p")
        path = f"{cluster.pods}/p"
        uids = (made["metadata"]["uid"], "12345678-1234-1234-1234-123456789012")
        right, wrong = [
            await cluster.admin.patch(path, {"metadata": {"uid": uid, "labels": {"k": "v"}}})
            for uid in uids
        ]
    assert right.status == 200
    assert "metadata.uid: Invalid value" in wrong.refused(422, "Invalid")


async def test_patches_of_several_writers_all_arrive(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        path = f"{cluster.pods}/p"
        async with asyncio.TaskGroup() as group:
            for i in range(12):
                patch = {"metadata": {"annotations": {f"k{i}": "v"}}}
                group.create_task(cluster.admin.patch(path, patch), name=f"writer {i}")
        stored = (await cluster.admin.get(path)).done
    assert stored["metadata"]["annotations"] == {f"k{i}": "v" for i in range(12)}


async def test_a_patch_of_no_known_kind_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        answer = await cluster.admin.patch(f"{cluster.pods}/p", {}, "application/json")
    answer.refused(415, "UnsupportedMediaType")
