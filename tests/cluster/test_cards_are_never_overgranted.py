"""Many pods at once on few cards: what is granted always fits, and who waits gets what is freed."""

from tests.cluster.bound_grants import nothing_is_overgranted
from tests.cluster.cluster import OpenCluster
from tests.cluster.objects import a_share

PODS = [f"p{i}" for i in range(200)]


async def test_of_200_equal_pods_as_many_are_placed_as_fit(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.nodes(2, cards=4, mib=20000)
        await cluster.burst(PODS, a_share(4000))
        placed = await cluster.until_count(2 * 4 * 5)
        nothing_is_overgranted(placed, cluster.cards)

        gone = {pod["metadata"]["name"] for pod in placed[:15]}
        await cluster.delete(gone)
        placed = await cluster.until_count(2 * 4 * 5)
        nothing_is_overgranted(placed, cluster.cards)
        assert gone.isdisjoint(pod["metadata"]["name"] for pod in placed)
