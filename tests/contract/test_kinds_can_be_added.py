"""CustomResourceDefinitions: a kind appears, is checked, watched, and has a status of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.contract.client import ANSWER_S, STRATEGIC, Json
from tests.contract.cluster import Cluster, OpenCluster

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def a_definition(group: str, **version: Any) -> Json:
    """Of a kind `QuotaMonitor` with a required and checked `spec.cards`."""
    spec = {
        "type": "object",
        "required": ["cards"],
        "properties": {
            "cards": {"type": "integer", "minimum": 0},
            "mode": {"type": "string", "enum": ["soft", "hard"], "default": "hard"},
            "amounts": {
                "type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True},
            },
        },
    }  # fmt: skip
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"quotas.{group}"},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "quotas", "singular": "quota", "kind": "Quota"},
            "versions": [{
                "name": "v1", "served": True, "storage": True,
                "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}, **version,
            }],
        },
    }  # fmt: skip


async def define(cluster: Cluster, **version: Any) -> tuple[str, str]:
    """Add the kind under a group of this test's own: its path, and its apiVersion."""
    group = f"{cluster.own}.dev"
    await cluster.make(DEFINITIONS, a_definition(group, **version))
    path = cluster.path("quotas", f"apis/{group}/v1")
    async with asyncio.timeout(ANSWER_S):
        while (await cluster.admin.get(path)).status != 200:
            await asyncio.sleep(0.05)
    return path, f"{group}/v1"


def a_quota(api: str, name: str = "q", **spec: Any) -> Json:
    return {
        "apiVersion": api, "kind": "Quota", "metadata": {"name": name},
        "spec": {"cards": 4, **spec},
    }  # fmt: skip


async def test_a_definition_is_established(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await define(cluster)
        made = (await cluster.admin.get(f"{DEFINITIONS}/quotas.{cluster.own}.dev")).done
    conditions = {c["type"]: c["status"] for c in made["status"]["conditions"]}
    assert conditions["Established"] == conditions["NamesAccepted"] == "True"
    assert made["status"]["acceptedNames"]["kind"] == "Quota"


async def test_objects_of_the_kind_are_created_and_listed(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path, api = await define(cluster)
        made = await cluster.make(path, a_quota(api, amounts={"a": 1, "b": "2Gi"}))
        body = (await cluster.admin.get(path)).done
        everywhere = (await cluster.admin.get(f"/apis/{api}/quotas")).done
    assert made["spec"] == {"cards": 4, "mode": "hard", "amounts": {"a": 1, "b": "2Gi"}}
    assert (made["metadata"]["generation"], made["metadata"]["namespace"]) == (1, cluster.own)
    assert (body["kind"], body["apiVersion"], body["items"]) == ("QuotaList", api, [made])
    assert everywhere["items"] == [made]


async def test_objects_of_the_kind_are_watched(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path, api = await define(cluster)
        since = (await cluster.admin.get(path)).done["metadata"]["resourceVersion"]
        async with cluster.admin.watch(path, resourceVersion=since) as watch:
            await cluster.make(path, a_quota(api))
            await cluster.admin.patch(f"{path}/q", {"spec": {"cards": 5}})
            await cluster.admin.delete(f"{path}/q")
            events = await watch.take(3)
    assert events == [("ADDED", "q"), ("MODIFIED", "q"), ("DELETED", "q")]


async def test_the_status_is_written_apart(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path, api = await define(cluster)
        made = await cluster.make(path, {**a_quota(api), "status": {"used": 1}})
        both: Json = {"spec": {"cards": 5}, "status": {"used": 2}}
        main = (await cluster.admin.patch(f"{path}/q", both)).done
        status = (
            await cluster.admin.patch(f"{path}/q/status", {**both, "spec": {"cards": 6}})
        ).done
    assert "status" not in made
    assert "status" not in main
    assert (main["spec"]["cards"], main["metadata"]["generation"]) == (5, 2)
    assert (status["spec"]["cards"], status["metadata"]["generation"]) == (5, 2)
    assert status["status"] == {"used": 2}


async def test_a_version_is_a_precondition_there_too(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path, api = await define(cluster)
        made = await cluster.make(path, a_quota(api))
        fresh = await cluster.admin.put(f"{path}/q", {**made, "spec": {"cards": 5}})
        stale = await cluster.admin.put(f"{path}/q", {**made, "spec": {"cards": 6}})
        again = await cluster.admin.post(path, a_quota(api))
    assert fresh.status == 200
    stale.refused(409, "Conflict")
    again.refused(409, "AlreadyExists")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"cards": -1}, "spec.cards"),
        ({"cards": "four"}, "spec.cards"),
        ({"cards": None}, "spec.cards"),
        ({"mode": "maybe"}, "spec.mode"),
    ],
)
async def test_objects_that_break_the_schema_are_refused(
    open_cluster: OpenCluster, spec: Json, field: str
) -> None:
    async with open_cluster() as cluster:
        path, api = await define(cluster)
        answer = await cluster.admin.post(path, a_quota(api, **spec))
    answer.refused(422, "Invalid")
    assert field in {cause["field"] for cause in answer.body["details"]["causes"]}


async def test_a_strategic_patch_of_such_a_kind_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path, api = await define(cluster)
        await cluster.make(path, a_quota(api))
        answer = await cluster.admin.patch(f"{path}/q", {"spec": {"cards": 5}}, STRATEGIC)
    answer.refused(415, "UnsupportedMediaType")


async def test_a_name_that_is_not_plural_and_group_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        body = a_definition(f"{cluster.own}.dev")
        body["metadata"]["name"] = "other"
        answer = await cluster.admin.post(DEFINITIONS, body)
    assert "must be spec.names.plural" in answer.refused(422, "Invalid")


async def test_with_its_definition_the_kind_goes(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path, api = await define(cluster)
        await cluster.make(path, a_quota(api))
        await cluster.admin.delete(f"{DEFINITIONS}/quotas.{cluster.own}.dev")
        async with asyncio.timeout(ANSWER_S):
            while (await cluster.admin.get(path)).status != 404:
                await asyncio.sleep(0.05)
