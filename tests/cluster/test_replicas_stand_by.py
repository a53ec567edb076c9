"""Two replicas as the component `ha` has them: both are ready, one works."""

from __future__ import annotations

from tests.cluster.bound_grants import nothing_is_overgranted
from tests.cluster.cluster import OpenCluster, RealCluster
from tests.cluster.objects import a_share, a_share_pod
from tests.cluster.plane import LEASES
from tests.contract.client import Json

BOTH = ("tessera-a", "tessera-b")


async def works(cluster: RealCluster, name: str) -> bool:
    """Whether its kube-scheduler holds the Lease that it stands for."""
    lease = (await cluster.admin.get(f"{LEASES}/{name}")).done
    holder: str = lease["spec"].get("holderIdentity", "")
    return bool(holder) and holder != "another-replica-leads"


async def test_who_stands_by_is_ready_admits_pods_and_takes_over(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster(BOTH, gated=True) as cluster:
        leader = await cluster.leader()
        other = next(replica for replica in cluster.replicas if replica is not leader)
        await cluster.until(other.warm, f"{other.name} warm")
        assert await leader.warm()
        assert not await other.ready()
        await cluster.nodes(2)
        await cluster.pod("first", a_share(20000))
        await cluster.until_bound("first")
        assert await works(cluster, leader.name)
        assert not await works(cluster, other.name)

        leader.kill()

        async def admitted() -> Json | None:
            """The webhook's address is that of the replica that wrote it last."""
            answer = await cluster.admin.post(
                cluster.pods_path(), a_share_pod("second", a_share(20000))
            )
            return answer.body if answer.status == 201 else None

        made = await cluster.until(admitted, "a pod admitted by the one that stands by")
        assert made["spec"]["schedulerName"] == "tessera-scheduler"
        placed = await cluster.until_bound("second")
        nothing_is_overgranted(placed, cluster.cards)
        assert await other.ready()
        assert await works(cluster, other.name)

        leader.start()
        await cluster.until(leader.warm, f"{leader.name} back")

        async def closed() -> bool:
            return not await works(cluster, leader.name)

        await cluster.until(closed, f"the kube-scheduler next to {leader.name} stopped")
