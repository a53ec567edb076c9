"""A time-out, a reset or a 5xx: the cards stay held until it is certain what became of them."""

import asyncio

import pytest

from tessera_core.machines.allocation import AllocationPhase
from tessera_embedded.apiserver.faults import Answer, Cut, Delay, Effect, Hang
from tessera_schema.grants import GRANT_KEY
from tests.scheduler.fake_cluster import BINDING, FakeCluster, counted, leading, phase, until

pytestmark = pytest.mark.looptime

PODS = r".*/pods/[^/]+"


async def test_it_was_written_and_is_found() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Cut(after=True))
        cluster.filter(scheduler, "a")
        assert "its cards are kept" in await cluster.bind(scheduler, "a", "n0")
        await until(lambda: phase(scheduler, uid) is AllocationPhase.BOUND)
        assert await cluster.bind(scheduler, "a", "n0") == ""
        await until(lambda: cluster.bus.said("tessera.v1.*.allocation.*.*.granted"))
        assert scheduler.retry_queue.open == 0


async def test_it_was_written_and_no_event_shows_it() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Cut(after=True))
        cluster.filter(scheduler, "a")
        cluster.kube.event_delay_s = 1000
        await cluster.bind(scheduler, "a", "n0")
        assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        await until(lambda: phase(scheduler, uid) is AllocationPhase.BOUND, 5)
        await until(lambda: cluster.bus.said("tessera.v1.*.allocation.*.*.granted"), 5)


@pytest.mark.parametrize("effect", [Cut(), Hang(), Answer(500), Answer(503), Answer(504)])
async def test_it_was_not_written_and_is_requested_again(effect: Effect) -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    cluster.pod("b", 12000)
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, effect)
        cluster.filter(scheduler, "a")
        assert "its cards are kept" in await cluster.bind(scheduler, "a", "n0")
        await asyncio.sleep(20)
        assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        assert not cluster.filter(scheduler, "b").node_names
        assert cluster.filter(scheduler, "a").node_names == ("n0",)
        assert await cluster.bind(scheduler, "a", "n0") == ""
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        cluster.granted("a", scheduler.keys.verifier)


async def test_it_was_not_written_and_nobody_requests_it_again() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Cut())
        cluster.filter(scheduler, "a")
        await cluster.bind(scheduler, "a", "n0")
        await asyncio.sleep(70)
        assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        await asyncio.sleep(20)
        assert phase(scheduler, uid) is None
        cluster.pod("b", 12000)
        assert await cluster.place(scheduler, "b") == "n0"


async def test_it_is_written_late_and_its_cards_are_still_there() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    cluster.pod("b", 12000)
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Delay(40))
        cluster.filter(scheduler, "a")
        await cluster.bind(scheduler, "a", "n0")
        await asyncio.sleep(30)
        assert cluster.read("a").spec.node_name == ""
        assert not cluster.filter(scheduler, "b").node_names
        await until(lambda: phase(scheduler, uid) is AllocationPhase.BOUND, 20)
        assert not cluster.filter(scheduler, "b").node_names


async def test_the_late_one_and_the_repeated_one_are_one_binding() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 6000)
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Delay(20))
        cluster.filter(scheduler, "a")
        await cluster.bind(scheduler, "a", "n0")
        assert await cluster.bind(scheduler, "a", "n0") == ""
        grant = cluster.granted("a", scheduler.keys.verifier)
        await asyncio.sleep(60)
        assert cluster.granted("a", scheduler.keys.verifier) == grant
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        assert cluster.truth()["n0", "GPU-n0-0"].slots == 1
        assert scheduler.ledger.charges_on("n0")["GPU-n0-0"].slots == 1


async def test_the_late_one_comes_first_and_the_repeated_one_finds_it() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 6000)
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Delay(5.0035))
        cluster.filter(scheduler, "a")
        await cluster.bind(scheduler, "a", "n0")
        assert await cluster.bind(scheduler, "a", "n0") == ""
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        assert cluster.truth()["n0", "GPU-n0-0"].slots == 1


async def test_the_repeated_one_is_lost_too() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Cut(), times=3)
        cluster.filter(scheduler, "a")
        for _ in range(3):
            assert "its cards are kept" in await cluster.bind(scheduler, "a", "n0")
            await asyncio.sleep(50)
            assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        assert await cluster.bind(scheduler, "a", "n0") == ""


async def test_a_refusal_of_the_repeated_one_says_nothing_of_the_first() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Delay(30))
        cluster.filter(scheduler, "a")
        await cluster.bind(scheduler, "a", "n0")
        cluster.fault("POST", BINDING, Answer(403))
        assert "its cards are kept" in await cluster.bind(scheduler, "a", "n0")
        assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        await until(lambda: phase(scheduler, uid) is AllocationPhase.BOUND, 40)


async def test_the_pod_goes_meanwhile() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Cut())
        cluster.filter(scheduler, "a")
        await cluster.bind(scheduler, "a", "n0")
        cluster.kube.event_delay_s = 1000
        cluster.delete("a")
        await until(lambda: phase(scheduler, uid) is None, 5)
        assert scheduler.ledger.charges_on("n0") == {}


async def test_somebody_else_binds_the_pod_meanwhile() -> None:
    cluster = FakeCluster(2)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Cut())
        cluster.filter(scheduler, "a")
        await cluster.bind(scheduler, "a", "n0")
        cluster.bind_elsewhere("a", "n1")
        await until(lambda: phase(scheduler, uid) is None, 5)
        assert counted(scheduler, 'alarms_total{wrong="CardsWithoutGrant"}') >= 1


async def test_the_pod_cannot_be_read_for_a_while() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Cut(after=True))
        cluster.fault("GET", PODS, Answer(403), times=3)
        cluster.filter(scheduler, "a")
        cluster.kube.event_delay_s = 1000
        await cluster.bind(scheduler, "a", "n0")
        assert "not known yet" in await cluster.bind(scheduler, "a", "n0")
        assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        await until(lambda: phase(scheduler, uid) is AllocationPhase.BOUND, 30)


async def test_a_scheduler_that_restarts_finds_it() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    cluster.pod("b", 12000)
    async with leading(cluster) as scheduler:
        cluster.fault("POST", BINDING, Delay(6))
        cluster.filter(scheduler, "a")
        await cluster.bind(scheduler, "a", "n0")
    async with leading(cluster) as scheduler:
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        assert not cluster.filter(scheduler, "b").node_names


@pytest.mark.parametrize("events_s", [0, 1000])
async def test_it_was_written_and_its_grant_taken_away_before_anybody_saw(events_s: float) -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.kube.event_delay_s = events_s
        cluster.fault("POST", BINDING, Cut(after=True))
        cluster.filter(scheduler, "a")
        async with asyncio.TaskGroup() as group:
            group.create_task(cluster.bind(scheduler, "a", "n0"), name="bind")
            while not cluster.read("a").spec.node_name:
                await asyncio.sleep(0.0001)
            cluster.note(cluster.path("a"), {GRANT_KEY: None})
        assert scheduler.ledger.charges_on("n0")["GPU-n0-0"].slots == 1
        await until(lambda: GRANT_KEY in cluster.read("a").metadata.annotations, 30)
        cluster.granted("a", scheduler.keys.verifier)
        assert phase(scheduler, uid) is AllocationPhase.BOUND


async def test_a_list_shows_the_pod_on_its_node_and_without_the_grant() -> None:
    cluster = FakeCluster(1)
    uid = cluster.pod("a", 12000)
    async with leading(cluster) as scheduler:
        cluster.kube.event_delay_s = 1000
        cluster.fault("POST", BINDING, Cut(after=True))
        cluster.fault("GET", PODS, Answer(403), times=3)
        cluster.filter(scheduler, "a")
        await cluster.bind(scheduler, "a", "n0")
        cluster.note(cluster.path("a"), {GRANT_KEY: None})
        summary = scheduler.pod_reader.summarize(cluster.read("a"))
        scheduler.pod_cache.on_update(summary, scheduler.monotonic_clock.time())
        assert phase(scheduler, uid) is AllocationPhase.UNSETTLED
        await until(lambda: GRANT_KEY in cluster.read("a").metadata.annotations, 60)
        assert phase(scheduler, uid) is AllocationPhase.BOUND
