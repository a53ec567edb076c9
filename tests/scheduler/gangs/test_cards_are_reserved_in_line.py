"""Pods that would take the cards of a gang in line wait; those that end before it starts do not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tessera_scheduler.explain.explanation import Explainer
from tessera_scheduler.gangs.settings import GangReserves
from tessera_scheduler.visibility.pod_explanations import whole
from tessera_scheduler.visibility.queue_states import listed_queues
from tests.scheduler.gangs.gang_cluster import WHOLE, GangCluster, starting_whole
from tests.scheduler.gangs.test_queues_hold import QueueCluster

SCHEDULER = "tessera-scheduler"


def says(seconds: int) -> dict[str, Any]:
    return {"annotations": {"tessera.dev/expected-seconds": str(seconds)}}


async def all_namespaces(namespaces: Iterable[str]) -> frozenset[str]:
    return frozenset(namespaces)


async def no_namespaces(namespaces: Iterable[str]) -> frozenset[str]:
    return frozenset(namespaces) - set(namespaces)


async def test_a_pod_that_would_delay_a_gang_is_refused() -> None:
    """GE5"""
    cluster = GangCluster()
    cluster.pod_group("big", 4)
    async with starting_whole(cluster) as scheduler:
        cluster.pod("r", WHOLE, schedulerName=SCHEDULER, **says(3600))
        await cluster.schedule(scheduler, 2)
        assert cluster.bound() == ["r"]
        cluster.members("big", 1, 2, 3, 4)
        await cluster.schedule(scheduler, 2)
        assert scheduler.gangs is not None
        assert scheduler.gangs.shadows is not None
        (start,) = scheduler.gangs.shadows.reserved.expected_starts().values()
        assert start > scheduler.gangs.clock.time()
        cluster.pod("s1", WHOLE, schedulerName=SCHEDULER, **says(300))
        cluster.pod("s2", WHOLE, schedulerName=SCHEDULER, **says(7200))
        cluster.pod("s3", WHOLE, schedulerName=SCHEDULER)
        answer = cluster.filter(scheduler, "s2")
        assert set(answer.failed_and_unresolvable_nodes.values()) == {"CardReserved"}
        await cluster.schedule(scheduler, 3)
        assert cluster.bound() == ["r", "s1"]
        explainer = Explainer(
            registry=scheduler.registry, ledger=scheduler.ledger, decisions=scheduler.decisions,
            clock=cluster.clock,
        )  # fmt: skip
        found = await whole(explainer, cluster.read("s3"), all_namespaces)
        (reserved,) = (each for each in found.nodes[0].reasons if each.reason == "CardReserved")
        assert "reserved for who waits before this pod" in reserved.message
        assert found.advice.startswith("would delay gang default/big: its cards are reserved until")
        found = await whole(explainer, cluster.read("s3"), no_namespaces)
        assert found.advice.startswith("would delay gang a pod of another namespace: ")
        cluster.finish("r")
        cluster.finish("s1")
        await cluster.schedule(scheduler, 30)
        assert {"big1", "big2", "big3", "big4"} <= set(cluster.bound())


async def test_it_is_switched_off() -> None:
    cluster = GangCluster()
    cluster.pod_group("big", 4)
    off = {"reserve_in_line": GangReserves.OFF}
    async with starting_whole(cluster, off) as scheduler:
        cluster.pod("r", WHOLE, schedulerName=SCHEDULER, **says(3600))
        await cluster.schedule(scheduler, 2)
        cluster.members("big", 1, 2, 3, 4)
        await cluster.schedule(scheduler, 2)
        cluster.pod("s", WHOLE, schedulerName=SCHEDULER)
        await cluster.schedule(scheduler, 2)
        assert cluster.bound() == ["r", "s"]


async def test_a_queue_says_when_its_gang_is_expected_to_start() -> None:
    cluster = QueueCluster()
    cluster.queue("q", "4")
    cluster.pod_group("big", 4, queue="q")
    async with starting_whole(cluster) as scheduler:
        cluster.pod("r", WHOLE, schedulerName=SCHEDULER, **says(3600))
        await cluster.schedule(scheduler, 2)
        cluster.members("big", 1, 2, 3, 4)
        await cluster.schedule(scheduler, 2)
        assert scheduler.gangs is not None
        (queue,) = (await listed_queues(scheduler.gangs.view_queues(), "", all_namespaces)).items
        (waits,) = queue.waiting
        assert waits.expected_start.startswith("20")
        assert "4 cards are reserved for it, it is expected to start at 20" in waits.reason
