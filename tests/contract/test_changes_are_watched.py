"""Watches: order, resuming, bookmarks, selectors, and how they end."""

from __future__ import annotations

import asyncio

from tests.contract.client import Json
from tests.contract.cluster import Cluster, OpenCluster
from tests.contract.objects import a_config_map


def version(item: Json) -> str:
    reported: str = item["metadata"]["resourceVersion"]
    return reported


async def newest(cluster: Cluster, path: str) -> str:
    return version((await cluster.admin.get(path)).done)


async def test_changes_come_in_the_order_in_which_they_were_made(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        since = await newest(cluster, cluster.pods)
        async with cluster.admin.watch(cluster.pods, resourceVersion=since) as watch:
            made = await cluster.pod("p")
            changed = await cluster.name_of("p", phase="Running")
            await cluster.pod("q")
            await cluster.admin.delete(f"{cluster.pods}/p", gracePeriodSeconds="0")
            events = [await watch.next() for _ in range(5)]
    assert [(kind, item["metadata"]["name"]) for kind, item in events] == [
        ("ADDED", "p"), ("MODIFIED", "p"), ("ADDED", "q"), ("MODIFIED", "p"), ("DELETED", "p"),
    ]  # fmt: skip
    versions = [int(version(item)) for _, item in events]
    assert versions == sorted(set(versions))
    assert [version(item) for _, item in events[:2]] == [version(made), version(changed)]
    assert versions[0] > int(since)


async def test_an_event_holds_the_whole_object(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        since = await newest(cluster, cluster.pods)
        async with cluster.admin.watch(cluster.pods, resourceVersion=since) as watch:
            made = await cluster.pod("p", annotations={"a": "1"})
            _, item = await watch.next()
    assert item == made
    assert (item["kind"], item["apiVersion"]) == ("Pod", "v1")


async def test_a_deleted_object_carries_the_version_of_its_deletion(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster() as cluster:
        made = await cluster.make(cluster.path("configmaps"), a_config_map("c", key="value"))
        path = cluster.path("configmaps")
        async with cluster.admin.watch(path, resourceVersion=version(made)) as watch:
            await cluster.admin.delete(f"{path}/c")
            kind, item = await watch.next()
    assert kind == "DELETED"
    assert item["data"] == {"key": "value"}
    assert int(version(item)) > int(version(made))


async def test_a_watch_without_a_version_starts_with_what_there_is(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        await cluster.pod("q")
        async with cluster.admin.watch(cluster.pods) as watch:
            there = await watch.take(2)
            await cluster.name_of("p", phase="Running")
            assert await watch.take(1) == [("MODIFIED", "p")]
    assert sorted(there) == [("ADDED", "p"), ("ADDED", "q")]


async def test_a_watch_from_zero_starts_with_what_there_is(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        async with cluster.admin.watch(cluster.pods, resourceVersion="0") as watch:
            assert await watch.take(1) == [("ADDED", "p")]


async def test_a_watch_resumes_after_any_event(open_cluster: OpenCluster) -> None:
    path_of = "configmaps"
    async with open_cluster() as cluster:
        path = cluster.path(path_of)
        since = await newest(cluster, path)
        for i in range(3):
            await cluster.make(path, a_config_map(f"c{i}"))
        async with cluster.admin.watch(path, resourceVersion=since) as watch:
            events = [await watch.next() for _ in range(3)]
        for i, (_, item) in enumerate(events):
            async with cluster.admin.watch(path, resourceVersion=version(item)) as watch:
                await cluster.make(path, a_config_map(f"later{i}"))
                expected = [f"c{j}" for j in range(i + 1, 3)] + [f"later{j}" for j in range(i + 1)]
                assert [name for _, name in await watch.take(len(expected))] == expected


async def test_a_resumed_watch_repeats_no_change_of_one_object(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = cluster.path("configmaps")
        made = await cluster.make(path, a_config_map("c"))
        for i in range(3):
            await cluster.admin.patch(f"{path}/c", {"data": {"turn": str(i)}})
        async with cluster.admin.watch(path, resourceVersion=version(made)) as watch:
            events = [await watch.next() for _ in range(3)]
        assert [item["data"]["turn"] for _, item in events] == ["0", "1", "2"]
        assert {kind for kind, _ in events} == {"MODIFIED"}
        async with cluster.admin.watch(path, resourceVersion=version(events[1][1])) as watch:
            assert (await watch.next())[1]["data"] == {"turn": "2"}


async def test_a_list_and_a_watch_from_it_miss_nothing(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        path = cluster.path("configmaps")

        async def write() -> None:
            for i in range(40):
                await cluster.make(path, a_config_map(f"c{i:02}"))

        async with asyncio.TaskGroup() as group:
            group.create_task(write(), name="writer")
            body = (await cluster.admin.get(path)).done
            seen = [item["metadata"]["name"] for item in body["items"]]
            async with cluster.admin.watch(path, resourceVersion=version(body)) as watch:
                while len(seen) < 40:
                    kind, item = await watch.next()
                    assert kind == "ADDED"
                    seen.append(item["metadata"]["name"])
    assert sorted(seen) == [f"c{i:02}" for i in range(40)]
    assert len(set(seen)) == 40


async def test_the_initial_state_can_end_with_a_bookmark(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p")
        async with cluster.admin.watch(
            cluster.pods,
            sendInitialEvents="true",
            resourceVersionMatch="NotOlderThan",
            allowWatchBookmarks="true",
        ) as watch:
            assert await watch.take(1) == [("ADDED", "p")]
            kind, item = await watch.next()
    assert kind == "BOOKMARK"
    assert item["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(version(item)) >= int(version(made))


async def test_a_timed_watch_is_sent_a_bookmark_before_it_ends(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        since = await newest(cluster, cluster.pods)
        async with cluster.admin.watch(
            cluster.pods, resourceVersion=since, allowWatchBookmarks="true", timeoutSeconds="4"
        ) as watch:
            made = await cluster.pod("p")
            item = await watch.until("BOOKMARK")
        async with cluster.admin.watch(cluster.pods, resourceVersion=version(item)) as watch:
            await cluster.pod("q")
            assert await watch.take(1) == [("ADDED", "q")]
    assert (item["kind"], item["apiVersion"]) == ("Pod", "v1")
    assert not item["metadata"].keys() & {"name", "uid", "annotations"}
    assert int(version(item)) >= int(version(made))


async def test_without_being_requested_there_are_no_bookmarks(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        since = await newest(cluster, cluster.pods)
        async with cluster.admin.watch(
            cluster.pods, resourceVersion=since, timeoutSeconds="3"
        ) as watch:
            await watch.ended()


async def test_a_watch_ends_when_its_time_is_over(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        async with cluster.admin.watch(cluster.pods, timeoutSeconds="1") as watch:
            assert await watch.take(1) == [("ADDED", "p")]
            await watch.ended()


async def test_a_forgotten_version_is_gone(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p")
        await cluster.name_of("p", phase="Running")
        await cluster.server.forget_history()
        async with cluster.admin.watch(cluster.pods, resourceVersion=version(made)) as watch:
            kind, status = await watch.next()
            await watch.ended()
    assert (kind, status["kind"], status["code"], status["reason"]) == (
        "ERROR", "Status", 410, "Expired",
    )  # fmt: skip
    assert "too old resource version" in status["message"]


async def test_a_watch_of_chosen_objects_sees_them_come_and_go(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p", labels={"side": "left"})
        since = await newest(cluster, cluster.pods)
        async with cluster.admin.watch(
            cluster.pods, resourceVersion=since, labelSelector="side=left"
        ) as watch:
            for side in ("right", "left"):
                await cluster.admin.patch(
                    f"{cluster.pods}/p", {"metadata": {"labels": {"side": side}}}
                )
            await cluster.pod("other", labels={"side": "right"})
            await cluster.pod("q", labels={"side": "left"})
            events = [await watch.next() for _ in range(3)]
    assert [(kind, item["metadata"]["name"]) for kind, item in events] == [
        ("DELETED", "p"), ("ADDED", "p"), ("ADDED", "q"),
    ]  # fmt: skip


async def test_a_watch_of_a_nodes_pods_sees_a_pod_when_it_is_bound(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster() as cluster:
        since = await newest(cluster, cluster.pods)
        async with cluster.admin.watch(
            cluster.pods, resourceVersion=since, fieldSelector="spec.nodeName=n1"
        ) as watch:
            bound = await cluster.bound("p", "n1")
            kind, item = await watch.next()
    assert (kind, item) == ("ADDED", bound)


async def test_one_object_is_watched_by_its_name(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        since = await newest(cluster, cluster.pods)
        async with cluster.admin.watch(
            cluster.pods, resourceVersion=since, fieldSelector="metadata.name=q"
        ) as watch:
            await cluster.pod("p")
            await cluster.pod("q")
            assert await watch.take(1) == [("ADDED", "q")]


async def test_a_watch_of_all_namespaces_sees_this_one(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        since = await newest(cluster, "/api/v1/pods")
        async with cluster.admin.watch("/api/v1/pods", resourceVersion=since) as watch:
            await cluster.pod("p")
            kind, item = await watch.next()
    assert (kind, item["metadata"]["namespace"]) == ("ADDED", cluster.own)


async def test_a_watch_is_cut_when_the_server_stops_and_loses_nothing_unsaid(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster() as cluster:
        made = await cluster.pod("p")
        async with cluster.admin.watch(cluster.pods, resourceVersion=version(made)) as watch:
            changed = await cluster.name_of("p", phase="Running")
            async with asyncio.TaskGroup() as group:
                group.create_task(cluster.server.restart(), name="restart")
                await watch.cut()
        again = (await cluster.admin.get(f"{cluster.pods}/p")).done
        assert again == changed
        later = await cluster.name_of("p", phase="Succeeded")
        async with cluster.admin.watch(cluster.pods, resourceVersion=version(changed)) as watch:
            kind, item = await watch.next()
    assert (kind, item) == ("MODIFIED", later) or (kind, item["code"]) == ("ERROR", 410)
