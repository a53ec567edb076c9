"""The extender's verbs: garbage, wishes, priorities, preemption; over HTTP too."""

import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession

from tessera_core.machines.allocation import AllocationPhase
from tessera_embedded.apiserver.faults import Cut
from tessera_runtime.http import server
from tessera_runtime.http.server import HttpSettings
from tessera_scheduler.extender.handlers import answers
from tessera_scheduler.scheduler import Scheduler
from tessera_schema.endpoints.extender import ExtenderPreemptionResult, HostPriority
from tests.scheduler.world import World, counted, leading, phase, standing_by

PREFERS: dict[str, Any] = {
    "affinity": {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": []}}
            ]
        }
    }
}
SPREAD: dict[str, Any] = {
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    ]
}
MUST: dict[str, Any] = {
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    ]
}


def priorities(world: World, scheduler: Scheduler, name: str) -> dict[str, int]:
    body = scheduler.extender.prioritize(world.ask_body(name))
    return {p.host: p.score for p in msgspec.json.decode(body, type=list[HostPriority])}


def preempted(world: World, scheduler: Scheduler, name: str, victims: dict[str, Any]) -> set[str]:
    pod = world.call("GET", world.path(name))
    metas = {
        node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
        for node, uids in victims.items()
    }
    body = msgspec.json.encode({"Pod": pod, "NodeNameToMetaVictims": metas})
    answer = msgspec.json.decode(scheduler.extender.preempt(body), type=ExtenderPreemptionResult)
    return set(answer.node_name_to_meta_victims)


@pytest.mark.looptime
@pytest.mark.parametrize("wish", [PREFERS, SPREAD])
async def test_a_pod_with_wishes_gets_all_nodes_with_room_and_scores(wish: dict[str, Any]) -> None:
    world = World(3)
    world.pod("full", 16000)
    world.pod("half", 8000)
    uid = world.pod("a", 4000, **wish)
    async with leading(world) as scheduler:
        await world.place(scheduler, "full")
        await world.place(scheduler, "half")
        assert world.filter(scheduler, "a").node_names == ("n1", "n2")
        assert phase(scheduler, uid) is None
        assert priorities(world, scheduler, "a") == {"n0": 10, "n1": 5, "n2": 0}
        assert await world.bind(scheduler, "a", "n2") == ""
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        assert world.granted("a", scheduler.keys.verifier).node == "n2"


@pytest.mark.looptime
async def test_a_pod_with_wishes_may_find_its_node_taken() -> None:
    world = World(2)
    world.pod("a", 12000, **PREFERS)
    world.pod("b", 12000)
    async with leading(world) as scheduler:
        assert world.filter(scheduler, "a").node_names == ("n0", "n1")
        assert await world.place(scheduler, "b") == "n0"
        assert "no room" in await world.bind(scheduler, "a", "n0")
        assert world.filter(scheduler, "a").node_names == ("n1",)
        assert await world.bind(scheduler, "a", "n1") == ""


@pytest.mark.looptime
async def test_a_pod_with_demands_gets_one_node() -> None:
    world = World(2)
    uid = world.pod("a", 4000, **MUST)
    async with leading(world) as scheduler:
        assert world.filter(scheduler, "a").node_names == ("n0",)
        assert phase(scheduler, uid) is AllocationPhase.RESERVED
        assert priorities(world, scheduler, "a") == {"n0": 10, "n1": 0}


@pytest.mark.looptime
async def test_a_pod_that_asks_for_nothing_passes_everywhere() -> None:
    world = World(2)
    world.pod("a", 0)
    async with leading(world) as scheduler:
        assert world.filter(scheduler, "a").node_names == ("n0", "n1")
        assert priorities(world, scheduler, "a") == {"n0": 0, "n1": 0}
        assert preempted(world, scheduler, "a", {"n0": [], "n1": []}) == {"n0", "n1"}


@pytest.mark.looptime
async def test_evictions_that_would_not_make_room_are_vetoed() -> None:
    world = World(3)
    big, small = world.pod("big", 12000), world.pod("small", 6000)
    world.pod("a", 14000)
    async with leading(world) as scheduler:
        await world.place(scheduler, "big")
        await world.place(scheduler, "small")
        world.pod("third", 16000)
        await world.place(scheduler, "third")
        assert not world.filter(scheduler, "a").node_names
        useful = preempted(world, scheduler, "a", {"n0": [big], "n1": [], "n2": ["x"], "n9": []})
        assert useful == {"n0"}
        assert preempted(world, scheduler, "a", {"n0": [small], "n1": [small]}) == {"n1"}


@pytest.mark.looptime
async def test_refusals_are_told_once_for_each_reason() -> None:
    world = World(1)
    world.pod("a", 12000)
    uid = world.pod("b", 12000)
    async with leading(world) as scheduler:
        await world.place(scheduler, "a")
        for _ in range(5):
            world.filter(scheduler, "b")
            await asyncio.sleep(1)
        said = world.bus.said(f"tessera.v1.*.allocation.default.{uid}.refused")
        assert [msgspec.json.decode(n.data)["reason"] for n in said] == [10]
        assert counted(scheduler, 'refusals_total{reason="CardInsufficientMemory"}') == 5


def refusal(world: World, uid: str) -> str:
    (said,) = world.bus.said(f"tessera.v1.*.allocation.default.{uid}.refused")
    message: str = msgspec.json.decode(said.data)["message"]
    return message


def whole_card(world: World, name: str) -> str:
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    made = world.make(
        "/api/v1/namespaces/default/pods",
        {"metadata": {"name": name}, "spec": {"containers": [container]}},
    )
    uid: str = made["metadata"]["uid"]
    return uid


@pytest.mark.looptime
async def test_a_refusal_says_what_no_waiting_would_mend() -> None:
    world = World(2)
    large, held = world.pod("large", 90000), world.pod("held", 12000)
    for name in ("a", "b"):
        world.pod(name, 12000)
    async with leading(world) as scheduler:
        for name in ("a", "b"):
            await world.place(scheduler, name)
        for name in ("large", "held"):
            assert not world.filter(scheduler, name).node_names
        await asyncio.sleep(1)
        assert refusal(world, large).startswith(
            "no card of this cluster is that large (largest: 16384 MiB, "
        )
        assert refusal(world, large).endswith("ask for at most nvidia.com/gpumem: 16384")
        assert refusal(world, held) == "CardInsufficientMemory on most nodes"


@pytest.mark.looptime
async def test_a_refusal_by_quota_has_numbers_for_whole_cards_too() -> None:
    world = World(2)
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "5000"}}}
    world.make("/api/v1/namespaces/default/resourcequotas", body)
    uid = whole_card(world, "whole")
    async with leading(world) as scheduler:
        assert not world.filter(scheduler, "whole").node_names
        await asyncio.sleep(1)
        assert refusal(world, uid) == (
            "ResourceQuota q (limits.nvidia.com/gpumem) allows 5000 MiB of memory, 0 are used and "
            "16384 asked"
        )


@pytest.mark.looptime
async def test_nats_being_away_holds_nobody_up() -> None:
    world = World(1)
    world.bus.away()
    uid = world.pod("a", 4000)
    async with leading(world) as scheduler:
        assert await world.place(scheduler, "a") == "n0"
        await asyncio.sleep(60)
        world.bus.back()
        await asyncio.sleep(10)
        assert world.bus.said(f"tessera.v1.*.allocation.default.{uid}.granted")


async def post(session: ClientSession, url: str, body: bytes) -> tuple[int, str]:
    async with session.post(url, data=body) as response:
        return response.status, await response.text()


async def test_garbage_is_told_what_is_wrong_with_it_over_http() -> None:
    world = World(1)
    world.kube.latency_s = 0
    async with leading(world) as scheduler:
        limits = HttpSettings(body_bytes=100_000)
        app = server.application(limits)
        verbs = answers(scheduler.extender, scheduler.metrics)
        async with (
            server.serving(app, limits, answers=verbs) as served,
            ClientSession() as session,
        ):
            url = served.url
            for verb in ("filter", "bind", "prioritize", "preempt"):
                status, text = await post(session, f"{url}/{verb}", b"\xff{nonsense")
                assert (status, text[: len(verb) + 11]) == (400, f"body of /{verb}: ")
            assert (await post(session, f"{url}/filter", b'{"Pod":7}'))[0] == 400
            assert "$.pod" not in (await post(session, f"{url}/bind", b"{}"))[1]
            assert "PodName: missing" in (await post(session, f"{url}/bind", b"{}"))[1]
            assert "Pod: missing" in (await post(session, f"{url}/filter", b"{}"))[1]
            deep = b'{"Pod":' + b"[" * 50_000 + b"}"
            assert (await post(session, f"{url}/filter", deep))[0] == 400
            assert (await post(session, f"{url}/filter", b" " * 100_001))[0] == 413
            names = b'{"Pod":{"metadata":{"uid":"x"}},"NodeNames":{"n0":1}}'
            assert (await post(session, f"{url}/filter", names))[0] == 400
            world.pod("a", 1000)
            status, text = await post(session, f"{url}/filter", world.ask_body("a"))
            assert (status, "n0" in text) == (200, True)
        malformed = 'extender_calls_total{outcome="malformed",verb="filter"}'
        assert counted(scheduler, malformed) == 4


async def test_the_one_who_stands_by_says_so_over_http() -> None:
    world = World(1)
    world.kube.latency_s = 0
    world.fault("PUT", ".*/leases/.*", Cut(), times=1000)
    async with standing_by(world) as scheduler:
        app = server.application(HttpSettings())
        verbs = answers(scheduler.extender, scheduler.metrics)
        ready = server.status_routes(
            ready=scheduler.leadership.problem, metrics=scheduler.metrics.registry
        )
        app.add_routes(ready)
        async with (
            server.serving(app, HttpSettings(), answers=verbs) as served,
            ClientSession() as session,
        ):
            status, text = await post(session, f"{served.url}/filter", b"{}")
            assert (status, text) == (503, "standing by: nobody yet leads\n")
            async with session.get(f"{served.url}/readyz") as response:
                assert response.status == 503
            async with session.get(f"{served.url}/metrics") as response:
                assert "tessera_scheduler_leading 0.0" in await response.text()
        assert not world.bus.said("tessera.v1.*.allocation.>")
