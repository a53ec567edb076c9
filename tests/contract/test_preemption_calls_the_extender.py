"""Preemption: the extender may veto who makes room. The embedded scheduler preempts nobody."""

from __future__ import annotations

import asyncio

from tests.contract.client import ANSWER_S
from tests.contract.cluster import Cluster
from tests.contract.extender import OpenScheduling, Script
from tests.contract.objects import a_pod
from tests.contract.scheduling import card_node, create_pod, placed, until, waiting

KINDS = ("real",)
VERBS = ("filter", "bind", "preempt")
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def urgent(cluster: Cluster) -> str:
    """The name of a class that goes before others, once the server knows it."""
    name = f"{cluster.own}-urgent"
    await cluster.make(CLASSES, {"metadata": {"name": name}, "value": 1000})
    body = a_pod("known", priorityClassName=name)
    async with asyncio.timeout(ANSWER_S):
        while (await cluster.admin.post(cluster.pods, body, dryRun="All")).status == 403:
            await asyncio.sleep(0.02)
    return name


async def gone(cluster: Cluster, name: str) -> None:
    """End it, where no kubelet does, once kube-scheduler has asked it to go. Until then that leaves
    aside the pod that it makes room for, and may not look again for minutes when others end."""
    await until(cluster, name, lambda pod: "deletionTimestamp" in pod["metadata"])
    await cluster.admin.delete(f"{cluster.pods}/{name}", gracePeriodSeconds="0")


async def test_who_would_have_to_go_is_reported_by_uid(scheduling: OpenScheduling) -> None:
    async with scheduling(*VERBS) as (cluster, extender):
        node = await card_node(cluster, "n", cards=1)
        victim = await create_pod(cluster, "victim")
        await placed(cluster, "victim")
        await create_pod(cluster, "urgent", priorityClassName=await urgent(cluster))
        asked = await extender.called("preempt")
    assert asked["Pod"]["metadata"]["name"] == "urgent"
    assert asked["NodeNameToVictims"] is None
    assert asked["NodeNameToMetaVictims"] == {
        node: {"Pods": [{"UID": victim["metadata"]["uid"]}], "NumPDBViolations": 0},
    }  # fmt: skip


async def test_a_victim_that_we_let_go_makes_room(scheduling: OpenScheduling) -> None:
    async with scheduling(*VERBS) as (cluster, extender):
        node = await card_node(cluster, "n", cards=1)
        await create_pod(cluster, "victim")
        await placed(cluster, "victim")
        await create_pod(cluster, "urgent", priorityClassName=await urgent(cluster))
        await extender.called("preempt")
        await gone(cluster, "victim")
        assert await placed(cluster, "urgent") == node


async def test_without_a_victim_from_us_nobody_goes(scheduling: OpenScheduling) -> None:
    async with scheduling(*VERBS) as (cluster, extender):
        await card_node(cluster, "n", cards=1)
        await create_pod(cluster, "victim")
        await placed(cluster, "victim")
        extender.preempt = lambda _: {"NodeNameToMetaVictims": {}}
        await create_pod(cluster, "urgent", priorityClassName=await urgent(cluster))
        await extender.called("preempt")
        await waiting(cluster, "urgent")
        victim = (await cluster.admin.get(f"{cluster.pods}/victim")).done
    assert "deletionTimestamp" not in victim["metadata"]


async def test_for_room_that_only_we_miss_no_pod_has_to_go(scheduling: OpenScheduling) -> None:
    """The scheduler looks for victims by its own view of a node, in which the pod fits already."""
    async with scheduling(*VERBS) as (cluster, extender):
        node = await card_node(cluster, "n")
        await create_pod(cluster, "victim")
        await placed(cluster, "victim")
        extender.filter = lambda _: {"FailedNodes": {node: "CardBusy"}}
        await create_pod(cluster, "urgent", priorityClassName=await urgent(cluster))
        condition = await waiting(cluster, "urgent")
        victim = (await cluster.admin.get(f"{cluster.pods}/victim")).done
    assert "1 CardBusy. preemption: expected at least one victim pod" in condition["message"]
    assert "preempt" not in extender.verbs
    assert "deletionTimestamp" not in victim["metadata"]


async def test_for_nodes_that_can_never_do_no_victim_is_searched(
    scheduling: OpenScheduling,
) -> None:
    async with scheduling(*VERBS) as (cluster, extender):
        node = await card_node(cluster, "n")
        await create_pod(cluster, "victim")
        await placed(cluster, "victim")
        extender.filter = lambda _: {"FailedAndUnresolvableNodes": {node: "CardBusy"}}
        await create_pod(cluster, "urgent", priorityClassName=await urgent(cluster))
        condition = await waiting(cluster, "urgent")
    assert "1 Preemption is not helpful for scheduling" in condition["message"]
    assert "preempt" not in extender.verbs


async def test_the_node_is_nominated_and_queried_alone_when_it_is_free(
    scheduling: OpenScheduling,
) -> None:
    """What is held for a pod is known from its nomination, so that it must be written."""
    async with scheduling(*VERBS) as (cluster, extender):
        node = await card_node(cluster, "n", cards=1)
        await card_node(cluster, "free", cards=1)
        extender.filter = _only(node)
        await create_pod(cluster, "victim")
        await placed(cluster, "victim")
        await create_pod(cluster, "urgent", priorityClassName=await urgent(cluster))
        pod = await until(cluster, "urgent", lambda pod: "nominatedNodeName" in pod["status"])
        assert pod["status"]["nominatedNodeName"] == node
        await gone(cluster, "victim")
        assert await placed(cluster, "urgent") == node
        asked = [b["NodeNames"] for verb, b in extender.calls if verb == "filter"]
    assert asked[-1] == [node]


def _only(node: str) -> Script:
    """No other node will do for now."""
    return lambda body: {
        "NodeNames": [name for name in body["NodeNames"] if name == node],
        "FailedNodes": {name: "CardBusy" for name in body["NodeNames"] if name != node},
    }
