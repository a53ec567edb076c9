"""While pods leave for one that waits, what it will get of their cards is nobody else's: the rest
of the cards is. Case GF6."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tessera_scheduler.scheduler import Scheduler
from tests.scheduler.fake_cluster import FakeCluster, leading, until
from tests.scheduler.preemption.test_pods_are_evicted import (
    MAY_GO,
    PROFILE,
    a_cluster,
    leaving,
    on,
    phases,
)

pytestmark = pytest.mark.looptime
GIB = 1024


async def evicting(
    cluster: FakeCluster, scheduler: Scheduler, gib: int = 10, **victim: Any
) -> None:
    """Pod v holds the card, and leaves for pod `high`."""
    cluster.pod("v", 16 * GIB, annotations=MAY_GO, priority=1, **victim)
    assert await cluster.place(scheduler, "v") == "n0"
    wait(cluster, "high", gib, 10)
    assert cluster.filter(scheduler, "high").node_names == ()
    await until(lambda: leaving(cluster, "v"))


def wait(cluster: FakeCluster, name: str, gib: int, priority: int, **more: Any) -> None:
    cluster.pod(name, gib * GIB, priority=priority, **PROFILE, **more)


async def test_what_fits_next_to_the_promise_is_placed() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await evicting(cluster, scheduler)
        wait(cluster, "x", 6, 1)
        wait(cluster, "y", 8, 1)
        for name in ("x", "y"):
            assert cluster.filter(scheduler, name).node_names == ()
        cluster.delete("v")
        await until(lambda: phases(cluster) == ["Done"])
        answer = cluster.filter(scheduler, "y")
        assert answer.failed_and_unresolvable_nodes == {"n0": "NodeReserved"}
        (why,) = scheduler.decisions.why(cluster.read("y").metadata.uid, scheduler.ledger.fleet)
        assert "for default/high, of priority 10: cards are promised to it" in why.message
        assert await cluster.place(scheduler, "x") == "n0"
        assert await cluster.place(scheduler, "high") == "n0"
        assert cluster.filter(scheduler, "y").node_names == ()


async def test_other_cards_of_the_node_are_open() -> None:
    cluster = a_cluster(cards=2)
    async with leading(cluster, config=on()) as scheduler:
        cluster.pod("stays", 16 * GIB, priority=10)
        assert await cluster.place(scheduler, "stays") == "n0"
        await evicting(cluster, scheduler)
        cluster.delete("v")
        cluster.delete("stays")
        await until(lambda: phases(cluster) == ["Done"])
        wait(cluster, "y", 16, 1)
        assert await cluster.place(scheduler, "y") == "n0"
        assert await cluster.place(scheduler, "high") == "n0"


async def test_a_pod_of_higher_priority_goes_before() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await evicting(cluster, scheduler)
        cluster.delete("v")
        await until(lambda: phases(cluster) == ["Done"])
        wait(cluster, "higher", 16, 11)
        assert await cluster.place(scheduler, "higher") == "n0"


@pytest.mark.parametrize("ends", ["gone", "bound"])
async def test_the_cards_are_open_when_the_pod_is_gone_or_starts_elsewhere(ends: str) -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await evicting(cluster, scheduler)
        cluster.delete("v")
        await until(lambda: phases(cluster) == ["Done"])
        wait(cluster, "y", 16, 1)
        assert cluster.filter(scheduler, "y").node_names == ()
        if ends == "bound":
            cluster.bind_elsewhere("high", "n1")
        else:
            cluster.delete("high")
        await until(lambda: not scheduler.ledger.promises)
        assert await cluster.place(scheduler, "y") == "n0"


async def test_a_promise_ends_after_a_time() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on(promise_s=100)) as scheduler:
        await evicting(cluster, scheduler)
        cluster.delete("v")
        await until(lambda: phases(cluster) == ["Done"])
        wait(cluster, "y", 16, 1)
        await asyncio.sleep(90)
        assert cluster.filter(scheduler, "y").node_names == ()
        await asyncio.sleep(20)
        assert await cluster.place(scheduler, "y") == "n0"


async def test_the_next_leader_promises_the_same_before_it_answers() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await evicting(cluster, scheduler)
        cluster.delete("v")
        await until(lambda: phases(cluster) == ["Done"])
        wait(cluster, "y", 8, 1)
    async with leading(cluster, config=on()) as scheduler:
        assert cluster.filter(scheduler, "y").node_names == ()
        assert await cluster.place(scheduler, "high") == "n0"


async def test_nobody_is_evicted_again_for_an_equal_pod() -> None:
    cluster = a_cluster()
    async with leading(cluster, config=on()) as scheduler:
        await evicting(cluster, scheduler)
        wait(cluster, "equal", 6, 10)
        assert cluster.filter(scheduler, "equal").node_names == ()
        await asyncio.sleep(100)
        assert phases(cluster) == ["Started"]
        cluster.delete("v")
        await until(lambda: phases(cluster) == ["Done"])
        assert await cluster.place(scheduler, "equal") == "n0"
        assert await cluster.place(scheduler, "high") == "n0"
