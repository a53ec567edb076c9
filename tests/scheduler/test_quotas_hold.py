"""Quota objects limit what is granted, and wake those who wait when they allow more."""

import asyncio

import msgspec
import pytest

from tessera_schema.annotation_keys import WAKE_KEY
from tessera_schema.cards import MIB
from tessera_schema.kube import Node
from tests.scheduler.world import (
    World,
    counted,
    leading,
    settings,
    until,
)

pytestmark = pytest.mark.looptime

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUOTAS = "/apis/tessera.dev/v1alpha1/namespaces/default/acceleratorquotas"


def define_quotas(world: World) -> None:
    world.make(
        CRDS,
        {
            "metadata": {"name": "acceleratorquotas.tessera.dev"},
            "spec": {
                "group": "tessera.dev",
                "scope": "Namespaced",
                "names": {
                    "plural": "acceleratorquotas", "singular": "acceleratorquota",
                    "kind": "AcceleratorQuota", "listKind": "AcceleratorQuotaList",
                },
                "versions": [
                    {
                        "name": "v1alpha1", "served": True, "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object", "x-kubernetes-preserve-unknown-fields": True
                            }
                        },
                    }
                ],
            },
        },
    )  # fmt: skip


async def test_a_quota_holds_and_raising_it_wakes_kube_scheduler() -> None:
    world = World(2)
    quota = "/api/v1/namespaces/default/resourcequotas"
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "5000"}}}
    world.make(quota, body)
    for name in ("a", "b"):
        world.pod(name, 4000)
    async with leading(world) as scheduler:
        assert world.filter(scheduler, "a").node_names == ("n0",)
        refused = world.filter(scheduler, "b")
        assert refused.failed_and_unresolvable_nodes == dict.fromkeys(
            world.nodes, "ResourceQuotaNotFit"
        )
        assert await world.bind(scheduler, "a", "n0") == ""
        await asyncio.sleep(10)
        was = woken(world)
        world.call("PATCH", f"{quota}/q", {"spec": {"hard": {"limits.nvidia.com/gpumem": "8000"}}})
        await until(lambda: woken(world) != was, 10)
        assert await world.place(scheduler, "b") == "n0"


async def test_a_pod_that_is_refused_before_another_was_seen_to_leave_is_woken() -> None:
    world = World(1)
    world.pod("a", 16000)
    world.pod("b", 16000)
    async with leading(world) as scheduler:
        assert await world.place(scheduler, "a") == "n0"
        assert world.filter(scheduler, "b").node_names == ()
        await asyncio.sleep(10)
        was = woken(world)
        world.delete("a")  # kube-scheduler has seen it, and asks at once
        assert world.filter(scheduler, "b").node_names == ()
        await until(lambda: woken(world) != was, 10)
        assert await world.place(scheduler, "b") == "n0"


async def test_nobody_is_woken_while_nobody_waits() -> None:
    world = World(1)
    world.pod("a", 4000)
    async with leading(world) as scheduler:
        world.filter(scheduler, "a")
        await asyncio.sleep(60)
        assert counted(scheduler, "reservations_expired_total") == 1
        assert woken(world) == ""


def woken(world: World) -> str:
    node = msgspec.json.decode(world.store.handle("GET", "/api/v1/nodes/n0").body, type=Node)
    return node.metadata.annotations.get(WAKE_KEY, "")


async def test_two_pods_race_for_the_rest_of_a_quota() -> None:
    world = World(2)
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "5000"}}}
    world.make("/api/v1/namespaces/default/resourcequotas", body)
    async with leading(world) as scheduler:
        for n in range(5):
            world.pod(f"p{n}", 2000)
        async with asyncio.TaskGroup() as group:
            for n in range(5):
                group.create_task(world.place(scheduler, f"p{n}"), name=f"p{n}")
        assert sum(c.memory_bytes for c in world.truth().values()) == 4000 * MIB


async def test_our_own_quota_counts_once_its_definition_is_there() -> None:
    world = World(1)
    world.pod("a", 4000)
    async with leading(world, config=settings(custom_s=5)) as scheduler:
        assert world.filter(scheduler, "a").node_names == ("n0",)
        await asyncio.sleep(40)
        define_quotas(world)
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"memory": "2Gi"}}}
        world.make(
            QUOTAS, {"apiVersion": "tessera.dev/v1alpha1", "kind": "AcceleratorQuota"} | quota
        )
        await asyncio.sleep(10)
        assert world.filter(scheduler, "a").failed_and_unresolvable_nodes == {
            "n0": "ResourceQuotaNotFit"
        }
        world.call("PATCH", f"{QUOTAS}/q", {"spec": {"hard": {"memory": "nonsense"}}})
        await asyncio.sleep(1)
        assert world.filter(scheduler, "a").failed_and_unresolvable_nodes == {
            "n0": "ResourceQuotaNotFit"
        }
        world.call("DELETE", f"{QUOTAS}/q")
        await asyncio.sleep(1)
        assert world.filter(scheduler, "a").node_names == ("n0",)
