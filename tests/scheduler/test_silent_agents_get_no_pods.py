"""A node whose agent does not renew its Lease takes no pods, keeps those it has, and comes back by
itself. The agents' side is the real one (`tessera_runtime.kube.heartbeat`)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest

from tessera_embedded.apiserver.faults import Answer
from tessera_runtime.background import running_in_background
from tessera_runtime.kube.heartbeat import Heartbeat, HeartbeatSettings, agent_lease_name
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tests.scheduler.fake_cluster import CARDS, FakeCluster, cards_on, counted, leading, until

pytestmark = pytest.mark.looptime

AGENT = HeartbeatSettings()
LEASES = "/apis/coordination.k8s.io/v1/namespaces/tessera-agent-leases/leases"


def announce(cluster: FakeCluster, node: str) -> None:
    """As an agent does that has renewed its Lease."""
    published = NodeCardsAnnotation(cards=tuple(cards_on(node)), heartbeat_s=AGENT.lasts_s)
    cluster.note(f"/api/v1/nodes/{node}", {CARDS: encode_node_cards(published)})


@asynccontextmanager
async def agents(cluster: FakeCluster, *nodes: str) -> AsyncGenerator[None]:
    """Agents that renew their Leases until left, as if killed then."""
    async with AsyncExitStack() as stack:
        for node in nodes:
            heartbeat = Heartbeat(
                cluster.kube, AGENT, lease=agent_lease_name("nvidia", node), identity=node,
                clock=cluster.clock, owner=lambda: None,
                random=random.Random(node),  # noqa: S311  (reproducible)
            )  # fmt: skip
            await stack.enter_async_context(
                running_in_background(heartbeat.run(lambda: True), f"agent of {node}")
            )
            await heartbeat.announced.wait()
            announce(cluster, node)
        yield


def events(cluster: FakeCluster, reason: str) -> list[str]:
    """What Events of that reason say, in order of time."""
    answer = cluster.store.handle("GET", "/api/v1/namespaces/default/events")
    listed = msgspec.json.decode(answer.body)["items"]
    return [one["message"] for one in listed if one["reason"] == reason]


async def test_no_pod_goes_there_within_a_minute_and_pods_do_when_it_is_back() -> None:
    cluster = FakeCluster(2)
    async with leading(cluster) as scheduler, agents(cluster, "n0"):
        async with agents(cluster, "n1"):
            await asyncio.sleep(300)
            cluster.pod("before")
            assert cluster.filter(scheduler, "before", ["n1"]).node_names == ("n1",)
        await asyncio.sleep(60)
        cluster.pod("while")
        answer = cluster.filter(scheduler, "while", ["n1"])
        assert answer.failed_and_unresolvable_nodes == {"n1": "AgentSilent"}
        assert cluster.filter(scheduler, "while").node_names == ("n0",)
        assert counted(scheduler, "silent_agents") == 1
        async with agents(cluster, "n1"):
            await asyncio.sleep(10)
            cluster.pod("after")
            assert cluster.filter(scheduler, "after", ["n1"]).node_names == ("n1",)
            assert counted(scheduler, "silent_agents") == 0


@pytest.mark.parametrize("away_s", [60.0, 60.4, 60.8])
async def test_an_agent_is_back_with_its_first_renewal(
    away_s: float,
) -> None:
    """Its node changes right after it, and kube-scheduler tries waiting pods once."""
    cluster = FakeCluster(1)
    async with leading(cluster) as scheduler:
        async with agents(cluster, "n0"):
            await asyncio.sleep(300)
        await asyncio.sleep(away_s)
        cluster.pod("a")
        answer = cluster.filter(scheduler, "a", ["n0"])
        assert answer.failed_and_unresolvable_nodes == {"n0": "AgentSilent"}
        async with agents(cluster, "n0"):
            await asyncio.sleep(0.05)
            assert cluster.filter(scheduler, "a", ["n0"]).node_names == ("n0",)


async def test_a_pod_that_waits_for_the_node_is_tried_again_when_the_agent_is_back() -> None:
    cluster = FakeCluster(1)
    async with leading(cluster) as scheduler:
        async with agents(cluster, "n0"):
            await asyncio.sleep(100)
        await asyncio.sleep(60)
        cluster.pod("waits")
        assert not cluster.filter(scheduler, "waits").node_names
        wakes = counted(scheduler, 'wakes_total{outcome="done"}')
        async with agents(cluster, "n0"):
            await asyncio.sleep(10)
            assert counted(scheduler, 'wakes_total{outcome="done"}') > wakes
            assert cluster.filter(scheduler, "waits").node_names == ("n0",)


async def test_what_runs_there_keeps_its_cards_and_what_has_not_started_has_an_event() -> None:
    cluster = FakeCluster(1)
    async with leading(cluster) as scheduler:
        async with agents(cluster, "n0"):
            uids = [cluster.pod(name, 4000) for name in ("runs", "starts")]
            for name in ("runs", "starts"):
                assert await cluster.place(scheduler, name) == "n0"
            running = {"status": {"phase": "Running", "containerStatuses": [
                {"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0,
                 "started": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
            ]}}  # fmt: skip
            cluster.call("PATCH", f"{cluster.path('runs')}/status", running)
            await asyncio.sleep(100)
        await asyncio.sleep(120)
        assert all(scheduler.ledger.entry(uid) is not None for uid in uids)
        (sentence,) = events(cluster, "AgentSilent")
        assert "the nvidia agent of n0 has not renewed its Lease for" in sentence


async def test_an_outage_of_the_api_server_makes_nobody_silent() -> None:
    cluster = FakeCluster(2)
    async with leading(cluster) as scheduler, agents(cluster, "n0", "n1"):
        await asyncio.sleep(100)
        cluster.fault("*", LEASES + ".*", Answer(503), times=10_000)
        await asyncio.sleep(600)
        cluster.kube.faults.clear()
        for _ in range(60):
            await asyncio.sleep(1)
            assert counted(scheduler, "silent_agents") == 0
        cluster.pod("after")
        assert await cluster.place(scheduler, "after")


async def test_a_scheduler_that_starts_later_does_not_place_on_a_dead_agents_node() -> None:
    cluster = FakeCluster(1)
    async with agents(cluster, "n0"):
        await asyncio.sleep(10)
    await asyncio.sleep(600)
    async with leading(cluster) as scheduler:
        cluster.pod("a")
        answer = cluster.filter(scheduler, "a")
        assert answer.failed_and_unresolvable_nodes == {"n0": "AgentSilent"}


async def test_an_agent_of_an_older_release_is_not_silent() -> None:
    cluster = FakeCluster(1)
    async with leading(cluster) as scheduler:
        await asyncio.sleep(600)
        cluster.pod("a")
        assert await cluster.place(scheduler, "a") == "n0"


async def test_a_crash_loop_gets_no_pods_until_the_agent_has_run_for_a_minute() -> None:
    cluster = FakeCluster(1)
    async with leading(cluster) as scheduler:
        for _ in range(4):
            async with agents(cluster, "n0"):
                await asyncio.sleep(5)
            await asyncio.sleep(55)
        async with agents(cluster, "n0"):
            await asyncio.sleep(5)
            cluster.pod("a")
            assert not cluster.filter(scheduler, "a").node_names
            await asyncio.sleep(60)
            assert cluster.filter(scheduler, "a").node_names == ("n0",)


async def test_a_node_that_is_deleted_is_forgotten_with_its_agent() -> None:
    cluster = FakeCluster(1)
    async with leading(cluster) as scheduler:
        async with agents(cluster, "n0"):
            await asyncio.sleep(10)
        await asyncio.sleep(100)
        assert counted(scheduler, "silent_agents") == 1
        cluster.call("DELETE", "/api/v1/nodes/n0")
        await until(lambda: counted(scheduler, "silent_agents") == 0)
