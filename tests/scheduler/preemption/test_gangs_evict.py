"""With preemption on pods of lower priority are evicted for a gang that starts whole: all that have
to go by one plan, and nobody unless all of the gang fits afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tessera_embedded.apiserver.faults import Answer
from tessera_runtime.kube import timestamps
from tessera_scheduler.preemption.settings import PreemptionSettings, PreemptionSwitch
from tessera_scheduler.scheduler import Scheduler
from tessera_scheduler.settings import SchedulerSettings
from tessera_schema.grants import Share
from tessera_schema.plans import PLANS
from tests.scheduler.fake_cluster import leading, until
from tests.scheduler.gangs.gang_cluster import CRDS, WHOLE, GangCluster, whole
from tests.scheduler.preemption.test_pods_are_evicted import (
    MAY_GO,
    PLAN_DEFINITION,
    PROFILE,
    leaving,
    phases,
    plans,
)

pytestmark = pytest.mark.looptime
EVICTIONS = r".*/pods/{}/eviction"


def on(**more: Any) -> SchedulerSettings:
    preemption = PreemptionSettings(mode=PreemptionSwitch.ON, protect_s=0, **more)
    return replace(whole(), preemption=preemption)


def a_cluster(cards: int = 2) -> GangCluster:
    cluster = GangCluster(cards=cards)
    cluster.make(CRDS, PLAN_DEFINITION)
    return cluster


async def full(
    cluster: GangCluster, scheduler: Scheduler, priorities: tuple[int, ...] = (1, 1)
) -> None:
    """Pods a, b, ... hold a card each, and gang g needs all of them."""
    for name, priority in zip("abcd", priorities, strict=False):
        cluster.pod(name, WHOLE, annotations=MAY_GO, priority=priority)
        assert await cluster.place(scheduler, name)
    cluster.pod_group("g", len(priorities))
    for n in range(len(priorities)):
        cluster.member(f"g{n}", "g", priority=10)


def leave(cluster: GangCluster, *names: str) -> None:
    for name in names:
        cluster.delete(name)


async def test_all_leave_by_one_plan_and_the_gang_starts() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await full(cluster, scheduler)
        await until(lambda: leaving(cluster, "a") and leaving(cluster, "b"))
        (plan,) = plans(cluster)
        assert plan["spec"]["forGang"] == "volcano/default/g"
        assert {step["pod"]["name"] for step in plan["spec"]["steps"]} == {"a", "b"}
        seats = plan["spec"]["promise"]["seats"]
        assert {seat["pod"]["name"] for seat in seats} == {"g0", "g1"}
        leave(cluster, "a", "b")
        cluster.pod("equal", WHOLE, priority=10, **PROFILE)
        await asyncio.sleep(0.1)
        assert cluster.filter(scheduler, "equal").node_names == ()
        await cluster.schedule(scheduler, 20)
        assert cluster.bound() == ["g0", "g1"]
        await until(lambda: phases(cluster) == ["Done"] and not scheduler.ledger.promises)


async def test_nobody_goes_unless_all_of_the_gang_fits() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await full(cluster, scheduler, (1, 10))
        await asyncio.sleep(120)
        assert plans(cluster) == []
        assert not leaving(cluster, "a")


def begun(cluster: GangCluster) -> None:
    """A plan of which a former leader had begun the evictions."""

    def pod(name: str) -> dict[str, str]:
        uid = cluster.read(name).metadata.uid
        return {"namespace": "default", "name": name, "uid": uid, "node": "n0"}

    def share(card: int) -> Share:
        return Share(
            container="c", position=0, vendor="nvidia", dialect="hami", card=f"GPU-n0-{card}",
            index=card, memory_bytes=WHOLE << 20,
        )  # fmt: skip

    seats = [{"pod": pod(f"g{n}"), "shares": [msgspec.to_builtins(share(n))]} for n in range(2)]
    spec = {
        "kind": "Preempt", "reason": "r", "decision": "approved", "forGang": "volcano/default/g",
        "steps": [{"pod": pod(name)} for name in "ab"],
        "promise": {"priority": 10, "seats": seats},
    }  # fmt: skip
    kind = {"apiVersion": "tessera.dev/v1alpha1", "kind": "RebalancePlan"}
    cluster.make(PLANS, {**kind, "metadata": {"name": "begun"}, "spec": spec})
    started = timestamps.format_time(cluster.clock.time())
    status = {"phase": "Started", "stepsBegun": 2, "started": started}
    cluster.call("PATCH", f"{PLANS}/begun/status", {"status": status})


async def half_done(cluster: GangCluster) -> None:
    """A leader has ended after the first of two evictions; b may not go yet."""
    async with leading(cluster, config=on(preemptors=())) as scheduler:
        await full(cluster, scheduler)
        await asyncio.sleep(1)
    begun(cluster)
    cluster.fault("POST", EVICTIONS.format("b"), Answer(429), 1_000)
    async with leading(cluster, config=on()):
        await until(lambda: leaving(cluster, "a"))
        assert not leaving(cluster, "b")


async def test_the_next_leader_goes_on_between_two_evictions() -> None:
    cluster = a_cluster()
    await half_done(cluster)
    leave(cluster, "a")
    cluster.kube.faults.clear()
    async with leading(cluster, config=on()) as scheduler:
        cluster.pod("equal", WHOLE, priority=10, **PROFILE)
        assert cluster.filter(scheduler, "equal").failed_and_unresolvable_nodes == {
            "n0": "NodeReserved"
        }
        await until(lambda: leaving(cluster, "b"))
        leave(cluster, "b")
        await cluster.schedule(scheduler, 20)
        assert cluster.bound() == ["g0", "g1"]
        await until(lambda: phases(cluster) == ["Done"])


async def test_who_has_not_left_stays_when_the_gang_is_deleted() -> None:
    cluster = a_cluster()
    await half_done(cluster)
    async with leading(cluster, config=on()) as scheduler:
        assert scheduler.ledger.promises
        await asyncio.sleep(5)
        leave(cluster, "g0", "g1")
        await until(lambda: phases(cluster) == ["Failed"])
        cluster.kube.faults.clear()
        await asyncio.sleep(120)
        assert not leaving(cluster, "b")
        (plan,) = plans(cluster)
        assert "nobody waits for it any more: default/b stays" in plan["status"]["message"]
        assert not scheduler.ledger.promises


async def test_those_that_left_come_back_and_evict_nobody() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await full(cluster, scheduler)
        await until(lambda: leaving(cluster, "a") and leaving(cluster, "b"))
        leave(cluster, "a", "b")
        for name in ("a2", "b2"):
            cluster.pod(name, WHOLE, annotations=MAY_GO, priority=1, **PROFILE)
        await cluster.schedule(scheduler, 120)
        assert cluster.bound() == ["g0", "g1"]
        assert phases(cluster) == ["Done"]


async def test_a_gang_of_more_pods_than_a_namespace_may_lose_goes_whole() -> None:
    """It counts once in the budgets of its controller and its namespace."""
    cluster = a_cluster(cards=12)
    async with leading(cluster, config=on()) as scheduler:
        cluster.pod_group("low", 12)
        for n in range(12):
            cluster.member(f"low{n}", "low", priority=1, annotations=MAY_GO)
        await cluster.schedule(scheduler, 30)
        assert len(cluster.bound()) == 12
        cluster.pod("high", WHOLE, priority=10, **PROFILE)
        assert cluster.filter(scheduler, "high").node_names == ()
        await until(lambda: all(leaving(cluster, f"low{n}") for n in range(12)))
        (plan,) = plans(cluster)
        assert {step["pod"]["gang"] for step in plan["spec"]["steps"]} == {"default/low"}
