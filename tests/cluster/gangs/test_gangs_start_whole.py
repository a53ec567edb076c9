"""Gangs of each system start whole through a stock kube-scheduler, their manifests as they are."""

from __future__ import annotations

from tests.cluster.bound_grants import nothing_is_overgranted
from tests.cluster.cluster import OpenCluster
from tests.cluster.gangs.binding_log import logged
from tests.cluster.gangs.kinds import COSCHEDULING
from tests.cluster.gangs.members import (
    CARD,
    GANG,
    a_koordinator_member,
    a_member,
    create,
    make_group,
)
from tests.cluster.gangs.waiting import nothing_bound
from tests.cluster.objects import a_share_pod
from tests.contract.client import Json


async def test_a_volcano_job_of_eight(open_cluster: OpenCluster) -> None:
    """The Job controller's part is played: a PodGroup, then the pods of its tasks."""
    async with open_cluster() as cluster:
        await cluster.nodes(2, cards=4)
        await make_group(cluster, "train", 8, minTaskMember={"master": 1, "worker": 7})
        pods = [a_member("train-master-0", "train", role="master", schedulerName="volcano")]
        pods += [a_member(f"train-{n}", "train", schedulerName="volcano") for n in range(7)]
        async with logged(cluster, train=8) as log:
            await create(cluster, pods[:-1])
            await nothing_bound(cluster, "train-0")
            await create(cluster, pods[-1:])
            placed = await cluster.until_count(8)
            assert log.partial() == frozenset()
        nothing_is_overgranted(placed, cluster.cards)


async def test_a_koordinator_bundle_of_two_gangs(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.nodes(1, cards=5)
        bundle = [f"{cluster.own}/actor", f"{cluster.own}/learner"]
        actors = [a_koordinator_member(f"actor-{n}", "actor", 2, bundle) for n in (0, 1)]
        await create(cluster, actors)
        await create(cluster, [a_koordinator_member("learner-0", "learner", 3, bundle)])
        await nothing_bound(cluster, "actor-0")
        more = [a_koordinator_member(f"learner-{n}", "learner", 3, bundle) for n in (1, 2)]
        await create(cluster, more)
        nothing_is_overgranted(await cluster.until_count(5), cluster.cards)


async def test_a_pod_group_of_the_coscheduling_plugin(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.nodes(1, cards=3)

        def member(n: int) -> Json:
            labels = {"scheduling.x-k8s.io/pod-group": "g", GANG: "g"}
            return a_share_pod(f"g-{n}", CARD, labels=labels)

        await make_group(cluster, "g", 3, COSCHEDULING)
        await create(cluster, map(member, (0, 1)))
        await nothing_bound(cluster, "g-0")
        await create(cluster, [member(2)])
        nothing_is_overgranted(await cluster.until_count(3), cluster.cards)


async def test_this_kubernetes_has_no_pod_groups_of_its_own(open_cluster: OpenCluster) -> None:
    """They come with 1.36: a gang of them is tested here as soon as the control plane has them."""
    async with open_cluster() as cluster:
        served = (await cluster.admin.get("/apis/scheduling.k8s.io")).done["versions"]
        assert {each["version"] for each in served} == {"v1"}
