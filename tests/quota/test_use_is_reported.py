"""The status of a quota shows what counts, what waits and what was measured."""

import asyncio

import pytest

from tessera_core.trust.grants import Signer, new_key
from tessera_schema.cards import MIB
from tessera_schema.messages.device_reports import CardUse
from tests.quota.cluster import Cluster, monitoring, settings

pytestmark = pytest.mark.looptime


async def test_what_is_granted_counts_by_what_it_takes() -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"memory": "32Gi", "cards": 4}})
    cluster.bound("a", card=0, mib=8192, cores=25)
    cluster.bound("b", card=1, mib=4096, cores=50)
    cluster.bound("other", card=2, namespace="team-b")
    async with monitoring(cluster):
        await asyncio.sleep(10)
        status = cluster.status()
    assert (status.phase, status.message, status.observed_generation) == ("Within", "", 1)
    assert (status.used.memory, status.used.cores, status.used.cards) == ("12Gi", 75, 2)
    assert status.used.models == {"NVIDIA A100": 1.0}


async def test_pods_that_have_not_started_are_reported_apart() -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"cards": 4}})
    cluster.bound("a", card=0, mib=1024)
    cluster.bound("b", card=1, mib=2048, runs=False)
    async with monitoring(cluster):
        await asyncio.sleep(10)
        assert cluster.status().used.cards == 2
        assert cluster.status().assumed.memory == "2Gi"
        cluster.start("b")
        await asyncio.sleep(20)
        assert cluster.status().assumed.cards == 0
        assert cluster.status().used.cards == 2


async def test_pods_that_wait_show_what_they_request() -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"memory": "8Gi"}})
    cluster.waiting("a", mib=4096)
    cluster.waiting("b", mib=1024)
    async with monitoring(cluster):
        await asyncio.sleep(10)
        waiting = cluster.status().waiting
        assert (waiting.pods, waiting.memory, waiting.cards) == (2, "5Gi", 2)
        cluster.end("a")
        await asyncio.sleep(20)
        assert cluster.status().waiting.memory == "1Gi"


async def test_what_ends_counts_no_more() -> None:
    cluster = Cluster()
    cluster.quota({"hard": {"cards": 4}})
    for name in ("a", "b"):
        cluster.bound(name)
    async with monitoring(cluster):
        await asyncio.sleep(10)
        cluster.end("a")
        cluster.call(
            "PATCH", "/api/v1/namespaces/default/pods/b/status", {"status": {"phase": "Succeeded"}}
        )
        await asyncio.sleep(20)
        assert cluster.status().used.cards == 0


async def test_a_forged_grant_counts_nothing_and_a_new_key_is_taken_over() -> None:
    cluster, other = Cluster(), Signer(new_key())
    cluster.quota({"hard": {"cards": 4}})
    cluster.bound("forged", signer=other)
    async with monitoring(cluster):
        await asyncio.sleep(10)
        assert cluster.status().used.cards == 0
        cluster.publish_keys(cluster.signer, other)
        await asyncio.sleep(30)
        assert cluster.status().used.cards == 1


async def test_a_vendor_and_a_group_of_namespaces_count_together() -> None:
    cluster = Cluster()
    cluster.quota({"namespaces": ["team-a", "team-b"], "vendor": "nvidia"}, "group")
    cluster.quota({"vendor": "iluvatar", "namespaces": ["team-a"]}, "theirs")
    cluster.bound("a", namespace="team-a")
    cluster.bound("b", card=1, namespace="team-b")
    cluster.bound("c", card=2)
    async with monitoring(cluster):
        await asyncio.sleep(10)
        assert cluster.status("group").used.cards == 2
        assert cluster.status("theirs").used.cards == 0


async def test_measured_use_and_hours_are_displayed() -> None:
    cluster = Cluster()
    cluster.quota({})
    uid = cluster.bound("a", mib=8192, cores=50)
    async with monitoring(cluster):
        await asyncio.sleep(1)
        for _ in range(1800):
            use = CardUse(card="GPU-0", memory_bytes=100 * MIB, cores_percent=25)
            await cluster.use(("default", uid, use))
            await cluster.use(("default", uid, use), repeat=True)
            await asyncio.sleep(2)
        status = cluster.status()
        assert (status.seen.memory, status.seen.cores, status.seen.silent) == ("100Mi", 25, 0)
        assert status.hours.seen == pytest.approx(0.25, rel=0.05)
        assert status.hours.granted == pytest.approx(0.5, rel=0.05)
        await asyncio.sleep(300)
        assert cluster.status().seen.silent == 1


async def test_hours_go_on_where_they_were_after_a_restart() -> None:
    cluster = Cluster()
    cluster.quota({})
    cluster.bound("a", mib=16384)
    async with monitoring(cluster):
        await asyncio.sleep(3600)
    before = cluster.status().hours
    async with monitoring(cluster):
        await asyncio.sleep(3600)
    after = cluster.status().hours
    assert after.since == before.since
    assert after.granted == pytest.approx(2 * before.granted, rel=0.05)
    assert before.granted == pytest.approx(1, rel=0.05)


async def test_cards_that_rest_are_reported_and_reported_once() -> None:
    cluster = Cluster()
    cluster.quota({})
    busy, idle = cluster.bound("busy"), cluster.bound("idle", mib=2048)
    cluster.bound("silent")
    async with monitoring(cluster, settings(idle_s=600)):
        await asyncio.sleep(1)
        for _ in range(400):
            await cluster.use(
                ("default", busy, CardUse(card="GPU-0", cores_percent=5)),
                ("default", idle, CardUse(card="GPU-0", memory_bytes=MIB)),
            )
            await asyncio.sleep(2)
        status = cluster.status()
        assert status.idle_pods == 1
        assert [(i.pod, i.memory, i.cards) for i in status.idle] == [("default/idle", "2Gi", 1)]
        assert cluster.reasons("Pod").count("IdleGrant") == 1
