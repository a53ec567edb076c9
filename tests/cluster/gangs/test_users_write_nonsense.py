"""Gangs that cannot start as they are: they hold nothing, say why, and nobody else waits for
them."""

from __future__ import annotations

from tests.cluster.cluster import OpenCluster, RealCluster
from tests.cluster.gangs.members import (
    CARD,
    NO_CARD,
    a_member,
    create,
    make_gang,
    make_group,
    members,
    pod_groups,
)
from tests.cluster.gangs.waiting import (
    make_gang_at_barrier,
    nothing_bound,
    until_explained,
)


async def others_go_on(cluster: RealCluster) -> None:
    """A gang of two and a single pod get the cards that a gang of three waits for."""
    other = await make_gang(cluster, "other", 2)
    await cluster.pod("single", CARD)
    placed = await cluster.until_bound("single", *other)
    assert {pod["metadata"]["name"] for pod in placed} == {"single", *other}


async def test_a_member_without_cards_that_fits_on_no_node(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.nodes(1, cards=3)
        await make_group(cluster, "g", 4)
        launcher = a_member("launcher", "g", NO_CARD, nodeSelector={"zone": "nowhere"})
        await create(cluster, [*members("g", 3), launcher])
        await nothing_bound(cluster, "g-0")
        await others_go_on(cluster)
        await until_explained(cluster, "g-0", "members like")


async def test_a_minimum_above_what_exists(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.nodes(1, cards=3)
        await make_group(cluster, "g", 4)
        await create(cluster, members("g", 3))
        await nothing_bound(cluster, "g-0")
        await others_go_on(cluster)
        await until_explained(cluster, "g-0", "has 3 of 4 members")
        await cluster.delete(["single", "other-0", "other-1"])
        await cluster.admin.patch(pod_groups(cluster, "g"), {"spec": {"minMember": 3}})
        await cluster.until_bound("g-0", "g-1", "g-2")


async def test_a_member_of_another_scheduler(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.nodes(1, cards=3)
        await make_group(cluster, "g", 3)
        await create(cluster, [*members("g", 2), a_member("g-2", "g", schedulerName="somebody")])
        await nothing_bound(cluster, "g-0")
        await others_go_on(cluster)
        await until_explained(cluster, "g-0", "spec.schedulerName: somebody")


async def test_a_pod_group_is_deleted_at_the_barrier(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.nodes(1, cards=3)
        await make_gang_at_barrier(cluster, "g", 3)
        await cluster.admin.delete(pod_groups(cluster, "g"))
        await others_go_on(cluster)
        await until_explained(cluster, "g-0", "PodGroup")


async def test_a_large_gang_is_counted_and_holds_nothing(
    open_cluster: OpenCluster, largest: int
) -> None:
    """All its members are there, and cards for none but three of them."""
    async with open_cluster() as cluster:
        await cluster.nodes(1, cards=3)
        await make_gang(cluster, "g", largest)
        await nothing_bound(cluster, "g-0")
        await others_go_on(cluster)
        await until_explained(cluster, "g-0", f"of {largest} members")
