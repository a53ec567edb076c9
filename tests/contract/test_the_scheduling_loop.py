"""The scheduler and its extender: what is asked, in which order, and what comes of the answers."""

from __future__ import annotations

import asyncio

from tests.contract.client import ANSWER_S, Json
from tests.contract.cluster import Cluster
from tests.contract.extender import MEMORY, PROFILE, OpenScheduling
from tests.contract.objects import GPU
from tests.contract.scheduling import card_node, create_pod, placed, touch, waiting

EXCLUDED = {"key": "a.dev/kept", "value": "y", "effect": "NoSchedule"}


async def test_a_pod_is_filtered_then_bound(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        node = await card_node(cluster, "n")
        made = await create_pod(cluster)
        assert await placed(cluster) == node
        asked = await extender.called("filter")
        bound = await extender.called("bind")
    assert extender.verbs == ["filter", "bind"]
    assert asked.keys() == {"Pod", "Nodes", "NodeNames"}
    assert (asked["Nodes"], asked["NodeNames"]) == (None, [node])
    assert asked["Pod"] == {k: made[k] for k in ("metadata", "spec", "status")}
    assert bound == {
        "PodName": "p", "PodNamespace": cluster.own, "PodUID": made["metadata"]["uid"],
        "Node": node,
    }  # fmt: skip


async def test_scores_are_requested_when_a_choice_is_left(scheduling: OpenScheduling) -> None:
    async with scheduling("filter", "prioritize", "bind") as (cluster, extender):
        nodes = {await card_node(cluster, f"n{i}") for i in range(3)}
        chosen = max(nodes)
        extender.filter = lambda body: {"NodeNames": body["NodeNames"]}
        extender.prioritize = lambda body: [
            {"Host": name, "Score": 10 if name == chosen else 0} for name in body["NodeNames"]
        ]
        await create_pod(cluster)
        assert await placed(cluster) == chosen
        asked = await extender.called("prioritize")
        filtered = await extender.called("filter")
    assert extender.verbs == ["filter", "prioritize", "bind"]
    assert asked["Pod"] == filtered["Pod"]
    assert (asked["Nodes"], set(asked["NodeNames"])) == (None, nodes)


async def test_scores_are_not_requested_when_one_node_is_left(scheduling: OpenScheduling) -> None:
    async with scheduling("filter", "prioritize", "bind") as (cluster, extender):
        for i in range(3):
            await card_node(cluster, f"n{i}")
        await create_pod(cluster)
        await placed(cluster)
    assert extender.verbs == ["filter", "bind"]


async def test_a_pod_that_requests_nothing_of_the_extender_is_placed_without_us(
    scheduling: OpenScheduling,
) -> None:
    async with scheduling() as (cluster, extender):
        node = await card_node(cluster, "n")
        await create_pod(cluster, limits={"cpu": "1"})
        assert await placed(cluster) == node
    assert extender.calls == []


async def test_an_ignored_resource_alone_brings_a_pod_to_us(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        nodes = {await card_node(cluster, "n1"), await cluster.node("n2")}
        await create_pod(cluster, limits={MEMORY: 3000})
        asked = await extender.called("filter")
        await placed(cluster)
    assert set(asked["NodeNames"]) == nodes


async def test_an_init_containers_request_brings_a_pod_to_us(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        node = await card_node(cluster, "n1")
        await cluster.node("n2")
        init = {"name": "init", "image": "i", "resources": {"limits": {GPU: "1"}}}
        await create_pod(cluster, limits={}, initContainers=[init])
        asked = await extender.called("filter")
        await placed(cluster)
    assert asked["NodeNames"] == [node]


async def test_a_pod_of_another_scheduler_is_left_alone(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        await card_node(cluster, "n")
        await create_pod(cluster, "other", schedulerName="somebody-else")
        await create_pod(cluster, "mine")
        await placed(cluster, "mine")
        other = (await cluster.admin.get(f"{cluster.pods}/other")).done
    assert [body["Pod"]["metadata"]["name"] for _, body in extender.calls[:1]] == ["mine"]
    assert len(extender.calls) == 2
    assert "nodeName" not in other["spec"]


async def test_nodes_that_cannot_take_the_pod_fall_out_before_us(
    scheduling: OpenScheduling,
) -> None:
    async with scheduling() as (cluster, extender):
        good = await card_node(cluster, "good")
        await cluster.node("cardless")
        await card_node(cluster, "small", cards=1)
        for name, spec in (
            ("tainted", {"taints": [EXCLUDED]}), ("cordoned", {"unschedulable": True}),
        ):  # fmt: skip
            path = f"/api/v1/nodes/{await card_node(cluster, name)}"
            assert (await cluster.admin.patch(path, {"spec": spec})).status == 200
        await create_pod(cluster, cards=2)
        asked = await extender.called("filter")
        assert await placed(cluster) == good
    assert asked["NodeNames"] == [good]


async def test_a_node_selector_chooses_before_us(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        for name in ("n1", "n2"):
            path = f"/api/v1/nodes/{await card_node(cluster, name)}"
            await cluster.admin.patch(path, {"metadata": {"labels": {"which": name}}})
        await create_pod(cluster, nodeSelector={"which": "n2"})
        asked = await extender.called("filter")
        await placed(cluster)
    assert asked["NodeNames"] == [f"{cluster.own}-n2"]


async def test_where_no_node_can_take_the_pod_the_extender_is_not_called(
    scheduling: OpenScheduling,
) -> None:
    async with scheduling() as (cluster, extender):
        await card_node(cluster, "n", cards=1)
        await create_pod(cluster, cards=2)
        condition = await waiting(cluster)
    assert condition["reason"] == "Unschedulable"
    assert f"0/1 nodes are available: 1 Insufficient {GPU}." in condition["message"]
    assert extender.calls == []


async def test_why_nodes_failed_is_counted_in_the_pods_condition(
    scheduling: OpenScheduling,
) -> None:
    async with scheduling() as (cluster, extender):
        nodes = [await card_node(cluster, f"n{i}") for i in range(3)]
        await cluster.node("cardless")
        reasons = dict(zip(nodes, ("CardBusy", "CardSmall", "CardBusy"), strict=True))
        extender.filter = lambda _: {"NodeNames": [], "FailedNodes": reasons}
        await create_pod(cluster)
        condition = await waiting(cluster)
    assert condition["reason"] == "Unschedulable"
    assert (
        f"0/4 nodes are available: 1 CardSmall, 1 Insufficient {GPU}, 2 CardBusy."
        in condition["message"]
    )


async def test_why_nodes_can_never_do_is_counted_too(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        node = await card_node(cluster, "n")
        extender.filter = lambda _: {"FailedAndUnresolvableNodes": {node: "NoSuchModel"}}
        await create_pod(cluster)
        condition = await waiting(cluster)
    assert "0/1 nodes are available: 1 NoSuchModel." in condition["message"]


async def test_nodes_that_we_leave_out_need_no_reason(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        for name in ("n1", "n2"):
            await card_node(cluster, name)
        extender.filter = lambda _: {"NodeNames": []}
        await create_pod(cluster)
        condition = await waiting(cluster)
    assert condition["reason"] == "Unschedulable"
    assert "0/2 nodes are available" in condition["message"]


async def test_events_report_failure_and_success(scheduling: OpenScheduling) -> None:
    async with scheduling() as (cluster, extender):
        node = await card_node(cluster, "n")
        extender.filter = lambda _: {"FailedNodes": {node: "CardBusy"}}
        await create_pod(cluster)
        await waiting(cluster)
        extender.filter = lambda body: {"NodeNames": body["NodeNames"]}
        await touch(cluster, node)
        await placed(cluster)
        events = await reported(cluster, {"FailedScheduling", "Scheduled"})
    assert (events["FailedScheduling"]["type"], events["Scheduled"]["type"]) == (
        "Warning", "Normal",
    )  # fmt: skip
    assert "1 CardBusy" in events["FailedScheduling"]["note"]
    assert events["Scheduled"]["note"] == f"Successfully assigned {cluster.own}/p to {node}"
    assert events["Scheduled"]["reportingController"] == PROFILE
    assert events["Scheduled"]["regarding"]["name"] == "p"


async def reported(cluster: Cluster, reasons: set[str]) -> dict[str, Json]:
    """The events of the namespace by reason, once all of those are there."""
    async with asyncio.timeout(ANSWER_S):
        while True:
            path = cluster.path("events", "apis/events.k8s.io/v1")
            items = (await cluster.admin.get(path)).done["items"]
            found = {item["reason"]: item for item in items}
            if reasons <= found.keys():
                return found
            await asyncio.sleep(0.05)
