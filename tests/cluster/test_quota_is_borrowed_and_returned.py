"""What one group does not use of its guarantee another borrows, and gives back when it is asked
for; and a namespace that uses more than it may is throttled after grace. The monitor is killed in
between."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from tests.cluster.cluster import OpenCluster, RealCluster
from tests.cluster.monitor import Monitor, monitoring
from tests.cluster.objects import a_share, a_share_pod
from tests.contract.client import Json

MOST_OF_A_CARD = a_share(20000)


async def create(cluster: RealCluster, names: Iterable[str], namespace: str) -> None:
    for name in names:
        await cluster.make(
            cluster.pods_path(namespace=namespace), a_share_pod(name, MOST_OF_A_CARD)
        )


def names(pods: Iterable[Json]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


async def again(monitor: Monitor) -> None:
    """Killed, and there again."""
    monitor.kill()
    monitor.start()


async def test_an_owner_gets_its_own_back(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster, monitoring(cluster) as monitor:
        borrower, owner = cluster.own, f"{cluster.own}-owner"
        await cluster.namespace(owner)
        await cluster.nodes(1, cards=4)
        for namespace in (borrower, owner):
            spec = {"guaranteed": {"cards": 2}, "pool": cluster.own}
            await monitor.quota("q", spec, namespace)
        await create(cluster, ["b0", "b1", "b2", "b3"], borrower)
        await cluster.until_bound("b0", "b1", "b2", "b3")
        await monitor.until_status("q", phase="Within", used__cards=4)

        monitor.kill()
        await create(cluster, ["o0", "o1"], owner)
        await create(cluster, ["b4", "b5"], borrower)
        monitor.start()
        await monitor.until_status("q", phase="Grace", used__cards=4)

        monitor.kill()
        await cluster.delete(["b0", "b1"])
        placed = await cluster.until_bound("o0", "o1", namespace=owner)
        assert names(placed) == {"o0", "o1"}
        assert names(await cluster.until_count(2)) == {"b2", "b3"}
        monitor.start()
        await monitor.until_status("q", phase="Within", used__cards=2, waiting__pods=2)

        for name in ("o0", "o1"):
            await cluster.admin.delete(
                cluster.pods_path(name, namespace=owner), gracePeriodSeconds="0"
            )
        await cluster.until_bound("b2", "b3", "b4", "b5")
        await monitor.until_status("q", phase="Within", used__cards=4)


async def test_who_uses_too_much_is_throttled_after_grace(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster, monitoring(cluster) as monitor:
        await cluster.nodes(1, cards=4)
        throttle = {"afterSeconds": 3600, "coresPercent": 40}
        await monitor.quota("q", {"hard": {"cards": 4}, "throttle": throttle})
        await create(cluster, ["p0", "p1", "p2"], cluster.own)
        await cluster.until_bound("p0", "p1", "p2")
        await monitor.until_status("q", phase="Within", used__cards=3)

        await monitor.change("q", {"hard": {"cards": 1}})
        graced = await monitor.until_status("q", phase="Grace")
        await again(monitor)
        await monitor.change("q", {"throttle": {"afterSeconds": 5}})
        throttled = await monitor.until_status("q", phase="Throttled", coresPercent=40)
        since = datetime.fromisoformat(graced["phaseSince"])
        assert datetime.fromisoformat(throttled["phaseSince"]) >= since + timedelta(seconds=5)
        assert "allows 1 cards, 3 are used" in throttled["message"]
        assert len(await cluster.bound()) == 3

        await again(monitor)
        await cluster.delete(["p0", "p1"])
        await monitor.until_status("q", phase="Within", coresPercent=100, used__cards=1)
