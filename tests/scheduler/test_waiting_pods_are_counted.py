"""Which pods wait, and for how long, is in the metrics of the replica that leads."""

from __future__ import annotations

import asyncio

import pytest

from tests.scheduler.fake_cluster import FakeCluster, counted, leading, standing_by, until

pytestmark = pytest.mark.looptime
NO_ROOM = 'waiting_pods{namespace="default",reason="CardInsufficientMemory"}'
LONGEST = 'longest_wait_seconds{namespace="default"}'


async def test_a_pod_is_counted_until_it_is_placed_or_gone() -> None:
    cluster = FakeCluster(nodes=1)
    cluster.pod("a", 16_000)
    cluster.pod("b", 16_000)
    cluster.pod("c", 16_000)
    async with leading(cluster) as scheduler:
        assert await cluster.place(scheduler, "a")
        cluster.filter(scheduler, "b")
        cluster.filter(scheduler, "c")
        cluster.filter(scheduler, "c")
        assert counted(scheduler, NO_ROOM) == 2
        await asyncio.sleep(300)
        assert 300 <= counted(scheduler, LONGEST) < 310
        cluster.delete("c")
        await until(lambda: counted(scheduler, NO_ROOM) == 1, 10)
        cluster.delete("a")
        await until(lambda: cluster.filter(scheduler, "b").node_names, 10)
        assert counted(scheduler, NO_ROOM) == 0
        assert counted(scheduler, LONGEST) == 0


async def test_a_replica_that_does_not_lead_counts_none() -> None:
    cluster = FakeCluster(nodes=1)
    cluster.pod("a", 1_000_000)
    async with leading(cluster) as leader, standing_by(cluster) as other:
        cluster.filter(leader, "a")
        assert counted(leader, NO_ROOM) == 1
        assert counted(other, NO_ROOM) == 0
