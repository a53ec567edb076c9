"""The scheduler counts the pods that it binds, remembers them, and packs once it knows enough."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tessera_core.admission.admit import admit
from tessera_core.dialect_kit.contract import Rejected
from tessera_core.placement.packing.demand_history import ENOUGH, History
from tessera_core.registry.registry import load
from tessera_embedded.apiserver.faults import Answer, Cut
from tessera_scheduler.cache.packing import PackingSettings, ReserveMode
from tessera_scheduler.cache.packing_history import ENTRY, HISTORY
from tessera_scheduler.scheduler import Scheduler, open_scheduler
from tessera_schema.annotation_keys import ORDER_KEY
from tests.packing.test_filter_packs import PAST, read
from tests.packing.test_filter_packs import a_pod as a_manifest
from tests.scheduler.fake_cluster import HOME, FakeCluster, counted, leading, settings, until

pytestmark = pytest.mark.looptime

MIB = 16384
FEW = int(ENOUGH) + 1
"""Pods that are enough, although each counts a little less with every second."""
MAPS = f"/api/v1/namespaces/{HOME}/configmaps"
ONE = f"{MAPS}/{HISTORY}"
QUICK = msgspec.structs.replace(settings(), packing=PackingSettings(learn_s=5, save_s=5))
ASKED = msgspec.structs.replace(settings(), packing=PackingSettings(by_default=False))
OFF = msgspec.structs.replace(settings(), packing=PackingSettings(enabled=False))


def share(percent: int) -> int:
    return MIB * percent // 100


def write(world: FakeCluster, text: str) -> None:
    world.make(MAPS, {"metadata": {"name": HISTORY}, "data": {ENTRY: text}})


def written(world: FakeCluster) -> str:
    text: str = world.call("GET", ONE)["data"][ENTRY]
    return text


def is_written(world: FakeCluster) -> bool:
    return world.store.handle("GET", ONE).code == 200


def pods_written(world: FakeCluster) -> int:
    return round(History.decode(written(world)).pods(world.clock.time()))


def a_past(world: FakeCluster, times: int = 1) -> str:
    history, now = History(), world.clock.time()
    for percent, often in PAST.items():
        limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": share(percent)}
        for _ in range(often * times):
            history.add(read(a_manifest("past", limits)), now)
    return history.encode(now).decode()


async def half_full(world: FakeCluster, scheduler: Scheduler) -> None:
    """Binpack puts a pod of 0.3 on n0, of which a half is free; `pack` on n1, of which 0.7 is."""
    for name, percent, node in (("one", 50, "n0"), ("other", 30, "n1")):
        world.pod(name, share(percent))
        assert world.filter(scheduler, name, [node]).node_names == (node,)
        assert await world.bind(scheduler, name, node) == ""


async def place(world: FakeCluster, scheduler: Scheduler, name: str, **annotations: str) -> str:
    notes = {f"hami.io/{key}-scheduler-policy": value for key, value in annotations.items()}
    if "order" in annotations:
        notes = {ORDER_KEY: annotations["order"]}
    world.pod(name, share(30), annotations=notes)
    node = await world.place(scheduler, name)
    world.delete(name)
    await asyncio.sleep(0.1)
    return node


async def test_a_history_that_was_saved_is_learned_from_at_once() -> None:
    world = FakeCluster()
    write(world, a_past(world))
    async with leading(world) as scheduler:
        assert counted(scheduler, "packing_serves") == 0
        await until(lambda: scheduler.packing.serves)
        await half_full(world, scheduler)
        assert await place(world, scheduler, "a") == "n1"
        assert counted(scheduler, "packing_serves") == 1
        assert counted(scheduler, "packing_history_pods") > ENOUGH


async def test_a_pod_that_names_an_order_of_nodes_or_cards_has_its_own() -> None:
    world = FakeCluster()
    write(world, a_past(world))
    async with leading(world) as scheduler:
        await until(lambda: scheduler.packing.serves)
        await half_full(world, scheduler)
        assert await place(world, scheduler, "a", node="binpack") == "n0"
        assert await place(world, scheduler, "b", gpu="binpack") == "n0"
        assert await place(world, scheduler, "c", node=" ") == "n1"


async def test_a_pod_can_request_either_order_by_name() -> None:
    world = FakeCluster()
    write(world, a_past(world))
    async with leading(world) as scheduler:
        await until(lambda: scheduler.packing.serves)
        await half_full(world, scheduler)
        assert await place(world, scheduler, "a", order="dialect") == "n0"
        assert await place(world, scheduler, "b", order="pack") == "n1"


@pytest.mark.parametrize(
    ("reserve", "columns"), [(ReserveMode.NEVER, 0), (ReserveMode.ALWAYS, 1), (ReserveMode.AUTO, 0)]
)
async def test_whole_nodes_are_set_apart_where_that_is_set(
    reserve: ReserveMode, columns: int
) -> None:
    world = FakeCluster()
    write(world, a_past(world))
    config = msgspec.structs.replace(settings(), packing=PackingSettings(reserve=reserve))
    async with leading(world, config=config) as scheduler:
        await until(lambda: scheduler.packing.serves)
        assert await place(world, scheduler, "a")
        packer = scheduler.placer.packer
        assert packer is not None
        assert len(packer.state.reserved(1)) == columns


async def test_where_it_is_not_the_default_only_pods_that_request_are_packed() -> None:
    world = FakeCluster()
    write(world, a_past(world))
    async with leading(world, config=ASKED) as scheduler:
        await until(lambda: scheduler.packing.learned)
        await half_full(world, scheduler)
        assert not scheduler.packing.serves
        assert await place(world, scheduler, "a") == "n0"
        assert await place(world, scheduler, "b", order="pack") == "n1"


async def test_an_order_that_nobody_knows_is_refused_by_name() -> None:
    world = FakeCluster()
    async with leading(world) as scheduler:
        world.pod("a", annotations={ORDER_KEY: "tidy"})
        failed = world.filter(scheduler, "a").failed_and_unresolvable_nodes
        assert set(failed) == {"n0", "n1"}
    refused = admit(load(), world.read("a"))
    assert isinstance(refused, Rejected)
    assert refused.message == (
        "metadata.annotations[tessera.dev/order]: tidy: write pack or dialect, or leave it out"
    )


async def test_an_order_that_the_configuration_names_stays_although_it_is_the_default_one() -> None:
    world = FakeCluster()
    write(world, a_past(world))
    named = load({"hami": {"node_scheduler_policy": "binpack"}})
    async with open_scheduler(world.kube, world.bus, settings(), world.clock, named) as scheduler:
        await until(lambda: scheduler.packing.serves)
        await half_full(world, scheduler)
        assert await place(world, scheduler, "a") == "n0"
        assert await place(world, scheduler, "b", order="pack") == "n1"


@pytest.mark.parametrize(
    ("config", "ordered"),
    [
        ({}, set()),
        ({"hami": {"memory_factor": 2}, "volcano": {"schedule_policy": ""}}, set()),
        ({"mthreads": {"gpu_scheduler_policy": "spread"}}, {"mthreads"}),
        ({"volcano": {"arguments": {"deviceshare.SchedulePolicy": "binpack"}}}, {"volcano"}),
        ({"volcano": {"node_order": "binpack"}, "hami": {"enabled": True}}, {"volcano"}),
    ],
)
def test_a_dialects_order_is_named_by_writing_it(config: Any, ordered: set[str]) -> None:
    assert load(config).ordered == ordered


async def test_what_hosts_have_left_follows_nodes_and_all_pods() -> None:
    world = FakeCluster()
    has = {"status": {"allocatable": {"cpu": "32", "memory": "128Gi"}}}
    world.call("PATCH", "/api/v1/nodes/n0/status", has)
    world.pod("plain", 0, containers=[asking("4", "1Gi")])
    world.bind_elsewhere("plain", "n0")
    async with leading(world) as scheduler:

        def cores(node: str) -> float:
            fleet = scheduler.ledger.fleet
            hosts = scheduler.packing.hosts.columns(fleet)
            assert hosts is not None
            return float(hosts.cpu_free[fleet.rows[node]]) / 1000

        assert cores("n0") == 28
        assert cores("n1") == float("inf")
        world.pod("p", containers=[asking("6", "1Gi", share(30))])
        assert world.filter(scheduler, "p", ["n0"]).node_names == ("n0",)
        assert await world.bind(scheduler, "p", "n0") == ""
        assert cores("n0") == 22
        assert scheduler.packing.history.host == (6000, 2**30)
        world.delete("plain")
        await until(lambda: cores("n0") == 26)
        world.finish("p")
        await until(lambda: cores("n0") == 32)
        world.call("PATCH", "/api/v1/nodes/n1/status", has)
        await until(lambda: cores("n1") == 32)


def asking(cpu: str, memory: str, mib: int = 0) -> dict[str, Any]:
    cards = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(mib)} if mib else {}
    asked = {"cpu": cpu, "memory": memory}
    return {"name": "c", "image": "i", "resources": {"limits": cards, "requests": asked}}


async def test_without_history_pods_are_placed_as_their_dialects_say() -> None:
    world = FakeCluster()
    async with leading(world, config=QUICK) as scheduler:
        await half_full(world, scheduler)
        await asyncio.sleep(60)
        assert not scheduler.packing.serves
        assert await place(world, scheduler, "a") == "n0"


async def test_it_can_be_switched_off() -> None:
    world = FakeCluster()
    write(world, a_past(world))
    async with leading(world, config=OFF) as scheduler:
        await half_full(world, scheduler)
        await asyncio.sleep(60)
        assert await place(world, scheduler, "a") == "n0"
    assert pods_written(world) == sum(PAST.values())


async def test_pods_are_counted_when_they_are_bound_and_the_count_outlives_the_process() -> None:
    world = FakeCluster()
    async with leading(world, config=QUICK) as scheduler:
        for number in range(3):
            assert await place(world, scheduler, f"p{number}")
        world.pod("waiting")
        world.filter(scheduler, "waiting")
        await until(lambda: is_written(world) and pods_written(world) == 3)
    async with leading(world, config=QUICK) as scheduler:
        await place(world, scheduler, "again")
        await until(lambda: pods_written(world) == 4)


async def test_it_begins_to_pack_when_enough_came() -> None:
    world = FakeCluster()
    async with leading(world, config=QUICK) as scheduler:
        for number in range(FEW):
            assert not scheduler.packing.serves
            await place(world, scheduler, f"p{number}")
        await until(lambda: scheduler.packing.serves)


async def test_where_nobody_counted_the_pods_that_run_are_the_history() -> None:
    world = FakeCluster(8, cards=4)
    async with leading(world, config=OFF) as scheduler:
        for number in range(int(ENOUGH)):
            world.pod(f"p{number}", share(45))
            assert await world.place(scheduler, f"p{number}")
    async with leading(world, config=QUICK) as scheduler:
        await until(lambda: scheduler.packing.serves)
        assert round(scheduler.packing.history.pods(world.clock.time())) == ENOUGH
    assert is_written(world)


@pytest.mark.parametrize("text", ["", "{", '{"version":1}', "[]"])
async def test_a_text_that_cannot_be_read_is_started_again(text: str) -> None:
    world = FakeCluster()
    write(world, text)
    async with leading(world, config=QUICK) as scheduler:
        await place(world, scheduler, "a")
        await until(lambda: written(world).startswith('{"version":1,"at"'))
        assert pods_written(world) == 1


async def test_what_a_newer_release_wrote_is_left_alone() -> None:
    world = FakeCluster()
    newer = '{"version":2,"whatever":1}'
    write(world, newer)
    async with leading(world, config=QUICK) as scheduler:
        await place(world, scheduler, "a")
        await asyncio.sleep(60)
    assert written(world) == newer


@pytest.mark.parametrize("effect", [Answer(503), Answer(429), Cut(), Cut(after=True)])
async def test_an_api_server_that_fails_a_while_costs_nothing(effect: Any) -> None:
    world = FakeCluster()
    write(world, a_past(world))
    world.fault("*", rf"{MAPS}.*{HISTORY}", effect, times=3)
    async with leading(world, config=QUICK) as scheduler:
        await place(world, scheduler, "a")
        await until(lambda: pods_written(world) == sum(PAST.values()) + 1)
        await until(lambda: scheduler.packing.serves)


async def test_where_config_maps_are_forbidden_it_learns_and_forgets() -> None:
    world = FakeCluster()
    world.fault("*", ONE, Answer(403), times=1000)
    async with leading(world, config=QUICK) as scheduler:
        for number in range(FEW):
            await place(world, scheduler, f"p{number}")
        await until(lambda: scheduler.packing.serves)
    assert not is_written(world)
