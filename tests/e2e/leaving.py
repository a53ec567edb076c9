"""Pods by the hundred that come and go at once; a node that leaves the cluster and comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from tests.contract.client import Json
from tests.e2e.checker import BOOKED, WANTS
from tests.e2e.cluster import HOME
from tests.e2e.node import NODE
from tests.e2e.observation import scrape
from tests.e2e.stage import Stage, report

SMALL = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "32"}
PODS = "/api/v1/namespaces/default/pods"
MANY = "many-"
CLIENTS = 16
FORGOTTEN_S = 65.0
"""After so long the control plane deletes pods of a node that is not there: 40 s and a round."""


async def many_pods_come_and_go_at_once(stage: Stage) -> None:
    """Some are deleted while they wait, some between bind and start, some when they run."""
    count = 200 if stage.long else 40
    names = [f"{MANY}{i}" for i in range(count)]
    await _each(names, lambda name: stage.crowd.create(name, SMALL, labels={WANTS: "32"}))
    least = count * 3 // 4 if stage.long else 5
    await stage.cluster.until(lambda: _run(stage, least), f"{least} of {count} pods run")
    pods = await _many(stage)
    bound = sum("nodeName" in pod["spec"] for pod in pods)
    report(f"of {len(pods)} pods {bound} are bound and {len(_running(pods))} run: now all go")
    await _each(names, lambda name: stage.crowd.delete(name, stage.random.randrange(2)))
    await stage.cluster.until(lambda: _gone(stage), "all are gone")
    began = time.monotonic()
    await stage.cluster.until(lambda: _released(stage), "all is released")
    report(f"all is released {time.monotonic() - began:.1f} s after the last was gone")
    await stage.checker.in_the_end("many pods came and went")


async def the_node_leaves_and_comes_back(stage: Stage) -> None:
    """Soon, so that its pods never learn of it; and late, when the control plane has given up its
    pods, which kubelet then ends."""
    await _away(stage, 0)
    await stage.checker.in_the_end("the node was deleted and is back")
    if stage.long:
        stage.checker.forget()
        await _away(stage, FORGOTTEN_S)
        await stage.crowd.renew()
        await stage.cluster.all_ready()
        await stage.checker.in_the_end("the node was away for long and is back")


async def _away(stage: Stage, seconds: float) -> None:
    cluster = stage.cluster
    async with stage.crowd.moving():
        await cluster.kubectl("delete", "node", NODE)
        await asyncio.sleep(seconds)
        began = time.monotonic()
        await cluster.kill("kubelet")  # registers when it starts
        await cluster.until(lambda: _registered(stage), "the node is registered")
        await cluster.kubectl("label", "node", NODE, "nvidia-device-enable=enable")
        await cluster.all_ready()
        report(f"the node and its cards are back after {time.monotonic() - began:.1f} s")


async def _registered(stage: Stage) -> bool:
    return (await stage.cluster.admin.get(f"/api/v1/nodes/{NODE}")).status == 200


async def _each(names: list[str], do: Callable[[str], Awaitable[object]]) -> None:
    left = list(reversed(names))

    async def client() -> None:
        while left:
            await do(left.pop())

    async with asyncio.TaskGroup() as group:
        for i in range(CLIENTS):
            group.create_task(client(), name=f"client {i}")


async def _many(stage: Stage) -> list[Json]:
    listed = (await stage.cluster.admin.get(PODS)).done["items"]
    return [pod for pod in listed if pod["metadata"]["name"].startswith(MANY)]


def _running(pods: list[Json]) -> list[Json]:
    return [pod for pod in pods if pod["status"].get("phase") == "Running"]


async def _run(stage: Stage, least: int) -> bool:
    return len(_running(await _many(stage))) >= least


async def _gone(stage: Stage) -> bool:
    return not await _many(stage)


async def _released(stage: Stage) -> bool:
    listed = await stage.cluster.get(
        "pods", "-n", HOME, "-l", "app.kubernetes.io/name=tessera-scheduler"
    )
    (address,) = (pod["status"]["podIP"] for pod in listed["items"])
    booked = await scrape(f"http://{address}:8080/hami/metrics?standby=true", BOOKED)
    return not any(labels["pod"].startswith(MANY) for labels, _ in booked)
