"""A pod that waits gets the reason: in a word on the pod, in numbers by explain."""

from tessera_cli.explain import explanations
from tessera_cli.kubeconfig import ClusterTarget
from tests.cluster.cluster import OpenCluster
from tests.cluster.objects import a_share
from tests.cluster.tenants import REGISTERED, reached


async def test_explain_says_in_numbers_what_is_missing(open_cluster: OpenCluster) -> None:
    async with open_cluster(more=REGISTERED) as cluster:
        [node] = await cluster.nodes(1, cards=2, mib=20000)
        await cluster.pod("first", a_share(15000, cores=30))
        await cluster.until_bound("first")
        await cluster.pod("p", a_share(30000))

        async def reported() -> bool:
            status = (await cluster.admin.get(cluster.pods_path("p"))).done["status"]
            found = [c["message"] for c in status.get("conditions", ()) if c["status"] == "False"]
            return "CardInsufficientMemory" in "".join(found)

        await cluster.until(reported, "a condition that says why")
        await reached(cluster)
        kubeconfig = str(cluster.plane.control.kubeconfig)
        target = ClusterTarget(kubeconfig=kubeconfig, namespace=cluster.own)
        said = await explanations.read_explanation(target, "p")
        assert said.verdict == "waiting"
        numbers = " ".join(reason.message for node in said.nodes for reason in node.reasons)
        assert [shown.name for shown in said.nodes] == [node]
        assert "30000" in numbers
        assert "20000" in numbers


async def test_a_pod_larger_than_what_is_free_is_placed_when_a_card_comes(
    open_cluster: OpenCluster,
) -> None:
    async with open_cluster() as cluster:
        await cluster.nodes(1, mib=20000)
        await cluster.pod("p", a_share(30000))
        await cluster.nodes(1, mib=40000, vendor="nvidia", first=1)
        [pod] = await cluster.until_bound("p")
        assert pod["spec"]["nodeName"].endswith("-1")
