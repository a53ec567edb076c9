"""Whatever dies or stands still in a burst: nothing is granted twice, and all is placed."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.cluster.bound_grants import nothing_is_overgranted
from tests.cluster.cluster import OpenCluster, RealCluster
from tests.cluster.objects import a_share

PODS = [f"p{i}" for i in range(120)]


@asynccontextmanager
async def in_a_burst(cluster: RealCluster) -> AsyncGenerator[None]:
    """The block runs when some pods are bound and most are not; afterwards all have to be, on cards
    that are then full."""
    await cluster.nodes(3, cards=4, mib=40000)
    async with asyncio.TaskGroup() as group:
        group.create_task(cluster.burst(PODS, a_share(4000)), name="burst")

        async def some() -> bool:
            return len(await cluster.bound()) > 10

        await cluster.until(some, "some pods bound")
        assert len(await cluster.bound()) < len(PODS)
        yield
    placed = await cluster.until_count(len(PODS))
    nothing_is_overgranted(placed, cluster.cards)


async def test_the_scheduler_is_killed(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster, in_a_burst(cluster):
        cluster.scheduler.kill()
        cluster.scheduler.start()
        await cluster.leader()


async def test_the_bus_is_killed(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        async with in_a_burst(cluster):
            await cluster.nats.kill()
        await cluster.nats.start()
        await cluster.until(cluster.scheduler.ready, "still ready")


async def test_the_api_server_starts_again(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster, in_a_burst(cluster):
        await cluster.plane.control.restart()


async def test_of_two_replicas_the_other_takes_over_while_one_is_stopped(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster(replicas=("tessera-a", "tessera-b")) as cluster:
        leader = await cluster.leader()
        other = next(replica for replica in cluster.replicas if replica is not leader)
        async with in_a_burst(cluster):
            leader.pause()
            await cluster.until(other.ready, f"{other.name} leads")
            leader.resume()
        assert await cluster.leader() is other
