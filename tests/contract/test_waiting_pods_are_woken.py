"""Pods that wait: what brings them before the extender again, and what does not."""

from __future__ import annotations

import pytest

from tests.contract.cluster import OpenCluster
from tests.contract.extender import OpenScheduling, configuration, open_extender
from tests.contract.objects import GPU
from tests.contract.scheduling import card_node, create_pod, placed, touch, waiting


@pytest.mark.parametrize("key", ["FailedNodes", "FailedAndUnresolvableNodes"])
async def test_a_touched_node_wakes_a_pod_that_we_refused(
    scheduling: OpenScheduling, key: str
) -> None:
    async with scheduling() as (cluster, extender):
        node = await card_node(cluster, "n")
        extender.filter = lambda _: {key: {node: "CardBusy"}}
        await create_pod(cluster)
        await waiting(cluster)
        refused = extender.verbs.count("filter")
        extender.filter = lambda body: {"NodeNames": body["NodeNames"]}
        await touch(cluster, node)
        assert await placed(cluster) == node
    assert extender.verbs == ["filter"] * refused + ["filter", "bind"]


async def test_a_pod_that_ends_wakes_a_pod_that_we_refused(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        node = await card_node(cluster, "n")
        await create_pod(cluster, "first")
        await placed(cluster, "first")
        extender.filter = lambda _: {"FailedNodes": {node: "CardBusy"}}
        await create_pod(cluster, "second")
        await waiting(cluster, "second")
        extender.filter = lambda body: {"NodeNames": body["NodeNames"]}
        await cluster.admin.delete(f"{cluster.pods}/first", gracePeriodSeconds="0")
        assert await placed(cluster, "second") == node


async def test_a_new_node_wakes_a_pod_that_fitted_nowhere(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, _):
        await cluster.node("cardless")
        await create_pod(cluster, limits={GPU: 1})
        await waiting(cluster)
        node = await card_node(cluster, "new")
        assert await placed(cluster) == node


async def test_capacity_wakes_a_pod_that_fitted_nowhere(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, _):
        node = await cluster.node("n")
        await create_pod(cluster, limits={GPU: 1})
        await waiting(cluster)
        more = {"status": {part: {GPU: "4"} for part in ("capacity", "allocatable")}}
        assert (await cluster.admin.patch(f"/api/v1/nodes/{node}/status", more)).status == 200
        assert await placed(cluster) == node


async def test_a_deleted_pod_is_not_queried_again(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        node = await card_node(cluster, "n")
        extender.filter = lambda _: {"FailedNodes": {node: "CardBusy"}}
        await create_pod(cluster, "first")
        await waiting(cluster, "first")
        await cluster.admin.delete(f"{cluster.pods}/first")
        await create_pod(cluster, "plain", limits={})
        await placed(cluster, "plain")  # the scheduler knows that the first is gone
        asked = len(extender.calls)
        extender.filter = lambda body: {"NodeNames": body["NodeNames"]}
        await touch(cluster, node)
        await create_pod(cluster, "second")
        await placed(cluster, "second")
        later = [body["Pod"]["metadata"]["name"] for _, body in extender.calls[asked:][:1]]
    assert later == ["second"]


async def test_pods_that_waited_before_the_scheduler_came_are_placed(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster() as cluster, open_extender(cluster.admin) as extender:
        node = await card_node(cluster, "n")
        names = [f"p{i}" for i in range(3)]
        for name in names:
            await create_pod(cluster, name)
        for _ in range(2):
            async with cluster.server.scheduler(configuration(extender.url)):
                assert {await placed(cluster, name) for name in names} == {node}
    assert sorted(extender.verbs) == ["bind"] * 3 + ["filter"] * 3


async def test_a_gated_pod_is_not_queried(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        node = await card_node(cluster, "n")
        await create_pod(cluster, "gated", schedulingGates=[{"name": "a.dev/wait"}])
        await create_pod(cluster, "free")
        await placed(cluster, "free")
        asked = [
            body["Pod"]["metadata"]["name"] for verb, body in extender.calls if verb == "filter"
        ]
        await cluster.admin.patch(f"{cluster.pods}/gated", {"spec": {"schedulingGates": []}})
        assert await placed(cluster, "gated") == node
    assert asked == ["free"]
