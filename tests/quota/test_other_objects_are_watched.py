"""Namespaces' labels and GPU Manager's ConfigMap reach scheduler and monitor, and those who wait
are woken when what is lent, labelled or allowed changes."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from tessera_scheduler.scheduler import Scheduler
from tessera_schema.annotation_keys import WAKE_KEY
from tessera_schema.endpoints.extender import ExtenderFilterResult
from tests.quota.test_next_to_the_scheduler import a_cluster, monitoring, status
from tests.scheduler.fake_cluster import FakeCluster, cards_on, leading, until

pytestmark = pytest.mark.looptime

MAPS = "/api/v1/namespaces/kube-system/configmaps"
_answer = msgspec.json.Decoder(ExtenderFilterResult).decode


def woken(world: FakeCluster) -> str:
    notes = world.call("GET", "/api/v1/nodes/n0")["metadata"]["annotations"]
    found: str = notes.get(WAKE_KEY, "")
    return found


def gpu_quota(world: FakeCluster, **namespaces: Any) -> None:
    """GPU Manager's quotas, in cards of a model."""
    data = {"gpu_quota": json.dumps(namespaces)}
    if world.store.handle("GET", f"{MAPS}/gpuquota").code == 200:
        world.call("PATCH", f"{MAPS}/gpuquota", {"data": data})
    else:
        world.make(MAPS, {"metadata": {"name": "gpuquota"}, "data": data})


def torn(world: FakeCluster) -> None:
    world.call("PATCH", f"{MAPS}/gpuquota", {"data": {"gpu_quota": "{"}})


def a_large_cluster(cards: int = 2) -> FakeCluster:
    world = FakeCluster(1, cards=cards)
    world.publish("n0", cards_on("n0", cards, model="NVIDIA A100"))
    return world


async def test_gpu_managers_quotas_hold_and_changing_them_wakes_kube_scheduler() -> None:
    world = a_large_cluster()
    gpu_quota(world, default={"quota": {"A100": 0.25}})
    for name in ("a", "b"):
        world.pod(name, 4000)
    async with leading(world) as scheduler:
        assert await world.place(scheduler, "a") == "n0"
        assert await world.place(scheduler, "b") == ""
        torn(world)
        await asyncio.sleep(10)
        assert await world.place(scheduler, "b") == ""
        was = woken(world)
        gpu_quota(world, default={"quota": {"A100": 1}})
        await until(lambda: woken(world) != was, 10)
        assert await world.place(scheduler, "b") == "n0"
        world.pod("c", 12000)
        assert await world.place(scheduler, "c") == ""
        was = woken(world)
        world.call("DELETE", f"{MAPS}/gpuquota")
        await until(lambda: woken(world) != was, 10)
        assert await world.place(scheduler, "c") == "n0"


async def test_a_model_or_a_pool_that_is_not_listed_is_denied() -> None:
    world = a_large_cluster()
    gpu_quota(world, default={"quota": {"T4": 8}})
    world.pod("a")
    async with leading(world) as scheduler:
        assert why(world, scheduler, "a") == {"n0": "ResourceQuotaNotFit"}
        gpu_quota(world, default={"quota": {"A100": 8}, "pool": ["public"]})
        await asyncio.sleep(10)
        assert why(world, scheduler, "a") == {"n0": "ResourceQuotaNotFit"}
        world.call(
            "PATCH", "/api/v1/nodes/n0", {"metadata": {"labels": {"tessera.dev/pool": "public"}}}
        )
        await asyncio.sleep(10)
        assert await world.place(scheduler, "a") == "n0"


def why(world: FakeCluster, scheduler: Scheduler, name: str) -> dict[str, str]:
    """Node -> the word for which it is refused."""
    answer = world.filter(scheduler, name)
    assert not answer.node_names
    return {**(answer.failed_nodes or {}), **(answer.failed_and_unresolvable_nodes or {})}


def label(world: FakeCluster, namespace: str, **labels: str | None) -> None:
    world.call("PATCH", f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})


async def test_namespaces_are_limited_by_their_labels_while_they_have_them() -> None:
    world = a_cluster(
        default={"namespaceSelector": {"matchLabels": {"team": "x"}}, "hard": {"cards": 1}}
    )
    label(world, "default", team="x")
    for name in ("a", "b"):
        world.pod(name, 2000)
    async with leading(world) as scheduler, monitoring(world):
        assert await world.place(scheduler, "a")
        assert not await world.place(scheduler, "b")
        await asyncio.sleep(30)
        assert (status(world)["used"]["cards"], status(world)["waiting"]["pods"]) == (1, 1)
        was = woken(world)
        label(world, "default", team=None)
        await until(lambda: woken(world) != was, 10)
        assert await world.place(scheduler, "b")
        await asyncio.sleep(30)
        assert (status(world)["used"]["cards"], status(world)["phase"]) == (0, "Within")
        label(world, "default", team="x")
        await asyncio.sleep(30)
        assert (status(world)["used"]["cards"], status(world)["phase"]) == (2, "Grace")


async def test_borrowers_are_woken_when_an_owners_waiting_pod_is_gone() -> None:
    own = {"guaranteed": {"cards": 1}}
    world = a_cluster(default=own, other=own)
    world.call("DELETE", "/api/v1/nodes/n1")
    world.nodes = ["n0"]
    for name in ("a", "b", "c"):
        world.pod(name, 16000)
    world.pod("o", 16000, namespace="other")
    async with leading(world) as scheduler:
        await asyncio.sleep(10)
        assert await world.place(scheduler, "a")
        assert await world.place(scheduler, "b")
        assert not answer_of(world, scheduler, "other", "o")
        world.delete("b")
        await asyncio.sleep(30)
        assert not await world.place(scheduler, "c")
        await asyncio.sleep(30)
        was = woken(world)
        world.call("DELETE", "/api/v1/namespaces/other/pods/o", {"gracePeriodSeconds": 0})
        await until(lambda: woken(world) != was, 10)
        assert await world.place(scheduler, "c")


def answer_of(
    world: FakeCluster, scheduler: Scheduler, namespace: str, name: str
) -> tuple[str, ...]:
    """Filter's answer for a pod of any namespace."""
    raw = world.call("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
    body = msgspec.json.encode({"Pod": raw, "Nodes": None, "NodeNames": world.nodes})
    return _answer(scheduler.extender.filter(body)).node_names or ()
