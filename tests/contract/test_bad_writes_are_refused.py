"""Calls that make no sense: which Status they get."""

from __future__ import annotations

import pytest

from tests.contract.cluster import OpenCluster
from tests.contract.objects import a_config_map, a_pod


async def test_nothing_is_created_in_a_namespace_that_is_not(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = f"/api/v1/namespaces/{cluster.own}-absent/configmaps"
        answer = await cluster.admin.post(path, a_config_map("c"))
    assert answer.refused(404, "NotFound") == f'namespaces "{cluster.own}-absent" not found'


async def test_the_namespaces_of_path_and_body_must_agree(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        body = a_config_map("c")
        body["metadata"]["namespace"] = "elsewhere"
        answer = await cluster.admin.post(cluster.path("configmaps"), body)
    assert "does not match the namespace" in answer.refused(400, "BadRequest")


async def test_what_is_not_there_is_not_found(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = f"{cluster.pods}/absent"
        answers = [
            await cluster.admin.get(path),
            await cluster.admin.patch(path, {"metadata": {}}),
            await cluster.admin.delete(path),
        ]
    for answer in answers:
        assert answer.refused(404, "NotFound") == 'pods "absent" not found'
        assert answer.body["details"] == {"name": "absent", "kind": "pods"}


async def test_a_kind_that_nobody_serves_is_not_found(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        answer = await cluster.admin.get("/apis/nobody.dev/v1/things")
    assert answer.status == 404


async def test_a_body_that_is_no_json_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        answers = [
            await cluster.admin.call("POST", cluster.pods, body, {}) for body in (b"{", b"[]", b"7")
        ]
    for answer in answers:
        answer.refused(400, "BadRequest")


async def test_a_field_of_the_wrong_type_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        body = a_pod("p")
        body["spec"]["containers"] = "none"
        answer = await cluster.admin.post(cluster.pods, body)
    answer.refused(400, "BadRequest")


async def test_a_method_that_an_object_has_not_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        answer = await cluster.admin.post(f"{cluster.pods}/p", a_pod("p"))
    answer.refused(405, "MethodNotAllowed")


@pytest.mark.parametrize("name", ["Upper", "under_score", "-dash", "a" * 254, "sp ace"])
async def test_a_name_that_is_none_is_refused(open_cluster: OpenCluster, name: str) -> None:
    async with open_cluster() as cluster:
        answer = await cluster.admin.post(cluster.path("configmaps"), a_config_map(name))
    assert f'ConfigMap "{name}" is invalid: metadata.name: Invalid value' in answer.refused(
        422, "Invalid"
    )
    assert answer.body["details"]["causes"][0]["field"] == "metadata.name"


async def test_labels_and_annotation_keys_are_checked(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        answers = [
            await cluster.admin.post(cluster.pods, a_pod("p", labels={"k": "not a value"})),
            await cluster.admin.post(cluster.pods, a_pod("p", annotations={"a/b/c": "v"})),
        ]
    fields = [
        answer.body["details"]["causes"][0]["field"]
        for answer in answers
        if answer.refused(422, "Invalid")
    ]
    assert fields == ["metadata.labels", "metadata.annotations"]


async def test_annotations_end_at_256_kib(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        full = {"k": "v" * (256 * 1024 - 1)}
        await cluster.pod("p", annotations=full)
        answers = [
            await cluster.admin.post(cluster.pods, a_pod("q", annotations={**full, "l": "w"})),
            await cluster.admin.patch(
                f"{cluster.pods}/p", {"metadata": {"annotations": {"l": "w"}}}
            ),
        ]
    for answer in answers:
        assert "metadata.annotations: Too long" in answer.refused(422, "Invalid")


async def test_a_body_over_3_mib_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        body = a_config_map("c", k="v" * (3 * 2**20 + 1))
        answer = await cluster.admin.post(cluster.path("configmaps"), body)
    answer.refused(413, "RequestEntityTooLarge")
