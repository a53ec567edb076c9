"""Many pods race for less than the cards have: the quota holds, to the pod."""

import asyncio

import pytest

from tests.cluster.bound_grants import nothing_is_overgranted
from tests.cluster.cluster import OpenCluster
from tests.cluster.monitor import monitoring
from tests.cluster.objects import a_share

PODS = [f"p{i}" for i in range(200)]
SHARES, MIB = 50, 4000


@pytest.mark.parametrize("run", range(3))
async def test_of_200_pods_exactly_the_50_that_may_are_placed(
    open_cluster: OpenCluster, run: int
) -> None:
    async with open_cluster() as cluster, monitoring(cluster) as monitor:
        await cluster.nodes(4, cards=4)
        await monitor.quota("q", {"vendor": "nvidia", "hard": {"memory": f"{SHARES * MIB}Mi"}})
        await monitor.until_status("q", phase="Within")
        async with asyncio.TaskGroup() as group:
            group.create_task(cluster.burst(PODS, a_share(MIB)), name=f"burst {run}")

            async def some() -> bool:
                return len(await cluster.bound()) > 10

            await cluster.until(some, "some pods bound")
            monitor.kill()
        placed = await cluster.until_count(SHARES)
        nothing_is_overgranted(placed, cluster.cards)

        gone = {pod["metadata"]["name"] for pod in placed[:10]}
        await cluster.delete(gone)
        placed = await cluster.until_count(SHARES)
        assert gone.isdisjoint(pod["metadata"]["name"] for pod in placed)

        monitor.start()
        status = await monitor.until_status("q", used__cards=SHARES, waiting__pods=140)
        assert status["phase"] == "Within"
