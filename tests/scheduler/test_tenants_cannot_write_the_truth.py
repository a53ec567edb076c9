"""Forged, copied, truncated, changed and removed grants."""

import asyncio

import pytest

from tessera_core.machines.allocation import AllocationPhase
from tessera_core.trust.grants import Signer
from tessera_schema.cards import MIB
from tessera_schema.grants import GRANT_KEY, Grant, Share, encode_grant
from tests.scheduler.world import World, counted, leading, phase, settings, the_entry, until

pytestmark = pytest.mark.looptime

OTHER = Signer(bytes(32))


def a_grant(uid: str, node: str = "n0", mib: int = 16000) -> Grant:
    share = Share(
        container="c", position=0, vendor="nvidia", dialect="hami", card=f"GPU-{node}-0", index=0,
        memory_bytes=mib * MIB,
    )  # fmt: skip
    return Grant(uid=uid, namespace="default", name="a", node=node, shares=(share,))


def alarms(world: World, reason: str) -> list[str]:
    events = world.call("GET", "/api/v1/namespaces/default/events")["items"]
    return [e["message"] for e in events if e["reason"] == reason]


@pytest.mark.parametrize("what", ["unsigned", "by another key", "truncated", "garbage"])
async def test_a_forged_grant_counts_nothing_and_is_told(what: str) -> None:
    world = World(1)
    uid = world.pod("a", 0)
    plain = encode_grant(a_grant(uid))
    async with leading(world) as scheduler:
        signed = scheduler.keys.signer.sign(plain)
        text = {
            "unsigned": plain, "by another key": OTHER.sign(plain), "truncated": signed[:-20],
            "garbage": "\x00{",
        }[what]  # fmt: skip
        world.note(world.path("a"), {GRANT_KEY: text})
        world.bind_elsewhere("a", "n0")
        await until(lambda: alarms(world, "ForgedGrant"), 5)
        assert scheduler.ledger.held("n0") == {}
        assert counted(scheduler, 'alarms_total{wrong="ForgedGrant"}') >= 1
        world.pod("b", 16000)
        assert await world.place(scheduler, "b") == "n0"


async def test_a_grant_that_was_copied_from_another_pod_counts_nothing() -> None:
    world = World(1)
    world.pod("a", 9000)
    uid = world.pod("thief", 0)
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
        text = world.read("a").metadata.annotations[GRANT_KEY]
        world.note(world.path("thief"), {GRANT_KEY: text})
        world.bind_elsewhere("thief", "n0")
        await until(lambda: alarms(world, "ForgedGrant"), 5)
        assert phase(scheduler, uid) is None
        assert scheduler.ledger.held("n0")["GPU-n0-0"].slots == 1


async def test_a_grant_that_was_removed_is_kept_restored_and_told() -> None:
    world = World(1)
    uid = world.pod("a", 9000)
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
        grant = world.granted("a", scheduler.keys.verifier)
        await asyncio.sleep(1)
        world.note(world.path("a"), {GRANT_KEY: None})
        await asyncio.sleep(0.1)
        assert scheduler.ledger.held("n0")["GPU-n0-0"].memory_bytes == 9000 * MIB
        await until(lambda: GRANT_KEY in world.read("a").metadata.annotations, 5)
        assert world.granted("a", scheduler.keys.verifier) == grant
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        assert alarms(world, "GrantRemoved") == ["the pod has lost the grant that it was given"]
        await asyncio.sleep(60)
        assert counted(scheduler, 'alarms_total{wrong="GrantRemoved"}') == 1


@pytest.mark.parametrize("what", ["a smaller one, signed", "a forged one", "garbage"])
async def test_a_grant_that_was_changed_is_kept_restored_and_told(what: str) -> None:
    world = World(1)
    uid = world.pod("a", 9000)
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
        grant = world.granted("a", scheduler.keys.verifier)
        small = encode_grant(a_grant(uid, mib=1))
        text = {
            "a smaller one, signed": scheduler.keys.signer.sign(small), "a forged one": small,
            "garbage": "{}",
        }[what]  # fmt: skip
        await asyncio.sleep(1)
        world.note(world.path("a"), {GRANT_KEY: text})
        await asyncio.sleep(0.01)
        assert scheduler.ledger.held("n0")["GPU-n0-0"].memory_bytes == 9000 * MIB
        await until(lambda: world.read("a").metadata.annotations[GRANT_KEY] != text, 5)
        assert world.granted("a", scheduler.keys.verifier) == grant
        assert the_entry(scheduler, uid).grant.shares == grant.shares
        assert counted(scheduler, 'grants_restored_total{outcome="done"}') == 1


async def test_whoever_overwrites_it_again_and_again_gets_few_answers() -> None:
    world = World(1)
    world.pod("a", 9000)
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
        for n in range(300):
            world.note(world.path("a"), {GRANT_KEY: f"{n}"})
            await asyncio.sleep(0.1)
        assert 1 <= counted(scheduler, 'grants_restored_total{outcome="done"}') <= 5
        await until(lambda: len(world.read("a").metadata.annotations[GRANT_KEY]) > 9, 30)
        world.granted("a", scheduler.keys.verifier)


async def test_a_valid_grant_of_another_version_closes_its_node_while_the_pod_lives() -> None:
    world = World(1)
    world.pod("a", 0)
    async with leading(world) as scheduler:
        text = scheduler.keys.signer.sign('{"version":99,"what":"ever"}')
        world.note(world.path("a"), {GRANT_KEY: text})
        world.bind_elsewhere("a", "n0")
        await until(lambda: alarms(world, "GrantUnreadable"), 5)
        world.pod("b")
        assert world.filter(scheduler, "b").failed_and_unresolvable_nodes == {"n0": "NodeBlocked"}
        world.delete("a")
        await asyncio.sleep(0.1)
        assert await world.place(scheduler, "b") == "n0"


async def test_a_pod_that_went_around_us_holds_nothing_and_is_told() -> None:
    world = World(1)
    world.pod("a", 9000)
    async with leading(world) as scheduler:
        world.bind_elsewhere("a", "n0")
        await until(lambda: alarms(world, "CardsWithoutGrant"), 5)
        assert scheduler.ledger.held("n0") == {}


async def test_what_other_systems_wrote_counts_only_during_a_migration() -> None:
    written = {
        "hami.io/vgpu-devices-allocated": "GPU-n0-0,NVIDIA,9000,30:;",
        "hami.io/vgpu-node": "n0",
    }
    for migration in (False, True):
        world = World(1)
        world.pod("a", 9000, annotations=written)
        world.bind_elsewhere("a", "n0")
        async with leading(world, config=settings(migration=migration)) as scheduler:
            held = scheduler.ledger.held("n0")
            assert bool(held) is migration
            if migration:
                assert held["GPU-n0-0"].memory_bytes == 9000 * MIB
                await asyncio.sleep(1)
                world.note(world.path("a"), {"hami.io/vgpu-devices-allocated": None})
                await asyncio.sleep(1)
                assert scheduler.ledger.held("n0") == held
                world.delete("a")
                await asyncio.sleep(0.1)
                assert scheduler.ledger.held("n0") == {}


async def test_during_a_migration_a_pod_without_any_word_is_counted_by_what_it_asks() -> None:
    world = World(1)
    world.pod("a", 9000)
    world.bind_elsewhere("a", "n0")
    async with leading(world, config=settings(migration=True)) as scheduler:
        assert scheduler.ledger.held("n0")["GPU-n0-0"].memory_bytes == 9000 * MIB
