"""Throttling depends on what agents measure, so it counts for pods that the ledger has on that
agent's node, as much as their cards have, and for no longer than time has passed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest

from tessera_core.trust.grants import new_key
from tessera_core.trust.messages import MessageSigner
from tessera_quota.monitor import QuotaMonitor
from tessera_quota.quota_state import MOST_HOURS
from tessera_schema import subjects
from tessera_schema.cards import MIB
from tessera_schema.messages.device_reports import CardUse, ContainerUse, NodeUsage, encode
from tessera_schema.messages.envelope import Envelope
from tessera_schema.messages.event_catalogue import USAGE_MEASURED
from tests.quota.cluster import NODE, SPEAKER, VENDOR, Cluster, monitoring, settings, until

pytestmark = pytest.mark.looptime

GIB = 1 << 30
NUMBERS: Iterator[int] = count(1)


async def report(
    cluster: Cluster,
    *containers: ContainerUse,
    node: str = NODE,
    by: MessageSigner | None = SPEAKER,
    interval_s: float = 2,
) -> None:
    """Whatever somebody publishes as a node's usage."""
    reported = NodeUsage(
        node=node, vendor=VENDOR, at=cluster.clock.time(), interval_s=interval_s,
        containers=containers,
    )  # fmt: skip
    data, order = encode(reported), (2, next(NUMBERS))
    envelope = Envelope(
        id=f"lie-{order[1]}", source="/tessera/agent/evil", type=USAGE_MEASURED,
        time="2026-09-21T00:00:00Z", epoch=order[0], sequence=order[1],
        signature=by.sign(order, data) if by else "",
    )  # fmt: skip
    await cluster.bus.publish(subjects.usage("default", node), envelope, data)


def a_use(
    uid: str, namespace: str = "default", card: str = "GPU-0", **amounts: float
) -> ContainerUse:
    use = CardUse(card=card, **amounts)  # type: ignore[arg-type]  # (amounts of either kind)
    return ContainerUse(namespace=namespace, pod=uid, uid=uid, container="c", cards=(use,))


def doubted(quota: QuotaMonitor) -> dict[str, float]:
    name = "tessera_quota_news_disbelieved_total{reason="
    lines = quota.metrics.text().decode().splitlines()
    found = {line.split('"')[1]: float(line.split()[-1]) for line in lines if line.startswith(name)}
    return {reason: value for reason, value in found.items() if value}


@pytest.mark.parametrize(
    ("by", "node"), [(None, NODE), (MessageSigner(new_key()), NODE), (SPEAKER, "evil")]
)
async def test_usage_that_is_not_of_the_nodes_agent_throttles_nobody(
    by: MessageSigner | None, node: str
) -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"memory": "8000Mi"}})
    uid = cluster.bound("a", mib=4000)
    async with monitoring(cluster, settings(after_s=20)) as quota:
        await until(quota.counting.is_set)
        for _ in range(60):
            use = a_use(uid, memory_bytes=8 * GIB, cores_percent=50)
            await report(cluster, use, node=node, by=by)
            await asyncio.sleep(2)
        assert cluster.status().phase == "Within"
        assert cluster.status().seen.memory == "0"
        assert cluster.status().hours.seen == 0
        assert cluster.published() == []
        assert sum(doubted(quota).values()) == 60


@pytest.mark.parametrize("there", [True, False], ids=["pod-elsewhere", "no-pod"])
async def test_usage_of_pods_that_the_node_does_not_have_counts_nothing(*, there: bool) -> None:
    """The node's own agent names a namespace that has nothing on its node."""
    cluster = Cluster()
    cluster.quota({"hard": {"memory": "8000Mi"}}, namespace="team")
    uid = cluster.waiting("a", namespace="team") if there else "made-up"
    async with monitoring(cluster, settings(after_s=20)) as quota:
        await until(quota.counting.is_set)
        for _ in range(60):
            await report(cluster, a_use(uid, "team", memory_bytes=1 << 50, cores_percent=100))
            await asyncio.sleep(2)
        status = cluster.status(namespace="team")
        assert (status.phase, status.seen.memory, status.hours.seen) == ("Within", "0", 0)
        assert cluster.published() == []
        assert doubted(quota) == {"pod": 60}


async def test_a_pod_uses_no_more_than_its_cards_and_counts_in_its_own_namespace() -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"memory": "100Gi"}})
    cluster.quota({"hard": {"memory": "8000Mi"}}, namespace="team")
    uid = cluster.bound("a", mib=4000)
    async with monitoring(cluster) as quota:
        await until(quota.counting.is_set)
        for _ in range(60):
            use = a_use(uid, "team", memory_bytes=1 << 49, cores_percent=100_000)
            await report(cluster, use, use)
            await asyncio.sleep(2)
        seen, foreign = cluster.status().seen, cluster.status(namespace="team").seen
        assert seen.memory == "16Gi"  # of the card, which is all that it can be
        assert seen.cores <= 100
        assert (foreign.memory, foreign.cores) == ("0", 0)


@pytest.mark.parametrize("odd", [1e308, -1e308, -1.0])
async def test_odd_numbers_never_reach_a_status(odd: float) -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"memory": "8000Mi"}})
    uid = cluster.bound("a", mib=4000)
    async with monitoring(cluster) as quota:
        await until(quota.counting.is_set)
        for _ in range(60):
            await report(cluster, a_use(uid, cores_percent=odd, memory_bytes=-5))
            await asyncio.sleep(2)
        status = cluster.status()
        assert (status.seen.memory, status.seen.cores, status.hours.seen) == ("0", 0, 0)
        assert doubted(quota) == {"numbers": 60}


async def test_gpu_time_grows_no_faster_than_time() -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"memory": "8000Mi"}})
    uid = cluster.bound("a", mib=4000)
    async with monitoring(cluster) as quota:
        await until(quota.counting.is_set)
        await asyncio.sleep(10)
        for _ in range(1000):
            await report(cluster, a_use(uid, cores_percent=100), interval_s=60)
        await asyncio.sleep(350)
        assert 0 < cluster.status().hours.seen < 600 / 3600


async def test_a_status_that_was_spoilt_is_not_counted_on() -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"memory": "8000Mi"}})
    path = "/apis/tessera.dev/v1alpha1/namespaces/default/acceleratorquotas/q/status"
    spoilt = {"seen": 1.6e304, "granted": 2.5, "since": "2026-09-01T00:00:00Z"}
    cluster.call("PATCH", path, {"status": {"hours": spoilt}})
    cluster.bound("a", mib=4000)
    async with monitoring(cluster) as quota:
        await until(quota.counting.is_set)
        await asyncio.sleep(400)
        hours = cluster.status().hours
        assert hours.seen == 0
        assert hours.granted < MOST_HOURS


async def test_names_that_are_made_up_are_not_stored() -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"memory": "8000Mi"}})
    uid = cluster.bound("a", mib=4000)
    async with monitoring(cluster) as quota:
        await until(quota.counting.is_set)
        for n in range(300):
            names = [a_use(f"u{n}-{i}", f"ns{n}-{i}", cores_percent=1) for i in range(10)]
            await report(cluster, *names, a_use(uid, cores_percent=10, memory_bytes=100 * MIB))
            await report(cluster, *names, node=f"node-{n}")
            await asyncio.sleep(0.1)
        assert quota.usage.namespaces == {"default"}
        assert set(quota.usage.measured("default")) == {VENDOR}
        assert quota.usage.pods == {uid}
        assert doubted(quota) == {"pod": 300, "node": 300}
