import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest

from tessera_embedded.apiserver.faults import Answer, Cut, Delay, Effect, Hang, InjectedFault
from tessera_embedded.apiserver.store import Store
from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.lease import Lease, open_lease
from tessera_runtime.kube.settings import LeaseSettings
from tessera_testing.clock import LoopClock
from tessera_testing.kube import FakeKube
from tests.runtime.cluster import a_cluster, must, until

pytestmark = pytest.mark.looptime

CALL_S = 5.0
SETTINGS = LeaseSettings(namespace="default")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LEASE = f"{LEASES}/{SETTINGS.name}"


def a_cluster_with_an_empty_lease() -> Store:
    store = a_cluster()
    must(store, "POST", LEASES, {"metadata": {"name": SETTINGS.name}, "spec": {}})
    return store


def spec(store: Store) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(store.handle("GET", LEASE).body)["spec"]
    return found


@asynccontextmanager
async def standing(
    kube: FakeKube, name: str = "a", clock: LoopClock | None = None
) -> AsyncGenerator[Lease]:
    chance = random.Random(name)  # noqa: S311  (reproducible)
    async with open_lease(
        kube,
        SETTINGS,
        identity=name,
        call_s=CALL_S,
        clock=clock if clock is not None else LoopClock(),
        random=chance,
    ) as lease:
        yield lease


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_lease_that_was_never_granted_is_taken_at_once() -> None:
    store = a_cluster_with_an_empty_lease()
    began = now()
    async with standing(FakeKube(store)) as lease:
        await lease.held.wait()
        assert now() - began < 1
        assert 14 < lease.remaining() <= 15
        assert str(spec(store)["holderIdentity"]).startswith("a_")
        assert not lease.lost.is_set()


async def test_a_lease_that_is_missing_may_have_been_deleted_under_a_living_holder() -> None:
    began = now()
    async with standing(FakeKube(a_cluster())) as lease:
        await lease.held.wait()
        assert now() - began >= SETTINGS.duration_s + CALL_S


async def test_it_is_renewed_for_as_long_as_all_is_well() -> None:
    store = a_cluster_with_an_empty_lease()
    async with standing(FakeKube(store)) as lease:
        await lease.held.wait()
        least = lease.remaining()
        for _ in range(500):
            await asyncio.sleep(0.7)
            least = min(least, lease.remaining())
        assert least > CALL_S
        assert lease.generation == 1


async def test_time_counts_from_before_the_request_was_sent() -> None:
    store = a_cluster_with_an_empty_lease()
    async with standing(FakeKube(store, latency_s=4.0)) as lease:
        await lease.held.wait()
        assert lease.remaining() == pytest.approx(SETTINGS.duration_s - 4.0)


async def test_a_second_one_waits_for_as_long_as_the_first_renews() -> None:
    store = a_cluster_with_an_empty_lease()
    async with standing(FakeKube(store)) as first:
        await first.held.wait()
        async with standing(FakeKube(store), "b") as second:
            await asyncio.sleep(300)
            assert second.remaining() == 0
            assert not second.held.is_set()
            assert second.holder.startswith("a_")
            assert first.generation == 1


async def test_after_a_crash_the_next_waits_out_the_lease_and_a_call() -> None:
    store = a_cluster_with_an_empty_lease()
    dead = FakeKube(store)
    async with standing(dead) as first, standing(FakeKube(store), "b") as second:
        await first.held.wait()
        await asyncio.sleep(20)
        dead.pause()
        ended_at = now() + first.remaining()
        await second.held.wait()
        assert first.remaining() == 0
        assert first.lost.is_set()
        assert now() - ended_at >= CALL_S
        assert now() - ended_at < CALL_S + 6
        assert second.generation == 2


async def test_a_holder_cut_off_from_the_server_loses_in_time() -> None:
    store = a_cluster_with_an_empty_lease()
    kube = FakeKube(store)
    async with standing(kube) as lease:
        await lease.held.wait()
        await asyncio.sleep(10)
        kube.faults.add(InjectedFault("*", ".*", Hang(), times=1000))
        left = lease.remaining()
        began = now()
        await lease.lost.wait()
        assert now() - began == pytest.approx(left, abs=0.01)
        kube.faults.clear()
        await lease.held.wait()
        assert lease.generation == 2


@pytest.mark.parametrize("cut", [Cut(after=False), Cut(after=True)])
async def test_one_renewal_that_is_lost_does_no_harm(cut: Cut) -> None:
    store = a_cluster_with_an_empty_lease()
    kube = FakeKube(store)
    async with standing(kube) as lease:
        await lease.held.wait()
        for _ in range(5):
            kube.faults.add(InjectedFault("PUT", ".*", cut))
            await asyncio.sleep(20)
            assert lease.remaining() > CALL_S
        assert kube.faults.waiting == 0
        assert lease.generation == 1


@pytest.mark.parametrize("after", [Cut(after=True), Delay(8.0)])
async def test_one_that_took_it_without_knowing_gets_it(after: Cut | Delay) -> None:
    store = a_cluster_with_an_empty_lease()
    kube = FakeKube(store)
    kube.faults.add(InjectedFault("PUT", ".*", after))
    began = now()
    async with standing(kube) as lease:
        await lease.held.wait()
        assert now() - began < 10
        assert lease.remaining() > 14


async def test_a_clean_end_hands_over_after_one_call() -> None:
    store = a_cluster_with_an_empty_lease()
    async with AsyncExitStack() as stack:
        async with standing(FakeKube(store)) as first:
            await first.held.wait()
            second = await stack.enter_async_context(standing(FakeKube(store), "b"))
            await asyncio.sleep(7)
        left_at = now()
        assert spec(store)["holderIdentity"] == ""
        assert first.remaining() == 0
        await second.held.wait()
        assert CALL_S - 0.01 <= now() - left_at < CALL_S + 3


async def test_cancelling_is_a_clean_end() -> None:
    store = a_cluster_with_an_empty_lease()

    async def serve() -> None:
        async with standing(FakeKube(store)):
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        serving = group.create_task(serve(), name="service")
        await until(lambda: spec(store).get("holderIdentity"))
        serving.cancel()
    assert spec(store)["holderIdentity"] == ""


async def test_a_failed_body_does_not_release() -> None:
    store = a_cluster_with_an_empty_lease()

    async def fail() -> None:
        async with standing(FakeKube(store)) as lease:
            await lease.held.wait()
            raise ZeroDivisionError

    with pytest.raises(ExceptionGroup):
        await fail()
    assert str(spec(store)["holderIdentity"]).startswith("a_")


async def test_somebody_elses_name_in_it_is_a_loss_at_once() -> None:
    store = a_cluster_with_an_empty_lease()
    async with standing(FakeKube(store)) as lease:
        await lease.held.wait()
        took = {"holderIdentity": "x", "leaseDurationSeconds": 15, "leaseTransitions": 9}
        must(store, "PATCH", LEASE, {"spec": took})
        await lease.lost.wait()
        assert lease.remaining() == 0
        assert lease.holder == "x"
        await lease.held.wait()
        assert lease.generation == 10


async def test_a_lease_deleted_under_its_holder_is_made_again() -> None:
    store = a_cluster_with_an_empty_lease()
    async with standing(FakeKube(store)) as first, standing(FakeKube(store), "b") as second:
        await until(lambda: first.held.is_set() or second.held.is_set())
        must(store, "DELETE", LEASE)
        for _ in range(100):
            await asyncio.sleep(0.5)
            assert (first.remaining() > 0) + (second.remaining() > 0) == 1
        assert first.generation + second.generation == 1


async def test_wall_clocks_may_differ_by_hours() -> None:
    store = a_cluster_with_an_empty_lease()
    fast, slow = LoopClock(), LoopClock()
    fast.jump(7200)
    slow.jump(-7200)
    async with standing(FakeKube(store), "a", slow) as first:
        await first.held.wait()
        async with standing(FakeKube(store), "b", fast) as second:
            slow.jump(50_000)
            await asyncio.sleep(120)
            assert second.remaining() == 0
            assert first.remaining() > CALL_S


async def test_other_peoples_notes_on_the_lease_do_no_harm() -> None:
    store = a_cluster_with_an_empty_lease()
    async with standing(FakeKube(store)) as lease:
        await lease.held.wait()
        for number in range(10):
            note = {"metadata": {"annotations": {"note": str(number)}}}
            must(store, "PATCH", LEASE, note)
            await asyncio.sleep(4)
            assert lease.remaining() > 0
        assert lease.generation == 1


async def test_numbers_that_cannot_work_are_refused() -> None:
    with pytest.raises(BadSettings, match=r"lease\.duration_s: 8: write more"):
        async with open_lease(
            FakeKube(a_cluster()), LeaseSettings(duration_s=8), identity="a", call_s=5
        ):
            pass


@pytest.mark.parametrize("seed", range(10))
async def test_whatever_happens_no_two_hold_it(seed: int) -> None:
    """Also not while a write that one of them sent last may still be done."""
    chance = random.Random(seed)  # noqa: S311  (reproducible)
    store = a_cluster_with_an_empty_lease()
    async with AsyncExitStack() as stack:
        kubes = [FakeKube(store) for _ in range(3)]
        leases = [
            await stack.enter_async_context(standing(k, f"n{i}")) for i, k in enumerate(kubes)
        ]
        last_write_ends = dict.fromkeys(range(3), float("-inf"))
        changes = 0
        holder = -1
        for _ in range(6000):
            await asyncio.sleep(0.1)
            writers = [i for i, lease in enumerate(leases) if lease.remaining() > CALL_S]
            assert len([lease for lease in leases if lease.remaining() > 0]) <= 1
            for i in writers:
                last_write_ends[i] = now() + CALL_S
                assert all(end <= now() for j, end in last_write_ends.items() if j != i)
                changes += i != holder
                holder = i
            make_trouble(chance.choice(kubes), chance)
        assert changes > 3
        for kube in kubes:
            kube.faults.clear()
            kube.resume()


def make_trouble(kube: FakeKube, chance: random.Random) -> None:
    match chance.randrange(200):
        case 0:
            kube.pause()
        case 1:
            effects: list[Effect] = [Answer(500), Answer(429), Hang(), Delay(8.0), Delay(30.0)]
            effect = chance.choice(effects)
            kube.faults.add(InjectedFault("*", ".*", effect, times=4))
        case 2:
            kube.faults.add(InjectedFault("*", ".*", Cut(after=chance.random() < 0.5), times=3))
        case 3 | 4 | 5:
            kube.resume()
        case _:
            pass
