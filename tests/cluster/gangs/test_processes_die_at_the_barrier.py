"""Whatever dies while members wait for each other in bind: nothing is bound, and later all are."""

from __future__ import annotations

import signal

from tests.cluster.bound_grants import nothing_is_overgranted
from tests.cluster.cluster import OpenCluster, RealCluster
from tests.cluster.gangs.waiting import let_go, make_gang_at_barrier
from tests.contract.client import Json


async def whole(cluster: RealCluster, node: str) -> None:
    """The gang of three workers and a launcher starts once the launcher has a place."""
    await let_go(cluster, node)
    names = ["g-launcher", *(f"g-{n}" for n in range(3))]
    placed: list[Json] = await cluster.until_bound(*names)
    workers = [pod for pod in placed if pod["metadata"]["name"] in names[1:]]
    nothing_is_overgranted(workers, cluster.cards)


async def test_the_leader_of_two_replicas_is_killed(open_cluster: OpenCluster) -> None:
    async with open_cluster(replicas=("tessera-a", "tessera-b")) as cluster:
        [node] = await cluster.nodes(1, cards=3)
        await make_gang_at_barrier(cluster, "g", 3)
        leader = await cluster.leader()
        other = next(replica for replica in cluster.replicas if replica is not leader)
        leader.kill()
        await cluster.until(other.ready, f"{other.name} leads")
        assert await cluster.bound() == []
        await whole(cluster, node)
        leader.start()


async def test_kube_scheduler_is_killed(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        [node] = await cluster.nodes(1, cards=3)
        await make_gang_at_barrier(cluster, "g", 3)
        caller = cluster.scheduler.kube_scheduler
        assert caller is not None
        caller.stop(signal.SIGKILL)
        assert await cluster.bound() == []
        caller.start()
        await whole(cluster, node)
