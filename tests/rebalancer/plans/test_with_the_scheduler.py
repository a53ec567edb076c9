"""A plan and a whole scheduler on one API server, in virtual time: room that is made is had by the
pod for which it was made, whichever pod comes first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tessera_core.rebalance.movable_pods import MoveRules
from tessera_scheduler.extender.handlers import NotLeading
from tessera_scheduler.scheduler import Scheduler, open_scheduler
from tessera_scheduler.settings import SchedulerSettings
from tessera_schema.endpoints.extender import ExtenderBindingResult, ExtenderFilterResult
from tessera_schema.plans import PlanPhase
from tests.rebalancer.plans.cluster import (
    REGISTRY,
    Cluster,
    planning,
    pod_path,
    settings,
    until,
)

pytestmark = pytest.mark.looptime
PATIENT = settings(move=MoveRules(least_age_s=0))
_filtered = msgspec.json.Decoder(ExtenderFilterResult).decode
_bound = msgspec.json.Decoder(ExtenderBindingResult).decode


class KubeScheduler:
    """Asks the extender about every pod that waits, again and again; `w` always comes last."""

    def __init__(self, cluster: Cluster, scheduler: Scheduler) -> None:
        self.refused: dict[str, set[str]] = {}
        """Pod -> words that it was refused with."""
        self._cluster = cluster
        self._scheduler = scheduler

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            pods = self._cluster.call("GET", "/api/v1/pods")["items"]
            for pod in sorted(pods, key=lambda pod: bool(pod["metadata"]["name"] == "w")):
                if not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                    await self._place(pod)

    async def _place(self, pod: dict[str, Any]) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        nodes = [n["metadata"]["name"] for n in self._cluster.call("GET", "/api/v1/nodes")["items"]]
        body = msgspec.json.encode({"Pod": pod, "Nodes": None, "NodeNames": nodes})
        try:
            answer = _filtered(self._scheduler.extender.filter(body))
            if not answer.node_names:
                words = (answer.failed_and_unresolvable_nodes or {}).values()
                self.refused.setdefault(name, set()).update(words)
                return
            args = {
                "PodName": name, "PodNamespace": "default", "PodUID": uid,
                "Node": answer.node_names[0],
            }  # fmt: skip
            _bound(await self._scheduler.extender.bind(msgspec.json.encode(args)))
        except NotLeading:
            return


async def controller(cluster: Cluster, name: str, mib: int) -> None:
    """Makes a pod again as soon as it is gone."""
    while True:
        await asyncio.sleep(0.05)
        if cluster.pod(name) is None:
            owned(cluster, name, mib)


def owned(cluster: Cluster, name: str, mib: int, **more: Any) -> None:
    owner = {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": f"set-{name}",
        "controller": True,
    }  # fmt: skip
    cluster.waits(name, mib, meta={"ownerReferences": [owner]}, **more)


def node_of(cluster: Cluster, name: str) -> str:
    pod = cluster.pod(name)
    return str(pod["spec"].get("nodeName", "")) if pod else ""


@asynccontextmanager
async def scheduling(cluster: Cluster) -> AsyncGenerator[KubeScheduler]:
    async with open_scheduler(
        cluster.kube, cluster.bus, SchedulerSettings(), cluster.clock, REGISTRY
    ) as scheduler:
        kube_scheduler = KubeScheduler(cluster, scheduler)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(kube_scheduler.run(), name="kube-scheduler")
            yield kube_scheduler
            running.cancel()


def started(cluster: Cluster, *names: str) -> None:
    for name in names:
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        cluster.call("PATCH", f"{pod_path(name)}/status", {"status": status})


async def apart(cluster: Cluster) -> None:
    """Two pods of 8,000 MiB on two cards: the first one's card is full while the second comes."""
    owned(cluster, "a", 8000)
    await until(lambda: node_of(cluster, "a"))
    owned(cluster, "filler", 8000)
    await until(lambda: node_of(cluster, "filler"))
    owned(cluster, "b", 8000)
    await until(lambda: node_of(cluster, "b"))
    cluster.end("filler")
    started(cluster, "a", "b")
    assert node_of(cluster, "a") != node_of(cluster, "b")


async def test_the_pod_gets_the_room_and_who_moved_another_place() -> None:
    cluster = Cluster(keys=False)
    async with scheduling(cluster) as asked:
        await apart(cluster)
        cluster.waits("w", 16000)
        async with planning(cluster, PATIENT), asyncio.TaskGroup() as group:
            remaking = [
                group.create_task(controller(cluster, name, 8000), name=name) for name in ("a", "b")
            ]
            await until(cluster.plans)
            cluster.waits("greedy", 9000)  # it would take what is freed, if it could
            cluster.decide("approved")
            await until(lambda: node_of(cluster, "w"))
            await until(lambda: node_of(cluster, "a") and node_of(cluster, "b"))
            await asyncio.sleep(30)
            for task in remaking:
                task.cancel()
        _, spec, status = cluster.the_plan()
        (step,) = spec.steps
        assert status.phase is PlanPhase.DONE
        assert node_of(cluster, "w") == step.pod.node
        assert node_of(cluster, "a") == node_of(cluster, "b") == step.to_node
        assert node_of(cluster, "greedy") == ""
        assert "NodeReserved" in asked.refused["greedy"]


async def test_who_matters_more_goes_first() -> None:
    cluster = Cluster(keys=False)
    async with scheduling(cluster):
        await apart(cluster)
        cluster.waits("w", 16000)
        async with planning(cluster, PATIENT):
            await until(cluster.plans)
            cluster.waits("urgent", 9000, priority=1000)
            cluster.decide("approved")
            await until(lambda: node_of(cluster, "urgent"))
        assert node_of(cluster, "w") == ""


def a_resize(cluster: Cluster, name: str, memory: str) -> dict[str, Any]:
    pod = cluster.pod(name)
    assert pod is not None
    node, uid = node_of(cluster, name), pod["metadata"]["uid"]
    of = {"namespace": "default", "name": name, "uid": uid, "node": node}
    step = {"pod": of, "container": "c", "card": f"{node}-0", "memory": memory}
    return {"kind": "Resize", "reason": "r", "steps": [step], "decision": "approved"}


async def test_a_resize_is_granted_by_the_scheduler_or_refused_with_its_words() -> None:
    cluster = Cluster({"n0": 1}, keys=False)
    async with scheduling(cluster):
        for name in ("a", "b"):
            owned(cluster, name, 8000)
        await until(lambda: node_of(cluster, "a") and node_of(cluster, "b"))
        started(cluster, "a", "b")
        async with planning(cluster, PATIENT):
            cluster.write_plan("resize-1", a_resize(cluster, "a", "4000Mi"))
            await until(lambda: cluster.plans()[0][2].phase is PlanPhase.DONE)
            cluster.write_plan("resize-2", a_resize(cluster, "b", "40000Mi"))
            await until(lambda: cluster.plans()[1][2].phase is PlanPhase.FAILED)
    assert cluster.plans()[1][2].message.startswith("default/b: ")
