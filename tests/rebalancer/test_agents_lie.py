"""Hints and bounds are made of what a node's own agent measured of pods that are there."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from tessera_core.trust.grants import new_key
from tessera_core.trust.messages import MessageSigner
from tessera_rebalancer.rebalancer import Rebalancer
from tessera_schema import subjects
from tessera_schema.messages.device_reports import (
    CardLoad,
    CardUse,
    ContainerUse,
    NodeUsage,
    encode,
)
from tessera_schema.messages.envelope import Envelope
from tessera_schema.messages.event_catalogue import USAGE_MEASURED
from tests.rebalancer.cluster import NODE, SPEAKER, VENDOR, Cluster, a_use, rebalancing, until

pytestmark = pytest.mark.looptime


def doubted(rebalancer: Rebalancer) -> dict[str, float]:
    name = "tessera_rebalancer_news_disbelieved_total{reason="
    lines = rebalancer.metrics.text().decode().splitlines()
    found = {line.split('"')[1]: float(line.split()[-1]) for line in lines if line.startswith(name)}
    return {reason: value for reason, value in found.items() if value}


async def report(
    cluster: Cluster, number: int, use: CardUse, uid: str, *, node: str = NODE,
    by: MessageSigner | None = SPEAKER,
) -> None:  # fmt: skip
    container = ContainerUse(namespace="default", pod=uid, uid=uid, container="c", cards=(use,))
    reported = NodeUsage(
        node=node, vendor=VENDOR, at=cluster.clock.time(), interval_s=2, containers=(container,),
        cards=(CardLoad(card=use.card, cores_percent=100),),
    )  # fmt: skip
    data = encode(reported)
    envelope = Envelope(
        id=f"lie-{node}-{number}", source="/tessera/agent/evil", type=USAGE_MEASURED,
        time="2026-09-21T00:00:00Z", epoch=2, sequence=number,
    )  # fmt: skip
    signed = by.sign(envelope.order, data) if by else ""
    await cluster.bus.publish(
        subjects.usage("default", node), replace(envelope, signature=signed), data
    )


@pytest.mark.parametrize(
    ("by", "node", "reason"),
    [
        (None, NODE, "unsigned"),
        (MessageSigner(new_key()), NODE, "signature"),
        (SPEAKER, "x", "node"),
    ],
)
async def test_no_hint_is_made_of_what_another_published(
    by: MessageSigner | None, node: str, reason: str
) -> None:
    cluster = Cluster()
    uid = cluster.bound("a")
    async with rebalancing(cluster) as rebalancer:
        await until(rebalancer.objects.pods_read.is_set)
        for number in range(60):
            use = a_use(100, throttled_percent=100)
            await report(cluster, number, use, uid, node=node, by=by)
            await asyncio.sleep(2)
        assert cluster.hints() is None
        assert rebalancer.publisher.published == {}
        assert rebalancer.usage.smoother.nodes() == ()
        assert doubted(rebalancer) == {reason: 60}


async def test_pods_that_are_not_there_and_odd_numbers_are_left_out() -> None:
    cluster = Cluster("n0", "n1")
    uid = cluster.bound("a")
    async with rebalancing(cluster) as rebalancer:
        await until(rebalancer.objects.pods_read.is_set)
        for number in range(60):
            for node in ("n0", "n1"):
                await report(cluster, number, a_use(100), f"u{number}", node=node)
            await report(cluster, number + 1000, a_use(1e308), uid)
            await report(cluster, number + 1000, a_use(100, node="n1"), uid, node="n1")
            await asyncio.sleep(2)
        assert [*rebalancer.measured] == []
        assert set(doubted(rebalancer)) == {"pod", "numbers"}
