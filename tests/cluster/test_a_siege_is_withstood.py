"""Everything that a tenant, a stranger and a broken node can send at once: the leader keeps its
Lease, other pods are placed meanwhile, and memory stays bounded."""

import asyncio

import pytest

from tessera_schema.node_cards import encode_node_cards
from tests.cluster.bound_grants import nothing_is_overgranted
from tests.cluster.cluster import OpenCluster, RealCluster
from tests.cluster.objects import a_node, a_share
from tests.cluster.plane import LEASES
from tests.cluster.replica import PATIENCE
from tests.cluster.siege import (
    Stranger,
    as_many_as_fit,
    lie,
    peak_mib,
    shows,
    with_annotations,
    with_containers,
    with_volumes,
)  # fmt: skip
from tests.contract.client import Answer, Json

NODES = 200
LIARS = 100
REVIEWS = 1000
TRICKLING = 500
CARDS_OF_ONE = 4000
MOST_MIB = 400
CARDS = "cards.tessera.dev/nvidia"
LARGE = (
    (with_volumes("volumes", 26_000), "object: "),
    (with_annotations("annotations", 60_000), "object: "),
    (with_containers("containers", 801), "spec.containers: 801: "),
)
"""Pods that are too large for a share, and which field the refusal names."""
ANSWERED = {"HTTP/1.1 200 OK", "ConnectionResetError", "IncompleteReadError"}
"""A review has an answer, or its connection is the one that is closed for others."""
OTHERS = [f"other-{i}" for i in range(40)]


@pytest.mark.timeout(400)
async def test_a_siege_is_withstood(open_cluster: OpenCluster) -> None:
    async with open_cluster(more=PATIENCE) as cluster:
        nodes = await besieged_nodes(cluster)
        stranger = Stranger(cluster.scheduler.ports["webhook"])
        term = await lease(cluster)
        async with stranger.trickle(TRICKLING), asyncio.TaskGroup() as group:
            for pod, _ in LARGE:
                group.create_task(dry_run(cluster, pod), name="dry run")
            reviews = group.create_task(stranger.reviews(REVIEWS), name="reviews")
            for liar in range(LIARS):
                group.create_task(lie(cluster.nats.url, nodes, f"liar-{liar}"), name="liar")
            await cluster.burst(OTHERS, a_share(1000))
            await cluster.until_bound(*OTHERS)
        assert sum(count for text, count in reviews.result().items() if text in ANSWERED) == REVIEWS
        nothing_is_overgranted(await cluster.bound(), cluster.cards)
        assert await lease(cluster) == term
        assert peak_mib(cluster.scheduler.pid) < MOST_MIB
        for pod, message in LARGE:
            assert message in (await dry_run(cluster, pod)).refused(422, "Invalid")


async def besieged_nodes(cluster: RealCluster) -> list[str]:
    """200 nodes of 8 cards; and one more, whose agent publishes 4,000."""
    names = [f"{cluster.own}-nvidia-{i}" for i in range(NODES)]
    for name in names:
        published = shows(name)
        cluster.cards[name] = {card.id: card for card in published.cards}
        notes = {CARDS: encode_node_cards(published)}
        await cluster.make("/api/v1/nodes", a_node(name, annotations=notes))
    wide = a_node(f"{cluster.own}-wide", annotations={CARDS: as_many_as_fit(CARDS_OF_ONE)})
    await cluster.make("/api/v1/nodes", wide)
    return names


async def dry_run(cluster: RealCluster, pod: Json) -> Answer:
    """What is said of a pod that nobody stores."""
    return await cluster.admin.post(cluster.pods_path(), pod, dryRun="All")


async def lease(cluster: RealCluster) -> tuple[str, int]:
    """Who leads, and how often that has changed."""
    found = (await cluster.admin.get(f"{LEASES}/tessera-scheduler")).done["spec"]
    return found["holderIdentity"], found["leaseTransitions"]
