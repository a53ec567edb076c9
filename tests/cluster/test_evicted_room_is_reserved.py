"""A stock kube-scheduler preempts; the cards that become free are the preemptor's."""

from __future__ import annotations

from tests.cluster.bound_grants import nothing_is_overgranted
from tests.cluster.cluster import OpenCluster, RealCluster
from tests.cluster.objects import a_card_node, a_share, a_share_pod
from tests.cluster.plane import CLOCKWORK
from tests.contract.client import Json

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
MOST_OF_A_NODE = {"cpu": "40"}
ANYWHERE: Json = {"tolerations": [{"operator": "Exists"}]}


async def urgent(cluster: RealCluster) -> str:
    """The name of a class that goes before others."""
    name = f"{cluster.own}-urgent"
    await cluster.make(CLASSES, {"metadata": {"name": name}, "value": 1000})

    async def known() -> bool:
        """Admission learns of it by a watch of its own."""
        probe = a_share_pod("probe", {"cpu": "1m"}, priorityClassName=name)
        answer = await cluster.admin.post(cluster.pods_path(), probe, dryRun="All")
        return answer.status == 201

    await cluster.until(known, f"{name} is known")
    return name


async def condition(cluster: RealCluster, name: str) -> str:
    status = (await cluster.admin.get(cluster.pods_path(name))).done["status"]
    return "".join(c.get("message", "") for c in status.get("conditions", ()))


async def a_node_without_kubelet(cluster: RealCluster, cards: int) -> str:
    """Pods that have to leave it stay until they are deleted by force."""
    name = f"{cluster.own}-slow"
    shown, body = a_card_node(name, cards)
    notes = body["metadata"]["annotations"]
    body["metadata"]["annotations"] = {k: v for k, v in notes.items() if k not in CLOCKWORK}
    cluster.cards[name] = {card.id: card for card in shown}
    await cluster.make("/api/v1/nodes", body)
    return name


async def test_a_nominated_pod_gets_the_cards_and_nobody_before_it(
    open_cluster: OpenCluster,
) -> None:
    """The victim holds one card of two and most of the CPUs, and takes its time to leave."""
    async with open_cluster() as cluster:
        node = await a_node_without_kubelet(cluster, cards=2)
        victim = {**a_share(20000), **MOST_OF_A_NODE}
        await cluster.pod("victim", victim, **ANYWHERE, terminationGracePeriodSeconds=3600)
        await cluster.until_bound("victim")
        both = {**a_share(20000), "nvidia.com/gpu": "2", **MOST_OF_A_NODE}
        first = await urgent(cluster)
        await cluster.pod("urgent", both, **ANYWHERE, priorityClassName=first)

        async def nominated() -> bool:
            pod = (await cluster.admin.get(cluster.pods_path("urgent"))).done
            return bool(pod["status"].get("nominatedNodeName") == node)

        async def leaving() -> bool:
            pod = (await cluster.admin.get(cluster.pods_path("victim"))).done
            return "deletionTimestamp" in pod["metadata"]

        await cluster.until(nominated, "urgent nominated")
        await cluster.until(leaving, "the victim asked to go")  # kube-scheduler nominates first
        await cluster.pod("late", a_share(20000), **ANYWHERE)

        async def moved() -> bool:
            return "NodeReserved" in await condition(cluster, "late")

        await cluster.until(moved, "late left the node to urgent")
        await cluster.delete(["victim"])
        placed = await cluster.until_bound("urgent")
        assert {pod["metadata"]["name"] for pod in placed} == {"urgent"}
        nothing_is_overgranted(placed, cluster.cards)


async def test_nobody_is_evicted_where_cards_would_still_be_short(
    open_cluster: OpenCluster,
) -> None:
    """CPUs are short on both nodes; only on one do the cards fit once its pods have left."""
    async with open_cluster() as cluster:
        small, large = await cluster.nodes(1, mib=10000) + await cluster.nodes(1, first=1)
        for name, node in (("on-small", small), ("on-large", large)):
            asks = {**a_share(8000), **MOST_OF_A_NODE}
            await cluster.pod(name, asks, nodeSelector={"kubernetes.io/hostname": node})
        await cluster.until_bound("on-small", "on-large")
        asks = {**a_share(20000), **MOST_OF_A_NODE}
        await cluster.pod("urgent", asks, priorityClassName=await urgent(cluster))
        placed = {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in await cluster.until_bound("urgent")
        }
        assert placed == {"urgent": large, "on-small": small}
