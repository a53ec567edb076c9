"""Pods that wait, and which the scheduler does not wake. The embedded scheduler wakes them all."""

from __future__ import annotations

import asyncio

from tests.contract.extender import MEMORY, OpenScheduling
from tests.contract.objects import GPU
from tests.contract.scheduling import card_node, create_pod, placed, waiting

KINDS = ("real",)


async def test_a_node_without_an_ignored_resource_wakes_no_pod_that_requests_it(
    scheduling: OpenScheduling,
) -> None:
    """The scheduler ignores such a name when it places a pod, and not when it decides which pods to
    wake: a node wakes a pod that fitted nowhere only if it has every name that the pod asks for."""
    async with scheduling() as (cluster, extender):
        await cluster.node("cardless")
        await create_pod(cluster)
        await waiting(cluster)
        lacking = f"/api/v1/nodes/{await card_node(cluster, 'lacking')}"
        await cluster.admin.patch(lacking, {"metadata": {"labels": {"which": "lacking"}}})
        await create_pod(cluster, "plain", limits={}, nodeSelector={"which": "lacking"})
        await placed(cluster, "plain")  # the scheduler knows the node
        await create_pod(cluster, "next")
        await placed(cluster, "next")
        await asyncio.sleep(1.5)
        asked = [
            body["Pod"]["metadata"]["name"] for verb, body in extender.calls if verb == "filter"
        ]
        await cluster.node("having", **{GPU: "4", MEMORY: "1M"})
        await placed(cluster)
    assert asked == ["next"]
