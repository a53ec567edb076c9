"""Forged, copied, truncated, changed and removed grants."""

import asyncio

import pytest

from tessera_core.machines.allocation import AllocationPhase
from tessera_core.trust.grants import Signer
from tessera_schema.cards import MIB
from tessera_schema.grants import GRANT_KEY, Grant, Share, encode_grant
from tests.scheduler.fake_cluster import (
    FakeCluster,
    counted,
    leading,
    phase,
    settings,
    the_entry,
    until,
)

pytestmark = pytest.mark.looptime

OTHER = Signer(bytes(32))


def a_grant(uid: str, node: str = "n0", mib: int = 16000) -> Grant:
    share = Share(
        container="c", position=0, vendor="nvidia", dialect="hami", card=f"GPU-{node}-0", index=0,
        memory_bytes=mib * MIB,
    )  # fmt: skip
    return Grant(uid=uid, namespace="default", name="a", node=node, shares=(share,))


def alerts(cluster: FakeCluster, reason: str) -> list[str]:
    events = cluster.call("GET", "/api/v1/namespaces/default/events")["items"]
    return [e["message"] for e in events if e["reason"] == reason]


@pytest.mark.parametrize("what", ["unsigned", "by another key", "truncated", "garbage"])
async def test_a_forged_grant_counts_nothing_and_is_reported(what: str) -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 0)
    plain = encode_grant(a_grant(uid))
    async with leading(cluster) as scheduler:
        signed = scheduler.keys.signer.sign(plain)
        text = {
            "unsigned": plain, "by another key": OTHER.sign(plain), "truncated": signed[:-20],
            "garbage": "\x00{",
        }[what]  # fmt: skip
        cluster.note(cluster.path("a"), {GRANT_KEY: text})
        cluster.bind_elsewhere("a", "n0")
        await until(lambda: alerts(cluster, "ForgedGrant"), 5)
        assert scheduler.ledger.charges_on("n0") == {}
        assert counted(scheduler, 'alarms_total{wrong="ForgedGrant"}') >= 1
        cluster.pod("b", 16000)
        assert await cluster.place(scheduler, "b") == "n0"


async def test_a_grant_that_was_copied_from_another_pod_counts_nothing() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 9000)
    uid = cluster.pod("thief", 0)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        text = cluster.read("a").metadata.annotations[GRANT_KEY]
        cluster.note(cluster.path("thief"), {GRANT_KEY: text})
        cluster.bind_elsewhere("thief", "n0")
        await until(lambda: alerts(cluster, "ForgedGrant"), 5)
        assert phase(scheduler, uid) is None
        assert scheduler.ledger.charges_on("n0")["GPU-n0-0"].slots == 1


async def test_a_grant_that_was_removed_counts_and_is_restored_and_reported() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 9000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        grant = cluster.granted("a", scheduler.keys.verifier)
        await asyncio.sleep(1)
        cluster.note(cluster.path("a"), {GRANT_KEY: None})
        await asyncio.sleep(0.1)
        assert scheduler.ledger.charges_on("n0")["GPU-n0-0"].memory_bytes == 9000 * MIB
        await until(lambda: GRANT_KEY in cluster.read("a").metadata.annotations, 5)
        assert cluster.granted("a", scheduler.keys.verifier) == grant
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        assert alerts(cluster, "GrantRemoved") == ["the pod has lost the grant that it was given"]
        await asyncio.sleep(60)
        assert counted(scheduler, 'alarms_total{wrong="GrantRemoved"}') == 1


@pytest.mark.parametrize("what", ["a smaller one, signed", "a forged one", "garbage"])
async def test_a_grant_that_was_changed_counts_and_is_restored_and_reported(what: str) -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 9000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        grant = cluster.granted("a", scheduler.keys.verifier)
        small = encode_grant(a_grant(uid, mib=1))
        text = {
            "a smaller one, signed": scheduler.keys.signer.sign(small), "a forged one": small,
            "garbage": "{}",
        }[what]  # fmt: skip
        await asyncio.sleep(1)
        cluster.note(cluster.path("a"), {GRANT_KEY: text})
        await asyncio.sleep(0.01)
        assert scheduler.ledger.charges_on("n0")["GPU-n0-0"].memory_bytes == 9000 * MIB
        await until(lambda: cluster.read("a").metadata.annotations[GRANT_KEY] != text, 5)
        assert cluster.granted("a", scheduler.keys.verifier) == grant
        assert the_entry(scheduler, uid).grant.shares == grant.shares
        assert counted(scheduler, 'grants_restored_total{outcome="done"}') == 1


async def test_a_user_that_overwrites_it_repeatedly_gets_few_answers() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 9000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        for n in range(300):
            cluster.note(cluster.path("a"), {GRANT_KEY: f"{n}"})
            await asyncio.sleep(0.1)
        assert 1 <= counted(scheduler, 'grants_restored_total{outcome="done"}') <= 5
        await until(lambda: len(cluster.read("a").metadata.annotations[GRANT_KEY]) > 9, 30)
        cluster.granted("a", scheduler.keys.verifier)


async def test_a_valid_grant_of_another_version_closes_its_node_while_the_pod_exists() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 0)
    async with leading(cluster) as scheduler:
        text = scheduler.keys.signer.sign('{"version":99,"what":"ever"}')
        cluster.note(cluster.path("a"), {GRANT_KEY: text})
        cluster.bind_elsewhere("a", "n0")
        await until(lambda: alerts(cluster, "GrantUnreadable"), 5)
        cluster.pod("b")
        assert cluster.filter(scheduler, "b").failed_and_unresolvable_nodes == {"n0": "NodeBlocked"}
        cluster.delete("a")
        await asyncio.sleep(0.1)
        assert await cluster.place(scheduler, "b") == "n0"


async def test_a_pod_that_bypassed_the_scheduler_holds_nothing_and_is_reported() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 9000)
    async with leading(cluster) as scheduler:
        cluster.bind_elsewhere("a", "n0")
        await until(lambda: alerts(cluster, "CardsWithoutGrant"), 5)
        assert scheduler.ledger.charges_on("n0") == {}


async def test_what_other_systems_wrote_counts_only_during_a_migration() -> None:
    written = {
        "hami.io/vgpu-devices-allocated": "GPU-n0-0,NVIDIA,9000,30:;",
        "hami.io/vgpu-node": "n0",
    }
    for migration in (False, True):
        cluster = FakeCluster(1)
        cluster.pod("a", 9000, annotations=written)
        cluster.bind_elsewhere("a", "n0")
        async with leading(cluster, config=settings(migration=migration)) as scheduler:
            held = scheduler.ledger.charges_on("n0")
            assert bool(held) is migration
            if migration:
                assert held["GPU-n0-0"].memory_bytes == 9000 * MIB
                await asyncio.sleep(1)
                cluster.note(cluster.path("a"), {"hami.io/vgpu-devices-allocated": None})
                await asyncio.sleep(1)
                assert scheduler.ledger.charges_on("n0") == held
                cluster.delete("a")
                await asyncio.sleep(0.1)
                assert scheduler.ledger.charges_on("n0") == {}


async def test_during_a_migration_a_pod_without_any_record_is_counted_by_its_requests() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 9000)
    cluster.bind_elsewhere("a", "n0")
    async with leading(cluster, config=settings(migration=True)) as scheduler:
        assert scheduler.ledger.charges_on("n0")["GPU-n0-0"].memory_bytes == 9000 * MIB
