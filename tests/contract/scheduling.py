"""What tests of the scheduler do with pods and nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.contract.client import ANSWER_S, Json
from tests.contract.cluster import Cluster
from tests.contract.extender import MEMORY, PROFILE
from tests.contract.objects import GPU


async def create_pod(cluster: Cluster, name: str = "p", cards: int = 1, **facts: Any) -> Json:
    """Create a pod that asks for cards."""
    before, cluster.before_asking = cluster.before_asking, None
    if before is not None:
        await before()
    limits = {GPU: cards, MEMORY: 3000}
    return await cluster.pod(name, **{"limits": limits, "schedulerName": PROFILE, **facts})


async def card_node(cluster: Cluster, name: str, cards: int = 4) -> str:
    """Create a node with cards, and return its whole name."""
    return await cluster.node(name, **{GPU: str(cards)})


async def until(cluster: Cluster, name: str, holds: Callable[[Json], bool]) -> Json:
    """The pod, once that holds for it."""
    async with (
        asyncio.timeout(ANSWER_S),
        cluster.admin.watch(cluster.pods, fieldSelector=f"metadata.name={name}") as watch,
    ):
        while True:
            _, pod = await watch.next()
            if holds(pod):
                return pod


async def placed(cluster: Cluster, name: str = "p") -> str:
    """The node of the pod, once it has one."""
    pod = await until(cluster, name, lambda pod: "nodeName" in pod["spec"])
    node: str = pod["spec"]["nodeName"]
    return node


async def waiting(cluster: Cluster, name: str = "p", why: str = "") -> Json:
    """The pod's condition, once it says that the pod waits, with these words in its message."""

    def reported(pod: Json) -> bool:
        return any(c["status"] == "False" and why in c.get("message", "") for c in conditions(pod))

    (condition,) = conditions(await until(cluster, name, reported))
    return condition


def conditions(pod: Json) -> list[Json]:
    """What the pod says of its scheduling."""
    return [c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"]


async def touch(cluster: Cluster, node: str) -> None:
    """Change an annotation of a node."""
    patch = {"metadata": {"annotations": {"a.dev/wake": "now"}}}
    assert (await cluster.admin.patch(f"/api/v1/nodes/{node}", patch)).status == 200
