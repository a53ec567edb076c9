"""An extender that errs, is silent or away: pods wait, say why, and come again."""

from __future__ import annotations

import asyncio

from tessera_embedded.ports import reserved_ports
from tests.contract.client import Json
from tests.contract.cluster import OpenCluster
from tests.contract.extender import OpenScheduling, configuration, open_extender
from tests.contract.scheduling import card_node, create_pod, placed, waiting


async def test_our_error_is_reported_and_tried_again(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        await card_node(cluster, "n")
        extender.filter = lambda _: {"Error": "the books are not open yet"}
        await create_pod(cluster)
        condition = await waiting(cluster)
        await extender.called("filter", 2)
        extender.filter = lambda body: {"NodeNames": body["NodeNames"]}
        await placed(cluster)
    assert (condition["reason"], condition["message"]) == (
        "SchedulerError", "the books are not open yet",
    )  # fmt: skip


async def test_our_failure_is_reported_and_tried_again(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        await card_node(cluster, "n")
        extender.filter = lambda _: 503
        await create_pod(cluster)
        condition = await waiting(cluster)
        extender.filter = lambda body: {"NodeNames": body["NodeNames"]}
        await placed(cluster)
    assert condition["reason"] == "SchedulerError"
    assert f"extender at URL {extender.url}/filter, code 503" in condition["message"]


async def test_our_silence_is_reported_and_tried_again(scheduling: OpenScheduling) -> None:
    async with scheduling(patience="500ms") as (cluster, extender):
        await card_node(cluster, "n")
        never = asyncio.Event()
        extender.filter = lambda _: never.wait()
        await create_pod(cluster)
        condition = await waiting(cluster)
        extender.filter = lambda body: {"NodeNames": body["NodeNames"]}
        await placed(cluster)
    assert condition["reason"] == "SchedulerError"
    assert f"{extender.url}/filter" in condition["message"]


async def test_a_node_that_was_not_offered_is_not_taken(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        await card_node(cluster, "n")
        extender.filter = lambda _: {"NodeNames": ["elsewhere"]}
        await create_pod(cluster)
        condition = await waiting(cluster)
    assert condition["reason"] == "SchedulerError"
    assert '"elsewhere" which is not found in the input node list' in condition["message"]
    assert "bind" not in extender.verbs


async def test_while_we_are_down_pods_of_the_extender_wait_and_others_do_not(
    open_cluster: OpenCluster,
) -> None:
    with reserved_ports(1) as (port,):
        async with open_cluster() as cluster:
            node = await card_node(cluster, "n")
            config = configuration(f"http://127.0.0.1:{port}")
            async with cluster.server.scheduler(config):
                await create_pod(cluster)
                condition = await waiting(cluster)
                await create_pod(cluster, "other", limits={})
                await placed(cluster, "other")
                async with open_extender(cluster.admin, port):
                    assert await placed(cluster) == node
    assert condition["reason"] == "SchedulerError"
    assert f"127.0.0.1:{port}" in condition["message"]


async def test_a_pod_that_we_could_not_bind_comes_again(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        node = await card_node(cluster, "n")
        bind = extender.bind
        extender.bind = lambda _: {"Error": "its outcome is not known yet"}
        await create_pod(cluster)
        condition = await waiting(cluster)
        extender.bind = bind
        assert await placed(cluster) == node
    assert condition["reason"] == "SchedulerError"
    assert "its outcome is not known yet" in condition["message"]
    assert extender.verbs[:3] == ["filter", "bind", "filter"]


async def test_a_pod_that_was_bound_though_we_said_no_is_not_queried_again(
    scheduling: OpenScheduling,
) -> None:
    async with scheduling() as (cluster, extender):
        await card_node(cluster, "n")
        bind = extender.bind

        async def after_all(body: Json) -> Json:
            await bind(body)
            return {"Error": "no answer came"}

        extender.bind = after_all
        await create_pod(cluster, "first")
        await placed(cluster, "first")
        await asyncio.sleep(2.5)
        await create_pod(cluster, "second")
        await placed(cluster, "second")
        asked = [
            body["Pod"]["metadata"]["name"] for verb, body in extender.calls if verb == "filter"
        ]
    assert asked == ["first", "second"]
