"""The extender's verbs: garbage, preferences, priorities, preemption; over HTTP too."""

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
from tests.scheduler.fake_cluster import FakeCluster, counted, leading, phase, standing_by

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


def priorities(cluster: FakeCluster, scheduler: Scheduler, name: str) -> dict[str, int]:
    body = scheduler.extender.prioritize(cluster.filter_body(name))
    return {p.host: p.score for p in msgspec.json.decode(body, type=list[HostPriority])}


def preempted(
    cluster: FakeCluster, scheduler: Scheduler, name: str, victims: dict[str, Any]
) -> set[str]:
    pod = cluster.call("GET", cluster.path(name))
    metas = {
        node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
        for node, uids in victims.items()
    }
    body = msgspec.json.encode({"Pod": pod, "NodeNameToMetaVictims": metas})
    answer = msgspec.json.decode(scheduler.extender.preempt(body), type=ExtenderPreemptionResult)
    return set(answer.node_name_to_meta_victims)


@pytest.mark.looptime
@pytest.mark.parametrize("preference", [PREFERS, SPREAD])
async def test_a_pod_with_preferences_gets_all_nodes_with_room_and_scores(
    preference: dict[str, Any],
) -> None:
    cluster = FakeCluster(3)
    cluster.pod("full", 16000)
    cluster.pod("half", 8000)
    uid = cluster.pod("a", 4000, **preference)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "full")
        await cluster.place(scheduler, "half")
        assert cluster.filter(scheduler, "a").node_names == ("n1", "n2")
        assert phase(scheduler, uid) is None
        assert priorities(cluster, scheduler, "a") == {"n0": 10, "n1": 5, "n2": 0}
        assert await cluster.bind(scheduler, "a", "n2") == ""
        assert phase(scheduler, uid) is AllocationPhase.BOUND
        assert cluster.granted("a", scheduler.keys.verifier).node == "n2"


@pytest.mark.looptime
async def test_a_pod_with_preferences_may_find_its_node_taken() -> None:
    cluster = FakeCluster(2)
    cluster.pod("a", 12000, **PREFERS)
    cluster.pod("b", 12000)
    async with leading(cluster) as scheduler:
        assert cluster.filter(scheduler, "a").node_names == ("n0", "n1")
        assert await cluster.place(scheduler, "b") == "n0"
        assert "no room" in await cluster.bind(scheduler, "a", "n0")
        assert cluster.filter(scheduler, "a").node_names == ("n1",)
        assert await cluster.bind(scheduler, "a", "n1") == ""


@pytest.mark.looptime
async def test_a_pod_with_demands_gets_one_node() -> None:
    cluster = FakeCluster(2)
    uid = cluster.pod("a", 4000, **MUST)
    async with leading(cluster) as scheduler:
        assert cluster.filter(scheduler, "a").node_names == ("n0",)
        assert phase(scheduler, uid) is AllocationPhase.RESERVED
        assert priorities(cluster, scheduler, "a") == {"n0": 10, "n1": 0}


@pytest.mark.looptime
async def test_a_pod_without_requests_passes_everywhere() -> None:
    cluster = FakeCluster(2)
    cluster.pod("a", 0)
    async with leading(cluster) as scheduler:
        assert cluster.filter(scheduler, "a").node_names == ("n0", "n1")
        assert priorities(cluster, scheduler, "a") == {"n0": 0, "n1": 0}
        assert preempted(cluster, scheduler, "a", {"n0": [], "n1": []}) == {"n0", "n1"}


@pytest.mark.looptime
async def test_evictions_that_would_not_make_room_are_vetoed() -> None:
    cluster = FakeCluster(3)
    big, small = cluster.pod("big", 12000), cluster.pod("small", 6000)
    cluster.pod("a", 14000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "big")
        await cluster.place(scheduler, "small")
        cluster.pod("third", 16000)
        await cluster.place(scheduler, "third")
        assert not cluster.filter(scheduler, "a").node_names
        useful = preempted(cluster, scheduler, "a", {"n0": [big], "n1": [], "n2": ["x"], "n9": []})
        assert useful == {"n0"}
        assert preempted(cluster, scheduler, "a", {"n0": [small], "n1": [small]}) == {"n1"}


@pytest.mark.looptime
async def test_refusals_are_published_once_for_each_reason() -> None:
    cluster = FakeCluster(1)
    cluster.pod("a", 12000)
    uid = cluster.pod("b", 12000)
    async with leading(cluster) as scheduler:
        await cluster.place(scheduler, "a")
        for _ in range(5):
            cluster.filter(scheduler, "b")
            await asyncio.sleep(1)
        said = cluster.bus.said(f"tessera.v1.*.allocation.default.{uid}.refused")
        assert [msgspec.json.decode(n.data)["reason"] for n in said] == [10]
        assert counted(scheduler, 'refusals_total{reason="CardInsufficientMemory"}') == 5


def refusal(cluster: FakeCluster, uid: str) -> str:
    (said,) = cluster.bus.said(f"tessera.v1.*.allocation.default.{uid}.refused")
    message: str = msgspec.json.decode(said.data)["message"]
    return message


def whole_card(cluster: FakeCluster, name: str) -> str:
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    made = cluster.make(
        "/api/v1/namespaces/default/pods",
        {"metadata": {"name": name}, "spec": {"containers": [container]}},
    )
    uid: str = made["metadata"]["uid"]
    return uid


@pytest.mark.looptime
async def test_a_refusal_says_what_no_waiting_would_mend() -> None:
    cluster = FakeCluster(2)
    large, held = cluster.pod("large", 90000), cluster.pod("held", 12000)
    for name in ("a", "b"):
        cluster.pod(name, 12000)
    async with leading(cluster) as scheduler:
        for name in ("a", "b"):
            await cluster.place(scheduler, name)
        for name in ("large", "held"):
            assert not cluster.filter(scheduler, name).node_names
        await asyncio.sleep(1)
        assert refusal(cluster, large).startswith(
            "no card of this cluster is that large (largest: 16384 MiB, "
        )
        assert refusal(cluster, large).endswith("ask for at most nvidia.com/gpumem: 16384")
        assert refusal(cluster, held) == "CardInsufficientMemory on most nodes"


@pytest.mark.looptime
async def test_a_refusal_by_quota_has_numbers_for_whole_cards_too() -> None:
    cluster = FakeCluster(2)
    body = {"metadata": {"name": "q"}, "spec": {"hard": {"limits.nvidia.com/gpumem": "5000"}}}
    cluster.make("/api/v1/namespaces/default/resourcequotas", body)
    uid = whole_card(cluster, "whole")
    async with leading(cluster) as scheduler:
        assert not cluster.filter(scheduler, "whole").node_names
        await asyncio.sleep(1)
        assert refusal(cluster, uid) == (
            "ResourceQuota q (limits.nvidia.com/gpumem) allows 5000 MiB of memory, 0 are used and "
            "16384 asked"
        )


@pytest.mark.looptime
async def test_nats_being_away_holds_nobody_up() -> None:
    cluster = FakeCluster(1)
    cluster.bus.away()
    uid = cluster.pod("a", 4000)
    async with leading(cluster) as scheduler:
        assert await cluster.place(scheduler, "a") == "n0"
        await asyncio.sleep(60)
        cluster.bus.back()
        await asyncio.sleep(10)
        assert cluster.bus.said(f"tessera.v1.*.allocation.default.{uid}.granted")


async def post(session: ClientSession, url: str, body: bytes) -> tuple[int, str]:
    async with session.post(url, data=body) as response:
        return response.status, await response.text()


async def test_garbage_gets_400_and_what_is_wrong_over_http() -> None:
    cluster = FakeCluster(1)
    cluster.kube.latency_s = 0
    async with leading(cluster) as scheduler:
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
            cluster.pod("a", 1000)
            status, text = await post(session, f"{url}/filter", cluster.filter_body("a"))
            assert (status, "n0" in text) == (200, True)
        malformed = 'extender_calls_total{outcome="malformed",verb="filter"}'
        assert counted(scheduler, malformed) == 4


async def test_the_one_who_stands_by_says_so_over_http() -> None:
    cluster = FakeCluster(1)
    cluster.kube.latency_s = 0
    cluster.fault("PUT", ".*/leases/.*", Cut(), times=1000)
    async with standing_by(cluster) as scheduler:
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
        assert not cluster.bus.said("tessera.v1.*.allocation.>")
