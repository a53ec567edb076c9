"""Using more than a quota allows: grace, then fewer cores, until it is less again."""

import asyncio

import pytest

from tessera_schema.cards import MIB
from tessera_schema.messages.device_reports import CardUse
from tessera_schema.quotas import QuotaExceeded, QuotaRestored, QuotaThrottled
from tests.quota.cluster import Cluster, monitoring, settings

pytestmark = pytest.mark.looptime

OVER = "AcceleratorQuota q allows 1 cards, 2 are used"


def a_lowered_quota() -> Cluster:
    """Two pods hold cards; then the quota allows one."""
    cluster = Cluster()
    cluster.quota({"hard": {"cards": 1}})
    for n in range(2):
        cluster.bound(f"p{n}", card=n)
    return cluster


async def test_grace_comes_first_then_the_throttle_and_less_use_ends_it() -> None:
    cluster = a_lowered_quota()
    async with monitoring(cluster, settings(after_s=600)):
        await asyncio.sleep(30)
        status = cluster.status()
        assert (status.phase, status.message, status.cores_percent) == ("Grace", OVER, 100)
        assert status.throttles_at > status.phase_since
        assert cluster.published() == [
            QuotaExceeded(
                namespace="default", quota="q", message=OVER, namespaces=("default",),
                throttles_at=status.throttles_at,
            )
        ]  # fmt: skip
        await asyncio.sleep(600)
        status = cluster.status()
        assert (status.phase, status.cores_percent, status.throttles_at) == ("Throttled", 50, "")
        assert cluster.published()[-1] == QuotaThrottled(
            namespace="default", quota="q", message=OVER, cores_percent=50, namespaces=("default",)
        )
        cluster.end("p0")
        await asyncio.sleep(10)
        status = cluster.status()
        assert (status.phase, status.cores_percent, status.message) == ("Within", 100, "")
        assert cluster.published()[-1] == QuotaRestored(
            namespace="default", quota="q", namespaces=("default",)
        )
        await asyncio.sleep(60)
    assert cluster.reasons() == ["QuotaExceeded", "QuotaThrottled", "QuotaRestored"]


async def test_who_returns_in_time_is_never_throttled() -> None:
    cluster = a_lowered_quota()
    async with monitoring(cluster):
        await asyncio.sleep(500)
        cluster.end("p1")
        await asyncio.sleep(600)
        assert [type(event) for event in cluster.published()] == [QuotaExceeded, QuotaRestored]


async def test_a_throttle_in_force_is_reported_again_for_who_comes_late() -> None:
    cluster = a_lowered_quota()
    async with monitoring(cluster, settings(after_s=0)):
        await asyncio.sleep(200)
        throttled = [event for event in cluster.published() if isinstance(event, QuotaThrottled)]
        assert len(throttled) >= 3


async def test_the_object_says_how_long_and_how_much() -> None:
    cluster = a_lowered_quota()
    cluster.change({"throttle": {"afterSeconds": 60, "coresPercent": 20}})
    async with monitoring(cluster):
        await asyncio.sleep(75)
        assert cluster.status().cores_percent == 20


async def test_who_wants_no_throttle_has_grace_without_end() -> None:
    cluster = a_lowered_quota()
    cluster.change({"throttle": {"coresPercent": 100}})
    async with monitoring(cluster, settings(after_s=10)):
        await asyncio.sleep(600)
        status = cluster.status()
        assert (status.phase, status.throttles_at, status.cores_percent) == ("Grace", "", 100)


async def test_a_restart_neither_spares_nor_hurries_anybody() -> None:
    cluster = a_lowered_quota()
    async with monitoring(cluster):
        await asyncio.sleep(300)
        since = cluster.status().phase_since
    async with monitoring(cluster):
        await asyncio.sleep(200)
        assert (cluster.status().phase, cluster.status().phase_since) == ("Grace", since)
        await asyncio.sleep(120)
        assert cluster.status().phase == "Throttled"
    async with monitoring(cluster):
        await asyncio.sleep(120)
        assert cluster.status().phase == "Throttled"


async def test_killed_in_grace_and_started_when_all_is_well_it_says_so() -> None:
    cluster = a_lowered_quota()
    async with monitoring(cluster):
        await asyncio.sleep(60)
    cluster.end("p0")
    async with monitoring(cluster):
        await asyncio.sleep(60)
        assert cluster.status().phase == "Within"
        assert isinstance(cluster.published()[-1], QuotaRestored)


async def test_a_quota_that_is_deleted_lets_its_pods_go() -> None:
    cluster = a_lowered_quota()
    async with monitoring(cluster, settings(after_s=0)):
        await asyncio.sleep(30)
        cluster.drop()
        await asyncio.sleep(30)
        assert isinstance(cluster.published()[-1], QuotaRestored)


async def test_memory_that_is_measured_beyond_the_quota_counts_as_too_much() -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"memory": "4Gi"}})
    uid = cluster.bound("a", mib=4096)
    async with monitoring(cluster):
        await asyncio.sleep(1)
        for _ in range(10):
            await cluster.use(("default", uid, CardUse(card="GPU-0", memory_bytes=5000 * MIB)))
            await asyncio.sleep(2)
        status = cluster.status()
        assert status.phase == "Grace"
        assert status.message.endswith("5000 are measured in its containers")


async def test_a_model_that_is_not_allowed_any_more_is_too_much() -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"models": {"H200": 1}}})
    cluster.bound("a")
    async with monitoring(cluster):
        await asyncio.sleep(10)
        assert cluster.status().message == "AcceleratorQuota q allows no cards of model NVIDIA A100"


async def test_a_borrower_that_holds_what_its_owner_requests_for_is_throttled_after_grace() -> None:
    cluster = Cluster()
    own = {"guaranteed": {"cards": 2}}
    cluster.quota(own, namespace="team-a")
    cluster.quota(own, namespace="team-b")
    for n in range(4):
        cluster.bound(f"b{n}", card=n, namespace="team-b")
    async with monitoring(cluster):
        await asyncio.sleep(30)
        assert cluster.status(namespace="team-b").phase == "Within"
        cluster.waiting("a0", namespace="team-a")
        await asyncio.sleep(30)
        status = cluster.status(namespace="team-b")
        assert (status.phase, status.message) == (
            "Grace",
            "AcceleratorQuota q (2 cards guaranteed, 1 lent by others) allows 3 cards, 4 are used",
        )
        assert cluster.status(namespace="team-a").phase == "Within"
        await asyncio.sleep(600)
        assert cluster.status(namespace="team-b").phase == "Throttled"
        cluster.end("a0", "team-a")
        await asyncio.sleep(30)
        assert cluster.status(namespace="team-b").phase == "Within"


async def test_who_waited_before_the_monitor_began_requests_too() -> None:
    cluster = Cluster()
    for namespace in ("team-a", "team-b"):
        cluster.quota({"guaranteed": {"cards": 1}}, namespace=namespace)
    for n in range(2):
        cluster.bound(f"b{n}", card=n, namespace="team-b")
    cluster.waiting("a0", namespace="team-a")
    async with monitoring(cluster):
        await asyncio.sleep(30)
        assert cluster.status(namespace="team-b").phase == "Grace"
