"""The process that carries a plan out may die between any two writes, or in one: the next one goes
on, and does nothing that the plan does not say."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from tessera_embedded.apiserver.store import Store
from tessera_runtime.kube.api import NONE, Body, Verb
from tessera_schema.plans import PlanKind, PlanPhase
from tessera_testing.kube import FakeKube
from tests.rebalancer.plans.cluster import Cluster, planning, settings, until

pytestmark = pytest.mark.looptime
WRITES = 12
"""Of a plan that moves two pods: made, shown, approved, started, room kept, and for each pod begun,
evicted, done; and the end."""


class Dying(FakeKube):
    """A client whose process dies at a write, before it is done or after; Events do not count."""

    def __init__(self, store: Store, after: int, *, written: bool) -> None:
        super().__init__(store)
        self.died = asyncio.Event()
        self._left = after
        self._written = written

    async def call(
        self, verb: Verb, path: str, *, query: Mapping[str, str] = NONE, body: bytes = b"",
        kind: Body = Body.JSON,
    ) -> bytes:  # fmt: skip
        counts = verb is not Verb.GET and "/events" not in path
        if counts and self._left == 0:
            if self._written:
                await super().call(verb, path, query=query, body=body, kind=kind)
            self.died.set()
            await asyncio.Event().wait()
        self._left -= counts
        return await super().call(verb, path, query=query, body=body, kind=kind)


def two_to_move() -> Cluster:
    """A pod waits for a card on which two others are; each of them fits elsewhere."""
    cluster = Cluster({"n0": 1, "n1": 1, "n2": 1})
    cluster.runs("a", "n0", mib=6000)
    cluster.runs("b", "n0", mib=6000)
    cluster.runs("c", "n1", mib=10000, age_s=60)
    cluster.runs("d", "n2", mib=10000, age_s=60)
    cluster.waits("w")
    return cluster


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("writes", range(WRITES))
async def test_it_is_finished_by_the_next(writes: int, *, written: bool) -> None:
    cluster = two_to_move()
    config = settings(approve=(PlanKind.DEFRAGMENT,))
    dying = Dying(cluster.store, writes, written=written)
    async with planning(cluster, config, dying):
        await until(dying.died.is_set)
    async with planning(cluster, config):
        await until(lambda: cluster.plans() and cluster.status().phase is PlanPhase.DONE)
        await asyncio.sleep(60)
    _, spec, status = cluster.the_plan()
    assert (status.phase, status.steps_begun, status.steps_done) == (PlanPhase.DONE, 2, 2)
    assert sorted(step.pod.name for step in spec.steps) == ["a", "b"]
    left = [name for name in ("a", "b", "c", "d") if cluster.pod(name) is not None]
    assert left == ["c", "d"]
    held = cluster.reserved("w")
    assert held is not None
    assert (held.node, held.plan) == ("n0", cluster.the_plan()[0])


async def test_all_writes_were_tried() -> None:
    cluster = two_to_move()
    dying = Dying(cluster.store, WRITES, written=False)
    async with planning(cluster, settings(approve=(PlanKind.DEFRAGMENT,)), dying):
        await until(lambda: cluster.plans() and cluster.status().phase is PlanPhase.DONE)
        await asyncio.sleep(60)
        assert not dying.died.is_set()


async def test_a_plan_is_deleted_while_it_is_carried_out() -> None:
    cluster = two_to_move()
    async with planning(cluster, settings(approve=(PlanKind.DEFRAGMENT,)), kubelet=False):
        await until(lambda: cluster.plans() and cluster.status().steps_begun == 1)
        name = cluster.the_plan()[0]
        cluster.call("DELETE", f"/apis/tessera.dev/v1alpha1/rebalanceplans/{name}")
        first = cluster.evictions()[0]
        cluster.end(first)
        await until(lambda: cluster.reserved("w") is None)
        assert cluster.evictions() == [first]


async def test_the_pod_that_waited_gets_a_place_while_the_plan_is_carried_out() -> None:
    cluster = two_to_move()
    async with planning(cluster, settings(approve=(PlanKind.DEFRAGMENT,)), kubelet=False):
        await until(lambda: cluster.plans() and cluster.status().steps_begun == 1)
        first = cluster.evictions()[0]
        cluster.node("n9", 1)
        waits = cluster.pod("w")
        assert waits is not None
        cluster.bind("w", waits["metadata"]["uid"], "n9")
        cluster.end(first)
        await until(lambda: cluster.status().phase is PlanPhase.DONE)
    assert cluster.status().message == "the pod that waited has a node; 1 of 2 steps were done"
    assert cluster.evictions() == [first]


async def test_the_pod_that_waited_is_deleted_while_the_plan_is_carried_out() -> None:
    cluster = two_to_move()
    async with planning(cluster, settings(approve=(PlanKind.DEFRAGMENT,)), kubelet=False):
        await until(lambda: cluster.plans() and cluster.status().steps_begun == 1)
        first = cluster.evictions()[0]
        cluster.end("w")
        cluster.end(first)
        await until(lambda: cluster.status().phase is PlanPhase.DONE)
    assert cluster.status().message == "the pod that waited is gone; 1 of 2 steps were done"
    assert cluster.evictions() == [first]
