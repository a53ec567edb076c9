"""A time-out, a reset or a 5xx: the cards stay held until it is certain what became of them."""

import asyncio

import pytest

from tessera_core.machines.allocation import AllocationPhase
from tessera_embedded.apiserver.faults import Answer, Cut, Delay, Effect, Hang
from tessera_schema.grants import GRANT_KEY
from tests.scheduler.world import BINDING, World, counted, leading, phase, until

pytestmark = pytest.mark.looptime

PODS = r".*/pods/[^/]+"


async def test_it_was_written_and_is_found() -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Cut(after=True))
        world.filter(scheduler, "a")
        assert "its cards are kept" in await world.bind(scheduler, "a", "n0")
        await until(lambda: phase(scheduler, uid) is AllocationPhase.BOUND)
        assert await world.bind(scheduler, "a", "n0") == ""
        await until(lambda: world.bus.said("tessera.v1.*.allocation.*.*.granted"))
        assert scheduler.retry_queue.open == 0


async def test_it_was_written_and_no_event_tells() -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Cut(after=True))
        world.filter(scheduler, "a")
        world.kube.event_delay_s = 1000
        await world.bind(scheduler, "a", "n0")
        assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        await until(lambda: phase(scheduler, uid) is AllocationPhase.BOUND, 5)
        await until(lambda: world.bus.said("tessera.v1.*.allocation.*.*.granted"), 5)


@pytest.mark.parametrize("effect", [Cut(), Hang(), Answer(500), Answer(503), Answer(504)])
async def test_it_was_not_written_and_is_asked_for_again(effect: Effect) -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    world.pod("b", 12000)
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, effect)
        world.filter(scheduler, "a")
        assert "its cards are kept" in await world.bind(scheduler, "a", "n0")
        await asyncio.sleep(20)
        assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        assert not world.filter(scheduler, "b").node_names
        assert world.filter(scheduler, "a").node_names == ("n0",)
        assert await world.bind(scheduler, "a", "n0") == ""
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        world.granted("a", scheduler.keys.verifier)


async def test_it_was_not_written_and_nobody_asks_again() -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Cut())
        world.filter(scheduler, "a")
        await world.bind(scheduler, "a", "n0")
        await asyncio.sleep(70)
        assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        await asyncio.sleep(20)
        assert phase(scheduler, uid) is None
        world.pod("b", 12000)
        assert await world.place(scheduler, "b") == "n0"


async def test_it_is_written_late_and_was_kept_for() -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    world.pod("b", 12000)
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Delay(40))
        world.filter(scheduler, "a")
        await world.bind(scheduler, "a", "n0")
        await asyncio.sleep(30)
        assert world.read("a").spec.node_name == ""
        assert not world.filter(scheduler, "b").node_names
        await until(lambda: phase(scheduler, uid) is AllocationPhase.BOUND, 20)
        assert not world.filter(scheduler, "b").node_names


async def test_the_late_one_and_the_repeated_one_are_one_binding() -> None:
    world = World(1)
    uid = world.pod("a", 6000)
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Delay(20))
        world.filter(scheduler, "a")
        await world.bind(scheduler, "a", "n0")
        assert await world.bind(scheduler, "a", "n0") == ""
        grant = world.granted("a", scheduler.keys.verifier)
        await asyncio.sleep(60)
        assert world.granted("a", scheduler.keys.verifier) == grant
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        assert world.truth()["n0", "GPU-n0-0"].slots == 1
        assert scheduler.ledger.held("n0")["GPU-n0-0"].slots == 1


async def test_the_late_one_comes_first_and_the_repeated_one_finds_it() -> None:
    world = World(1)
    uid = world.pod("a", 6000)
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Delay(5.0035))
        world.filter(scheduler, "a")
        await world.bind(scheduler, "a", "n0")
        assert await world.bind(scheduler, "a", "n0") == ""
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        assert world.truth()["n0", "GPU-n0-0"].slots == 1


async def test_the_repeated_one_is_lost_too() -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Cut(), times=3)
        world.filter(scheduler, "a")
        for _ in range(3):
            assert "its cards are kept" in await world.bind(scheduler, "a", "n0")
            await asyncio.sleep(50)
            assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        assert await world.bind(scheduler, "a", "n0") == ""


async def test_a_refusal_of_the_repeated_one_says_nothing_of_the_first() -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Delay(30))
        world.filter(scheduler, "a")
        await world.bind(scheduler, "a", "n0")
        world.fault("POST", BINDING, Answer(403))
        assert "its cards are kept" in await world.bind(scheduler, "a", "n0")
        assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        await until(lambda: phase(scheduler, uid) is AllocationPhase.BOUND, 40)


async def test_the_pod_goes_meanwhile() -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Cut())
        world.filter(scheduler, "a")
        await world.bind(scheduler, "a", "n0")
        world.kube.event_delay_s = 1000
        world.delete("a")
        await until(lambda: phase(scheduler, uid) is None, 5)
        assert scheduler.ledger.held("n0") == {}


async def test_somebody_else_binds_the_pod_meanwhile() -> None:
    world = World(2)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Cut())
        world.filter(scheduler, "a")
        await world.bind(scheduler, "a", "n0")
        world.bind_elsewhere("a", "n1")
        await until(lambda: phase(scheduler, uid) is None, 5)
        assert counted(scheduler, 'alarms_total{wrong="CardsWithoutGrant"}') >= 1


async def test_the_pod_cannot_be_read_for_a_while() -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Cut(after=True))
        world.fault("GET", PODS, Answer(403), times=3)
        world.filter(scheduler, "a")
        world.kube.event_delay_s = 1000
        await world.bind(scheduler, "a", "n0")
        assert "not known yet" in await world.bind(scheduler, "a", "n0")
        assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        await until(lambda: phase(scheduler, uid) is AllocationPhase.BOUND, 30)


async def test_a_scheduler_that_starts_anew_finds_it() -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    world.pod("b", 12000)
    async with leading(world) as scheduler:
        world.fault("POST", BINDING, Delay(6))
        world.filter(scheduler, "a")
        await world.bind(scheduler, "a", "n0")
    async with leading(world) as scheduler:
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        assert not world.filter(scheduler, "b").node_names


@pytest.mark.parametrize("events_s", [0, 1000])
async def test_it_was_written_and_its_grant_taken_away_before_anybody_saw(events_s: float) -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.kube.event_delay_s = events_s
        world.fault("POST", BINDING, Cut(after=True))
        world.filter(scheduler, "a")
        async with asyncio.TaskGroup() as group:
            group.create_task(world.bind(scheduler, "a", "n0"), name="bind")
            while not world.read("a").spec.node_name:
                await asyncio.sleep(0.0001)
            world.note(world.path("a"), {GRANT_KEY: None})
        assert scheduler.ledger.held("n0")["GPU-n0-0"].slots == 1
        await until(lambda: GRANT_KEY in world.read("a").metadata.annotations, 30)
        world.granted("a", scheduler.keys.verifier)
        assert phase(scheduler, uid) is AllocationPhase.BOUND


async def test_a_list_shows_the_pod_on_its_node_and_without_the_grant() -> None:
    world = World(1)
    uid = world.pod("a", 12000)
    async with leading(world) as scheduler:
        world.kube.event_delay_s = 1000
        world.fault("POST", BINDING, Cut(after=True))
        world.fault("GET", PODS, Answer(403), times=3)
        world.filter(scheduler, "a")
        await world.bind(scheduler, "a", "n0")
        world.note(world.path("a"), {GRANT_KEY: None})
        sight = scheduler.pod_reader.summarize(world.read("a"))
        scheduler.pod_cache.on_update(sight, scheduler.monotonic_clock.time())
        assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        await until(lambda: GRANT_KEY in world.read("a").metadata.annotations, 60)
        assert phase(scheduler, uid) is AllocationPhase.BOUND
