"""Lists: selectors, pages, and the resource version that a watch goes on from."""

from __future__ import annotations

import pytest

from tests.contract.client import Json
from tests.contract.cluster import Cluster, OpenCluster
from tests.contract.objects import a_config_map


def names(body: Json) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


async def config_maps(cluster: Cluster, count: int) -> str:
    path = cluster.path("configmaps")
    for i in range(count):
        await cluster.make(path, a_config_map(f"c{i}"))
    return path


async def test_a_list_says_its_kind_and_its_version(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p")
        body = (await cluster.admin.get(cluster.pods)).done
    assert (body["kind"], body["apiVersion"]) == ("PodList", "v1")
    assert int(body["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
    assert names(body) == ["p"]
    assert not {"kind", "apiVersion"} & body["items"][0].keys()


async def test_an_empty_list_is_a_list(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        body = (await cluster.admin.get(cluster.pods)).done
    assert body["items"] == []
    assert int(body["metadata"]["resourceVersion"]) > 0


async def test_a_list_of_all_namespaces_holds_the_namespace(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        body = (await cluster.admin.get("/api/v1/pods")).done
        others = {(i["metadata"]["namespace"], i["metadata"]["name"]) for i in body["items"]}
        assert (cluster.own, "p") in others


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ("spec.nodeName=n1", ["bound"]),
        ("spec.nodeName==n1", ["bound"]),
        ("spec.nodeName=", ["done", "waiting"]),
        ("spec.nodeName!=", ["bound"]),
        ("metadata.name=waiting", ["waiting"]),
        ("metadata.name!=waiting", ["bound", "done"]),
        ("status.phase!=Succeeded", ["bound", "waiting"]),
        ("status.phase!=Succeeded,status.phase!=Failed", ["bound", "waiting"]),
        ("status.phase=Pending,spec.nodeName=", ["waiting"]),
        ("spec.schedulerName=other", ["done"]),
        ("spec.schedulerName=default-scheduler,spec.nodeName=", ["waiting"]),
    ],
)
async def test_pods_are_chosen_by_field(
    open_cluster: OpenCluster, selector: str, chosen: list[str]
) -> None:
    async with open_cluster() as cluster:
        await cluster.bound("bound", "n1")
        await cluster.pod("waiting")
        await cluster.pod("done", schedulerName="other")
        await cluster.name_of("done", phase="Succeeded")
        body = (await cluster.admin.get(cluster.pods, fieldSelector=selector)).done
    assert names(body) == chosen


@pytest.mark.parametrize("kind_of", ["configmaps", "secrets", "serviceaccounts"])
async def test_any_kind_is_chosen_by_name(open_cluster: OpenCluster, kind_of: str) -> None:
    async with open_cluster() as cluster:
        path = cluster.path(kind_of)
        for name in ("a", "b"):
            await cluster.make(path, {"metadata": {"name": name}})
        body = (await cluster.admin.get(path, fieldSelector="metadata.name=b")).done
        refused = await cluster.admin.get(path, fieldSelector="spec.nodeName=b")
    assert names(body) == ["b"]
    refused.refused(400, "BadRequest")


async def test_an_unknown_field_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        answer = await cluster.admin.get(cluster.pods, fieldSelector="spec.colour=red")
    assert "field label not supported: spec.colour" in answer.refused(400, "BadRequest")


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ("tier=a", ["p1"]),
        ("tier==a", ["p1"]),
        ("tier!=a", ["p2", "p3"]),
        ("tier", ["p1", "p2"]),
        ("!tier", ["p3"]),
        ("tier in (a,b)", ["p1", "p2"]),
        ("tier notin (a)", ["p2", "p3"]),
        ("tier=b,side=left", ["p2"]),
        ("tier=a,side=left", []),
    ],
)
async def test_pods_are_chosen_by_label(
    open_cluster: OpenCluster, selector: str, chosen: list[str]
) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p1", labels={"tier": "a"})
        await cluster.pod("p2", labels={"tier": "b", "side": "left"})
        await cluster.pod("p3")
        body = (await cluster.admin.get(cluster.pods, labelSelector=selector)).done
    assert names(body) == chosen


async def test_a_label_selector_that_is_none_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        answer = await cluster.admin.get(cluster.pods, labelSelector="tier in a")
    assert "unable to parse requirement" in answer.refused(400, "BadRequest")


async def test_pages_join_up_to_the_list_at_one_version(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = await config_maps(cluster, 5)
        first = (await cluster.admin.get(path, limit="2")).done
        await cluster.make(path, a_config_map("c2x"))
        await cluster.admin.delete(f"{path}/c4")
        second = await cluster.admin.get(path, limit="2", **after(first))
        third = await cluster.admin.get(path, limit="2", **after(second.done))
    pages = [first, second.done, third.done]
    assert [names(page) for page in pages] == [["c0", "c1"], ["c2", "c3"], ["c4"]]
    assert [page["metadata"].get("remainingItemCount") for page in pages] == [3, 1, None]
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1
    assert "continue" not in third.done["metadata"]


def after(page: Json) -> dict[str, str]:
    return {"continue": page["metadata"]["continue"]}


async def test_a_limit_that_holds_all_makes_one_page(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = await config_maps(cluster, 2)
        page = (await cluster.admin.get(path, limit="2")).done
    assert names(page) == ["c0", "c1"]
    assert not {"continue", "remainingItemCount"} & page["metadata"].keys()


async def test_chosen_pages_do_not_say_how_many_are_left(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        for i in range(4):
            await cluster.pod(f"p{i}", labels={"side": "left"})
        first = (await cluster.admin.get(cluster.pods, limit="3", labelSelector="side=left")).done
        second = await cluster.admin.get(
            cluster.pods, limit="3", labelSelector="side=left", **after(first)
        )
    assert [names(first), names(second.done)] == [["p0", "p1", "p2"], ["p3"]]
    assert "remainingItemCount" not in first["metadata"]


async def test_a_page_that_is_forgotten_is_gone(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = await config_maps(cluster, 3)
        first = (await cluster.admin.get(path, limit="2")).done
        await cluster.admin.delete(f"{path}/c0")
        await cluster.server.forget_history()
        answer = await cluster.admin.get(path, limit="2", **after(first))
    answer.refused(410, "Expired")


async def test_a_continue_that_is_none_is_refused(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        answer = await cluster.admin.get(cluster.pods, limit="2", **{"continue": "rubbish"})
    assert "continue key is not valid" in answer.refused(400, "BadRequest")


async def test_a_list_is_no_older_than_the_version_requested(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p")
        version = made["metadata"]["resourceVersion"]
        body = (await cluster.admin.get(cluster.pods, resourceVersion=version)).done
    assert names(body) == ["p"]
    assert int(body["metadata"]["resourceVersion"]) >= int(version)


async def test_a_list_of_any_age_is_a_list(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        body = (await cluster.admin.get(cluster.pods, resourceVersion="0")).done
    assert (body["kind"], set(names(body)) <= {"p"}) == ("PodList", True)


async def test_a_list_at_exactly_a_version_is_that_old(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p1")
        await cluster.pod("p2")
        body = await cluster.admin.get(
            cluster.pods,
            resourceVersion=made["metadata"]["resourceVersion"],
            resourceVersionMatch="Exact",
        )
    assert names(body.done) == ["p1"]
    assert body.done["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
