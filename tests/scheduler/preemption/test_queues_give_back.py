"""With `preemption.reclaim` queues give back what they borrow: by a plan, to a pod or a gang of a
queue that has a right to it, whatever the priorities."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tessera_runtime.errors import BadSettings
from tessera_scheduler.preemption.settings import PreemptionSettings, PreemptionSwitch
from tessera_scheduler.scheduler import Scheduler
from tessera_scheduler.settings import SchedulerSettings
from tests.scheduler.fake_cluster import leading, until
from tests.scheduler.gangs.gang_cluster import CRDS, WHOLE, whole
from tests.scheduler.gangs.test_queues_hold import QueueCluster, definition
from tests.scheduler.preemption.test_explain_names_victims import explained
from tests.scheduler.preemption.test_pods_are_evicted import (
    MAY_GO,
    PLAN_DEFINITION,
    PROFILE,
    exists,
    leaving,
    phases,
    plans,
)

pytestmark = pytest.mark.looptime
QUEUE = "scheduling.volcano.sh/queue-name"
QUOTA = "quota.scheduling.koordinator.sh/name"
KOORDINATOR = "scheduling.sigs.k8s.io/v1alpha1"


def taking_back(**more: Any) -> SchedulerSettings:
    settings = {"mode": PreemptionSwitch.ON, "protect_s": 0, "reclaim": True, **more}
    return replace(whole(), preemption=PreemptionSettings(**settings))


def a_cluster(cards: int = 2, **deserved: int) -> QueueCluster:
    """Queues that deserve so many cards."""
    cluster = QueueCluster(cards=cards)
    cluster.make(CRDS, PLAN_DEFINITION)
    for name, own in deserved.items():
        cluster.queue(name, cards, deserved={"nvidia.com/gpu": own})
    return cluster


async def borrowed(
    cluster: QueueCluster, scheduler: Scheduler, *names: str, queue: str = "b", priority: int = 100
) -> None:
    """Pods of a queue that hold a card each."""
    for name in names:
        cluster.pod(name, WHOLE, annotations={**MAY_GO, QUEUE: queue}, priority=priority)
        assert await cluster.place(scheduler, name)


def reasons(cluster: QueueCluster) -> list[str]:
    found = msgspec.json.decode(cluster.store.handle("GET", "/api/v1/events").body)["items"]
    return [each["reason"] for each in found]


def waits(cluster: QueueCluster, scheduler: Scheduler, name: str, queue: str = "a") -> None:
    cluster.queued(name, queue=queue, priority=0)
    assert cluster.filter(scheduler, name).node_names == ()


async def test_a_borrowed_card_comes_back_and_stays() -> None:
    cluster = a_cluster(2, a=1, b=1)
    async with leading(cluster, config=taking_back()) as scheduler:
        await borrowed(cluster, scheduler, "b1", "b2")
        waits(cluster, scheduler, "mine")
        await until(lambda: leaving(cluster, "b1") or leaving(cluster, "b2"))
        (plan,) = plans(cluster)
        assert plan["spec"]["kind"] == "Reclaim"
        assert plan["metadata"]["name"].startswith("reclaim-")
        assert "queue b gives back" in plan["spec"]["reason"]
        (step,) = plan["spec"]["steps"]
        await until(lambda: "Reclaimed" in reasons(cluster))
        cluster.delete(step["pod"]["name"])
        # the pod that is made in its place is of higher priority than the one that waits
        cluster.queued("again", queue="b", priority=100)
        await asyncio.sleep(0.1)
        assert cluster.filter(scheduler, "again").node_names == ()
        assert await cluster.place(scheduler, "mine")
        await until(lambda: phases(cluster) == ["Done"] and not scheduler.ledger.promises)
        assert cluster.filter(scheduler, "again").node_names == ()
        await asyncio.sleep(600)
        assert len(plans(cluster)) == 1
        assert exists(cluster, "mine")


async def test_nobody_gives_back_unless_it_is_switched_on() -> None:
    cluster = a_cluster(2, a=1, b=1)
    async with leading(cluster, config=taking_back(reclaim=False)) as scheduler:
        await borrowed(cluster, scheduler, "b1", "b2")
        waits(cluster, scheduler, "mine")
        await asyncio.sleep(600)
        assert plans(cluster) == []


async def test_explain_says_who_would_give_back() -> None:
    cluster = a_cluster(2, a=1, b=1)
    config = taking_back(mode=PreemptionSwitch.SHOW)
    async with leading(cluster, config=config) as scheduler:
        await borrowed(cluster, scheduler, "b1", "b2")
        await until(lambda: scheduler.preemption is not None and len(scheduler.preemption.pods))
        waits(cluster, scheduler, "mine")
        text = await explained(cluster, scheduler, "mine")
        assert text.startswith("would fit if 1 pod left: default/b")
        assert "(queue b gives back, " in text
        assert text.endswith("not done: preemption is only shown")


async def test_a_queue_that_uses_its_own_gives_nothing() -> None:
    cluster = a_cluster(2, a=1, b=2)
    async with leading(cluster, config=taking_back()) as scheduler:
        await borrowed(cluster, scheduler, "b1", "b2")
        waits(cluster, scheduler, "mine")
        await asyncio.sleep(600)
        assert plans(cluster) == []


async def test_two_that_wait_take_one_after_the_other_and_no_more_than_their_own() -> None:
    """The second one counts what the first one got: a deserves two of four cards, not three"""
    cluster = a_cluster(4, a=2, b=2)
    async with leading(cluster, config=taking_back()) as scheduler:
        await borrowed(cluster, scheduler, "b1", "b2", "b3", "b4")
        for name in ("one", "two", "three"):
            waits(cluster, scheduler, name)
        for n in (1, 2):
            await until(lambda n=n: len(plans(cluster)) == n)  # type: ignore[misc]
            await asyncio.sleep(30)
            assert len(plans(cluster)) == n  # nothing more before this one has its card
            spec = next(p for p in plans(cluster) if p["status"]["phase"] == "Started")["spec"]
            cluster.delete(spec["steps"][0]["pod"]["name"])
            await asyncio.sleep(0.1)
            assert await cluster.place(scheduler, spec["forPod"]["name"])
        await asyncio.sleep(600)
        assert phases(cluster) == ["Done", "Done"]


async def test_a_gang_takes_back_for_all_of_it() -> None:
    cluster = a_cluster(2, a=2, b=0)
    async with leading(cluster, config=taking_back()) as scheduler:
        await borrowed(cluster, scheduler, "b1", "b2")
        cluster.pod_group("g", 2, queue="a")
        for n in range(2):
            cluster.member(f"g{n}", "g", priority=0)
        await until(lambda: leaving(cluster, "b1") and leaving(cluster, "b2"))
        (plan,) = plans(cluster)
        assert (plan["spec"]["kind"], plan["spec"]["forGang"]) == ("Reclaim", "volcano/default/g")
        cluster.delete("b1")
        cluster.delete("b2")
        await cluster.schedule(scheduler, 20)
        assert cluster.bound() == ["g0", "g1"]


def in_quota(cluster: QueueCluster, name: str, quota: str) -> None:
    cluster.call("PATCH", cluster.path(name), {"metadata": {"labels": {QUOTA: quota}}})


async def test_koordinators_quotas_give_back_after_two_minutes() -> None:
    cluster = a_cluster(2)
    cluster.make(CRDS, definition(KOORDINATOR, "elasticquotas", "ElasticQuota", "Namespaced"))
    for name, own in (("a", 1), ("b", 1)):
        body = {
            "apiVersion": KOORDINATOR, "kind": "ElasticQuota", "metadata": {"name": name},
            "spec": {"min": {"nvidia.com/gpu": own}, "max": {"nvidia.com/gpu": 2}},
        }  # fmt: skip
        cluster.make(f"/apis/{KOORDINATOR}/namespaces/default/elasticquotas", body)
    async with leading(cluster, config=taking_back()) as scheduler:
        for name in ("b1", "b2"):
            cluster.pod(name, WHOLE, annotations=MAY_GO, priority=5)
            in_quota(cluster, name, "b")
            assert await cluster.place(scheduler, name)
        cluster.pod("mine", WHOLE, **PROFILE)
        in_quota(cluster, "mine", "a")
        assert cluster.filter(scheduler, "mine").node_names == ()
        await asyncio.sleep(110)
        assert plans(cluster) == []
        await asyncio.sleep(20)
        assert [plan["spec"]["kind"] for plan in plans(cluster)] == ["Reclaim"]


def test_it_needs_queues() -> None:
    config = replace(taking_back(), gangs=SchedulerSettings().gangs)
    with pytest.raises(BadSettings, match=r"preemption\.reclaim: true: queues are read where"):
        config.check()
