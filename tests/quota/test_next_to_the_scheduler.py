"""Scheduler and monitor on one API server: one decides, the other reports, neither calls the
other."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tessera_quota.monitor import QuotaMonitor, open_quota
from tessera_runtime.service import ServiceEnvironment
from tessera_testing.kube import FakeKube
from tests.quota.cluster import CRDS, DEFINITION, settings
from tests.scheduler.fake_cluster import REGISTRY, FakeCluster, leading

pytestmark = pytest.mark.looptime


def a_cluster(**quotas: object) -> FakeCluster:
    """Two nodes of two cards, and quotas by namespace."""
    world = FakeCluster(2, cards=2)
    world.make(CRDS, DEFINITION)
    for namespace, spec in quotas.items():
        if namespace != "default":
            world.make("/api/v1/namespaces", {"metadata": {"name": namespace}})
        world.make(_quotas(namespace), {**_KIND, "metadata": {"name": "q"}, "spec": spec})
    return world


_KIND = {"apiVersion": "tessera.dev/v1alpha1", "kind": "AcceleratorQuota"}


def _quotas(namespace: str) -> str:
    return f"/apis/tessera.dev/v1alpha1/namespaces/{namespace}/acceleratorquotas"


def status(world: FakeCluster) -> dict[str, Any]:
    found: dict[str, Any] = world.call("GET", f"{_quotas('default')}/q").get("status", {})
    return found


@asynccontextmanager
async def monitoring(world: FakeCluster) -> AsyncGenerator[QuotaMonitor]:
    around = ServiceEnvironment(
        kube=FakeKube(world.store), bus=world.bus, settings=settings(), clock=world.clock,
        registry=REGISTRY,
    )  # fmt: skip
    async with open_quota(around) as quota:
        yield quota


async def test_of_many_that_race_as_many_are_placed_as_may_be_anyone_watches() -> None:
    world = a_cluster(default={"hard": {"cards": 5}})
    names = [f"p{n}" for n in range(20)]
    for name in names:
        world.pod(name, 2000)
    async with leading(world) as scheduler:
        async with monitoring(world):
            await asyncio.sleep(10)
            async with asyncio.TaskGroup() as group:
                for name in names[:10]:
                    group.create_task(world.place(scheduler, name), name=name)
            await asyncio.sleep(20)
            assert (status(world)["used"]["cards"], status(world)["waiting"]["pods"]) == (5, 15)
        async with asyncio.TaskGroup() as group:
            for name in names[10:]:
                group.create_task(world.place(scheduler, name), name=name)
        placed = [name for name in names if world.read(name).spec.node_name]
        assert len(placed) == 5
        world.delete(placed[0])
        await asyncio.sleep(5)
        again = [name for name in names[10:] if await world.place(scheduler, name)]
        assert len(again) == 1
        async with monitoring(world):
            await asyncio.sleep(20)
            assert status(world)["used"]["cards"] == 5


async def test_the_scheduler_lends_what_the_objects_say() -> None:
    world = a_cluster(default={"guaranteed": {"cards": 1}}, other={"guaranteed": {"cards": 2}})
    for n in range(5):
        world.pod(f"p{n}", 2000)
    async with leading(world) as scheduler, monitoring(world):
        await asyncio.sleep(10)
        placed = [await world.place(scheduler, f"p{n}") for n in range(5)]
        assert [bool(node) for node in placed] == [True, True, True, False, False]
        await asyncio.sleep(30)
        assert (status(world)["phase"], status(world)["used"]["cards"]) == ("Within", 3)
        world.call("DELETE", f"{_quotas('other')}/q")
        await asyncio.sleep(30)
        assert status(world)["phase"] == "Grace"
        assert status(world)["message"] == (
            "AcceleratorQuota q (1 cards guaranteed, 0 lent by others) allows 1 cards, 3 are used"
        )
